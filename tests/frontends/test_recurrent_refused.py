"""Recurrent operators on real numbers that cannot be imported: refused in words that say what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from real_cases import Case, Const, Held, Kept
from recurrent_cases import lstm, lstm_both, matrix, rnn, rnn_both, vector
from tflite_files import ModelFile

from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite


def given(case: Case, inputs: dict[int, Any] | None = None, **fields: Any) -> Case:
    """The case with other inputs and options."""
    new = tuple((inputs or {}).get(k, one) for k, one in enumerate(case.inputs))
    return replace(case, inputs=new, fields={**case.fields, **fields})


LAYER, BOTH = lstm(2, 3, 4, 5, peephole=True, norm=True, outputs=3), lstm_both(2, 3, 4, 5, aux=True)
STEP = rnn("RNN", 2, 1, 3, 4)
CASES = {
    "activation": (given(LAYER, FusedActivationFunction=0), "the fused activation NONE is not supported"),
    "sign": (given(STEP, FusedActivationFunction=5), "the fused activation SIGN_BIT"),
    "basic": (given(lstm(2, 1, 4, 5, op="LSTM"), KernelType=1), "the basic kernel of LSTM"),
    "diagonals": (given(LAYER, DiagonalRecurrentTensors=True), "weights that are diagonals"),
    "coupled": (given(LAYER, {1: None}), "input 5 is of a gate that lacks input 1"),
    "types": (given(LAYER, {2: matrix(5, 4, True)}), "are int8[5, 4], needed: [5, 4] of one type"),
    "no matrix": (given(STEP, {2: vector(4)}), "have the shape [4], needed: a matrix with elements"),
    "mixed": (given(STEP, {2: matrix(4, 4, True)}), "of the inputs are float32, of the state int8"),
    "shape": (given(LAYER, {3: matrix(5, 3, False)}), "are float32[5, 3], needed: [5, 4] of one type"),
    "integers": (given(STEP, {k: Const(np.ones((4, 2 + k))) for k in (1, 2)}), "are int32; supported: float32, int8"),
    "scales": (given(STEP, {k: Const(np.ones((4, 2 + k)), "int8", (0.1,) * 4) for k in (1, 2)}), "have 4 scales"),
    "bias": (given(LAYER, {13: vector(4)}), "is float32[4], needed: float32[5]"),
    "no projection": (given(LAYER, {16: None, 17: None}), "3 outputs of 5 units without a projection"),
    "projection": (given(LAYER, {17: vector(5)}), "the bias of the projection is float32[5]"),
    "state": (given(LAYER, {18: Held((2, 3))}), "is no variable: it must be kept"),
    "states": (given(LAYER, {19: Kept((2, 4))}), "keeps f32[2, 4], needed: 10 elements of f32"),
    "computed": (given(LAYER, {6: Held((5, 3))}), "must be a constant"),
    "rank": (given(LAYER, {0: Held((3, 4))}), "the input has rank 2 instead of 3"),
    "rank of a step": (given(STEP, {0: Held((1, 2, 3))}), "the input has rank 3 instead of 2"),
    "unweighted": (given(BOTH, {k: None for k in range(40, 48)}), "a second input without weights of its own"),
    "second input": (given(BOTH, {39: Held((2, 2, 4))}), "the second input has the shape"),
    "time-major": (rnn_both(2, 3, 4, (5, 3), major=True, eight=True), "time-major sequences with weights of int8"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    case, why = CASES[name]
    with pytest.raises(BuildError) as error:
        import_tflite(case.data(), "model")
    assert why in str(error.value)


@pytest.mark.parametrize(("axis", "why"), [(0, "keeps a state of each of the batch"), (2, "of features is not")])
def test_open_sizes(axis: int, why: str) -> None:
    """Steps may be open, batches and features not."""
    model = ModelFile()
    signature = [-1 if k == axis else n for k, n in enumerate((2, 3, 4))]
    inputs = [model.input("x", (2, 3, 4), "float32", signature=signature)]
    inputs += [model.const(f"w{k}", np.ones(s), "float32") for k, s in enumerate(((5, 4), (5, 5), (5,)))]
    inputs.append(model.tensor("kept", (2, 5), "float32", variable=True))
    fields = {"FusedActivationFunction": 4, "TimeMajor": False}
    out = model.output("y", (2, 3, 5), "float32", signature=(-1, -1, 5))
    model.op("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, [out], "SequenceRNNOptions", **fields)
    with pytest.raises(BuildError) as error:
        import_tflite(model.build(), "model", dims={f"x_{axis}": (1, 4)})
    assert why in str(error.value)
