"""The plan verifier is checked by faults: every kind of wrong plan, injected at every place, is reported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from memory_nets import Net
from mutations import with_buffer, with_region
from sound_plans import Planned, dynamic, planned, residual, stateful

from sdk.compiler.ir.layout import Layout, Tile
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, Plan, PlanBuffer, PlanCall, Wait
from sdk.compiler.memory import planner
from sdk.compiler.memory.report import plan_summary
from sdk.compiler.sym import Var
from sdk.compiler.verify import plan as plan_verifier
from sdk.compiler.verify.plan import check_plan, verify_plan
from sdk.errors import BuildError

NETS = {"residual": residual, "stateful": stateful, "dynamic": dynamic}


@pytest.fixture(params=sorted(NETS))
def sound(request: pytest.FixtureRequest) -> Planned:
    module, plan = NETS[request.param]()
    assert verify_plan(module, plan) == []
    check_plan(module, plan)
    return module, plan


def faulty(module: Module, plan: Plan) -> list[str]:
    """The messages for a plan, which must be wrong."""
    found = verify_plan(module, plan)
    assert found, plan
    with pytest.raises(BuildError, match="the plan of entry @main is wrong"):
        check_plan(module, plan)
    return [d.message for d in found]


def in_arena(plan: Plan) -> Iterator[PlanBuffer]:
    return (b for b in plan.buffers if b.region == "arena")


def test_every_overlap_of_live_tensors(sound: Planned) -> None:
    module, plan = sound
    tensors = plan_summary(module, plan).at_peak
    timeline = plan_summary(module, plan)
    assert len(tensors) >= 2
    big = with_region(plan, "arena", bytes=1 << 16)
    count = 0
    for a in tensors:
        for b in tensors:
            if a is b:
                continue
            for shift in (0, a.bytes - 4 if a.bytes > 4 else 0):
                at = plan.buffer(a.names[0]).offset + shift - shift % 4
                moved = big
                for name in b.names:
                    moved = with_buffer(moved, name, offset=at)
                faulty(module, moved)
                count += 1
    assert count >= 4
    assert timeline.peak >= timeline.lower_bound


def test_buffer_that_leaves_those_it_shares_with(sound: Planned) -> None:
    module, plan = sound
    big = with_region(with_region(plan, "arena", bytes=1 << 16), "state", bytes=1 << 16)
    written = {name for s in plan.body for name in (s.args if isinstance(s, PlanCall) else (s.dst,))}
    for buffer in plan.buffers:
        is_view = buffer.alias and buffer.name not in {*_outputs(module, plan)}
        if buffer.region in ("arena", "state") and is_view and buffer.name in written:
            faulty(module, with_buffer(big, buffer.name, offset=1 << 15))


def _outputs(module: Module, plan: Plan) -> Iterator[str]:
    """What calls and copies write."""
    for stmt in plan.body:
        if isinstance(stmt, Copy):
            yield stmt.dst
        elif isinstance(stmt, PlanCall):
            params = module.loops[stmt.callee].params
            yield from (n for n, p in zip(stmt.args, params, strict=True) if p.mode == "write")


def test_every_missing_alias(sound: Planned) -> None:
    module, plan = sound
    shared = [b for b in plan.buffers if b.alias]
    assert shared
    for buffer in shared:
        faulty(module, with_buffer(plan, buffer.name, alias=""))


def test_every_wrong_order(sound: Planned) -> None:
    module, plan = sound
    for k in range(len(plan.body) - 1):
        a, b = plan.body[k : k + 2]
        if isinstance(a, PlanCall) and isinstance(b, PlanCall) and a.args[-1] in b.args:
            faulty(module, replace(plan, body=(*plan.body[:k], b, a, *plan.body[k + 2 :])))


def test_every_missing_statement(sound: Planned) -> None:
    module, plan = sound
    for k in range(len(plan.body)):
        faulty(module, replace(plan, body=(*plan.body[:k], *plan.body[k + 1 :])))


def test_every_short_range_of_rows(sound: Planned) -> None:
    module, plan = sound
    for k, stmt in enumerate(plan.body):
        if isinstance(stmt, PlanCall) and stmt.rows is not None:
            lo, hi = stmt.rows
            for rows in ((lo, hi - 1), (lo + 1, hi), (lo, hi + 1)):
                faulty(
                    module,
                    replace(plan, body=(*plan.body[:k], replace(stmt, rows=rows), *plan.body[k + 1 :])),
                )


def test_wrong_bounds(sound: Planned) -> None:
    module, plan = sound
    top = max(in_arena(plan), key=lambda b: b.offset + b.type.max_bytes)
    end = top.offset + top.type.max_bytes
    assert any("leave region arena" in m for m in faulty(module, with_region(plan, "arena", bytes=end - 1)))
    assert any("leave region arena" in m for m in faulty(module, with_buffer(plan, top.name, offset=1 << 20)))
    assert any("negative" in m for m in faulty(module, with_buffer(plan, top.name, offset=-16)))


def test_constants_stored_otherwise_than_read() -> None:
    module, plan = residual()
    call = next(c for c in plan.body if isinstance(c, PlanCall) and c.callee.startswith("dense"))
    function, layout = module.loops[call.callee], Layout((Tile(1, 4),))
    k = next(k for k, name in enumerate(call.args) if name in module.consts)
    params = [replace(p, layout=layout) if k == i else p for i, p in enumerate(function.params)]
    loops = {**module.loops, call.callee: replace(function, params=tuple(params))}
    const = replace(module.consts[call.args[k]], layout=layout)
    assert verify_plan(replace(module, loops=loops).with_consts(const), plan) == []
    assert any("is stored as row-major, " in m for m in faulty(replace(module, loops=loops), plan))
    other = replace(const, layout=Layout((Tile(0, 4),)))
    found = faulty(replace(module, loops=loops).with_consts(other), plan)
    assert [m for m in found if m.endswith(f"{params[k].buffer.name} is read as tile(1, 4)")]


def test_misaligned(sound: Planned) -> None:
    module, plan = sound
    wide = [b for b in in_arena(plan) if b.type.dtype.nbytes == 4]
    assert wide
    big = with_region(plan, "arena", bytes=1 << 16)
    for b in wide:
        messages = faulty(module, with_buffer(big, b.name, offset=b.offset + 2))
        assert any("not aligned to 4" in m for m in messages)
    assert any("aligned" in m for m in faulty(module, with_region(plan, "arena", align=2)))


def test_names_and_regions(sound: Planned) -> None:
    module, plan = sound
    first = next(in_arena(plan))
    assert faulty(module, replace(plan, buffers=(*plan.buffers, first))) == [
        f"buffer {first.name} is declared 2 times"
    ]
    assert any("nowhere" in m for m in faulty(module, with_buffer(plan, first.name, region="nowhere")))
    assert any("nothing" in m for m in faulty(module, with_buffer(plan, first.name, alias="nothing")))
    assert any("in a circle" in m for m in faulty(module, with_buffer(plan, first.name, alias=first.name)))
    assert any("nowhere" in m for m in faulty(module, replace(plan, outputs=("nowhere",))))
    assert any("did not start" in m for m in faulty(module, replace(plan, body=(Wait(0), *plan.body))))


def test_calls_that_do_not_fit(sound: Planned) -> None:
    module, plan = sound
    k, call = next((k, s) for k, s in enumerate(plan.body) if isinstance(s, PlanCall))

    def changed(**changes: object) -> list[str]:
        return faulty(
            module, replace(plan, body=(*plan.body[:k], replace(call, **changes), *plan.body[k + 1 :]))
        )

    assert any("takes" in m for m in changed(args=call.args[1:]))
    assert any("which the module lacks" in m for m in changed(callee="missing"))
    assert any("like" in m for m in changed(rows=None))
    assert any("not declared" in m for m in changed(args=(*call.args[:-1], "nowhere")))
    assert changed(args=(*call.args[:-1], call.args[1]))
    swapped = (call.args[-1], *call.args[1:-1], call.args[0])
    assert changed(args=swapped)


def test_states_must_end_with_their_newest_value() -> None:
    module, plan = stateful()
    copy = next(s for s in plan.body if isinstance(s, Copy))
    assert any(
        "t_new" in m for m in faulty(module, replace(plan, body=tuple(s for s in plan.body if s is not copy)))
    )
    moved = with_buffer(plan, "t_new", offset=plan.buffer("s").offset)
    assert faulty(module, moved)


def test_size_that_peaks_inside_the_box() -> None:
    """n*(16 - n) is 64 at n = 8 and smaller at both ends: planned for an end, it does not fit."""
    n = Var("n", 1, 15)
    net = Net()
    net.dims = (n,)
    x = net.input("x", n.expr, 16 - n.expr)
    module, plan = planned(net, net.op("relu", x))
    assert plan.region("arena").bytes == 64
    assert verify_plan(module, plan) == []
    assert any("leave region" in m for m in faulty(module, with_region(plan, "arena", bytes=15)))


def test_it_shares_nothing_with_the_planner() -> None:
    """Of the planner's folder, the verifier uses what reads plans and functions, and nothing that chooses places or
    lifetimes."""
    memory, verify = Path(planner.__file__).parent.parent, Path(plan_verifier.__file__).parent
    allowed = {"dims_of_run", "effects", "inplace", "placed", "rings", "scratch"}
    for path in (*verify.glob("*.py"), *(memory / f"{n}.py" for n in allowed - {"scratch"})):
        found = set(re.findall(r"from sdk\.compiler\.memory\.(\w+)", path.read_text(encoding="utf-8")))
        assert found <= allowed, path.name
    files = [*memory.rglob("*.py"), *verify.glob("*.py")]
    readers = {p.stem for p in files if "memory.placed import" in p.read_text(encoding="utf-8")}
    assert readers == {"plan_simulate", "plan_tags", "trace"}, "nothing that plans reads plans with a verifier's eyes"
