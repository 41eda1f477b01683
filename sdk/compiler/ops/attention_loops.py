"""The loops of ``attend``: for a few rows of queries at a time, blocks of slots with an online softmax.

A row is a token's query by one head. Of each block of slots come first the scores of all rows, then their shares,
relative to the largest score so far, and then the values, weighted; what was found before is scaled down where a larger
score comes. A slot that a row does not see has the score ``HIDDEN``, whose share is 0.

Keys and values in 8 bits have a scale by head and slot: scores are multiplied by that of the keys, shares, once they
are summed, by that of the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, F32, I8, I32, DType, TensorType
from sdk.compiler.ops.build import function, loop, param, row_vars, variable
from sdk.compiler.sym import Dim, Var, ceildiv, dmax, dmin, floordiv, max_value

__all__ = ["HIDDEN", "PLAIN", "Shape", "Tiles", "attention_loops"]

HIDDEN: Final = -1e30


@dataclass(frozen=True, slots=True)
class Shape:
    """What an ``attend`` computes: the arguments' sizes and its attributes."""

    n: Dim
    heads: int
    kv: int
    size: int
    slots: int
    block: int  # slots whose keys lie together
    start: Dim
    window: int
    ring: bool
    scale: float
    cap: float
    kind: DType = F32  # of keys and values: f32, f16, or i8 with scales

    @classmethod
    def of(cls, types: Sequence[TensorType], given: Mapping[str, Any]) -> Shape:
        """That of arguments of these types."""
        (n, heads, size), (kv, _, _, block), (_, slots, _) = (t.shape for t in types[:3])
        assert isinstance(heads, int)
        assert isinstance(size, int)
        assert isinstance(kv, int)
        assert isinstance(block, int)
        assert isinstance(slots, int)
        attributes = {k: given[k] for k in ("start", "window", "ring", "scale", "cap")}
        return cls(n, heads, kv, size, slots, block, **attributes, kind=types[1].dtype)

    @property
    def shared(self) -> int:
        """Heads of queries by head of keys."""
        return self.heads // self.kv


@dataclass(frozen=True, slots=True)
class Tiles:
    """``lanes`` of a vector, up to ``sums`` vectors of sums at once, up to ``tokens[0]`` tokens or heads at once, then
    fewer."""

    lanes: int
    sums: int
    tokens: tuple[int, ...]


PLAIN: Final = Tiles(1, 1, (1,))


def attention_loops(name: str, shape: Shape, tiles: Tiles = PLAIN) -> Loops:
    """heads of keys { tiles of rows { blocks { scores; shares; values } o = mixed / total } }"""
    asked, scales = TensorType(F32, (shape.n, shape.heads, shape.size)), TensorType(F32, (shape.kv, shape.slots))
    types = {
        "q": asked, "keys": TensorType(shape.kind, (shape.kv, shape.slots // shape.block, shape.size, shape.block)),
        "values": TensorType(shape.kind, (shape.kv, shape.slots, shape.size)),
    }  # fmt: skip
    if shape.kind == I8:
        types |= {"keys_scale": scales, "values_scale": scales}
    rows, group = row_vars(shape.kv), variable("group", shape.kv)
    body = Block(tuple(_Attention(shape, tiles, group.expr).made()))
    params = [param(k, t) for k, t in types.items()]
    out = param("o", asked, "write")
    return function(name, [*params, out], [For(group, rows.lo.expr, rows.hi.expr, body)], rows)


@dataclass(frozen=True, slots=True)
class _Tile:
    """Rows: ``tokens`` from ``token`` on, each by ``heads`` from ``head`` on."""

    token: Dim
    tokens: int
    head: Dim
    heads: int

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.tokens * self.heads

    def places(self) -> Iterator[tuple[int, Dim, Dim]]:
        """The number of each row, its token and its head."""
        for r in range(self.rows):
            yield r, self.token + r // self.heads, self.head + r % self.heads


@dataclass(frozen=True, slots=True)
class _Attention:
    shape: Shape
    tiles: Tiles
    group: Dim

    @property
    def real(self) -> DType:
        """Lanes of floats."""
        return self._lanes(F32)

    def _lanes(self, kind: DType) -> DType:
        return kind.with_lanes(self.tiles.lanes) if self.tiles.lanes > 1 else kind

    def made(self) -> Iterator[Stmt]:
        """All rows of a head of keys, in tiles: of heads where there is one token, else of tokens."""
        maximum = self.tiles.tokens[0]
        heads = 1
        if self.shape.n == 1:
            heads = next(k for k in range(min(maximum, self.shape.shared), 0, -1) if self.shape.shared % k == 0)
        head, many = variable("head", self.shape.shared // heads), self.shape.shared // heads
        first = self.group * self.shape.shared + head.expr * heads
        yield loop(head, many, *self._tokens(first, heads))

    def _tokens(self, head: Dim, heads: int) -> Iterator[Stmt]:
        start: Dim = 0
        for k, count in enumerate(self.tiles.tokens if heads == 1 else (1,)):
            number = floordiv(self.shape.n - start, count)
            if (max_value(number) or 0) < 1:
                continue
            at = variable(f"tile{k}", number)
            tile = _Tile(start + at.expr * count, count, head, heads)
            yield loop(at, number, *self._tile(tile))
            start = start + number * count

    def _tile(self, tile: _Tile) -> Iterator[Stmt]:
        size = self.shape.size
        yield Alloc(Buffer("share", F32, (tile.rows, self.shape.block), "scratch"))
        yield Alloc(Buffer("mixed", F32, (tile.rows, size), "scratch"))
        for r, token, _ in tile.places():
            yield from self._positions(r, token)
            for name, value in (("top", HIDDEN), ("total", 0.0)):
                yield Alloc(Buffer(f"{name}{r}", F32, (), "register"))
                yield Store(f"{name}{r}", (), imm(value, F32))
            yield self._along(f"c{r}", size, lambda at, r=r: [Store("mixed", (r, at), self._splat(imm(0.0, F32)))])
        first, end = self._span(tile)
        b = Var("b", 0, max(self.shape.slots // self.shape.block - 1, 0))
        yield For(b, first, end, Block(tuple(self._step(tile, b.expr))))
        for r, token, head in tile.places():
            yield Let(f"part{r}", op("tdiv", imm(1.0, F32), Load(f"total{r}", (), F32)))
            part = self._splat(Ref(f"part{r}", F32))
            yield self._along(
                f"e{r}", size,
                lambda at, r=r, token=token, head=head, part=part: [
                    Store("o", (token, head, at), op("mul", Load("mixed", (r, at), self.real), part))
                ],
            )  # fmt: skip

    def _span(self, tile: _Tile) -> tuple[Dim, Dim]:
        """The blocks that hold something a row of the tile may see."""
        s = self.shape
        if s.ring:
            return 0, ceildiv(dmin(s.start + s.n, s.slots), self.shape.block)
        last = dmin(s.start + (tile.token + tile.tokens), s.slots)
        first = floordiv(dmax(s.start + (tile.token - (s.window - 1)), 0), self.shape.block) if s.window else 0
        return first, ceildiv(last, self.shape.block)

    def _step(self, tile: _Tile, number: Dim) -> Iterator[Stmt]:
        """The block of slots with a number."""
        base = number * self.shape.block
        for r in range(tile.rows):
            yield Alloc(Buffer(f"maximum{r}", self.real, (), "register"))
            yield Store(f"maximum{r}", (), self._splat(imm(HIDDEN, F32)))
        yield from self._scores(tile, number)
        for r in range(tile.rows):
            yield from self._shares(r, base)
        yield from self._values(tile, base)

    def _scores(self, tile: _Tile, number: Dim) -> Iterator[Stmt]:
        """Scores of some vectors of slots at a time."""
        lanes, size = self.tiles.lanes, self.shape.size
        count = _divisor(self.shape.block // lanes, self.tiles.sums // tile.rows)
        part, d = variable("part", self.shape.block // lanes // count), variable("d", size)
        at, base = part.expr * (count * lanes), number * self.shape.block
        places = [(r, v) for r in range(tile.rows) for v in range(count)]
        body: list[Stmt] = []
        for r, v in places:
            body += [Alloc(Buffer(f"sum{r}_{v}", self.real, (), "register")), self._clear(f"sum{r}_{v}")]
        inner: list[Stmt] = [
            Let(f"k{v}", self._held("keys", (self.group, number, d.expr, at + v * lanes))) for v in range(count)
        ]
        for r, token, head in tile.places():
            inner.append(Let(f"x{r}", self._splat(Load("q", (token, head, d.expr), F32))))
            inner += [self._add(f"sum{r}_{v}", Ref(f"x{r}", self.real), Ref(f"k{v}", self.real)) for v in range(count)]
        body.append(loop(d, size, *inner))
        for r, v in places:
            body += self._score(f"sum{r}_{v}", r, base, at + v * lanes)
        yield loop(part, self.shape.block // lanes // count, *body)

    def _score(self, name: str, r: int, base: Dim, at: Dim) -> list[Stmt]:
        """A vector of sums as scores, those of slots that are not seen hidden."""
        value: ValueExpr = Load(name, (), self.real)
        if self.shape.kind == I8:
            value = op("mul", value, Load("keys_scale", (self.group, base + at), self.real))
        value = op("mul", value, self._splat(imm(self.shape.scale, F32)))
        if self.shape.cap:
            down, up = (self._splat(imm(x, F32)) for x in (1 / self.shape.cap, self.shape.cap))
            value = op("mul", op("tanh", op("mul", value, down)), up)
        score, seen = f"score_{name}", f"seen_{name}"
        maximum = op("max", Load(f"maximum{r}", (), self.real), Ref(seen, self.real))
        return [
            Let(score, value),
            Let(seen, self._hidden(Ref(score, self.real), r, base + at)),
            Store("share", (r, at), Ref(seen, self.real)),
            Store(f"maximum{r}", (), maximum),
        ]

    def _positions(self, r: int, token: Dim) -> Iterator[Stmt]:
        """The position of a row, the least that it sees, and in a ring the slots of these, on behind the end."""
        s, now = self.shape, Ref(f"now{r}", I32)
        yield Let(f"now{r}", idx(s.start + token))
        if s.window:
            yield Let(f"minimum{r}", op("max", op("sub", now, imm(s.window - 1)), imm(0)))
        if s.ring:
            minimum, first = Ref(f"minimum{r}", I32), Ref(f"first{r}", I32)
            yield Let(f"first{r}", op("fmod", minimum, imm(s.slots)))
            yield Let(f"last{r}", op("add", first, op("sub", now, minimum)))

    def _hidden(self, value: ValueExpr, r: int, slot: Dim) -> ValueExpr:
        """Scores of slots from ``slot`` on, those that row ``r`` does not see hidden."""
        s, hidden = self.shape, self._splat(imm(HIDDEN, F32))
        found = self._select(op("sub", Ref(f"{'last' if s.ring else 'now'}{r}", I32), idx(slot - 1)), value, hidden)
        if s.window:
            before = op("sub", Ref(f"{'first' if s.ring else 'minimum'}{r}", I32), idx(slot))
            found = self._select(before, hidden, found)
        if s.ring:  # what is behind the end is at the beginning
            found = self._select(op("sub", Ref(f"last{r}", I32), idx(slot + (s.slots - 1))), value, found)
        return found

    def _select(self, count: ValueExpr, yes: ValueExpr, no: ValueExpr) -> ValueExpr:
        """``yes`` in the first ``count`` lanes."""
        lanes = self.tiles.lanes
        inside = op("first", count, dtype=BOOL.with_lanes(lanes)) if lanes > 1 else op("gt", count, imm(0))
        return op("select", inside, yes, no, dtype=self.real)

    def _shares(self, r: int, base: Dim) -> Iterator[Stmt]:
        """Shares of a row relative to its new largest score, and by what those before go down."""
        top, maximum = Load(f"top{r}", (), F32), Load(f"maximum{r}", (), self.real)
        largest = maximum if self.tiles.lanes == 1 else op("fold_max", maximum, dtype=F32)
        yield Let(f"new{r}", op("max", top, largest))
        new, down = Ref(f"new{r}", F32), Ref(f"down{r}", F32)
        yield Let(f"down{r}", op("exp", op("sub", top, new)))
        yield Store(f"top{r}", (), new)
        yield Alloc(Buffer(f"more{r}", self.real, (), "register"))
        yield self._clear(f"more{r}")

        def share(at: Dim) -> list[Stmt]:
            value = op("exp", op("sub", Load("share", (r, at), self.real), self._splat(new)))
            kept = Ref(f"p{r}", self.real)
            more = op("add", Load(f"more{r}", (), self.real), kept)
            by: ValueExpr = kept
            if self.shape.kind == I8:
                by = op("mul", kept, Load("values_scale", (self.group, base + at), self.real))
            return [Let(f"p{r}", value), Store("share", (r, at), by), Store(f"more{r}", (), more)]

        yield self._along(f"j{r}", self.shape.block, share)
        more: ValueExpr = Load(f"more{r}", (), self.real)
        more = more if self.tiles.lanes == 1 else op("fold_add", more, dtype=F32)
        yield Store(f"total{r}", (), op("add", op("mul", Load(f"total{r}", (), F32), down), more))

    def _values(self, tile: _Tile, base: Dim) -> Iterator[Stmt]:
        """What was mixed before, scaled down, and the values of the block by their shares."""
        lanes, size = self.tiles.lanes, self.shape.size
        count = _divisor(size // lanes, self.tiles.sums // tile.rows)
        c, j = variable("c", size // lanes // count), variable("j", self.shape.block)
        at = c.expr * (count * lanes)
        places = [(r, v) for r in range(tile.rows) for v in range(count)]
        body: list[Stmt] = []
        for r, v in places:
            before = Load("mixed", (r, at + v * lanes), self.real)
            body.append(Alloc(Buffer(f"mix{r}_{v}", self.real, (), "register")))
            body.append(Store(f"mix{r}_{v}", (), op("mul", before, self._splat(Ref(f"down{r}", F32)))))
        inner: list[Stmt] = [
            Let(f"v{v}", self._held("values", (self.group, base + j.expr, at + v * lanes))) for v in range(count)
        ]
        for r in range(tile.rows):
            inner.append(Let(f"y{r}", self._splat(Load("share", (r, j.expr), F32))))
            inner += [self._add(f"mix{r}_{v}", Ref(f"y{r}", self.real), Ref(f"v{v}", self.real)) for v in range(count)]
        body.append(For(j, 0, self._filled(tile, base), Block(tuple(inner))))
        body += [Store("mixed", (r, at + v * lanes), Load(f"mix{r}_{v}", (), self.real)) for r, v in places]
        yield loop(c, size // lanes // count, *body)

    def _filled(self, tile: _Tile, base: Dim) -> Dim:
        """Slots of a block that were ever written: what is in others may be no number."""
        s = self.shape
        last = s.start + (s.n if s.ring else tile.token + tile.tokens)
        return dmin(last - base, self.shape.block)

    def _along(self, name: str, extent: int, body: Any) -> Stmt:
        """A loop over vectors."""
        var = variable(name, extent // self.tiles.lanes)
        return loop(var, extent // self.tiles.lanes, *body(var.expr * self.tiles.lanes))

    def _held(self, name: str, index: tuple[Dim, ...]) -> ValueExpr:
        """Keys or values as f32; those in 8 bits are not scaled yet."""
        loaded = Load(name, index, self._lanes(self.shape.kind))
        if self.shape.kind == I8:
            return cast(cast(loaded, self._lanes(I32)), self.real)
        return loaded if self.shape.kind == F32 else cast(loaded, self.real)

    def _clear(self, name: str) -> Stmt:
        return Store(name, (), self._splat(imm(0.0, F32)))

    def _add(self, name: str, a: ValueExpr, b: ValueExpr) -> Stmt:
        """A sum with a product more."""
        total = Load(name, (), self.real)
        if self.tiles.lanes == 1:
            return Store(name, (), op("add", total, op("mul", a, b)))
        return Store(name, (), op("fma", a, b, total))

    def _splat(self, value: ValueExpr) -> ValueExpr:
        """A number in all lanes."""
        return value if self.tiles.lanes == 1 else op("broadcast", value, dtype=self.real)


def _divisor(whole: int, maximum: int) -> int:
    """The largest divisor of ``whole`` up to ``maximum``; 1 at least."""
    return next(k for k in range(max(min(whole, maximum), 1), 0, -1) if whole % k == 0)
