"""What ops declare of themselves, against their own references; and declarations that contradict themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from op_samples import arguments, concrete, environments

from sdk.compiler.analysis.pattern import identity_of
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.graph import attr_values
from sdk.compiler.ir.layout import Permute
from sdk.compiler.ir.loops import Idx
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.ops import OPS, OpDef, Sample, infer
from sdk.compiler.ops.registry import define, get_op, sum_of_products
from sdk.compiler.ops.traits import AxisRole, Combine, Elementwise, Movement, Reduction, SumOfProducts
from sdk.compiler.passes.axes import renumbered
from sdk.compiler.sym import Var, free_vars
from sdk.errors import BuildError

Array = np.ndarray
Dims = dict[Var, int]


def cases(holds: Callable[[OpDef], bool]) -> Any:
    """The samples of the ops for which something holds."""
    found = [(op, k) for op in OPS.values() if holds(op) for k in range(len(op.samples))]
    params = [pytest.param(op, op.samples[k], id=f"{op.name}-{k}") for op, k in found]
    return pytest.mark.parametrize(("op", "one"), params)


def of_kind(*kinds: type) -> Any:
    return cases(lambda op: isinstance(op.kind, kinds))


def concretely(one: Sample) -> Iterator[tuple[list[Array], dict[str, Any], Dims]]:
    """Random arguments of a sample and its attributes, at some dims."""
    for dims in environments(one):
        yield arguments(one, dims, np.random.default_rng(5)), dict(attr_values(one.attrs, dims)), dims


def equal(got: Any, want: Any) -> None:
    """Equal, but that numpy rounds a function of one element otherwise than that of many."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-3 if want.dtype == np.float16 else 1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(got, want)


# --- elementwise ------------------------------------------------------------------------------------------------------


@of_kind(Elementwise)
def test_an_element_depends_on_those_at_its_place_alone(op: OpDef, one: Sample) -> None:
    for args, given, _ in concretely(one):
        own = op.sources(args)
        want = np.asarray(op.reference(*args, **given))
        assert want.shape == np.broadcast_shapes(*(a.shape for a in own))
        flat = [np.broadcast_to(a, want.shape).reshape(-1) for a in own]
        for k in range(min(want.size, 20)):
            alone = op.reference(*(a[k : k + 1] for a in flat), *args[len(own) :], **given)
            equal(alone, want.reshape(-1)[k : k + 1])


def looks_elementwise(op: OpDef, one: Sample) -> bool:
    """Whether its nest reads each operand where it writes, or along that, and computes the same at every place."""
    if op.loops is None or any(isinstance(v, tuple) for _, v in one.attrs):
        return False
    loops = op.loops("f", one.inputs, infer(op.name, one.inputs, one.attrs), dict(one.attrs))
    order = identity_of(loops)
    return order is not None and not any(isinstance(n, Idx) and free_vars(n.dim) & set(order) for n in walk(loops.body))


def test_every_op_that_is_elementwise_says_so() -> None:
    found = {op.name for op in OPS.values() if all(looks_elementwise(op, s) for s in op.samples)}
    declared = {op.name for op in OPS.values() if isinstance(op.kind, Elementwise)}
    # a table is read at a place of its own, and powers of integers are loops of products
    assert found == declared - {"lookup", "lookup16", "sigmoid16", "pow"}


@cases(lambda op: isinstance(op.kind, Elementwise) and op.kind.monotone)
def test_a_monotone_op_never_falls(op: OpDef, one: Sample) -> None:
    for args, given, dims in concretely(one):
        others = arguments(one, dims, np.random.default_rng(6))
        if args[0].dtype.kind in "iu":
            more = op.reference(np.maximum(args[0], others[0]), *args[1:], **given)
            assert (more >= op.reference(*args, **given)).all()


@cases(lambda op: isinstance(op.kind, Elementwise) and op.kind.exact)
def test_loops_of_an_exact_op_give_the_bits_of_its_reference(op: OpDef, one: Sample) -> None:
    outs = infer(op.name, one.inputs, one.attrs)
    loops = op.loops("f", one.inputs, outs, dict(one.attrs))
    for args, given, dims in concretely(one):
        want = np.asarray(op.reference(*args, **given))
        got = np.zeros_like(want)
        names = (p.buffer.name for p in loops.params)
        run_loops(loops, dict(zip(names, [*args, got], strict=True)), {v.name: n for v, n in dims.items()})
        np.testing.assert_array_equal(got, want)
        if want.dtype.kind == "f":
            known = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@cases(lambda op: isinstance(op.kind, Elementwise) and not op.kind.bitwise)
def test_what_works_on_numbers_does_so_in_double_precision(op: OpDef, one: Sample) -> None:
    for args, given, _ in concretely(one):
        want = np.asarray(op.reference(*args, **given))
        if {a.dtype for a in args} | {want.dtype} == {np.dtype(np.float32)}:
            got = op.reference(*(a.astype(np.float64) for a in args), **given)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


# --- data movement ----------------------------------------------------------------------------------------------------


@of_kind(Movement)
def test_a_movement_takes_its_elements_from_places_that_do_not_depend_on_them(op: OpDef, one: Sample) -> None:
    for args, given, _ in concretely(one):
        own = op.sources(args)
        ends = np.cumsum([0, *(a.size for a in own)])
        numbered = [np.arange(k + 1, k + 1 + a.size).reshape(a.shape) for k, a in zip(ends, own, strict=False)]
        filled = {op.kind.fill: 0} if op.kind.fill else {}
        places = op.reference(*numbered, *args[len(own) :], **(given | filled))
        # nothing comes from nowhere but a fill, and what a position outside reads
        assert op.kind.fill or len(args) > len(own) or (places > 0).all()
        nowhere = given[op.kind.fill] if op.kind.fill else 0
        elements = np.concatenate([np.array([nowhere], own[0].dtype), *(a.reshape(-1) for a in own)])
        got = op.reference(*args, **given)
        assert got.dtype == own[0].dtype
        np.testing.assert_array_equal(got, elements[places])


@cases(lambda op: bool(op.axes))
def test_axes_are_alike_but_for_those_that_attributes_name(op: OpDef, one: Sample) -> None:
    """What layout relies on: the op on transposed operands, its attributes renumbered, gives the transposed result."""
    for args, given, dims in concretely(one):
        types = [concrete(t, dims) for t in one.inputs]
        (out,), count = infer(op.name, types, given), len(op.sources(args))
        if out.rank != types[0].rank:
            continue
        want = op.reference(*args, **given)
        for perm in itertools.permutations(range(out.rank)):
            there = Permute(perm)
            back = there.inverse()
            attributes = {k: renumbered(op.axes.get(k), v, there) for k, v in given.items()}
            moved = [a.transpose(back.order) if k < count else a for k, a in enumerate(args)]
            equal(op.reference(*moved, **attributes).transpose(perm), want)
            turned = [TensorType(t.dtype, back.shape(t.shape)) if k < count else t for k, t in enumerate(types)]
            assert infer(op.name, turned, attributes)[0].shape == back.shape(out.shape)


# --- reductions -------------------------------------------------------------------------------------------------------

_FOLDS = {
    Combine.SUM: np.add.reduce,
    Combine.MEAN: np.mean,
    Combine.PRODUCT: np.multiply.reduce,
    Combine.MAX: np.maximum.reduce,
    Combine.MIN: np.minimum.reduce,
}


@cases(lambda op: isinstance(op.kind, Reduction) and not op.kind.windowed)
def test_a_reduction_combines_along_its_axes(op: OpDef, one: Sample) -> None:
    for args, given, _ in concretely(one):
        if args[0].dtype.kind == "f":
            want = _FOLDS[op.kind.combine](args[0].astype(np.float64), axis=given["axes"], keepdims=True)
            np.testing.assert_allclose(op.reference(*args, **given), want, rtol=1e-2, atol=1e-2)


@of_kind(Reduction)
def test_only_extremes_are_among_the_elements(op: OpDef, one: Sample) -> None:
    for args, given, _ in concretely(one):
        x = args[0]
        got = op.reference(x, **given)
        clamped = {k: v for k, v in given.items() if k in ("lo", "hi") and v is not None}
        if op.kind.combine.chooses and not clamped and not np.isnan(x.astype(np.float64)).any():
            assert np.isin(got, x).all()
        elif op.kind.combine is Combine.MEAN and x.dtype.kind == "f" and not given.get("include_pad"):
            np.testing.assert_allclose(op.reference(np.ones_like(x), **given), 1, rtol=1e-3)


# --- sums of products -------------------------------------------------------------------------------------------------


def others(like: Array, seed: int = 9) -> Array:
    """Other elements of the type."""
    rng = np.random.default_rng(seed)
    low, high = (-100, 100) if like.dtype.kind == "i" else (0, 100)
    return rng.integers(low, high, like.shape).astype(like.dtype)


def along(array: Array, axis: int) -> Array:
    """A copy of which that axis is the first, and a view of it as it was."""
    return np.moveaxis(array, axis, 0)


@of_kind(SumOfProducts)
def test_a_channel_of_the_result_depends_on_its_weights_alone(op: OpDef, one: Sample) -> None:
    for args, given, _ in concretely(one):
        want = op.reference(*args, **given)
        changed = [a.copy() for a in args]
        axis = op.kind.output_axis(given)
        assert want.shape[-1] == args[1].shape[axis]
        along(changed[1], axis)[0] = others(along(changed[1], axis)[0])
        if op.kind.bias:
            changed[2][0] += 1
        got = op.reference(*changed, **given)
        assert not np.array_equal(got[..., 0], want[..., 0])
        equal(got[..., 1:], want[..., 1:])


@of_kind(SumOfProducts)
def test_channels_of_the_operand_are_those_of_the_weights(op: OpDef, one: Sample) -> None:
    for args, given, _ in concretely(one):
        weights, x = args[1].copy(), args[0].copy()
        axis, mine = op.kind.input_axis(given), -2 if given.get(op.kind.trans_x) else -1
        lines = along(x, mine)
        if axis is None:  # depthwise: all channels of the result but those of the one that changes
            lines[0] = others(lines[0])
            want, got = op.reference(*args, **given), op.reference(x, *args[1:], **given)
            equal(got[..., given["multiplier"] :], want[..., given["multiplier"] :])
            continue
        along(weights, axis)[0] = -given.get("w_offset", 0)
        want = op.reference(args[0], weights, *args[2:], **given)
        lines[:: weights.shape[axis]] = others(lines[:: weights.shape[axis]])  # one of each group
        equal(op.reference(x, weights, *args[2:], **given), want)


@cases(lambda op: isinstance(op.kind, SumOfProducts) and op.kind.bias)
def test_sums_that_are_not_partial_take_in_every_weight(op: OpDef, one: Sample) -> None:
    for args, given, _ in concretely(one):
        x, w, b = args
        given |= {"pad_value": 3} if op.kind.window and not op.kind.partial else {}
        found = op.reference(np.full_like(x, 3), w, b, **given)
        wide = along(w, op.kind.output_axis(given)).astype(np.float64) + given.get("w_offset", 0)
        want = b + (3 + given.get("x_offset", 0)) * wide.reshape(len(wide), -1).sum(axis=1)
        whole = np.allclose(found.astype(np.float64), want, rtol=1e-2, atol=1e-2)
        assert whole is not op.kind.partial or w.shape[1:-1] == (1,) * (w.ndim - 2)


def test_only_sums_of_products_are_asked_for_their_axes() -> None:
    assert sum_of_products("depthwise_conv2d").output_axis({}) == -1
    with pytest.raises(BuildError, match="sums no products"):
        sum_of_products("relu")


# --- contradictions ---------------------------------------------------------------------------------------------------


def _declared(name: str, **changes: Any) -> OpDef:
    return replace(get_op(name), name="fresh", **changes)


@pytest.mark.parametrize(
    ("op", "said"),
    [
        (_declared("matmul", kind=Elementwise()), "broadcast"),
        (_declared("conv2d", kind=Elementwise()), "knows no axes"),
        (_declared("softmax", kind=Elementwise(), axes={"axis": AxisRole.ONE}), "no sample has the attribute axis"),
        (_declared("concat", kind=Elementwise()), "attribute axis is of axes"),
        (_declared("reduce_sum", kind=Elementwise(), axes={}), "attribute axes is of axes"),
        (_declared("relu", kind=Elementwise(tables=1)), "element by element"),
        (_declared("xor", kind=Elementwise(bitwise=True, monotone=True)), "no order"),
        (_declared("reshape", kind=Elementwise()), "a view moves elements"),
        (_declared("reshape", kind=Movement(fill="shape")), "a view moves elements"),
        (_declared("cast", kind=Movement()), "of their type"),
        (_declared("iota", kind=Movement()), "has operands"),
        (_declared("gather", kind=Movement(fill="value"), axes={}), "fills the result"),
        (_declared("relu", kind=SumOfProducts()), "operands x, weights"),
        (_declared("matmul", kind=SumOfProducts(bias=False)), "those of its weights"),
        (_declared("matmul", kind=SumOfProducts(bias=False, trans_weights="trans_b")), "last two axes"),
        (_declared("dense", kind=SumOfProducts(depthwise=True)), "depthwise or partial"),
        (_declared("conv2d", kind=SumOfProducts()), "have pads"),
        (_declared("conv_transpose2d", kind=SumOfProducts(window=True)), "a pad_value beyond the image"),
        (_declared("dense", kind=SumOfProducts(), axes={"x_offset": AxisRole.ONE}), "by their places"),
        (_declared("reduce_max", kind=Reduction(Combine.MAX, windowed=True)), "windows with a kernel"),
        (_declared("reduce_max", kind=Reduction(Combine.MAX), axes={}), "its attribute axes"),
        (_declared("max_pool2d", kind=Reduction(Combine.MAX)), "its attribute axes"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(op: OpDef, said: str) -> None:
    with pytest.raises(BuildError, match=said):
        define(op)
