"""Every operator on real numbers in a file of its own, against LiteRT: as imported, and as C for this machine."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from real_cases import CASES as LASTING
from real_cases import HYBRID
from recurrent_cases import AS_C, RECURRENT
from stablehlo_cases import RARE

from sdk.boards import load_board
from sdk.compiler import ops
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.verify.module import check
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.frontends.base import ModelFile
from sdk.frontends.tflite import FRONTEND
from sdk.frontends.tflite.engine import LiteRt
from sdk.frontends.tflite.importer import import_tflite
from sdk.frontends.tflite.operators.real import TABLE

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "passes"))
from as_c import Library, close

Array = np.ndarray
BOUND = 2e-6  # of the largest number of an output, or of 1
# Layers that store their state in 8 bits at each step: a last bit of the hyperbolic tangent, in which the libraries of
# machines differ, takes a number to the next step.
STORED, STORED_BOUND = ("hybrid sequence", "hybrid two-way"), 1e-3
DRAWS = 3
CASES = {**LASTING, **RECURRENT, **RARE}
BOARD, OPTIONS = load_board("host"), BuildOptions()
# In C all run in `make soak`; of others the first case of each operator.
FIRST = [*HYBRID, *AS_C, *{case.op: name for name, case in reversed(CASES.items())}.values()]


@cache
def imported(name: str) -> Module:
    return import_tflite(CASES[name].data(), "model")


@cache
def wanted(name: str) -> list[tuple[dict[str, Array], dict[str, Array]]]:
    """Inputs by name, and what LiteRT makes of them."""
    case, graph = CASES[name], imported(name).graphs["main"]
    engine = LiteRt(ModelFile(Path("model.tflite"), case.data(), FRONTEND), graph)
    found = []
    for seed in range(DRAWS):
        drawn = case.draw(np.random.default_rng(seed))
        given = {p.name: a for p, a in zip(graph.params, drawn, strict=True)}
        found.append((given, engine.step(given, {})))
    return found


def bound(name: str) -> float:
    return STORED_BOUND if name.startswith(STORED) else BOUND


def test_every_operator_has_a_case() -> None:
    assert sorted(set(TABLE) - {case.op for case in CASES.values()}) == []


@pytest.mark.parametrize("name", CASES)
def test_as_imported(name: str) -> None:
    module = imported(name)
    check(module, ops)
    states = initial_states(module)
    for given, want in wanted(name):
        got = run_graph(module, "main", given, states)
        assert list(got) == list(want)
        for k, a in want.items():
            close(np.asarray(got[k]), a, name, bound(name))
    distinct = {b"".join(a.tobytes() for a in want.values()) for _, want in wanted(name)}
    assert len(distinct) > 1 or not imported(name).graphs["main"].body, "every input gave the same output"


def _run_as_c(names: list[str], folder: Path) -> None:
    modules = {f"m{k}": lower_module(imported(n), default_passes(BOARD, OPTIONS)) for k, n in enumerate(names)}
    library = Library(modules, folder)
    for (prefix, module), name in zip(modules.items(), names, strict=True):
        steps = wanted(name)
        found = library.runs(prefix, module, [given for given, _ in steps], {})
        for got, (_, want) in zip(found, steps, strict=True):
            for a, b in zip(want.values(), got.values(), strict=True):
                close(b, a, f"{name} as C", bound(name))


def test_as_c(tmp_path: Path) -> None:
    _run_as_c([n for n in FIRST if imported(n).graphs["main"].params], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_all_as_c(part: int, tmp_path: Path) -> None:
    names = [n for n in CASES if imported(n).graphs["main"].params]
    _run_as_c(names[part::4], tmp_path)
