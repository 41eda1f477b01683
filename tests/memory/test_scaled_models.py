"""The arena of real models with open sizes: what the closed form says, beside the live set, at all dims."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from plan_bytes import Grid, arena, live_set, llama, points, random_dims, stacked

from sdk.boards import load_board
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.frontends.onnx.importer import import_onnx

sys.path.insert(0, str(Path(__file__).parents[1]))

BOUNDS = {"seq": (1, 256)}
BOTH = {"batch": (1, 4), "seq": (1, 256)}
MAX_RATIO = 1.10
CASES = ["encoder", "encoder_batch", "decoder", "decoder32"]


@lru_cache(maxsize=8)
def planned(name: str, threads: int = 1) -> Module:
    options = BuildOptions(threads=threads)
    if name.startswith("decoder"):
        module = llama().build(llama().Config(layers=int(name[7:] or 2)))
    else:
        pytest.importorskip("torch")
        from zoo.export import path_of

        module = import_onnx(path_of(name), name, dims=BOTH if name.endswith("batch") else BOUNDS)
    return lower_module(module, default_passes(load_board("host"), options))


def near_the_live_set(plan: Plan) -> Grid:
    """The arena at the bounds and 20 points between, which is checked to be near the live set."""
    at = points(random_dims(plan, 20))
    need, live = arena(plan, at), live_set(plan, at)
    assert (live <= need).all()
    assert (need <= MAX_RATIO * live).all(), (need / live).max()
    return need


@pytest.mark.some(2)
@pytest.mark.parametrize("name", CASES)
def test_arena_follows_the_live_set(name: str) -> None:
    for plan in planned(name).plans.values():
        need = near_the_live_set(plan)
        assert (need == stacked(plan, points(random_dims(plan, 20)), plan.region("arena").align)).all()


@pytest.mark.parametrize("name", ["encoder_batch", "decoder"])
def test_scratch_of_threads_is_in_it(name: str) -> None:
    alone, shared = planned(name).plans, planned(name, threads=4).plans
    more = []
    for entry, plan in shared.items():
        assert any(b.role == "scratch" and b.region == "arena" for b in plan.buffers)
        more.append(near_the_live_set(plan) - near_the_live_set(alone[entry]))
    assert np.concatenate(more).max() > 0


def test_layers_do_not_add_to_the_arena() -> None:
    two, many = planned("decoder").plans, planned("decoder32").plans
    for name, plan in two.items():
        at = random_dims(plan, 20)
        assert (arena(many[name], points(at)) <= 1.02 * arena(plan, points(at))).all()


def test_entries_share_one_arena_and_the_states() -> None:
    module = planned("decoder", threads=4)
    prefill, decode = module.plans["prefill"], module.plans["decode"]
    for name in module.states:
        assert prefill.buffer(name).offset == decode.buffer(name).offset
    assert prefill.region("state").bytes == decode.region("state").bytes
    for plan in (prefill, decode):
        assert [r.name for r in plan.regions if r.kind == "arena"] == ["arena"]
        assert 0 in [b.offset for b in plan.buffers if b.region == "arena"]
