"""Every stage of every real model: well formed, its text parses back, and its plan in numpy equals the C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from real import NAMES, STATEFUL

from sdk.boards import load_board
from sdk.compiler import ops
from sdk.compiler.interp.plan import initial_states, run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import collect_blobs, parse_module, print_module
from sdk.compiler.passes.base import Pass
from sdk.compiler.verify.module import verify
from sdk.compiler.verify.plan import verify_plan
from sdk.driver import BuildOptions
from sdk.driver.execute import connect, step
from sdk.driver.pipeline import default_passes, import_model, lower_module
from sdk.driver.reference import entry_graph, random_inputs

pytestmark = pytest.mark.models
OPTIONS = BuildOptions()


def check(name: str, module: Module) -> None:
    assert not verify(module, ops), name
    assert not [d for plan in module.plans.values() for d in verify_plan(module, plan)], name
    text = print_module(module)
    assert parse_module(text, collect_blobs(module), ops) == module, name


@pytest.mark.parametrize("board", ["host", "qemu-cortex-m4", "qemu-cortex-m3"])
@pytest.mark.parametrize("name", NAMES)
def test_every_pass_leaves_a_sound_module_that_parses_back(models: Path, name: str, board: str) -> None:
    module = import_model(models / NAMES[name], OPTIONS, name)
    check("import", module)

    def observe(step: Pass, after: Module) -> None:
        check(step.name, after)

    lower_module(module, default_passes(load_board(board), OPTIONS), observe)


@pytest.mark.parametrize("name", NAMES)
def test_plan_in_numpy_equals_the_c(models: Path, name: str) -> None:
    board = load_board("host")
    module = import_model(models / NAMES[name], OPTIONS, name)
    graph = entry_graph(module)
    planned = lower_module(module, default_passes(board, OPTIONS))
    states = initial_states(planned, "main") if planned.states else None
    assert (states is not None) == (name in STATEFUL)
    session, built, _ = connect(models / NAMES[name], board, None, OPTIONS)
    rng = np.random.default_rng(4)
    with session:
        for _ in range(2):
            inputs = random_inputs(graph, rng, {})
            want = run_plan(planned, "main", inputs, states)
            got, _, _ = step(session, built, inputs, {})
            for output, value in want.items():
                np.testing.assert_array_equal(got[output].reshape(value.shape), value)
