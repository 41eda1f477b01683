"""Several entries in one module: shared constants, states and one arena, with and without dims."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_model import CModel, Net, files_of, load

from sdk.compiler.interp.plan import initial_states, run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import F32
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.sym import Var
from sdk.compiler.verify.plan import verify_plan

N = Var("n", 1, 12)
WEIGHTS = np.arange(20).reshape(5, 4) / 8 - 1


def two_entries(offsets: str = "fixed") -> Module:
    """``absorb`` adds the column sums of n rows to a state, ``answer`` multiplies the state by one row."""
    absorb = Net(N)
    x = absorb.input("x", F32, N.expr, 5)
    w = absorb.const("w", F32, WEIGHTS)
    y = absorb.op("y", "matmul", x, w)
    absorb.write("total", absorb.op("t", "add", absorb.read("total", F32, (1, 4), 0), absorb.op(
        "s", "reduce_sum", y, axes=(0,))))
    answer = Net()
    row = answer.input("row", F32, 1, 5)
    answer.const("w", F32, WEIGHTS)
    z = answer.op("z", "matmul", row, w)
    out = answer.op("o", "mul", z, answer.read("total", F32, (1, 4), 0))
    first, second = absorb.typed(y), answer.typed(out)
    graphs = {
        "absorb": replace(first.graphs["main"], name="absorb"),
        "answer": replace(second.graphs["main"], name="answer"),
    }
    module = replace(first, graphs=graphs)
    return PlanMemory(io="caller", offsets=offsets).run(Lower().run(module))


@pytest.mark.parametrize(("offsets", "toolchain"), [("fixed", "zig"), ("scaled", "zig"), ("scaled", "gcc")])
def test_entries_share_states_constants_and_arena(offsets: str, toolchain: str, tmp_path: Path) -> None:
    module = two_entries(offsets)
    assert all(verify_plan(module, plan) == [] for plan in module.plans.values())
    files = files_of(module)
    assert str(files["net_weights.c"]).count("net_w_w[20] = {") == 1
    library = load(files, tmp_path, toolchain)
    absorb, answer = CModel(library, "net_absorb"), CModel(library, "net_answer")
    assert absorb.record.arena_bytes == answer.record.arena_bytes
    states = initial_states(module, "absorb")
    rng = np.random.default_rng(0)
    for n in (12, 1, 5):
        x = {"x": rng.standard_normal((n, 5)).astype(np.float32)}
        row = {"row": rng.standard_normal((1, 5)).astype(np.float32)}
        y = run_plan(module, "absorb", x, states)["y"]
        o = run_plan(module, "answer", row, states)["o"]
        assert absorb.run(x, (n,)) == 0
        assert answer.run(row) == 0
        np.testing.assert_allclose(absorb.outputs()["y"][: y.size], y.reshape(-1), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(answer.outputs()["o"], o.reshape(-1), rtol=1e-5, atol=1e-5)
    assert absorb.record.reset() == 0
    assert answer.run(row) == 0
    np.testing.assert_array_equal(answer.outputs()["o"], np.zeros(4, np.float32))
