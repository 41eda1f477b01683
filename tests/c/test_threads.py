"""Rows of a call shared among threads: proved, planned, run in C; the same bits for any number of threads."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_harness import HOST_ISA, WARNINGS
from c_model import CModel, Net, files_of, load

from sdk.boards import load_board
from sdk.compiler.analysis.rows import row_granule
from sdk.compiler.analysis.work import operations
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.loops import For
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall
from sdk.compiler.ir.types import F32, I8, I32
from sdk.compiler.ir.walk import walk
from sdk.compiler.passes.fuse import Fuse
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.compiler.passes.simplify_loops import SimplifyLoops
from sdk.compiler.sym import Var
from sdk.compiler.verify.plan import verify_plan
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for
from tests.ir.round_trip import check_round_trip

N = Var("n", 1, 96)


def typed() -> Module:
    """A quantised layer over n rows with scratch and an epilogue, a result in place, a product that threads divide by
    columns, and an image, whose last product has all pixels in one loop."""
    rng = np.random.default_rng(0)
    net = Net(N)
    x = net.input("x", I8, 1, N.expr, 16, 32)
    w = net.const("w", I8, rng.integers(-127, 127, (48, 3, 3, 32)))
    b = net.const("b", I32, rng.integers(-100, 100, (48,)))
    acc = net.op("acc", "conv2d", x, w, b, stride=(1, 1), dilation=(1, 1), pad=(1, 1, 1, 1), pad_value=0, x_offset=0)
    m = net.const("m", I32, rng.integers(1 << 30, (1 << 31) - 1, (48,)))
    s = net.const("s", I32, np.full((48,), -11))
    y = net.op(
        "y", "requantize", acc, m, s, acc_bits=31, hi=127, lo=-128, out="i8", shift_hi=-11, shift_lo=-11, zp=3
    )
    f = net.input("f", F32, N.expr, 256)
    g = net.op("g", "matmul", f, net.const("k", F32, rng.standard_normal((256, 256)) / 16))
    h = net.op("h", "exp", net.op("i", "mul", g, f))
    p = net.op("p", "matmul", f, net.const("l", F32, rng.standard_normal((256, 128)) / 16))
    around = {"stride": (1, 1), "dilation": (1, 1), "pad": (1, 1, 1, 1)}
    z = net.input("z", F32, 1, N.expr, 15, 64)
    taps = net.const("t", F32, rng.standard_normal((3, 3, 64)))
    d = net.op("d", "depthwise_conv2d", z, taps, net.const("v", F32, np.zeros(64)), multiplier=1, **around)
    mix = net.const("q", F32, rng.standard_normal((24, 1, 1, 64)) / 8)
    e = net.op("e", "conv2d", d, mix, net.const("r", F32, np.ones(24)), **{**around, "pad": (0, 0, 0, 0)})
    return net.typed(y, h, p, e)


def planned(threads: int) -> Module:
    passes = (
        Lower(), Fuse(), SimplifyLoops(), ScheduleLoops("+".join(sorted(HOST_ISA)), threads),
        SimplifyLoops(),
        PlanMemory(io="caller", threads=threads),
    )  # fmt: skip
    module = typed()
    for step in passes:
        module = step.run(module)
    return module


def calls(module: Module) -> list[PlanCall]:
    return [s for s in module.plans["main"].body if isinstance(s, PlanCall)]


def numbers(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    return {
        "x": rng.integers(-128, 127, (1, n, 16, 32)).astype(np.int8),
        "f": rng.standard_normal((n, 256)).astype(np.float32),
        "z": rng.standard_normal((1, n, 15, 64)).astype(np.float32),
    }


def pool_library(folder: Path) -> ctypes.CDLL:
    tool, target = get_toolchain("zig"), target_for(load_board("host"))
    source = SourceText("pool.c", (data_dir("c_runtime") / "port/posix/pool.c").read_text(encoding="utf-8"))
    job = CompileJob(source, target, include_dirs=(data_dir("c_runtime") / "include",), flags=WARNINGS, pic=True)
    out = tool.link(LinkJob("shared", (tool.compile(job),), target, libs=("pthread",)), folder / "pool.so")
    return ctypes.CDLL(str(out))


def test_plan_gives_each_thread_its_scratch() -> None:
    one, four = planned(1), planned(4)
    assert all(c.split is None for c in calls(one))
    shared = [c for c in calls(four) if c.split is not None]
    assert {c.callee.split("_")[0] for c in shared} >= {"conv2d", "depthwise", "matmul"}
    divided = {c.args[-1]: c.rows[1] for c in shared if c.rows}
    assert isinstance(divided["p"], int)  # panels
    assert divided["e"] == 15 * N.expr
    assert verify_plan(four, four.plans["main"]) == []
    for call in shared:
        if call.scratch:
            had = one.plans["main"].buffer(call.scratch).type.max_bytes
            assert four.plans["main"].buffer(call.scratch).type.max_bytes >= 4 * had
    check_round_trip(four)


def test_verifier_knows_what_parts_need() -> None:
    module = planned(2)
    plan = module.plans["main"]
    first = next(c for c in calls(module) if c.split is not None and c.scratch)
    assert first.split is not None
    more = replace(first, split=replace(first.split, threads=3))
    finer = replace(first, split=replace(first.split, granule=0))
    for wrong, text in ((more, "bytes of scratch"), (finer, "splits rows by 0")):
        body = tuple(wrong if s is first else s for s in plan.body)
        found = verify_plan(module, replace(plan, body=body))
        assert any(text in d.message for d in found), found


def test_rows_that_read_their_neighbours_are_not_split() -> None:
    module = planned(2)
    conv = next(f for f in module.loops.values() if f.name.startswith("conv2d"))
    assert row_granule(conv) is not None
    assert operations(conv, 1) != 0
    assert row_granule(conv, frozenset({"x"})) is None  # in place, a part would write what its neighbour reads
    assert any(isinstance(n, For) for n in walk(conv.body))


def test_borders_in_loops_of_their_own_are_work_too() -> None:
    net = Net()
    x, w, b = net.input("x", F32, 1, 14, 14, 64), net.input("w", F32, 3, 3, 64), net.input("b", F32, 64)
    y = net.op("y", "depthwise_conv2d", x, w, b, stride=(1, 1), dilation=(1, 1), pad=(1, 1, 1, 1), multiplier=1)
    done = ScheduleLoops("sse2+avx2+fma+avx512f").run(Lower().run(net.typed(y))).loops["depthwise_conv2d"]
    assert "partition" in done.trace
    assert row_granule(done) == 1
    assert int(operations(done, 1)) > 14 * 64 * 9


@pytest.mark.some(1)
@pytest.mark.parametrize("toolchain", ["zig", "gcc"])
def test_any_number_of_threads_gives_the_same_bits(toolchain: str, tmp_path: Path) -> None:
    module = planned(4)
    library = load(files_of(module), tmp_path, toolchain)
    model = CModel(library, "net")
    pool_code = pool_library(tmp_path)
    for n in (96, 1, 7, 33):
        inputs = numbers(n)
        want = run_plan(module, "main", inputs)
        model.record.set_parallel(None, None, 1)
        assert model.run(inputs, (n,)) == 0
        alone = {k: v[: want[k].size].copy() for k, v in model.outputs().items()}
        np.testing.assert_array_equal(alone["y"], want["y"].reshape(-1))
        for name in "hpe":
            np.testing.assert_allclose(alone[name], want[name].reshape(-1), rtol=2e-4, atol=2e-4)
        for threads in (2, 3, 4):
            pool = ctypes.create_string_buffer(1 << 14)
            assert pool_code.sdk_rt_pool_start(pool, threads) == threads
            run = ctypes.cast(pool_code.sdk_rt_pool_run, ctypes.c_void_p)
            assert model.record.set_parallel(run, ctypes.cast(pool, ctypes.c_void_p), threads) == 0
            for _ in range(5):
                assert model.run(inputs, (n,)) == 0
                for name, value in model.outputs().items():
                    np.testing.assert_array_equal(value[: alone[name].size], alone[name], err_msg=f"{name} {threads}")
            pool_code.sdk_rt_pool_stop(pool)
    assert model.record.set_parallel(None, None, 5) == -1


def test_pool_runs_every_index_once(tmp_path: Path) -> None:
    code = pool_library(tmp_path)
    pool = ctypes.create_string_buffer(1 << 14)
    assert code.sdk_rt_pool_start(pool, 3) == 3
    task_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)
    seen: list[tuple[int, int]] = []
    task = task_type(lambda _, index, worker: seen.append((index, worker)))
    for count in (1, 2, 50, 0, 7):
        seen.clear()
        code.sdk_rt_pool_run(pool, count, task, None)
        assert sorted(index for index, _ in seen) == list(range(count))
        assert {worker for _, worker in seen} <= {0, 1, 2}
    code.sdk_rt_pool_stop(pool)
