"""Reductions over windows along any axes of a tensor: ``window_sum``, ``window_prod``, ``window_max``, ``window_min``.

``kernel``, ``stride`` and ``dilation`` have an entry for each axis. There is no border: ``pad`` makes one. Integers
wrap in their own type; NaN spreads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Stmt, Store
from sdk.compiler.ir.types import BOOL, F16, F32, I8, I64, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.numerics import compute_type, number, single, stored, widened
from sdk.compiler.ops.reduce import RULES, Rule
from sdk.compiler.ops.registry import OpDef, Sample, define, sample
from sdk.compiler.ops.shapes import window_extent
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]
_WINDOWED = {f"window_{how}": RULES[f"reduce_{how}"] for how in ("sum", "prod", "max", "min")}


def _infer(name: str, rule: Rule) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, kernel: Any, stride: Any, dilation: Any) -> TensorType:
        if not len(kernel) == len(stride) == len(dilation) == x.rank or min(kernel, default=1) < 1:
            raise BuildError(f"{name} of windows {kernel}, {stride} apart, in steps of {dilation}, in rank {x.rank}")
        if x.dtype.kind not in rule.kinds:
            raise BuildError(f"{name} is not defined on {x.dtype}")
        extents = (window_extent(*given, 0, 0) for given in zip(x.shape, kernel, stride, dilation, strict=True))
        return TensorType(x.dtype, tuple(extents))

    return infer


def _reference(rule: Rule) -> Callable[..., Array]:
    def run(x: Array, *, kernel: Any, stride: Any, dilation: Any) -> Array:
        reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
        view = np.lib.stride_tricks.sliding_window_view(x, reach) if x.ndim else x
        taps = view[(*(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))]
        axes = tuple(range(x.ndim, 2 * x.ndim))
        more = {} if rule.kinds == "fiub" else {"dtype": x.dtype}  # of integers numpy takes a wider type
        return np.asarray(rule.fold(taps, axis=axes, **more)).astype(x.dtype)

    return run


def _loops(rule: Rule) -> Callable[..., Loops]:
    def build(fn: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
        """Every result { acc = start; taps { acc = step(acc, x[i * stride + tap * dilation]) } o = acc }."""
        x, out, over = types[0], outs[0], nest(outs[0].shape)
        kind, kernel = compute_type(out.dtype), given["kernel"]
        taps = {k: variable(f"t{k}", size) for k, size in enumerate(kernel) if size > 1}
        source: list[Dim] = [
            at * given["stride"][k] + (taps[k].expr * given["dilation"][k] if k in taps else 0)
            for k, at in enumerate(over.index)
        ]
        acc = Load("acc", (), kind)
        element = cast(widened(Load("x", tuple(source), x.dtype)), kind)
        step: Stmt = Store("acc", (), op(rule.step(kind), acc, element))
        for k, var in reversed(taps.items()):
            step = loop(var, kernel[k], step)
        body = over.around(
            Alloc(Buffer("acc", kind, (), "register")),
            Store("acc", (), number(rule.start(kind), kind)),
            step,
            Store("o", over.index, stored(acc, out.dtype)),
        )
        return function(fn, [param("x", x), param("o", out, "write")], [body], over.rows)

    return build


_T = TensorType
_N: Dim = Var("n", 3, 7).expr


def _small(rng: np.random.Generator) -> Array:
    return rng.integers(0, 4, (3, 4))


def _samples(rule: Rule) -> tuple[Sample, ...]:
    row: Any = {"kernel": (1, 3), "stride": (1, 1), "dilation": (1, 1)}
    found = (
        sample(_T(F32, (2, _N)), kernel=(1, 3), stride=(1, 2), dilation=(1, 1)),
        sample(_T(F32, (2, 5, 7)), kernel=(2, 2, 3), stride=(1, 2, 1), dilation=(1, 3, 2)),
        sample(_T(I64, (3, 4)), **row, values={0: _small}),
        sample(_T(I8, (3, 9)), **row),
    )
    if "b" in rule.kinds:
        return (*found, sample(_T(BOOL, (_N, 4)), **row))
    return (*found, sample(_T(F16, (4, 9)), **row), sample(_T(F32, ()), kernel=(), stride=(), dilation=()))


for _name, _rule in _WINDOWED.items():
    define(
        OpDef(
            _name,
            ("x",),
            _infer(_name, _rule),
            single(_reference(_rule)),
            _loops(_rule),
            _samples(_rule),
            kind=OPAQUE,
        )
    )
