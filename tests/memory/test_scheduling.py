"""Orders of operators: the best of all of them in small graphs, never worse than the one given, effects in theirs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from memory_nets import ADD, Net, run_graph

from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.graph import Call, Graph, ReadState, Value, WriteState, node_args, node_outs
from sdk.compiler.ir.module import Module
from sdk.compiler.memory.scheduling import arena_bytes, best_order
from sdk.compiler.memory.storage import share_bytes
from sdk.compiler.passes.memory_aware_scheduling import MemoryAwareScheduling
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.verify.plan import verify_plan


def branches(count: int = 4) -> tuple[Module, Graph]:
    """A cell of branches that widen and narrow again, all their wide halves first."""
    net = Net()
    x = net.input("x", 1, 6, 6, 4)
    wide = [net.conv(x, 24, kernel=1) for _ in range(count)]
    small = [net.conv(w, 4, kernel=1) for w in wide]
    y = small[0]
    for other in small[1:]:
        y = net.op("add_q", y, other, **ADD)
    module = net.module(y)
    return module, module.graphs["main"]


def random_net(seed: int, nodes: int) -> Module:
    """Random calls of elementwise functions and of those that change the width, and one or two results."""
    rng = Random(seed)
    net = Net(seed=seed)
    values = [net.input("x", 1, 2, 2, rng.choice([1, 2, 8])), net.input("y", 1, 2, 2, 4)]
    for _ in range(nodes):
        a = rng.choice(values[-5:])
        same = [v for v in values if v.type.shape == a.type.shape and v is not a]
        kind = rng.random()
        if kind < 0.35 and same:
            values.append(net.op("add_q", a, rng.choice(same), **ADD))
        elif kind < 0.5:
            values.append(net.op("relu", a))
        elif kind < 0.6:
            values.append(net.op("reshape", net.op("reshape", a, shape=(-1,)), shape=a.type.shape))
        else:
            values.append(net.op("concat", *rng.choices(values[-4:], k=rng.choice([1, 2, 3])), axis=3))
    used = {v.name for n in net.body for v in node_args(n)}
    loose = [v for v in values[2:] if v.name not in used]
    return net.module(*(loose[-2:] or [values[-1]]))


def live_bytes(module: Module, graph: Graph) -> int:
    """The largest live set, from the lifetimes that the planner places."""
    held = [s for s in share_bytes(graph, module.loops, {}, "arena").unique() if s.memory == "arena"]
    sharing = share_bytes(graph, module.loops, {}, "arena")
    end = len(graph.body) + 1
    copies = sum(graph.results[k].type.max_bytes for k in sharing.copied_results)
    return max(
        sum(s.type.max_bytes for s in held if s.born <= step <= s.last) + copies * (step == end)
        for step in range(end + 1)
    )


def min_of_all_orders(module: Module, graph: Graph) -> int:
    """Every order there is."""
    best = live_bytes(module, graph)
    seen = set()

    def go(done: list[int], known: set[str]) -> None:
        nonlocal best
        rest = [k for k in range(len(graph.body)) if k not in done]
        if not rest:
            best = min(best, live_bytes(module, replace(graph, body=tuple(graph.body[k] for k in done))))
        for k in rest:
            if all(a.const or a.name in known for a in node_args(graph.body[k])):
                key = (*done, k)
                if key not in seen:
                    seen.add(key)
                    go([*done, k], known | {v.name for v in node_outs(graph.body[k])})

    go([], {p.name for p in graph.params})
    return best


@pytest.mark.parametrize("seed", range(40))
def test_the_best_of_all_orders(seed: int) -> None:
    module = random_net(seed, 6)
    graph = module.graphs["main"]
    found = best_order(graph, module.loops, {})
    assert found.optimal
    assert found.given == live_bytes(module, graph)
    assert found.peak == live_bytes(module, found.graph) == min_of_all_orders(module, graph)


@pytest.mark.parametrize("node_limit", [0, 40, 400])
@pytest.mark.parametrize("seed", range(12))
def test_never_worse_and_the_bound_holds(seed: int, node_limit: int) -> None:
    module = random_net(seed + 100, 18)
    graph = module.graphs["main"]
    best = best_order(graph, module.loops, {})
    found = best_order(graph, module.loops, {}, node_limit=node_limit)
    assert found.bound <= best.bound <= best.peak <= found.peak <= found.given == live_bytes(module, graph)
    assert sorted(map(repr, found.graph.body)) == sorted(map(repr, graph.body))
    known = {p.name for p in graph.params}
    for node in found.graph.body:
        assert all(a.const or a.name in known for a in node_args(node))
        known |= {v.name for v in node_outs(node)}


def test_gain_on_branches() -> None:
    module, graph = branches()
    after = MemoryAwareScheduling(align=1).run(module)
    before = arena_bytes(graph, module.loops, {})
    minimum = arena_bytes(after.graphs["main"], module.loops, {})
    assert minimum < 0.7 * before
    planned = PlanMemory(align=1).run(after)
    assert planned.plans["main"].region("arena").bytes == minimum
    assert verify_plan(planned, planned.plans["main"]) == []
    x = np.random.default_rng(0).integers(-128, 128, (1, 6, 6, 4)).astype(np.int8)
    (wanted,) = run_graph(module, {"x": x}, {})
    (got,) = run_plan(planned, "main", {"x": x}).values()
    np.testing.assert_array_equal(got, wanted)
    assert MemoryAwareScheduling(align=1).run(module) == after, "the same module gives the same order"
    assert MemoryAwareScheduling(align=1).run(after) is after


def test_an_order_without_gain_stays() -> None:
    net = Net()
    x = net.input("x", 1, 6, 6, 4)
    module = net.module(net.conv(net.conv(x, 8), 4))
    assert MemoryAwareScheduling().run(module) is module


def test_effects_keep_their_order() -> None:
    """The small branch first would need less, but it reads what the other wrote before."""
    net = Net()
    x = net.input("x", 1, 6, 6, 4)
    net.state("s", 1, 6, 6, 4)
    net.state("t", 1, 6, 6, 4)
    big = [net.conv(x, 24, kernel=1) for _ in range(2)]
    first = net.conv(big[0], 4, kernel=1)
    old = net.read("s", "old")
    net.write("s", first)
    new = net.read("s", "new")
    net.write("t", net.op("add_q", new, old, **ADD))
    module = net.module(net.op("add_q", net.conv(big[1], 4, kernel=1), new, **ADD))
    types = {s.name: s.type for s in module.states.values()}
    found = best_order(module.graphs["main"], module.loops, types)
    assert found.peak < found.given
    at = {id(n): k for k, n in enumerate(found.graph.body)}
    effects = [n for n in module.graphs["main"].body if isinstance(n, ReadState | WriteState)]
    assert all(at[id(a)] < at[id(b)] for a, b in pairwise(effects))
    states = {"s": np.full((1, 6, 6, 4), 3, np.int8), "t": np.zeros((1, 6, 6, 4), np.int8)}
    kept = {k: v.copy() for k, v in states.items()}
    x_value = np.random.default_rng(0).integers(-9, 9, (1, 6, 6, 4)).astype(np.int8)
    changed = module.with_graph(found.graph)
    for a, b in zip(run_graph(module, {"x": x_value}, states), run_graph(changed, {"x": x_value}, kept), strict=True):
        np.testing.assert_array_equal(a, b)
    for name, value in states.items():
        np.testing.assert_array_equal(value, kept[name])


def test_library_calls_keep_their_order() -> None:
    net = Net()
    x = net.input("x", 1, 6, 6, 4)
    outs = [Value(f"e{k}", x.type) for k in range(3)]
    for value in outs:
        net.body.append(Call((value,), "extern", "f", (x,)))
    module = net.module(*outs)
    found = best_order(module.graphs["main"], module.loops, {})
    assert [n.out.name for n in found.graph.body] == ["e0", "e1", "e2"]
