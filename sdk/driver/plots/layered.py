"""Where the nodes of a graph are drawn: in layers from top to bottom, few crossings, long edges straight.

The steps are those of K. Sugiyama et al., "Methods for visual understanding of hierarchical system structures" (1981):
layers, points for edges that pass layers by, an order within each layer, places along it. All edges of a node share
their points, so that one line leads from it to all of its users.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Layout", "lay_out"]

SPACE = 18.0  # between nodes of a layer
THIN = 12.0  # what an edge that passes by takes of a layer
GAP = 26.0  # between layers
ORDER_SWEEPS = 12
PLACE_SWEEPS = 16
POINT_SWEEPS = 5
MAIN = 0.6  # of all nodes come before or after one that is of the main path
POINT = 0.05  # how much a point of an edge that passes by resists to being moved; a node 1 or less


@dataclass(frozen=True)
class Layout:
    """Places of nodes: the middle ``x``, the ``layer`` of each, ``top`` and ``bottom`` of layers. ``routes`` gives for
    each edge the middles of the points that it passes through, one a layer, from its source's layer to its target's."""

    x: tuple[float, ...]
    layer: tuple[int, ...]
    top: tuple[float, ...]
    bottom: tuple[float, ...]
    routes: Mapping[tuple[int, int], tuple[float, ...]]


@dataclass
class _Work:
    """Nodes and, with numbers above theirs, the points of edges that pass by: ``above`` and ``below`` are neighbours in
    the next layers; ``weight`` and ``related`` are of ``_weights``."""

    width: list[float]
    layer: list[int]
    above: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    below: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    point: dict[tuple[int, int], int] = field(default_factory=dict)
    real: int = 0
    weight: Sequence[float] = ()
    related: Sequence[float] = ()

    def firmness(self, node: int) -> float:
        """How much it resists to being moved."""
        return self.weight[node] if node < self.real else POINT

    def join(self, a: int, b: int) -> None:
        """Notes an edge between layers that follow on one another, once."""
        if b not in self.below[a]:
            self.below[a].append(b)
            self.above[b].append(a)

    def passing(self, source: int, layer: int) -> int:
        """The point at which the edges of ``source`` pass a layer; itself in its own."""
        at = source
        for k in range(self.layer[source] + 1, layer + 1):
            if (source, k) not in self.point:
                self.point[source, k] = len(self.width)
                self.width.append(THIN)
                self.layer.append(k)
                self.join(at, self.point[source, k])
            at = self.point[source, k]
        return at


def lay_out(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """The layout of nodes with widths and heights; each edge (from, to) leads to a node of a higher number."""
    layer = _layers(len(sizes), edges)
    weight, related = _weights(len(sizes), edges)
    work = _Work([w for w, _ in sizes], list(layer), real=len(sizes), weight=weight, related=related)
    for a, b in sorted(set(edges), key=lambda e: (e[0], layer[e[1]])):
        work.join(work.passing(a, layer[b] - 1), b)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for node in _depth_first(work):
        rows[work.layer[node]].append(node)
    rows = _ordered(work, rows)
    x = _placed(work, rows)
    top, bottom, y = [], [], 0.0
    for row in rows:
        high = max((sizes[n][1] for n in row if n < work.real), default=0.0)
        top.append(y)
        bottom.append(y + high)
        y += high + GAP
    routes = {}
    for a, b in set(edges):
        passed = [work.point[a, k] for k in range(layer[a] + 1, layer[b])]
        routes[a, b] = (x[a], *(x[p] for p in passed), x[b])
    return Layout(tuple(x[: work.real]), tuple(layer), tuple(top), tuple(bottom), routes)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each node: below all it uses; a node that more use than it uses goes down to its users."""
    after, before = defaultdict(set), defaultdict(set)
    for a, b in edges:
        after[a].add(b)
        before[b].add(a)
    layer = [0] * count
    for node in range(count):
        layer[node] = max((layer[a] + 1 for a in before[node]), default=0)
    for node in reversed(range(count)):
        if after[node] and len(after[node]) >= len(before[node]):
            layer[node] = max(layer[node], min(layer[b] for b in after[node]) - 1)
        elif not after[node] and not before[node]:
            layer[node] = 0
    return layer


def _weights(count: int, edges: Sequence[tuple[int, int]]) -> tuple[list[float], list[float]]:
    """How firm each node is, up to 1, by how many come before it times how many after, so that the middle of the main
    path is the firmest; and what part of all nodes come before or after it."""
    before, after = [1 << n for n in range(count)], [1 << n for n in range(count)]
    for a, b in sorted(edges, key=lambda e: e[1]):
        before[b] |= before[a]
    for a, b in sorted(edges, key=lambda e: -e[0]):
        after[a] |= after[b]
    found = [before[n].bit_count() * after[n].bit_count() for n in range(count)]
    maximum = max(found, default=1)
    related = [(before[n].bit_count() + after[n].bit_count() - 1) / count for n in range(count)]
    return [max(n / maximum, 2 * POINT) for n in found], related


def _depth_first(work: _Work) -> list[int]:
    """All nodes and points, each branch together."""
    seen: dict[int, None] = {}
    stack = [n for n in reversed(range(len(work.width))) if not work.above[n]]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen[node] = None
            stack.extend(reversed(work.below[node]))
    return list(seen)


def _ordered(work: _Work, rows: list[list[int]]) -> list[list[int]]:
    """The layers in the order with the fewest crossings found, going down and up by the middles of neighbours."""
    best, fewest = rows, _crossings(work, rows)
    for sweep in range(ORDER_SWEEPS):
        if not fewest:
            break
        rows = [list(row) for row in rows]
        down = sweep % 2 == 0
        near = work.above if down else work.below
        for row in rows[1:] if down else reversed(rows[:-1]):
            _sort_row(row, near, _positions(rows))
        found = _crossings(work, rows)
        if found < fewest:
            best, fewest = rows, found
    return best


def _positions(rows: Sequence[Sequence[int]]) -> dict[int, int]:
    return {node: k for row in rows for k, node in enumerate(row)}


def _sort_row(row: list[int], near: Mapping[int, Sequence[int]], position: Mapping[int, int]) -> None:
    """Sorts a layer by the mean place of each node's neighbours; nodes without neighbours stay."""
    key = {
        node: sum(position[n] for n in near[node]) / len(near[node]) if near[node] else float(position[node])
        for node in row
    }
    row.sort(key=lambda node: (key[node], position[node]))


def _crossings(work: _Work, rows: Sequence[Sequence[int]]) -> int:
    """How many pairs of edges cross, counted layer by layer with sums of a binary indexed tree."""
    total = 0
    position = _positions(rows)
    for k, row in enumerate(rows[:-1]):
        ends = [position[b] for a in row for b in sorted(work.below[a], key=position.__getitem__)]
        tree = [0] * (len(rows[k + 1]) + 1)
        for count, end in enumerate(ends):
            at, before = end + 1, 0
            while at:
                before += tree[at]
                at &= at - 1
            total += count - before
            at = end + 1
            while at < len(tree):
                tree[at] += 1
                at += at & -at
    return total


def _placed(work: _Work, rows: Sequence[Sequence[int]]) -> list[float]:
    """The middle of every node and point: near the mean of its neighbours, as the order and the widths allow."""
    x = [0.0] * len(work.width)
    for row in rows:
        _put(work, row, [0.0] * len(row), x)
    for sweep in range(PLACE_SWEEPS):
        down = sweep % 2 == 1  # the last sweep goes down
        near = work.above if down else work.below
        for row in rows if down else reversed(rows):
            _put(work, row, [_wanted(work, node, near[node], x) for node in row], x)
    _straighten(work, rows, x)
    minimum = min((x[n] - work.width[n] / 2 for n in range(len(x))), default=0.0)
    return [value - minimum for value in x]


def _straighten(work: _Work, rows: Sequence[Sequence[int]], x: list[float]) -> None:
    """Puts the nodes of the main path below each other where a layer has one, each with the layers above it up to the
    one before; then edges that pass by are led past the nodes again."""
    main = [[n for n in row if n < work.real and work.related[n] >= MAIN] for row in rows]
    places = [x[found[0]] if len(found) == 1 else None for found in main]
    shift = next((place for place in reversed(places) if place is not None), 0.0)
    for row, place in zip(reversed(rows), reversed(places), strict=True):
        shift = shift if place is None else place
        for node in row:
            x[node] -= shift
    for sweep in range(POINT_SWEEPS):
        down = sweep % 2 == 0
        near = work.above if down else work.below
        for row in rows if down else reversed(rows):
            wanted = [_wanted(work, n, near[n], x) if n >= work.real else x[n] for n in row]
            _put(work, row, wanted, x, fixed=1e9)


def _wanted(work: _Work, node: int, near: Sequence[int], x: Sequence[float]) -> float:
    """The mean place of the neighbours: of nodes alone where there are any, so that what follows on something stands
    below it, and edges that pass by go around; those of the main path count most."""
    firm = [n for n in near if n < work.real] or near
    total = sum(map(work.firmness, firm))
    return sum(work.firmness(n) * x[n] for n in firm) / total if firm else x[node]


def _put(work: _Work, row: Sequence[int], wanted: Sequence[float], x: list[float], fixed: float = 1.0) -> None:
    """Places a layer as near to what is wanted as the widths allow (least squares): neighbours that come too close
    move together. ``fixed``: how much more than usual nodes resist."""
    offsets, at = [], 0.0
    for k, node in enumerate(row):
        if k:
            thin = node >= work.real and row[k - 1] >= work.real
            at += (work.width[row[k - 1]] + work.width[node]) / 2 + (0 if thin else SPACE)
        offsets.append(at)
    groups: list[tuple[float, float, int]] = []  # place, weight, how many
    for node, want, offset in zip(row, wanted, offsets, strict=True):
        place, weight, count = want - offset, work.firmness(node) * (fixed if node < work.real else 1.0), 1
        while groups and groups[-1][0] > place:
            p, w, c = groups.pop()
            place, weight, count = (place * weight + p * w) / (weight + w), weight + w, count + c
        groups.append((place, weight, count))
    places = [place for place, _, count in groups for _ in range(count)]
    for node, place, offset in zip(row, places, offsets, strict=True):
        x[node] = place + offset
