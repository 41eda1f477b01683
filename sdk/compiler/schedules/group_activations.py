"""What is known of the activations of products with weights in groups, where ``quantize_groups`` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops import OPS
from sdk.compiler.ops.group_formats import GROUP, Format
from sdk.compiler.schedules.group_panels import numbered

__all__ = ["activations", "makes_activations"]


def makes_activations(loops: Loops, form: Format) -> bool:
    """Whether a function is ``quantize_groups`` for weights of a format: its activations are never -128, and its sums
    are those of its activations by the format's zero."""
    plain = OPS["quantize_groups"].loops
    types = [TensorType(p.buffer.dtype, p.buffer.shape) for p in loops.params]
    if plain is None or [p.buffer.name for p in loops.params] != ["x", "o0", "o1", "o2"]:
        return False
    body, given = numbered(drop_single_trips(loops)), {"run": form.run, "zero": form.zero, "group": GROUP}
    return any(
        body == numbered(drop_single_trips(plain("f", types[:1], types[1:], {**given, "half": half})))
        for half in (False, True)
    )


def activations(form: Format, x: NDArray[Any], rng: np.random.Generator) -> Mapping[str, NDArray[Any]]:
    """Arguments that ``quantize_groups`` makes for a product, of random numbers, as many as ``x`` has: its first three
    by name."""
    made = OPS["quantize_groups"].reference(
        rng.standard_normal(x.shape).astype(np.float32), run=form.run, zero=form.zero
    )
    return dict(zip(("x", "scale", "sums"), made, strict=True))
