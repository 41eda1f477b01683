"""Graphs that are called repeatedly: as graphs, plans, unrolled, and as C, one after the other and side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from c_model import CModel, files_of, load

from sdk.compiler.interp import plan as planned
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, Plan, Repeat
from sdk.compiler.ir.text import collect_blobs, parse_module, print_module
from sdk.compiler.memory.storage import Io
from sdk.compiler.ops import registry
from sdk.compiler.passes.cleanup import Cleanup
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.memory_aware_scheduling import MemoryAwareScheduling
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.compiler.passes.unroll_repeats import UnrollRepeats
from sdk.compiler.verify.module import verify
from sdk.compiler.verify.plan import verify_plan
from sdk.errors import BuildError
from sdk.graph import Entry, ModuleBuilder, Tensor, f32, i32
from tests.ir.round_trip import check_round_trip

ROWS, WIDTH = 3, 4
RNG = np.random.default_rng(5)


def bodies(name: str, b: ModuleBuilder, p: Entry, x: Tensor, iterations: int) -> Tensor:
    """What an iteration makes of x, in ways in which results lie in, over and beside it."""
    if name == "itself":
        return x
    scale = b.stack(f"{p.name}_scale", [RNG.normal(size=(WIDTH,)).astype(np.float32) for _ in range(iterations)])
    if name == "in place":
        return x * scale + 0.5
    if name == "a view":
        return p.call("reshape", p.call("reshape", x * scale, shape=(ROWS * WIDTH,)), shape=(ROWS, WIDTH))
    w = b.stack(f"{p.name}_w", [RNG.normal(size=(WIDTH, WIDTH)).astype(np.float32) for _ in range(iterations)])
    if name == "beside":
        return x @ w
    if name == "read to the end":
        return p.call("matmul", x @ w, p.call("reshape", x, shape=(WIDTH, ROWS))) @ x
    start = b.const(f"{p.name}_start", RNG.normal(size=(2, WIDTH)).astype(np.float32))
    total = b.state(f"{p.name}_total", f32, (ROWS, WIDTH), init=2, iterations=iterations)
    ring = b.state(f"{p.name}_ring", f32, (2, WIDTH), init=start, layout="ring", iterations=iterations)
    zero = b.state(f"{p.name}_zero", i32, (1,), iterations=iterations)
    p.write(total, p.read(total) + x * scale)
    p.write(ring, p.call("slice", x, begin=(1, 0), size=(1, WIDTH), strides=(1, 1)), at=3)
    p.write(zero, p.read(zero) + 1)
    held = p.call("reduce_sum", p.read(ring), axes=(0,)) + p.cast(p.read(zero), to=f32)
    return p.read(total) * 0.5 + p.call("tanh", x @ w + held)


BODIES = ("itself", "in place", "a view", "beside", "read to the end", "states")


def part(b: ModuleBuilder, kind: str, name: str, iterations: int, others: int = 0) -> Entry:
    p = b.part(name, iterations)
    x = p.input("x", f32, (ROWS, WIDTH))
    more = [p.input(f"other{k}", f32, (ROWS, WIDTH)) for k in range(others)]
    y = bodies(kind, b, p, x, iterations)
    for one in more:
        y = y + one
    p.output("y", y)
    return p


def net(kind: str, iterations: int) -> Module:
    """One after another, side by side, of an input, of what is used afterwards, and as a result."""
    b = ModuleBuilder("net")
    first = part(b, kind, "first", iterations)
    second = part(b, kind, "second", iterations + 1, others=2)
    third = part(b, "beside", "third", 2)
    e = b.entry("main")
    x = e.input("x", f32, (ROWS, WIDTH))
    left = e.repeat(first, x)
    right = e.call("tanh", x * 0.25)
    both = e.repeat(second, right, right, x)
    e.output("sum", e.repeat(third, left * 0.5) + e.repeat(third, both) + right)
    e.output("left", left)
    return b.module()


def lowered(module: Module, io: Io, isa: str = "", unroll: bool = False) -> Module:
    first = (Cleanup(), Lower(), ScheduleLoops(isa), Cleanup(), MemoryAwareScheduling(io))
    for one in (*first, *([UnrollRepeats()] if unroll else []), PlanMemory(io)):
        module = one.run(module)
        check_round_trip(module)
        assert verify(module, registry) == []
    for plan in module.plans.values():
        assert verify_plan(module, plan) == []
    return module


@pytest.mark.parametrize("io", ["arena", "caller"])
@pytest.mark.parametrize("kind", BODIES)
def test_repeats(kind: str, io: Io, tmp_path: Path) -> None:
    iterations = 2 + BODIES.index(kind) % 3
    module = net(kind, iterations)
    made, flat = lowered(module, io, "avx2+fma"), lowered(module, io, "avx2+fma", unroll=True)
    assert not any(isinstance(s, Repeat) for s in flat.plans["main"].body)
    states, bytes_of, flat_bytes = initial_states(module), *(planned.initial_states(m, "main") for m in (made, flat))
    model = CModel(load(files_of(made), tmp_path, "gcc"), "net")
    for _ in range(3):
        x = {"x": RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)}
        want = run_graph(module, "main", x, states)
        found = [planned.run_plan(m, "main", x, held) for m, held in ((made, bytes_of), (flat, flat_bytes))]
        np.testing.assert_array_equal(bytes_of, flat_bytes)
        assert model.run(x) == 0
        in_c = model.outputs()
        for name, value in want.items():
            for one in found:
                np.testing.assert_allclose(one[name], value, rtol=0, atol=1e-4 * np.abs(value).max())
            same = in_c[name][: value.size].reshape(value.shape)
            np.testing.assert_allclose(same, value, rtol=0, atol=1e-4 * np.abs(value).max())


def chain(kind: str, iterations: int) -> Plan:
    """The plan of one run of iterations."""
    b = ModuleBuilder("net")
    only = part(b, kind, "only", iterations)
    e = b.entry("main")
    x = e.input("x", f32, (ROWS, WIDTH))
    e.output("y", e.call("tanh", e.repeat(only, e.call("tanh", x))))
    return lowered(b.module(), "caller").plans["main"]


def test_repeats_need_no_copy_and_no_more_memory() -> None:
    """A value that is dead when the next is made has its place: only one that is read to the end is copied."""
    copied = {}
    for kind in ("itself", "in place", "beside", "read to the end"):
        plan = chain(kind, 5)
        (repeat,) = (s for s in plan.body if isinstance(s, Repeat))
        copied[kind] = sum(isinstance(s, Copy) for s in repeat.body)
        assert plan.region("arena").bytes == chain(kind, 2).region("arena").bytes
    assert copied == {"itself": 0, "in place": 0, "beside": 1, "read to the end": 1}


def test_what_the_verifiers_refuse() -> None:
    b = ModuleBuilder("net")
    only = part(b, "in place", "only", 3)
    e = b.entry("main")
    e.output("y", e.repeat(only, e.input("x", f32, (ROWS, WIDTH))))
    module = b.module()
    text, blobs = print_module(module), collect_blobs(module)
    for old, new, message in (
        ("f32[3, 4] iterations 3", "f32[3, 4] iterations 4", "runs in 4 iterations, @only_scale has 3"),
        ("f32[3, 4] iterations 3", "f32[3, 4]", "runs in 1 iterations, @only_scale has 3"),
        ("f32[3, 4] iterations 3", "f32[3, 4] iterations 0", "is called in 0 iterations"),
        ("internal graph @only", "graph @only", "is called in 1 and in 3 iterations"),
        ("= mul(%x, @only_scale)", "= graph @main(%x)", "calls a graph or a library"),
    ):
        assert old in text
        found = verify(parse_module(text.replace(old, new, 1), blobs), registry)
        assert any(message in str(d) for d in found), (new, found)
    made = lowered(module, "arena")
    text, blobs = print_module(made), collect_blobs(made)
    (repeat,) = (s for s in made.plans["main"].body if isinstance(s, Repeat))
    into, last = (f"%{name}" for name in repeat.carry or ())
    for old, new, message in (
        (f"carry {into} = {last}", f"carry {into} = %y", "lies elsewhere"),
        ("const[64*var(iteration, 0..2)]", "const[16*var(iteration, 0..2)]", "arrays are 64 bytes apart"),
        ("const[64*var(iteration, 0..2)]", "const[0]", "arrays are 64 bytes apart"),
        ("repeat iteration in 0..3", "repeat iteration in 0..2", "has no value here"),
        ("repeat iteration in 0..3", "repeat iteration in 1..3", "has iterations 1..3"),
    ):
        assert old in text, (old, text)
        broken = parse_module(text.replace(old, new, 1), blobs)
        assert any(message in str(d) for d in verify_plan(broken, broken.plans["main"])), new


def test_what_a_builder_refuses() -> None:
    b = ModuleBuilder("net")
    with pytest.raises(BuildError, match="1 iterations"):
        b.part("once", 1)
    with pytest.raises(BuildError, match="arrays of one type and shape"):
        b.stack("w", [np.zeros(2, np.float32), np.zeros(3, np.float32)])
    p = b.part("p", 2)
    p.output("y", p.call("reshape", p.input("x", f32, (4,)), shape=(2, 2)))
    e = b.entry("main")
    x = e.input("x", f32, (4,))
    with pytest.raises(BuildError, match="one output, of the type of its first input"):
        e.repeat(p, x)
    with pytest.raises(BuildError, match="its inputs are"):
        e.repeat(p, x, x)
    with pytest.raises(BuildError, match="no part of this module"):
        e.repeat(part(ModuleBuilder("other"), "itself", "p", 2), x)
