"""Models of one recurrent operator on real numbers, which remember from run to run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from real_cases import Case, Const, Held, Kept, stored, weights

__all__ = ["RECURRENT"]


def svdf(batch: int, inputs: int, units: int, rank: int, steps: int, bias: bool = True, act: int = 0) -> Case:
    filters = units * rank
    given = (Held((batch, inputs)), weights(filters, inputs), weights(filters, steps), weights(units) if bias else None,
             Kept((batch, filters * steps)))  # fmt: skip
    return Case("SVDF", given, options="SVDFOptions", fields={"Rank": rank, "FusedActivationFunction": act})


def hybrid_svdf(case: Case, asymmetric: bool = False) -> Case:
    """The same with weights of 8 bits."""
    x, feature, time, bias, kept = case.inputs
    smaller = (stored(np.shape(w.data), 0, False) for w in (feature, time) if isinstance(w, Const))
    inputs = (x, *smaller, bias, kept)
    return replace(case, inputs=inputs, fields={**case.fields, "AsymmetricQuantizeInputs": asymmetric})


RECURRENT = {
    "SVDF": svdf(2, 5, 4, 1, 3),
    "SVDF ranks": svdf(2, 5, 4, 3, 2, act=1),
    "SVDF of one step": svdf(1, 5, 4, 2, 1, bias=False, act=4),
    "SVDF relu6": svdf(3, 2, 3, 1, 2, act=3),
    "hybrid SVDF": hybrid_svdf(svdf(2, 5, 4, 2, 3)),
    "hybrid SVDF asymmetric": hybrid_svdf(svdf(3, 6, 4, 1, 2, act=1), asymmetric=True),
}
