"""Fixed-point helpers: multipliers near the ratio they stand for, and functions near the real ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdk.compiler.ir.graph import attrs
from sdk.compiler.ir.types import F32, I8, I32, TensorType
from sdk.compiler.ops import infer
from sdk.compiler.ops.build import map_elements
from sdk.compiler.ops.fixed import exp_on_negative, logistic, quantize_multiplier, reciprocal_one_plus, tanh
from sdk.compiler.ops.registry import OpDef, define, get_op
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Var, evaluate
from sdk.errors import BuildError

T = TensorType


@given(st.floats(2.0**-31, 2.0**29))
def test_multiplier_stands_for_the_ratio(ratio: float) -> None:
    mult, shift = quantize_multiplier(ratio)
    assert 1 << 30 <= mult < 1 << 31
    assert -31 <= shift <= 30
    assert mult / 2.0**31 * 2.0**shift == pytest.approx(ratio, rel=2.0**-30)


def test_multiplier_of_extreme_ratios() -> None:
    assert quantize_multiplier(0.0) == (0, 0)
    assert quantize_multiplier(1e-12) == (0, 0)
    assert quantize_multiplier(1.0) == (1 << 30, 1)
    assert quantize_multiplier(1 - 2.0**-40) == (1 << 30, 1)
    for bad in (-1.0, float("nan"), float("inf"), 2.0**31):
        with pytest.raises(BuildError, match="fixed-point multiplier"):
            quantize_multiplier(bad)


def test_functions_are_near_the_real_ones() -> None:
    raw = np.linspace(-(2**31) + 1, 0, 1001).astype(np.int64)
    real = raw / 2.0**27  # 4 integer bits
    assert np.abs(exp_on_negative(raw, 4) / 2.0**31 - np.exp(real)).max() < 1e-6
    both = np.concatenate([raw, -raw])
    assert np.abs(logistic(both, 4) / 2.0**31 - 1 / (1 + np.exp(-both / 2.0**27))).max() < 1e-6
    assert np.abs(tanh(both, 4) / 2.0**31 - np.tanh(both / 2.0**27)).max() < 1e-6
    fractions = np.linspace(0, 2**31 - 1, 1001).astype(np.int32)
    assert np.abs(reciprocal_one_plus(fractions) / 2.0**31 - 1 / (1 + fractions / 2.0**31)).max() < 1e-6


@pytest.mark.parametrize(
    ("op", "types", "given_attrs"),
    [
        (
            "conv2d",
            [T(I8, (1, 4, 4, 3)), T(I8, (5, 3, 3, 2)), T(I32, (5,))],
            {"stride": (1, 1), "dilation": (1, 1)},
        ),
        ("dense", [T(I8, (1, 4)), T(I8, (5, 3)), T(I32, (5,))], {"x_offset": 0, "w_offset": 0}),
        ("add", [T(F32, (2, 3)), T(F32, (2, 4))], {}),
        ("add", [T(F32, (2, 3)), T(I32, (2, 3))], {}),
        ("matmul", [T(F32, (2, 3)), T(F32, (2, 4))], {}),
        ("reshape", [T(F32, (2, 3))], {"shape": (4, -1)}),
        ("reshape", [T(F32, (2, 3))], {"shape": (-1, -1)}),
        ("concat", [T(F32, (2, 3)), T(F32, (2, 4))], {"axis": 0}),
        ("slice", [T(F32, (4,))], {"begin": (2,), "size": (3,), "strides": (1,)}),
        ("slice", [T(F32, (4,))], {"begin": (0,), "size": (2,), "strides": (0,)}),
        ("transpose", [T(F32, (2, 3))], {"perm": (0, 0)}),
        ("lookup", [T(I32, (4,)), T(I8, (256,))], {}),
        ("relu", [], {}),
        ("no_such_op", [], {}),
    ],
)
def test_inference_refuses_what_does_not_fit(op: str, types: list[TensorType], given_attrs: dict[str, object]) -> None:
    extra = {"pad": (0, 0, 0, 0), "x_offset": 0, "pad_value": 0} if op == "conv2d" else {}
    with pytest.raises(BuildError):
        infer(op, types, {**given_attrs, **extra})


def test_declarations_are_checked() -> None:
    relu = get_op("relu")
    with pytest.raises(BuildError, match="declared twice"):
        define(relu)
    with pytest.raises(BuildError, match="needs samples"):
        define(OpDef("fresh", ("x",), relu.infer, relu.reference, relu.loops, samples=(), kind=OPAQUE))


def test_loop_variables_avoid_the_names_of_dims() -> None:
    """A dim called like a loop variable of the op keeps its own meaning."""
    taken = Var("i0", 1, 5).expr
    type_ = T(F32, (taken, 3))
    loops = map_elements(("x",), lambda x: x)("f", (type_,), (type_,), dict(attrs()))
    assert [v.name for v in loops.dims] == ["i0"]
    assert loops.body.body[0].var.name == "i0_"
    assert evaluate(loops.rows.extent, {loops.dims[0]: 4}) == 4
