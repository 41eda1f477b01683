"""Images in another size: ``resize_nearest`` copies elements, ``resample`` mixes a few along one axis by weights (those
of integers are i32, and the sums too), and
``resize_taps`` makes those weights when the sizes are only known at run time.

Where an output lies in the input is a fraction of dims: ``(num * i + add) / den``, so that open sizes stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Store, ValueExpr
from sdk.compiler.ir.types import F16, F32, F64, I8, I16, I32, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable, within
from sdk.compiler.ops.numerics import compute_type, number, require_float
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import OPAQUE, AxisRole, Movement
from sdk.compiler.sym import Dim, Var, dmax, dmin, floordiv, mod
from sdk.errors import BuildError

Array = NDArray[Any]
Types = Sequence[TensorType]


# --- nearest --------------------------------------------------------------------------------------------------------


def _nearest_infer(x: TensorType, *, sizes: Any, maps: Any) -> TensorType:
    if len(sizes) != x.rank or len(maps) != x.rank or any(len(m) not in (0, 3) for m in maps):
        raise BuildError(f"resize_nearest wants a size and a map per axis of rank {x.rank}, got {sizes} and {maps}")
    for size, extent, given in zip(sizes, x.shape, maps, strict=True):
        if not given:
            require_equal("an axis without a map of resize_nearest", size, extent)
    return TensorType(x.dtype, tuple(sizes))


def _source(i: Dim, extent: Dim, given: Any) -> Dim:
    """The element nearest to output ``i``: ``(num * i + add) // den``, held inside the axis."""
    if not given:
        return i
    num, add, den = given
    return dmax(dmin(floordiv(num * i + add, den), extent - 1), 0)


def _nearest_ref(x: Array, *, sizes: Any, maps: Any) -> Array:
    places: list[Array] = []
    for size, extent, given in zip(sizes, x.shape, maps, strict=True):
        at = np.arange(size, dtype=np.int64)
        places.append(np.clip((given[0] * at + given[1]) // given[2], 0, extent - 1) if given else at)
    return np.ascontiguousarray(x[np.ix_(*places)])


def _nearest_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """o[i, ..] = x[the nearest to i, ..]."""
    over = nest(outs[0].shape)
    source = tuple(_source(i, d, m) for i, d, m in zip(over.index, types[0].shape, given["maps"], strict=True))
    body = over.around(Store("o", over.index, Load("x", source, types[0].dtype)))
    return function(name, [param("x", types[0]), param("o", outs[0], "write")], [body], over.rows)


# --- weighted sums along an axis ------------------------------------------------------------------------------------


def _resample_infer(x: TensorType, index: TensorType, weight: TensorType, *, axis: int) -> TensorType:
    whole = x.dtype in (I8, I16, I32)
    if not whole:
        require_float("resample", x)
    if not 0 <= axis < x.rank or index.rank != 2 or index.dtype != I32 or weight.dtype != (I32 if whole else F32):
        raise BuildError(
            f"resample wants i32 positions and f32 weights [n, taps], i32 ones for integers, "
            f"got {index.dtype}, {weight.dtype} for {x.dtype}"
        )
    require_equal("positions and weights of resample", index.shape[0], weight.shape[0])
    require_equal("positions and weights of resample", index.shape[1], weight.shape[1])
    return TensorType(I32 if whole else x.dtype, (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]))


def _resample_ref(x: Array, index: Array, weight: Array, *, axis: int) -> Array:
    inside = (index >= 0) & (index < x.shape[axis])
    wide = np.float64 if x.dtype.kind == "f" else np.int64
    taken = np.take(x.astype(wide), np.where(inside, index, 0), axis=axis)
    factors = np.where(inside, weight.astype(wide), 0)
    factors = factors.reshape(factors.shape + (1,) * (x.ndim - axis - 1))
    return np.asarray((taken * factors).sum(axis=axis + 1)).astype(x.dtype if x.dtype.kind == "f" else np.int32)


def _resample_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """Every result { acc = 0; taps { acc += x[.., index, ..] * weight } o = acc }; a tap outside adds nothing."""
    x, index, weight = types
    axis: int = given["axis"]
    over = nest(outs[0].shape)
    taps = variable("t", index.shape[1])
    kind = compute_type(x.dtype) if x.dtype.is_float else I32
    at = Var("at", *I32.limits).expr
    source = (*over.index[:axis], at, *over.index[axis + 1 :])
    load: ValueExpr = Load("x", source, x.dtype)
    inside = within([(at, x.shape[axis])])
    if inside is not None:
        load = op("select", inside, load, number(0, x.dtype), dtype=x.dtype)
    acc = Load("acc", (), kind)
    which = (over.index[axis], taps.expr)
    factor = cast(Load("weight", which, weight.dtype), kind)
    body = over.around(
        Alloc(Buffer("acc", kind, (), "register")),
        Store("acc", (), number(0, kind)),
        loop(
            taps,
            index.shape[1],
            Let("at", Load("index", which, I32)),
            Store("acc", (), op("add", acc, op("mul", cast(load, kind), factor))),
        ),
        Store("o", over.index, cast(acc, outs[0].dtype)),
    )
    params = [param("x", x), param("index", index), param("weight", weight), param("o", outs[0], "write")]
    return function(name, params, [body], over.rows)


# --- positions and weights of open sizes ----------------------------------------------------------------------------


def _taps_infer(
    *, size: Any, extent: Any, place: Any, taps: int, cubic: float = -0.75
) -> tuple[TensorType, TensorType]:
    if taps not in (2, 4) or len(place) != 3:
        raise BuildError(f"resize_taps interpolates by 2 or 4 taps at a fraction, got {taps} and {place}")
    return TensorType(I32, (extent, taps)), TensorType(F32, (extent, taps))


def _cubic(a: float, distance: Any, lib: Any) -> tuple[Any, ...]:
    """Weights of the four taps around a place ``distance`` after the second: ``lib`` has add, mul, of numbers."""
    add, mul, number = lib

    def poly(x: Any, *terms: float) -> Any:
        total = number(terms[0])
        for term in terms[1:]:
            total = add(mul(total, x), number(term))
        return total

    near, far = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
    rest = add(number(1.0), mul(number(-1.0), distance))
    return (
        poly(add(distance, number(1.0)), *far),
        poly(distance, *near),
        poly(rest, *near),
        poly(add(rest, number(1.0)), *far),
    )


def _taps_ref(*, size: int, extent: int, place: Any, taps: int, cubic: float = -0.75) -> tuple[Array, Array]:
    num, add, den = place
    exact = num * np.arange(extent, dtype=np.int64) + add
    first = exact // den
    part = ((exact - first * den).astype(np.float32) / np.float32(den)).astype(np.float32)
    lib = (np.add, np.multiply, np.float32)
    weights = (np.float32(1) - part, part) if taps == 2 else _cubic(cubic, part, lib)
    index = first[:, None] + np.arange(taps) - (taps // 2 - 1)
    return np.clip(index, 0, size - 1).astype(np.int32), np.stack(weights, axis=1).astype(np.float32)


def _taps_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """At each output: the positions of its taps, held inside the axis, and their weights."""
    num, add, den = given["place"]
    taps: int = given["taps"]
    over = nest((outs[0].shape[0],))
    (i,) = over.index
    exact = num * i + add
    first = floordiv(exact, den)
    part = op("tdiv", cast(idx(mod(exact, den)), F32), cast(idx(den), F32))
    lib = (lambda a, b: op("add", a, b), lambda a, b: op("mul", a, b), lambda v: imm(float(v), F32))
    weights = (op("sub", imm(1.0, F32), part), part) if taps == 2 else _cubic(given.get("cubic", -0.75), part, lib)
    stores = []
    for t, weight in enumerate(weights):
        at = dmax(dmin(first + (t - (taps // 2 - 1)), given["size"] - 1), 0)
        stores += [Store("o0", (i, t), idx(at)), Store("o1", (i, t), weight)]
    params = [param("o0", outs[0], "write"), param("o1", outs[1], "write")]
    return function(name, params, [over.around(*stores)], over.rows)


_T = TensorType
_H = Var("h", 2, 7).expr
_W = Var("w", 2, 7).expr


def _positions(rng: np.random.Generator) -> Array:
    return rng.integers(-1, 5, (7, 2))


def _steps(rng: np.random.Generator) -> Array:
    return rng.integers(-1024, 1025, (7, 2))


define(
    OpDef(
        "resize_nearest",
        ("x",),
        _nearest_infer,
        _nearest_ref,
        _nearest_loops,
        samples=(
            sample(_T(F32, (1, _H, 3, 2)), sizes=(1, 2 * _H, 6, 2), maps=((), (1, 0, 2), (1, 0, 2), ())),
            sample(_T(I8, (2, 5, _H)), sizes=(2, 3, _W), maps=((), (10, 2, 6), (2 * _H, _H - _W, 2 * _W))),
        ),
        kind=Movement(),
        axes={"sizes": AxisRole.EACH, "maps": AxisRole.EACH},
    )
)
define(
    OpDef(
        "resample",
        ("x", "index", "weight"),
        _resample_infer,
        _resample_ref,
        _resample_loops,
        samples=(
            sample(_T(F32, (1, 4, _H, 3)), _T(I32, (7, 2)), _T(F32, (7, 2)), values={1: _positions}, axis=1),
            sample(_T(F16, (2, 4)), _T(I32, (7, 2)), _T(F32, (7, 2)), values={1: _positions}, axis=1),
            sample(_T(F64, (_H, 4)), _T(I32, (7, 2)), _T(F32, (7, 2)), values={1: _positions}, axis=0),
            sample(_T(I8, (1, 4, _H, 3)), _T(I32, (7, 2)), _T(I32, (7, 2)), values={1: _positions, 2: _steps}, axis=1),
            sample(_T(I16, (3, _H)), _T(I32, (7, 2)), _T(I32, (7, 2)), values={1: _positions, 2: _steps}, axis=1),
            sample(
                _T(I32, (2, 4)), _T(I32, (7, 2)), _T(I32, (7, 2)),
                values={0: lambda rng: rng.integers(-(1 << 17), 1 << 17, (2, 4)), 1: _positions, 2: _steps}, axis=1,
            ),
        ),
        kind=OPAQUE,
        axes={"axis": AxisRole.ONE},
    )
)  # fmt: skip
define(
    OpDef(
        "resize_taps",
        (),
        _taps_infer,
        _taps_ref,
        _taps_loops,
        samples=(
            sample(size=_H, extent=2 * _H, place=(2, -1, 4), taps=2),
            sample(size=_H, extent=_W, place=(_H - 1, 0, _W - 1), taps=2),
            sample(size=_H, extent=_W, place=(2 * _H, _H - _W, 2 * _W), taps=4, cubic=-0.5),
        ),
        kind=OPAQUE,
    )
)
