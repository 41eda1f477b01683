"""Calls as rows of tables: a loop runs them, kernels that several of them share take what differs from their rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_model import OPTIONS, CModel, Net, check, files_of, load

from sdk.codegen_c.program.steps import by_steps, runs_of
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import F32
from sdk.compiler.passes.merge_functions import MergeFunctions

SMALL = replace(OPTIONS, small=True)


def chain(io: str = "arena") -> Module:
    """Five products, three of them with one right operand each and the same shapes."""
    net = Net()
    rng = np.random.default_rng(1)
    value = net.input("x", F32, 3, 4)
    for k, n in enumerate((4, 4, 4, 6, 5)):
        weights = net.const(f"w{k}", F32, rng.integers(-4, 4, (value.type.shape[1], n)))
        value = net.op(f"y{k}", "matmul", value, weights)
    return MergeFunctions().run(net.planned(value, io=io))


@pytest.mark.parametrize("toolchain", ["zig", "gcc"])
def test_a_loop_runs_calls_by_their_rows(toolchain: str, tmp_path: Path) -> None:
    module = chain()
    assert [len(run) for run in runs_of(module.plans["main"])] == [5]
    files = files_of(module, options=SMALL)
    assert "net_steps_0" in files["net.c"]
    assert "switch (net_steps_0[k].kernel)" in files["net.c"]
    assert ": matmul y4 */" in files["net.c"]
    model = CModel(load(files, tmp_path, toolchain), "net")
    for seed in range(3):
        x = {"x": np.random.default_rng(seed).integers(-3, 4, (3, 4)).astype(np.float32)}
        check(model, x, run_plan(module, "main", x))


def test_a_function_that_reads_a_constant_once_and_the_arena_later_stays_calls() -> None:
    net = Net()
    value = net.const("start", F32, np.ones((3, 4), np.float32))
    other = net.input("x", F32, 3, 4)
    for k in range(6):
        value = net.op(f"y{k}", "add", value, other)
    module = MergeFunctions().run(net.planned(value, io="arena"))
    assert [len(run) for run in runs_of(module.plans["main"])] == [6]
    assert not by_steps(module)
    assert "_steps_" not in files_of(module, options=SMALL)["net.c"]


def test_what_only_a_run_knows_stays_a_call() -> None:
    module = chain("caller")
    first, *_, last = [s for s in module.plans["main"].body if hasattr(s, "callee")]
    inside = {c.index for run in runs_of(module.plans["main"]) for c in run}
    assert not {first.index, last.index} & inside
    assert not by_steps(module)  # three calls are not worth a loop
    assert "_steps_" not in files_of(module, options=SMALL)["net.c"]


def test_other_boards_keep_their_calls() -> None:
    assert "_steps_" not in files_of(chain())["net.c"]
