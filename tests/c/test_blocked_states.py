"""Rings whose rows lie in blocks: builder, graph, plan and C against rows counted one by one."""

from __future__ import annotations

import numpy as np
import pytest

import sdk
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import parse_module, print_module
from sdk.compiler.ops import registry
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.compiler.verify.module import verify
from sdk.errors import BuildError
from sdk.graph import ModuleBuilder, i8, i32

SHAPES = [((4, 3), 0), ((2, 3, 4), 1), ((5, 2), 0), ((2, 3, 5, 4), 1), ((2, 2, 3, 1), 2), ((1, 7, 16), 1)]


def cache(shape: tuple[int, ...], axis: int) -> Module:
    g = ModuleBuilder("cache")
    n, pos = g.dim("n", 1, 9), g.dim("pos", 0, 500)
    state = g.state("kept", i8, shape, init=7, layout="blocked", axis=axis)
    e = g.entry("main")
    e.write(state, e.input("x", i8, (*shape[:axis], *shape[axis + 1 : -1], n)), at=pos)
    e.output("y", e.read(state))
    return g.module()


def planned(module: Module) -> Module:
    return PlanMemory("caller").run(ScheduleLoops("avx2").run(Lower().run(module)))


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_rows_lie_in_their_blocks(shape: tuple[int, ...], axis: int) -> None:
    module = cache(shape, axis)
    assert parse_module(print_module(module), ops=registry) == module
    plan, block, extent = planned(module), shape[-1], shape[axis] * shape[-1]
    states = initial_states(module)
    rng, wanted, pos = np.random.default_rng(extent), np.full(shape, 7, np.int8), 0
    with sdk.compile(module) as compiled:
        for n in (1, 9, 2, 1, 8, 1, 1, 5):
            x = rng.integers(-128, 128, (*shape[:axis], *shape[axis + 1 : -1], n)).astype(np.int8)
            for k in range(n):
                row = (pos + k) % extent
                wanted[(*[slice(None)] * axis, row // block, ..., row % block)] = x[..., k]
            np.testing.assert_array_equal(run_graph(module, "main", {"x": x}, states, {"pos": pos})["y"], wanted)
            np.testing.assert_array_equal(compiled.run("main", {"x": x}, {"pos": pos})["y"], wanted)
            pos += n
    fresh = run_plan(plan, "main", {"x": x}, None, {"pos": 3})["y"]
    np.testing.assert_array_equal(fresh, run_graph(module, "main", {"x": x}, None, {"pos": 3})["y"])


def test_what_is_no_blocked_state() -> None:
    g = ModuleBuilder("m")
    with pytest.raises(BuildError, match="axis 1 of a tensor of rank 2"):
        g.state("s", i32, (4, 8), layout="blocked", axis=1)
    state = g.state("s", i32, (2, 4, 8), layout="blocked", axis=1)
    e = g.entry("main")
    for wrong in ((2, 1, 8), (3, 5), (2, 4, 1)):
        with pytest.raises(BuildError, match="does not fit the state s"):
            e.write(state, e.input(f"x{wrong[0]}{wrong[1]}", i32, wrong), at=0)


@pytest.mark.parametrize(
    ("text", "rows", "message"),
    [
        ("state @s: i8[4, 2] blocked(1) = 0", "[1]", "its axis 1 of blocks is not before the last of 2"),
        ("state @s: i8[4] blocked(0) = 0", "[1]", "its axis 0 of blocks is not before the last of 1"),
        ("state @s<cap in 1..4>: i8[4, cap] blocked(0) = 0", "[1]", "its blocks are of cap rows: a number is needed"),
        ("state @s: i8[4, 0] blocked(0) = 0", "[1]", "its blocks are of 0 rows"),
        ("state @s: i8[0, 4] blocked(0) = 0", "[1]", "a ring has at least one row"),
        ("state @s: i8[2, 4, 4] blocked(0) = 0", "[3, 1]", "rows on axis 0 of state @s"),
        ("state @s: i8[] = 0", "[1]", "written as"),
    ],
)
def test_what_the_verifier_refuses(text: str, rows: str, message: str) -> None:
    body = "graph @main(%x: i8[1]) {\n  write @s[0] = %x\n  return %x\n}\n"
    module = parse_module(f"module m typed\n{text}\n{body.replace('[1]', rows)}", ops=registry)
    found = [str(d) for d in verify(module, registry)]
    assert any(message in line for line in found), found
