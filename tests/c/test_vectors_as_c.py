"""Elementwise nests, reductions, rows, windows and transposes, scheduled for vectors, as C: equal the reference.

Lengths around one, two and four vectors run, the others to 70 in the long tests; results are guarded on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import HOST_ISA, Kernels, build

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Block, Buffer, For, Load, Loops, Param, Store
from sdk.compiler.ir.types import BOOL, F16, F32, F64, I8, I32, I64, U8, DType, TensorType
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops.registry import get_op, infer
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.schedules.trace import replay
from sdk.compiler.sym import Var, evaluate, free_vars
from sdk.compiler.verify.loops import verify_loops

N, M = Var("n", 1, 70).expr, Var("m", 1, 5).expr
EPS = {"epsilon": 1e-5}
IMAGE = {"stride": (1, 1), "dilation": (1, 1), "pad": (1, 1, 1, 1)}
POOL = {"kernel": (3, 3), "stride": (2, 2), "pad": (0, 1, 1, 0)}
# lengths around one, two and four vectors of 4 to 16 lanes, and of one of 64; and the others
SIZES = (*range(1, 20), 23, 24, 25, 31, 32, 33, 47, 48, 49, 63, 64, 65, 70)
OTHERS = tuple(n for n in range(1, 71) if n not in SIZES)
GUARD = 64
LARGE = 2048  # elements from which the interpreter runs a few lengths only
# Capabilities that a schedule may use, and what compiles it; only the last wants this machine's own.
SETS = {
    "none": frozenset[str](),
    "sse2": frozenset({"sse2"}),
    "avx2": frozenset({"sse2", "ssse3", "sse4.1", "avx", "avx2", "fma"}),
    "host": HOST_ISA,
}
BUILDS = [(name, tool) for name in SETS for tool in ("zig", "gcc") if SETS[name] <= HOST_ISA]


def f32(*shape: Any) -> TensorType:
    return TensorType(F32, shape)


def of(kind: DType, *shape: Any) -> TensorType:
    return TensorType(kind, shape)


CASES: list[tuple[str, tuple[TensorType, ...], dict[str, Any]]] = [
    ("add", (f32(M, N), f32(N)), {}),
    ("mul", (f32(2, M, N), f32(M, 1)), {}),
    ("add", (of(F64, M, N), of(F64, N)), {}),
    ("add", (of(F16, M, N), of(F16, N)), {}),
    ("add", (of(I8, M, N), of(I8, N)), {}),
    ("mul", (of(I64, M, N), of(I64, N)), {}),
    ("exp", (f32(N),), {}),
    ("gelu", (f32(M, N),), {"tanh": False}),
    ("sigmoid", (f32(M, N),), {}),
    ("sin", (f32(M, N),), {}),
    ("pow", (f32(M, N), f32(1)), {}),
    ("fmod", (f32(M, N), f32(N)), {}),
    ("sqrt", (of(F64, M, N),), {}),
    ("round", (f32(M, N),), {}),
    ("greater", (f32(M, N), f32(N)), {}),
    ("is_nan", (f32(M, N),), {}),
    ("not", (of(BOOL, M, N),), {}),
    ("and", (of(BOOL, M, N), of(BOOL, N)), {}),
    ("where", (of(BOOL, M, N), f32(N), f32(M, 1)), {}),
    ("where", (of(BOOL, M, N), of(U8, M, N), of(U8, N)), {}),
    ("cast", (f32(M, N),), {"to": "i8"}),
    ("cast", (f32(M, N),), {"to": "bool"}),
    ("cast", (of(I8, M, N),), {"to": "f32"}),
    ("cast", (of(BOOL, M, N),), {"to": "f32"}),
    ("cast", (f32(M, N),), {"to": "f16"}),
    ("cast", (of(F64, M, N),), {"to": "i64"}),
    ("reduce_sum", (f32(M, N),), {"axes": (1,)}),
    ("reduce_max", (f32(M, N),), {"axes": (1,)}),
    ("reduce_mean", (f32(M, N),), {"axes": (0,)}),
    ("reduce_mean", (f32(1, 5, 4, N),), {"axes": (1, 2)}),
    ("reduce_min", (of(U8, M, N),), {"axes": (1,)}),
    ("reduce_sum", (of(I32, M, N),), {"axes": (1,)}),
    ("reduce_sum", (of(I8, M, N),), {"axes": (1,), "x_offset": 3}),
    ("reduce_prod", (of(F64, M, N),), {"axes": (1,)}),
    ("softmax", (f32(M, N),), {}),
    ("softmax", (f32(3, 333),), {}),
    ("softmax", (of(F16, M, N),), {}),
    ("log_softmax", (f32(M, N),), {}),
    ("layer_norm", (f32(M, N), f32(N), f32(N)), EPS),
    ("layer_norm", (of(F64, M, N), of(F64, N), of(F64, N)), EPS),
    ("rms_norm", (f32(2, M, N), f32(N)), EPS),
    ("max_pool2d", (f32(1, 7, 6, N),), POOL),
    ("avg_pool2d", (f32(1, 7, 6, N),), POOL),
    ("depthwise_conv2d", (f32(1, 7, 6, N), f32(3, 3, N), f32(N)), {**IMAGE, "multiplier": 1}),
    ("transpose", (f32(M, N, 6),), {"perm": (1, 0, 2)}),
    ("transpose", (f32(3, M, N),), {"perm": (1, 0, 2)}),
    ("transpose", (f32(N, 37),), {"perm": (1, 0)}),
    ("transpose", (f32(1, 5, N, 40),), {"perm": (0, 3, 1, 2)}),
    ("transpose", (of(U8, 33, N),), {"perm": (1, 0)}),
    ("transpose", (of(F64, M, 19, N),), {"perm": (0, 2, 1)}),
]


def plain(k: int) -> Loops:
    name, types, attrs = CASES[k]
    return get_op(name).loops(f"{name}_{k}", types, infer(name, types, tuple(sorted(attrs.items()))), attrs)


@pytest.fixture(scope="module", params=BUILDS, ids="-".join)
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    isa, toolchain = request.param
    core = machine_for(SETS[isa])
    done = [schedule_nest(Nest(plain(k)), core) for k in range(len(CASES))]
    # what zig makes of vectors is looked at where it has all instructions; see OPT for the others
    opt = "2" if toolchain == "gcc" or isa == "host" else None
    return build(done, tmp_path_factory.mktemp("vectors"), SETS[isa], toolchain, opt)


def arguments(types: tuple[TensorType, ...], dims: dict[Var, int], rng: np.random.Generator) -> list[np.ndarray]:
    out = []
    for type in types:
        shape, kind = tuple(evaluate(d, dims) for d in type.shape), type.dtype.numpy
        if type.dtype.is_float:
            out.append((rng.standard_normal(shape) * 3).astype(kind))
        else:
            out.append(rng.integers(0, 2 if type.dtype == BOOL else 100, shape).astype(kind))
    return out


def environments(types: tuple[TensorType, ...], sizes: Sequence[int]) -> list[dict[Var, int]]:
    names = sorted({v for t in types for d in t.shape for v in free_vars(d)}, key=lambda v: v.name)
    if not names:
        return [{}]
    return [{v: size if v.name == "n" else min(v.hi, 1 + size % 3) for v in names} for size in sizes]


def expected(k: int, args: list[np.ndarray]) -> np.ndarray:
    name, _, attrs = CASES[k]
    with np.errstate(all="ignore"):
        value = get_op(name).reference(*args, **attrs)
    return np.asarray(value[0] if isinstance(value, tuple) else value)


def compare(got: np.ndarray, want: np.ndarray, where: str) -> None:
    if want.dtype.kind == "f":
        close = 2e-3 if want.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(got, want, rtol=close, atol=close, err_msg=where)
    else:
        np.testing.assert_array_equal(got, want, err_msg=where)


@pytest.mark.parametrize("sizes", [SIZES, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["near", "others"])
@pytest.mark.parametrize("k", range(len(CASES)), ids=lambda k: f"{k}-{CASES[k][0]}")
def test_every_length(kernels: Kernels, k: int, sizes: Sequence[int]) -> None:
    name, types, _ = CASES[k]
    loops = kernels.loops[f"{name}_{k}"]
    for dims in environments(types, sizes):
        args = arguments(types, dims, np.random.default_rng(k))
        want = expected(k, args)
        guarded = np.full(want.size + 2 * GUARD, 77, want.dtype)
        got = guarded[GUARD : GUARD + want.size].reshape(want.shape)
        extent = evaluate(loops.rows.extent, dims) if loops.rows else 0
        for rows in [(0, extent // 2), (extent // 2, extent)] if loops.rows else [None]:
            kernels.call(loops.name, [*args, got], [dims[v] for v in loops.dims], rows)
        compare(got, want, f"{loops.name} at {dims}: {loops.trace}")
        assert (guarded[:GUARD] == guarded.dtype.type(77)).all()
        assert (guarded[-GUARD:] == guarded.dtype.type(77)).all()


@pytest.mark.parametrize("k", range(len(CASES)), ids=lambda k: f"{k}-{CASES[k][0]}")
@pytest.mark.parametrize("isa", ["sse2", "avx2", "host"])
def test_schedules_are_sound(isa: str, k: int) -> None:
    """Proved inside their buffers, replayed from their trace, and right in the interpreter."""
    _, types, _ = CASES[k]
    naive = plain(k)
    done = schedule_nest(Nest(naive), machine_for(SETS[isa]))
    assert done is not naive, "no rule applies"
    found: list[str] = []
    verify_loops(done, lambda where, message: found.append(f"{where}: {message}"))
    assert found == []
    assert replay(naive, done.trace) == done
    points = environments(types, SIZES)
    shape = types[0].shape
    large = bool(free_vars(shape[-1])) or math.prod(evaluate(d, points[-1]) for d in shape) > LARGE
    for dims in points[:: 23 if large else 1]:  # as C they all run, see above
        args = arguments(types, dims, np.random.default_rng(k))
        want = expected(k, args)
        arrays = {p.buffer.name: a for p, a in zip(done.params, [*args, np.full_like(want, 1)], strict=True)}
        run_loops(done, arrays)
        compare(arrays[done.params[-1].buffer.name], want, f"{done.trace} at {dims}")


def test_vectors_of_one_lane(tmp_path: Path) -> None:
    """What a loop of one iteration becomes: a broadcast to the type that its argument has already."""
    types = (F16, F32, F64, I8, U8, I32, I64, BOOL)
    functions = []
    for k, kind in enumerate(types):
        params = [Param(Buffer(name, kind, (5,)), mode) for name, mode in (("x", "read"), ("y", "write"))]
        i = Var("i", 0, 4)
        body = Store("y", (i.expr,), op("broadcast", Load("x", (i.expr,), kind), dtype=kind))
        functions.append(Loops(f"one{k}", (), tuple(params), Block((For(i, 0, 5, Block((body,))),))))
    kernels = build(functions, tmp_path, HOST_ISA)
    for loops, kind in zip(functions, types, strict=True):
        x = np.array([0, 1, 1, 0, 1]).astype(kind.numpy)
        y = np.zeros_like(x)
        kernels.call(loops.name, [x, y], [])
        np.testing.assert_array_equal(y, x, str(kind))
