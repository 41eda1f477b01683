"""The plan verifier against wrong plans: each fault that changes a result or a state is found, whatever its kind.

A fault that is not found must be none: by brute force on bytes the plan still computes the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from byte_oracle import Result, outcome
from mutations import KINDS, Mutant, mutants
from sound_plans import SOUND, Planned
from test_streams import laid_out, random_cut, random_net, streams_of

from sdk.compiler.memory.dims_of_run import complete, some_run
from sdk.compiler.memory.scratch import ScratchLayout, scratch_layout
from sdk.compiler.sym import Var
from sdk.compiler.verify.plan import verify_plan
from sdk.compiler.verify.plan_scratch import clashes

ALWAYS = ("rings", "roles", "lower_bounds", "scratch", "repeats", "dims")  # no mutant of these is sound

SAMPLE = 120  # faults of a plan that are tried in a usual run; a long one tries all

Runs = list[tuple[dict[Var, int], Result]]


@cache
def plan_of(name: str) -> Planned:
    return SOUND[name]()


@cache
def runs_of(name: str) -> Runs:
    """Some dims, with what the plan computes there."""
    module, plan = plan_of(name)
    rng = Random(1)
    corners = [{v: v.maximum for v in plan.dims}, {v: v.minimum for v in plan.dims}]
    found = [complete(plan, {**c, **{v: v.minimum for v in plan.fresh}}) for c in corners]
    envs = [e for e in (*found, *(some_run(plan, rng) for _ in range(3))) if e is not None]
    return [(env, outcome(module, plan, plan, env)) for env in (envs if plan.dims else envs[:1])]


def harmful(name: str, mutant: Mutant, ordered: bool = True) -> bool:
    """Whether a run of the mutant ends in another way than that of the sound plan; not ``ordered``, or could do so if
    calls did not run statement by statement."""
    sound = plan_of(name)[1]
    return any(
        outcome(mutant.module, mutant.plan, sound, env, seed, ordered) != wanted
        for env, wanted in runs_of(name)
        for seed in (0, 7)
    )


@pytest.mark.some(8)
@pytest.mark.parametrize("name", sorted(SOUND))
def test_sound_plans_have_no_findings(name: str) -> None:
    module, plan = plan_of(name)
    assert verify_plan(module, plan) == []
    assert runs_of(name)
    for env, wanted in runs_of(name):
        assert not isinstance(wanted, str)
        assert outcome(module, plan, plan, env, seed=5) == wanted, "it reads what nothing wrote"


def missed(name: str, every: list[Mutant]) -> list[str]:
    """The faults that change something and are not found."""
    found = (m for m in every if verify_plan(m.module, m.plan) == [] and harmful(name, m))
    return [f"{m.kind}: {m.text}" for m in found]


@pytest.mark.some(8)
@pytest.mark.parametrize("name", sorted(SOUND))
def test_harmful_faults_are_found(name: str) -> None:
    every = list(mutants(*plan_of(name)))
    assert missed(name, Random(0).sample(every, min(len(every), SAMPLE))) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SOUND))
def test_every_harmful_fault_is_found(name: str) -> None:
    assert missed(name, list(mutants(*plan_of(name)))) == []


@pytest.mark.parametrize("name", sorted(SOUND))
def test_faults_of_these_kinds_are_always_found(name: str) -> None:
    module, plan = plan_of(name)
    every = list(mutants(module, plan, ALWAYS))
    sample = Random(0).sample(every, min(len(every), SAMPLE // 2))
    found = (m for m in sample if verify_plan(m.module, m.plan) == [])
    assert [f"{m.kind}: {m.text}" for m in found if m.kind != "rings" or harmful(name, m)] == []


@pytest.mark.parametrize("seed", range(6))
def test_every_harmful_fault_of_random_streams_is_found(seed: int) -> None:
    rng = Random(seed)
    module, _ = random_net(rng)
    planned = laid_out(module, random_cut(streams_of(module, 4), rng), align=4)
    plan = planned.plans["main"]
    wanted = outcome(planned, plan, plan, {})
    assert verify_plan(planned, plan) == []
    assert wanted == outcome(planned, plan, plan, {}, seed=5)
    every = list(mutants(planned, plan))
    sample = rng.sample(every, min(len(every), SAMPLE // 3))
    found = (m for m in sample if verify_plan(m.module, m.plan) == [])
    assert [f"{m.kind}: {m.text}" for m in found if outcome(m.module, m.plan, plan, {}, 7, True) != wanted] == []


@pytest.mark.parametrize("name", ["residual", "stateful", "feed", "stream", "nested"])
def test_buffers_moved_where_nothing_is_in_use_are_fine(name: str) -> None:
    """No false alarms: what the verifier refuses computes something else."""
    every = list(mutants(*plan_of(name), ("overlap",)))
    for mutant in Random(0).sample(every, min(len(every), SAMPLE // 2)):
        if verify_plan(mutant.module, mutant.plan):
            assert harmful(name, mutant, ordered=False), mutant.text


def test_every_kind_is_injected() -> None:
    """By kind, how many faults there are over all plans."""
    kinds = {m.kind for name in SOUND for m in mutants(*plan_of(name))}
    assert kinds == set(KINDS)


def test_scratch_of_one_call_that_overlaps() -> None:
    module, _plan = plan_of("scratch")
    function = next(f for f in module.loops.values() if len(scratch_layout(f).offsets) > 1)
    layout = scratch_layout(function)
    assert clashes(function, layout) == ()
    for wrong in _wrong(layout):
        assert clashes(function, wrong), wrong


def _wrong(layout: ScratchLayout) -> Iterator[ScratchLayout]:
    first, second = list(layout.offsets)[:2]
    yield replace(layout, offsets={**layout.offsets, first: layout.offsets[second]})
    yield replace(layout, offsets={**layout.offsets, second: layout.offsets[second] + 1})
    yield replace(layout, bytes=layout.bytes - 1)


def test_states_have_one_place_in_all_entries() -> None:
    module, plan = plan_of("feed")
    moved = replace(
        plan,
        buffers=tuple(replace(b, offset=b.offset + 64) if b.region == "state" else b for b in plan.buffers),
    )
    roomy = replace(
        moved, regions=tuple(replace(r, bytes=1 << 10) if r.kind == "state" else r for r in plan.regions)
    )
    both = replace(module, plans={"main": roomy, "other": replace(plan, name="other")})
    assert any("in entry @other" in d.message for d in verify_plan(both, roomy))
