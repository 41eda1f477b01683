"""PosenetDecoderOp, the last operator of Coral's pose and body-part networks: persons from maps of their keypoints.

Each place of a map that is a local maximum may be the root of a person; the other keypoints follow from it along the
edges of a tree, by offsets that the maps hold. The kernel takes the roots one after another, by their score. Here all
roots are followed at once, level by level of the tree, and then the best ones are chosen one after another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.budget import TRIPS, check_limit
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I8, I32, U8, TensorType
from sdk.errors import BuildError
from sdk.frontends.emit import Emitter
from sdk.frontends.moves import part
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.flexbuffers import read_flags
from sdk.frontends.tflite.operators.custom.terms import Term
from sdk.frontends.tflite.operators.real.storage import real_input

__all__ = ["EDGES", "KEYPOINTS", "TABLE"]

KEYPOINTS: Final = 17
# Pairs of keypoints, which a person's tree joins: nose 0, eyes 1 2, ears 3 4, shoulders 5 6, elbows 7 8, wrists 9 10,
# hips 11 12, knees 13 14, ankles 15 16, of each the left one first.
EDGES: Final = (
    (0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15), (0, 6), (6, 8), (8, 10),
    (6, 12), (12, 14), (14, 16),
)  # fmt: skip
_REFINED: Final = 5  # times that a keypoint follows the short offsets
_EMBEDDED: Final = 3  # times that a pixel follows the long offsets
_LOWEST: Final = float(np.finfo(np.float32).min)
_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class _Settings:
    """``maximum`` persons of a score of at least ``minimum``, roots farther than ``radius`` (pixels of a map) from
    another person's same keypoint; ``stride`` pixels of the image are one of a map."""

    maximum: int
    minimum: float
    stride: int
    radius: float

    @staticmethod
    def of(raw: bytes) -> _Settings:
        flags = read_flags(raw)
        minimum, radius = (float(np.float32(flags.number(name))) for name in ("score_threshold", "nms_radius"))
        maximum, stride = flags.integer("max_detections", 1, TRIPS.maximum), flags.integer("stride", 1, _MAX)
        if not 0 <= minimum < 1 or not (math.isfinite(radius) and radius >= 0):
            raise BuildError(f"persons of scores from {minimum}, {radius} pixels apart")
        return _Settings(maximum, minimum, stride, radius)

    @property
    def logit(self) -> float:
        """The least score as the maps have it."""
        return -math.log(1 / (self.minimum + 1e-6) - 1)

    @property
    def near(self) -> float:
        """The square of the distance of roots, in pixels of a map."""
        return float((np.float32(self.radius) / np.float32(self.stride)) ** 2)


@dataclass(frozen=True, slots=True)
class _Level:
    """Keypoints as far from their roots: of each which column of those before it follows from, its channel of the
    middle offsets down (those across are 16 further), and its number."""

    source: list[int]
    channel: list[int]
    keypoint: list[int]


def _levels() -> tuple[list[_Level], NDArray[np.int32]]:
    """The levels of all roots, root k being column k; and the columns [root, keypoint] that they end in."""
    # middle offsets are those of the edges forwards and across, then those of the edges backwards
    ways = {(a, b): k for k, (a, b) in enumerate(EDGES)} | {(b, a): 32 + k for k, (a, b) in enumerate(EDGES)}
    columns = np.full((KEYPOINTS, KEYPOINTS), -1, np.int32)
    np.fill_diagonal(columns, np.arange(KEYPOINTS))
    levels: list[_Level] = []
    last, count = [(k, k) for k in range(KEYPOINTS)], KEYPOINTS
    while last:
        level, following = _Level([], [], []), []
        for root, at in last:
            for (a, b), channel in ways.items():
                if a == at and columns[root, b] < 0:
                    level.source.append(int(columns[root, a]))
                    level.channel.append(channel)
                    level.keypoint.append(b)
                    columns[root, b] = count
                    following.append((root, b))
                    count += 1
        levels, last = [*levels, level] if following else levels, following
    return levels, columns


@dataclass(frozen=True)
class _Map:
    """A map [height, width, channels] as one row of numbers."""

    emit: Emitter
    flat: Value
    height: int
    width: int
    channels: int

    @staticmethod
    def of(node: OpNode, k: int, channels: int, by: float, like: _Map | None = None) -> _Map:
        """Input ``k`` times ``by``.

        Raises:
            BuildError: it is no map of so many channels, or not of the size of another one.
        """
        x, emit = real_input(node, k, F32, U8, I8), node.emitter
        shape = x.type.shape
        sizes = tuple(d for d in shape if isinstance(d, int))
        sized = len(sizes) == len(shape) == 4 and sizes[0] == 1 and sizes[3] == channels
        if not sized or (like is not None and sizes[1:3] != (like.height, like.width)):
            raise BuildError(f"input {k} ({node.tensor(k).title}) has the shape {list(map(str, shape))}")
        _, height, width, _ = sizes
        if not 0 < height * width * channels < 1 << 31:
            raise BuildError(f"a map of {height} x {width} places")
        scaled = x if by == 1 else emit.call("mul", x, emit.scalar(by, F32))
        return _Map(emit, emit.call("reshape", scaled, shape=(height * width * channels,)), height, width, channels)

    def limits(self) -> Term:
        """The last row and column [2, 1, 1]."""
        last = np.asarray([self.height - 1, self.width - 1], np.float32)
        return Term(self.emit, self.emit.const(last.reshape(2, 1, 1), "limits"))

    def at(self, places: Term, channels: NDArray[np.int32]) -> Term:
        """What lies between the four pixels around places [2, n, m] inside the map: [c, n, m] for channels [c, m]."""
        low, high = places.call("floor"), places.call("ceil")
        share = _halves(places - low)
        rows, columns = zip(*(_halves(p.to(I32)) for p in (low, high)), strict=True)
        first = places.table(channels[:, None, :], I32, "channels")
        flat = Term(self.emit, self.flat)

        def pixel(row: Term, column: Term) -> Term:
            return flat.at((row * self.width + column) * self.channels + first)

        down, across = share
        ends = [
            (across.number(1.0) - across) * pixel(row, columns[0]) + across * pixel(row, columns[1]) for row in rows
        ]
        return (down.number(1.0) - down) * ends[0] + down * ends[1]

    def followed(self, places: Term, channels: NDArray[np.int32]) -> Term:
        """Places moved by the offsets there, channels [2, m] down and across, and held inside."""
        moved = places + self.at(places, channels)
        return moved.maximum(0.0).minimum(self.limits())


def _halves(pair: Term) -> tuple[Term, Term]:
    """The two of the first axis, which remains."""
    first, second = (Term(pair.emit, part(pair.emit, pair.value, 0, k, 1)) for k in range(2))
    return first, second


def _pair(offsets: Sequence[int], apart: int) -> NDArray[np.int32]:
    return np.asarray([offsets, [k + apart for k in offsets]], np.int32)


def _columns(x: Term, columns: NDArray[np.int32]) -> Term:
    """Some of the last axis, in the shape of their numbers."""
    places = x.table(columns.reshape(-1), I32, "columns")
    found = x.call("gather", places, axis=x.value.type.rank - 1)
    return found.call("reshape", shape=(*x.value.type.static_shape[:-1], *columns.shape))


def _sum(x: Term, axis: int) -> Term:
    return x.call("reduce_sum", axes=(axis,))


def _distance(a: Term, b: Term) -> Term:
    """The squares of distances between places [2, ..], without the first axis."""
    gap = a - b
    total = _sum(gap * gap, 0)
    return total.call("reshape", shape=total.value.type.static_shape[1:])


@dataclass(frozen=True, slots=True)
class _Persons:
    """Places [2, m, 17], scores of keypoints [m, 17] and of persons [m], and which of them there are [m]."""

    places: Term
    keypoints: Term
    scores: Term
    there: Term

    def ordered(self, scores: Term) -> _Persons:
        """The best first."""
        count = scores.value.type.static_shape[0]
        ranked = self.there.where(scores, _LOWEST)
        best, order = ranked.emit.calls("topk", ranked.value, k=count, axis=0, largest=True)
        at = Term(ranked.emit, order)
        places = self.places.call("gather", at, axis=1)
        return _Persons(places, self.keypoints.at(at), Term(ranked.emit, best), self.there.at(at))


def _followed(
    heat: _Map, short: _Map, middle: _Map, given: _Settings
) -> tuple[Term, Term, Term, Term]:  # fmt: skip
    """Of all roots [n = height * width, 17] the places [2, n, 17]; those of their persons' keypoints [2, n, 17, 17] and
    the scores of these as shares of 1 [n, 17, 17]; and the root's own score, the lowest number where it is none."""
    emit, size = heat.emit, heat.height * heat.width
    score = Term(emit, heat.flat).call("reshape", shape=(size, KEYPOINTS))
    image = emit.call("reshape", heat.flat, shape=(1, heat.height, heat.width, KEYPOINTS))
    around = Term(emit, emit.call("max_pool2d", image, kernel=(3, 3), stride=(1, 1), pad=(1, 1, 1, 1)))
    highest = around.call("reshape", shape=(size, KEYPOINTS))
    is_root = Term(emit, emit.call("and", (score >= highest).value, (score >= given.logit).value))
    grid = np.indices((heat.height, heat.width)).reshape(2, size, 1)
    offsets = Term(emit, short.flat).call("reshape", shape=(size, 2, KEYPOINTS)).call("transpose", perm=(1, 0, 2))
    roots = (offsets + score.table(grid, F32, "grid")).maximum(0.0).minimum(heat.limits())
    known, marks = roots, [list(range(KEYPOINTS))]
    levels, columns = _levels()
    for level in levels:
        source = _columns(known, np.asarray(level.source, np.int32))
        places = middle.followed(source, _pair(level.channel, len(EDGES)))
        for _ in range(_REFINED):
            places = short.followed(places, _pair(level.keypoint, KEYPOINTS))
        known = known.call("concat", places, axis=2)
        marks.append(level.keypoint)
    all_marks = np.asarray([[k for level in marks for k in level]], np.int32)
    logits = heat.at(known, all_marks).call("reshape", shape=(size, all_marks.shape[1]))
    shares = _columns(logits.call("sigmoid"), columns)
    return roots, _columns(known, columns), shares, is_root.where(score, _LOWEST)


def _chosen(roots: Term, places: Term, shares: Term, scores: Term, given: _Settings) -> _Persons:
    """The persons of the best roots, each far enough from those before it."""
    size, _ = scores.value.type.static_shape
    total = _sum(shares, 2).call("reshape", shape=(size, KEYPOINTS)) * (1.0 / KEYPOINTS)
    alive = (total >= given.minimum).where(scores, _LOWEST)
    count = size * KEYPOINTS
    flat_places = places.call("reshape", shape=(2, count, KEYPOINTS))
    flat_shares, flat_total = (
        shares.call("reshape", shape=(count, KEYPOINTS)),
        total.call("reshape", shape=(count,)),
    )
    found = []
    for _ in range(given.maximum):
        row = alive.call("reshape", shape=(count,))
        at = row.call("argmax", axis=0, last=False).call("reshape", shape=(1,))
        there = row.at(at) > _LOWEST
        place = flat_places.call("gather", at, axis=1)
        near = _distance(roots, place) < float(np.nextafter(np.float32(given.near), np.float32(np.inf)))
        alive = near.where(alive.number(_LOWEST).call("broadcast_to", shape=(size, KEYPOINTS)), alive)
        found.append((place, flat_shares.at(at), flat_total.at(at), there))
    columns = list(zip(*found, strict=True))
    joined = (_joined(parts, axis) for parts, axis in zip(columns, (1, 0, 0, 0), strict=True))
    return _Persons(*joined)


def _joined(parts: Sequence[Term], axis: int) -> Term:
    return parts[0] if len(parts) == 1 else parts[0].call("concat", *parts[1:], axis=axis)


def _rescored(persons: _Persons, given: _Settings) -> Term:
    """Scores without the keypoints that lie where those of a better person do."""
    m, emit = given.maximum, persons.scores.emit
    one, other = (persons.places.call("reshape", shape=shape) for shape in ((2, m, 1, 17), (2, 1, m, 17)))
    close = _distance(one, other) < float(np.nextafter(np.float32(given.near), np.float32(np.inf)))
    before = np.tri(m, m, -1, dtype=bool)[:, :, None]
    rival = emit.call("and", emit.const(before, "before"), persons.there.call("reshape", shape=(1, m, 1)).value)
    hidden = Term(emit, emit.call("and", close.value, rival)).call("reduce_max", axes=(1,))
    kept = hidden.call("reshape", shape=(m, KEYPOINTS)).where(persons.keypoints.number(0.0), persons.keypoints)
    return _sum(kept, 1).call("reshape", shape=(m,)) * (1.0 / KEYPOINTS)


def posenet_decoder(node: OpNode) -> None:
    """PosenetDecoderOp: inputs (maps of keypoints, short, middle, perhaps long offsets), results (places of keypoints,
    their scores, scores of persons, how many there are, perhaps masks); what is beyond the last person is 0."""
    given = _Settings.of(node.operator.custom_options)
    counts = len(node.operator.inputs), len(node.operator.outputs)
    if counts not in ((3, 4), (4, 5)):
        raise BuildError(f"it has {counts[0]} inputs and {counts[1]} outputs")
    check_limit(TRIPS, given.maximum, "the number of persons")
    by = float(np.float32(1) / np.float32(given.stride))
    heat = _Map.of(node, 0, KEYPOINTS, 1)
    short, middle = _Map.of(node, 1, 2 * KEYPOINTS, by, heat), _Map.of(node, 2, 4 * len(EDGES), by, heat)
    persons = _chosen(*_followed(heat, short, middle, given), given)
    persons = persons.ordered(persons.scores)
    persons = persons.ordered(_rescored(persons, given))
    emit, m = node.emitter, given.maximum
    kept = Term(emit, emit.call("and", persons.there.value, (persons.scores >= given.minimum).value))
    flags = kept.to(F32)
    places = persons.places * float(given.stride) * flags.call("reshape", shape=(1, m, 1))
    count = _sum(flags, 0)
    results = [
        (places.call("transpose", perm=(1, 2, 0)), (1, m, KEYPOINTS, 2)),
        (persons.keypoints * flags.call("reshape", shape=(m, 1)), (1, m, KEYPOINTS)),
        (kept.where(persons.scores, 0.0), (1, m)),
        (count, (1,)),
    ]
    if counts[0] == 4:
        long = _Map.of(node, 3, 2 * KEYPOINTS, by, heat)
        results.append((_masks(long, places, kept, given), (1, m, long.height, long.width)))
    for k, (value, shape) in enumerate(results):
        _put(node, k, value.value, shape)


def _masks(long: _Map, places: Term, kept: Term, given: _Settings) -> Term:
    """Of each person 1 at the pixels whose long offsets lead to its keypoints rather than to another's: [m, h, w]."""
    emit, size, m = long.emit, long.height * long.width, given.maximum
    if long.height != 33 or long.width != 33:
        raise BuildError(f"masks of {long.height} x {long.width} pixels, the kernel makes 33 x 33")
    grid = np.broadcast_to(np.indices((33, 33)).reshape(2, size, 1), (2, size, KEYPOINTS))
    at = Term(emit, emit.const(np.ascontiguousarray(grid, np.float32), "pixels"))
    for _ in range(_EMBEDDED):
        at = long.followed(at, _pair(range(KEYPOINTS), KEYPOINTS))
    one = (at * float(given.stride)).call("reshape", shape=(2, size, 1, KEYPOINTS))
    apart = _sum(_distance(one, places.call("reshape", shape=(2, 1, m, KEYPOINTS))), 2)
    far = apart.number(float(np.finfo(np.float32).max))
    rivals = kept.call("reshape", shape=(1, m)).where(apart.call("reshape", shape=(size, m)), far)
    nearest = rivals.call("argmin", axis=1, last=False).call("reshape", shape=(1, size)).to(I32)
    own = nearest.same(nearest.table(np.arange(m).reshape(m, 1), I32, "persons")).to(F32)
    return own * kept.to(F32).call("reshape", shape=(m, 1))


def _put(node: OpNode, k: int, value: Value, shape: tuple[int, ...]) -> None:
    """Makes output ``k`` a tensor of the shape that the kernel gives it, whatever the file says."""
    name = node.output(k).name
    (found,) = node.builder.emit("reshape", (value,), {"shape": shape}, (TensorType(F32, shape),), (name,), node.source)
    node.bind(k, found)


TABLE: Table = {"PosenetDecoderOp": posenet_decoder}
