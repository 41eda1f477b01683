"""The plan of every real model in numpy equals the C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from real import NAMES, STATEFUL

from sdk.boards import load_board
from sdk.compiler.interp.plan import initial_states, run_plan
from sdk.driver import BuildOptions
from sdk.driver.execute import connect, step
from sdk.driver.pipeline import default_passes, import_model, lower_module
from sdk.driver.reference import entry_graph, random_inputs

pytestmark = pytest.mark.models
OPTIONS = BuildOptions()


@pytest.mark.some(5)
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
