"""Layouts of graphs: layers go down, nothing overlaps, lines lead from node to node."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdk.driver.plots.layered import Layout, lay_out

Sizes = list[tuple[float, float]]
Edges = list[tuple[int, int]]


@st.composite
def dags(draw: st.DrawFn) -> tuple[Sizes, Edges]:
    count = draw(st.integers(1, 20))
    sizes = draw(st.lists(st.tuples(st.floats(20, 300), st.floats(10, 60)), min_size=count, max_size=count))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda p: p[0] != p[1])
    return sizes, [(min(p), max(p)) for p in draw(st.lists(pairs, max_size=40))]


def check(sizes: Sizes, edges: Edges, found: Layout) -> None:
    rows = defaultdict(list)
    for n, layer in enumerate(found.layer):
        rows[layer].append(n)
    for row in rows.values():
        row.sort(key=lambda n: found.x[n])
        for a, b in pairwise(row):
            assert found.x[b] - found.x[a] >= (sizes[a][0] + sizes[b][0]) / 2
    for a, b in edges:
        assert found.layer[a] < found.layer[b]
        route = found.routes[a, b]
        assert len(route) == found.layer[b] - found.layer[a] + 1
        assert (route[0], route[-1]) == (found.x[a], found.x[b])
    for k in range(len(found.top) - 1):
        assert found.top[k] <= found.bottom[k] < found.top[k + 1]
    assert min(x - w / 2 for x, (w, _) in zip(found.x, sizes, strict=True)) >= -1e-6


@settings(max_examples=30, deadline=None)
@given(dags())
def test_any_graph(graph: tuple[Sizes, Edges]) -> None:
    check(*graph, lay_out(*graph))


def test_a_chain_is_straight_and_its_residuals_go_around() -> None:
    chain = [(k, k + 1) for k in range(30)]
    sizes = [(120.0, 40.0)] * 31
    edges = [*chain, *((k, k + 5) for k in range(0, 26, 5))]
    found = lay_out(sizes, edges)
    check(sizes, edges, found)
    assert max(found.x) - min(found.x) < 60  # half of a node
    for k in range(0, 26, 5):
        around = found.routes[k, k + 5][1:-1]
        assert max(around) - min(around) == pytest.approx(0, abs=1)
        assert abs(around[0] - found.x[k + 2]) > 60


def test_two_branches_do_not_cross() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)]
    found = lay_out([(100.0, 40.0)] * 6, edges)
    assert (found.x[1] < found.x[2]) == (found.x[3] < found.x[4])


def test_all_edges_of_a_node_share_one_line() -> None:
    edges = [*((k, k + 1) for k in range(1, 8)), *((0, k) for k in range(3, 9))]
    found = lay_out([(100.0, 40.0)] * 9, edges)
    longest = found.routes[0, 8]
    for k in range(3, 8):
        assert found.routes[0, k][:-1] == longest[: len(found.routes[0, k]) - 1]


def test_nothing_to_draw() -> None:
    assert lay_out([], []).x == ()
