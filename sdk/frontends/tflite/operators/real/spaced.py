"""Borders and gaps filled with a value, and reductions over windows along any axes: DILATE, REDUCE_WINDOW and their
like of StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, DType
from sdk.compiler.sym import prove_ge
from sdk.errors import BuildError
from sdk.frontends.emit import Emitter
from sdk.frontends.moves import padded, reshaped, shape_text, type_text
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.real.bodies import only_operator
from sdk.frontends.tflite.operators.real.common import vector

__all__ = ["TABLE"]


@dataclass(frozen=True, slots=True)
class _Meeting:
    """How the elements of a window meet: the op of windows, that of two tensors, that of truth values."""

    windows: str
    pair: str
    flags: str = ""

    def start(self, kind: DType) -> float:
        """The number that changes nothing."""
        if self.windows in ("window_sum", "window_prod"):
            return float(self.windows == "window_prod")
        largest = self.windows == "window_min"
        if kind == BOOL:
            return float(largest)
        return float("inf" if largest else "-inf") if kind.is_float else kind.limits[largest]


_SUM, _PRODUCT = _Meeting("window_sum", "add"), _Meeting("window_prod", "mul")
_MIN, _MAX = _Meeting("window_min", "minimum", "and"), _Meeting("window_max", "maximum", "or")
_NUMBERED: Final[Mapping[int, _Meeting]] = {1: _SUM, 2: _PRODUCT, 3: _MIN, 4: _MAX}
_OF_FLAGS: Final[Mapping[int, _Meeting]] = {5: _MIN, 6: _MAX}
_NAMED: Final[Mapping[str, _Meeting]] = {"add": _SUM, "mul": _PRODUCT, "minimum": _MIN, "maximum": _MAX}


# --- borders and gaps --------------------------------------------------------------------------------------------


def _filled(emit: Emitter, x: Value, fill: Value, widen: Callable[[Value, float], Value]) -> Value:
    """``x`` made larger by ``widen``, which fills with a number, filled with the one element of ``fill``."""
    kind, known = x.type.dtype, emit.numbers(fill)
    if known is not None:
        number = known.reshape(-1)[0]
        return widen(x, float(number) if kind.is_float else int(number))
    inside = widen(emit.call("full", shape=x.type.shape, value=1, dtype=str(BOOL)), 0)
    return emit.call("where", inside, widen(x, 0.0 if kind.is_float else 0), emit.call("reshape", fill, shape=()))


def _spread(emit: Emitter, x: Value, steps: Sequence[int], fill: float) -> Value:
    """The elements of each axis so many places apart, ``fill`` between them."""
    for axis, step in enumerate(steps):
        shape = x.type.shape
        if step == 1 or shape[axis] == 0:
            continue
        if prove_ge(shape[axis], 1) is not True:
            emit.fail(f"an axis of {shape[axis]} elements, perhaps none, cannot be spread")
        column = reshaped(emit, x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        gaps = [(0, step - 1) if k == axis + 1 else (0, 0) for k in range(len(shape) + 1)]
        wide = padded(emit, column, gaps, value=fill)
        flat = reshaped(emit, wide, (*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
        x = padded(emit, flat, [(0, 1 - step) if k == axis else (0, 0) for k in range(len(shape))], value=fill)
    return x


def _bordered(
    node: OpNode, x: Value, steps: Sequence[int], borders: Sequence[tuple[int, int]], fill: Value
) -> Value:  # fmt: skip
    """Gaps, then borders, of which negative ones cut off."""
    emit = node.emitter
    if fill.type.size != 1 or fill.type.dtype != x.type.dtype:
        raise BuildError(f"what fills a tensor of {x.type.dtype} is {type_text(fill)}, and must be one {x.type.dtype}")
    if all(step == 1 for step in steps) and all(pair == (0, 0) for pair in borders):
        return x
    return _filled(emit, x, fill, lambda v, n: padded(emit, _spread(emit, v, steps, n), borders, value=n))


def _result(node: OpNode, x: Value) -> None:
    node.call("reshape", x, shape=x.type.shape)  # a view


def dilate(node: OpNode) -> None:
    """DILATE: inputs (x, how many places apart its elements go along each axis, what stands between)."""
    x, steps, fill = node.input(0), node.integers(1), node.input(2)
    if len(steps) != x.type.rank or min(steps, default=1) < 1:
        raise BuildError(f"dilations {list(steps)} of a tensor of rank {x.type.rank}")
    _result(node, _bordered(node, x, steps, [(0, 0)] * len(steps), fill))


def pad(node: OpNode) -> None:
    """STABLEHLO_PAD: inputs (x, what fills), gaps between elements, then borders, negative ones cut off."""
    x, fill = node.input(0), node.input(1)
    low, high, gaps = (
        vector(node, f"{name}AsNumpy", x.type.rank) for name in ("EdgePaddingLow", "EdgePaddingHigh", "InteriorPadding")
    )
    if min(gaps, default=0) < 0:
        raise BuildError(f"the interior padding {list(gaps)} is negative")
    _result(node, _bordered(node, x, [g + 1 for g in gaps], list(zip(low, high, strict=True)), fill))


# --- windows -----------------------------------------------------------------------------------------------------


def _reduced(node: OpNode, x: Value, first: Value, meeting: _Meeting, window: Mapping[str, Sequence[int]]) -> None:
    """Windows of ``x`` put together, from ``first`` on."""
    if min((n for numbers in window.values() for n in numbers), default=1) < 1:
        raise BuildError(f"windows {', '.join(f'{k} {list(v)}' for k, v in window.items())} must be positive")
    emit, kind = node.emitter, x.type.dtype
    found = emit.call(meeting.windows, x, **{k: tuple(v) for k, v in window.items()})
    known = emit.numbers(first)
    if known is None or known.reshape(-1)[0] != meeting.start(kind):
        pair = meeting.flags if kind == BOOL else meeting.pair
        found = emit.call(pair, found, emit.call("reshape", first, shape=()))
    _result(node, found)


def _first(node: OpNode, x: Value) -> Value:
    first = node.input(1)
    if first.type.size != 1 or first.type.dtype != x.type.dtype or not x.type.rank:
        raise BuildError(f"windows of {type_text(x)} start from {type_text(first)}")
    return first


def reduce_window(node: OpNode) -> None:
    """REDUCE_WINDOW: inputs (x, the number to start from, sizes, strides and dilations of windows)."""
    x, number = node.input(0), int(node.option("ReduceFunction"))
    meeting = (_OF_FLAGS if x.type.dtype == BOOL else _NUMBERED).get(number)
    if meeting is None:
        raise BuildError(f"the reduction number {number} of {x.type.dtype} is not supported")
    numbers = [node.integers(k) for k in (2, 3, 4)]
    if any(len(n) != x.type.rank for n in numbers):
        raise BuildError(f"windows {shape_text(numbers[0])} of a tensor of rank {x.type.rank}")
    _reduced(node, x, _first(node, x), meeting, dict(zip(("kernel", "stride", "dilation"), numbers, strict=True)))


def stablehlo_reduce_window(node: OpNode) -> None:
    """STABLEHLO_REDUCE_WINDOW: inputs (x, the number to start from), which fills gaps and borders too; the reduction is
    the one operator of a subgraph."""
    x = node.input(0)
    name = only_operator(node, int(node.option("BodySubgraphIndex")))
    flags = {"and": _MIN, "or": _MAX}
    meeting = (flags if x.type.dtype == BOOL else _NAMED).get(name or "")
    if meeting is None:
        raise BuildError(f"the reduction of {x.type.dtype} by {name or 'no operator'} is not supported")
    rank = x.type.rank
    kernel, stride, dilation, spread = (
        vector(node, f"{name}AsNumpy", rank)
        for name in ("WindowDimensions", "WindowStrides", "WindowDilations", "BaseDilations")
    )
    flat = vector(node, "PaddingAsNumpy", 2 * rank)
    if min(spread, default=1) < 1:
        raise BuildError(f"base dilations {list(spread)} must be positive")
    first = _first(node, x)
    x = _bordered(node, x, spread, [(flat[2 * k], flat[2 * k + 1]) for k in range(rank)], first)
    _reduced(node, x, first, meeting, {"kernel": kernel, "stride": stride, "dilation": dilation})


TABLE: Table = {
    "DILATE": dilate,
    "REDUCE_WINDOW": reduce_window,
    "STABLEHLO_PAD": pad,
    "STABLEHLO_REDUCE_WINDOW": stablehlo_reduce_window,
}
