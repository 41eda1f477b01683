"""Random graphs with symbolic shapes: the graph, what passes make of it, its plan and its C agree at random dims."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest
from as_c import FLOATS, HALVES, Library, agree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import random_arrays, random_dims, random_module

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import F16
from sdk.compiler.passes.pipeline import parse_pipeline, run_pipeline
from sdk.compiler.verify.module import check
from sdk.compiler.verify.plan import check_plan
from tests.ir.round_trip import check_round_trip

PIPELINE = (
    "inline,fold,fold-pad,canonicalize,cleanup,lower,fuse,simplify-loops,schedule{{isa={isa}}},simplify-loops,cleanup,"
    "memory-aware-scheduling"
)
ISAS = ("", "avx2", "avx512vnni.avx512bw.avx512vl.avx2", "dsp")
PER_LIBRARY = 20


def near(module: Module) -> float:
    """How near results must be."""
    return HALVES if any(v.type.dtype == F16 for v in module.graphs["main"].values()) else FLOATS


def planned(seed: int, isa: str, observe: bool = False) -> tuple[Module, Module]:
    """A random module and its plan, verified; with ``observe``, every step keeps the results."""
    module = random_module(seed)
    check(module, ops)
    env = random_dims(module.graphs["main"], Random(seed))
    inputs = random_arrays(module.graphs["main"], env, seed)
    want = run_graph(module, "main", inputs)
    done = module
    for step in parse_pipeline(PIPELINE.format(isa=isa)):
        done = step.run(done)
        if observe:
            check(done, ops)
            agree(run_graph(done, "main", inputs), want, f"seed {seed} after {step.name}", near(module))
    plans = []
    for options in (f"io={('arena', 'caller')[seed % 2]}", *(["align=64,offsets=scaled"] if seed % 4 == 0 else [])):
        plans.append(run_pipeline(done, parse_pipeline(f"plan-memory{{{options}}}")))
        check(plans[-1], ops)
        for plan in plans[-1].plans.values():
            check_plan(plans[-1], plan)
        agree(run_plan(plans[-1], "main", inputs), want, f"seed {seed}, plan, {options}", near(module))
    return module, plans[0]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 24), st.sampled_from(("", "avx2", "dsp")))
def test_every_pass_keeps_the_results(seed: int, isa: str) -> None:
    planned(seed, isa, observe=True)


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 24))
def test_the_text_of_graphs_and_plans_reads_back(seed: int) -> None:
    for module in planned(seed, "avx2"):
        check_round_trip(module)


# --- as C --------------------------------------------------------------------------------------------------------


def run_as_c(seeds: range, folder: Path, points: int = 2) -> None:
    modules = {f"g{seed}": planned(seed, ISAS[1] if seed % 3 else "") for seed in seeds}
    library = Library({prefix: done for prefix, (_, done) in modules.items()}, folder)
    for seed, (prefix, (module, done)) in zip(seeds, modules.items(), strict=True):
        rng = Random(seed)
        for point in range(points):
            env = random_dims(module.graphs["main"], rng)
            inputs = random_arrays(module.graphs["main"], env, seed + point)
            want = run_graph(module, "main", inputs)
            got = library.run(prefix, done, inputs, {v.name: n for v, n in env.items()})
            agree(got, want, f"seed {seed} as C at {env}", near(module))


@pytest.mark.some(3)
@pytest.mark.parametrize("batch", range(5))
@pytest.mark.skipif(sys.platform != "linux", reason="loads a shared library of this machine")
def test_c_agrees(batch: int, tmp_path: Path) -> None:
    run_as_c(range(batch * PER_LIBRARY, (batch + 1) * PER_LIBRARY), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(90))
def test_c_agrees_on_many(batch: int, tmp_path: Path) -> None:
    run_as_c(range(1000 + batch * PER_LIBRARY, 1000 + (batch + 1) * PER_LIBRARY), tmp_path, points=4)
