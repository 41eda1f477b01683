"""Products of floats scheduled for each kind of vectors, as C from each compiler, equal numpy at dims with tails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import HOST_ISA, WARNINGS, build, source_of

from sdk.boards import load_board
from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops.registry import get_op, infer
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.sym import Dim, Var, evaluate
from sdk.toolchains import CompileJob, SourceText, get_toolchain, target_for

M, N, K = Var("m", 1, 40).expr, Var("n", 1, 70).expr, Var("kk", 1, 33).expr
H, W = Var("h", 8, 24, 8).expr, Var("w", 8, 16).expr
DIMS = [
    {"m": 1, "n": 1, "kk": 1, "h": 8, "w": 8},
    {"m": 37, "n": 63, "kk": 33, "h": 24, "w": 13},
    {"m": 40, "n": 70, "kk": 32, "h": 16, "w": 16},
]


def f32(*shape: Dim) -> TensorType:
    return TensorType(F32, shape)


def conv(stride: int, pad: int) -> dict[str, Any]:
    return {"stride": (stride,) * 2, "dilation": (1, 1), "pad": (pad,) * 4}


# name: op, types of its inputs, attributes, the parameters that are constants
CASES: dict[str, tuple[str, tuple[TensorType, ...], dict[str, Any], set[str]]] = {
    "constant": ("matmul", (f32(M, 24), f32(24, 40)), {}, {"b"}),
    "inputs": ("matmul", (f32(M, 24), f32(24, N)), {}, set()),
    "long": ("matmul", (f32(1, 3, M, K), f32(1, 3, K, 24)), {}, set()),
    "row": ("matmul", (f32(1, 100), f32(100, 50)), {}, {"b"}),
    "first": ("conv2d", (f32(1, H, W, 3), f32(20, 3, 3, 3), f32(20)), conv(2, 1), {"w", "b"}),
    "pointwise": ("conv2d", (f32(1, H, W, 8), f32(40, 1, 1, 8), f32(40)), conv(1, 0), {"w", "b"}),
    "window": ("conv2d", (f32(1, 7, 7, 16), f32(33, 3, 3, 16), f32(33)), conv(1, 1), {"w", "b"}),
}
SETS = {"avx512f": HOST_ISA, "avx2fma": {"sse2", "avx", "avx2", "fma"}, "sse2": {"sse2"}, "neon": {"neon"}}
BUILDS = [
    pytest.param(name, tool, id=f"{name}-{tool}")
    for name in SETS
    for tool in ("zig", "gcc")
    if machine_for(SETS[name]).floats.name == name and set(SETS[name]) <= HOST_ISA
]


def scheduled(name: str) -> list[Loops]:
    out = []
    for case, (op, types, attrs, constants) in CASES.items():
        loops = get_op(op).loops
        assert loops is not None
        plain = loops(case, types, infer(op, types, tuple(sorted(attrs.items()))), attrs)
        done = schedule_nest(Nest(drop_single_trips(plain), constants), machine_for(SETS[name]))
        assert done.trace
        out.append(done)
    return out


@pytest.mark.parametrize(("name", "toolchain"), BUILDS)
def test_products_equal_numpy(name: str, toolchain: str, tmp_path: Path) -> None:
    functions = scheduled(name)
    kernels = build(functions, tmp_path, frozenset(SETS[name]), toolchain)
    rng = np.random.default_rng(5)
    for loops in functions:
        op, types, attrs, _ = CASES[loops.name]
        for values in DIMS:
            env = {v: values[v.name] for v in loops.dims}
            args = [rng.integers(-4, 5, [evaluate(d, env) for d in t.shape]).astype(np.float32) for t in types]
            want = get_op(op).reference(*args, **attrs)
            given = [pack_array(a, p.layout) for a, p in zip(args, loops.params, strict=False)]
            got = np.full_like(want, 85)
            assert loops.rows is not None
            extent = evaluate(loops.rows.extent, env)
            for rows in ((0, extent // 3), (extent // 3, extent)):
                kernels.call(loops.name, [*given, got], [env[v] for v in loops.dims], rows)
            np.testing.assert_array_equal(got, want, err_msg=f"{loops.name} for {name} at {values}")


@pytest.mark.parametrize("opt", ["1", "3"])
def test_neon_code_has_no_warnings(opt: str) -> None:
    board = load_board("aarch64-linux")
    text = source_of(scheduled("neon"), frozenset({"neon"}))
    job = CompileJob(SourceText("kernels.c", text), target_for(board), flags=WARNINGS, opt=opt)
    assert get_toolchain("zig").compile(job).warnings == ""
