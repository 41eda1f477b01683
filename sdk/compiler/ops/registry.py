"""What an op is: one declaration with its inference, its numpy meaning, its loops, its samples and its traits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Final, TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from sdk.budget import GEOMETRY, RANK, TENSOR, WINDOW, Limit, check_limit
from sdk.compiler.ir.graph import Attr, Attrs, Call, attrs
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.ops.traits import (
    OPAQUE,
    AxisRole,
    Elementwise,
    Movement,
    Opaque,
    OpKind,
    Reduction,
    SumOfProducts,
)
from sdk.errors import BuildError

__all__ = ["OPS", "Infer", "LoopsOf", "OpDef", "Sample", "define", "get_op", "kind_of", "sum_of_products"]

Array = NDArray[Any]
Operand = TypeVar("Operand")
Infer = Callable[..., TensorType | tuple[TensorType, ...]]
LoopsOf = Callable[[str, Sequence[TensorType], Sequence[TensorType], Mapping[str, Attr]], Loops]


@dataclass(frozen=True)
class Sample:
    """Arguments the registry-wide test checks an op with: input types (symbols allowed), attributes, and
    where an input needs particular values, a function ``rng -> array`` for its index."""

    inputs: tuple[TensorType, ...]
    attrs: Attrs = ()
    values: Mapping[int, Callable[[np.random.Generator], Array]] = field(default_factory=dict)


@dataclass(frozen=True)
class OpDef:
    """``infer(*types, **attrs)`` gives the result types; ``reference(*arrays, **attrs)`` the exact values;
    ``loops(name, arg types, result types, attrs)`` the naive nest, parameters named as ``inputs`` then ``o``
    (``o0, o1`` … for several). ``variadic`` repeats the last input. A ``view`` moves no bytes: no loops.

    ``kind`` says what passes may take for granted, ``OPAQUE`` that this is nothing. ``axes`` says of attributes how
    they name axes: an op that has some treats all others alike, and so does what is elementwise.
    """

    name: str
    inputs: tuple[str, ...]
    infer: Infer
    reference: Callable[..., Any]
    loops: LoopsOf | None
    samples: tuple[Sample, ...]
    variadic: bool = False
    view: bool = False
    kind: OpKind = field(kw_only=True)
    axes: Mapping[str, AxisRole] = field(default_factory=dict, kw_only=True)

    def sources(self, args: Sequence[Operand]) -> Sequence[Operand]:
        """Those of ``args`` whose elements go into the result: all but tables and positions, of sums the first."""
        if isinstance(self.kind, Elementwise):
            return args[: len(args) - self.kind.tables]
        return args if self.variadic else args[:1]

    def input_names(self, count: int) -> tuple[str, ...]:
        """Parameter names for ``count`` arguments."""
        if not self.variadic:
            return self.inputs
        return (*self.inputs[:-1], *(f"{self.inputs[-1]}{k}" for k in range(count - len(self.inputs) + 1)))


OPS: Final[dict[str, OpDef]] = {}


def define(op: OpDef) -> OpDef:
    """Registers an op.

    Raises:
        BuildError: the name is taken, the declaration lacks samples or loops, or its traits contradict each other.
    """
    if op.name in OPS:
        raise BuildError(f"op {op.name} is declared twice")
    if not op.samples or (op.loops is None) != op.view:
        raise BuildError(f"op {op.name} needs samples, and loops unless it is a view")
    for fault in _contradictions(op):
        raise BuildError(f"op {op.name}: {fault}")
    OPS[op.name] = replace(op, reference=_without_warnings(op.reference))
    return OPS[op.name]


def _without_warnings(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference of which NumPy reports no floating-point errors: infinities and NaN are values like others, and
    some of OpenBLAS's kernels report invalid operations in lanes that hold no operand (numpy/numpy#24067)."""

    @wraps(reference)
    def run(*arrays: Array, **given: Any) -> Any:
        with np.errstate(all="ignore"):
            return reference(*arrays, **given)

    return run


def _contradictions(op: OpDef) -> Iterator[str]:
    """What of a declaration cannot be true together."""
    given = {name: value for s in op.samples for name, value in s.attrs}
    yield from (f"no sample has the attribute {name} that names axes" for name in op.axes if name not in given)
    if op.view and op.kind != Movement():
        yield "a view moves elements, and needs nothing but its operand to do so"
    match op.kind:
        case Elementwise() as kind:
            yield from _elementwise(op, kind, given)
        case Movement() as kind:
            yield from _movement(op, kind, given)
        case SumOfProducts() as kind:
            yield from _sum_of_products(op, kind, given)
        case Reduction(windowed=windowed):
            if windowed != ("kernel" in given) or op.axes != ({} if windowed else {"axes": AxisRole.SOME}):
                yield "a reduction is along the axes of its attribute axes, or in windows with a kernel"
        case Opaque():
            pass
        case _:
            assert_never(op.kind)


def _results(op: OpDef) -> Iterator[tuple[Sample, tuple[TensorType, ...]]]:
    """Each sample with the types that it gives."""
    for one in op.samples:
        found = op.infer(*one.inputs, **dict(one.attrs))
        yield one, found if isinstance(found, tuple) else (found,)


def _elementwise(op: OpDef, kind: Elementwise, given: Mapping[str, Attr]) -> Iterator[str]:
    if kind.tables >= len(op.inputs):
        yield "no operand is read element by element"
    if kind.bitwise and (kind.monotone or kind.exact):
        yield "what works on bits knows no order and no rounding"
    per_axis = [*op.axes, *(name for name, value in given.items() if isinstance(value, tuple))]
    if per_axis:
        yield f"what is elementwise knows no axes, and attribute {per_axis[0]} is of axes"
    for one, outs in _results(op):
        shapes = [t.shape for t in op.sources(one.inputs)]
        if [t.shape for t in outs] != [broadcast_shapes(*shapes)]:
            yield "what is elementwise has one result, of the shape that its operands broadcast to"


def _movement(op: OpDef, kind: Movement, given: Mapping[str, Attr]) -> Iterator[str]:
    if kind.fill and kind.fill not in given:
        yield f"no sample has the attribute {kind.fill} that fills the result"
    for one, outs in _results(op):
        if {t.dtype for t in op.sources(one.inputs)} != {t.dtype for t in outs} or len(outs) != 1:
            yield "what moves elements has operands, and one result of their type"


def _sum_of_products(op: OpDef, kind: SumOfProducts, given: Mapping[str, Attr]) -> Iterator[str]:
    if len(op.inputs) != 2 + kind.bias:
        yield "a sum of products has operands x, weights and perhaps a bias"
    if op.axes:
        yield "a sum of products knows its axes by their places, not by attributes"
    for name in filter(None, (kind.trans_x, kind.trans_weights)):
        if name not in given or kind.channel not in (-1, -2):
            yield f"attribute {name} exchanges the last two axes of matrices, and no sample has it or there are none"
    if not kind.window and (kind.depthwise or kind.partial):
        yield "only sums over windows are depthwise or partial"
    if kind.window != ("pad" in given) or (kind.window and not kind.partial and "pad_value" not in given):
        yield "sums over windows have pads, whole ones a pad_value beyond the image, and no others do"
    if kind.bias and not kind.partial and "x_offset" not in given:
        yield "whole sums with a bias take what they add to integers as x_offset"
    for one, outs in _results(op):
        if outs[0].shape[-1] != one.inputs[1].shape[kind.output_axis(dict(one.attrs))]:
            yield "the channels of a sum of products are those of its weights"


def get_op(name: str) -> OpDef:
    """The op called ``name``.

    Raises:
        BuildError: no such op.
    """
    if name not in OPS:
        raise BuildError(f"unknown op {name}", hint="ops are declared in sdk/compiler/ops")
    return OPS[name]


def kind_of(call: Call) -> OpKind:
    """What a call does with elements; opaque where it is not one of an op."""
    return get_op(call.callee).kind if call.kind == "op" else OPAQUE


def sum_of_products(name: str) -> SumOfProducts:
    """What op ``name`` sums.

    Raises:
        BuildError: no such op, or it sums no products.
    """
    kind = get_op(name).kind
    if not isinstance(kind, SumOfProducts):
        raise BuildError(f"op {name} sums no products")
    return kind


def infer(name: str, types: Sequence[TensorType], given: Attrs | Mapping[str, Attr] = ()) -> tuple[TensorType, ...]:
    """Result types of op ``name`` on argument types.

    Raises:
        BuildError: no such op, it rejects its arguments, or a number among its attributes or a result is beyond what
            any model may ask for.
    """
    op = get_op(name)
    if len(types) != len(op.inputs) and not (op.variadic and len(types) >= len(op.inputs)):
        raise BuildError(f"op {name} takes {len(op.inputs)} arguments ({', '.join(op.inputs)}), got {len(types)}")
    stated = dict(given)
    for key, limit in _BOUNDED.items():
        if key in stated:
            _check_numbers(stated[key], limit, f"{key} of op {name}")
    found = op.infer(*types, **stated)
    out = found if isinstance(found, tuple) else (found,)
    for type in out:
        _check_result(type, name)
    return out


# Attributes that say where and how many elements are: positions are computed from them in 32 bits.
_BOUNDED: Final[dict[str, Limit]] = {
    **dict.fromkeys(("dilation", "kernel", "more", "pad", "stride"), WINDOW),
    **dict.fromkeys(
        ("axes", "axis", "begin", "block", "depth", "extent", "groups", "inner", "k", "maps", "multiplier", "pads",
         "perm", "place", "shape", "size", "sizes", "strides", "taps"), GEOMETRY,
    ),
}  # fmt: skip


def _check_numbers(given: Attr, limit: Limit, what: str) -> None:
    if isinstance(given, tuple):
        for one in given:
            _check_numbers(one, limit, what)
    elif isinstance(given, int):
        check_limit(limit, abs(given), what)
    elif isinstance(given, float):
        raise BuildError(f"{what} is {given}, which is no whole number")


def _check_result(type: TensorType, name: str) -> None:
    check_limit(RANK, type.rank, f"the result of op {name}")
    size = math.prod(d for d in type.shape if isinstance(d, int))  # of extents that are numbers: exact, never wraps
    check_limit(TENSOR, size, f"the result of op {name}")


def sample(
    *inputs: TensorType,
    values: Mapping[int, Callable[[np.random.Generator], Array]] | None = None,
    **given: Attr,
) -> Sample:
    """A ``Sample`` with its attributes as keywords."""
    return Sample(inputs, attrs(**given), values or {})
