"""A primitive for products with weights in groups: panels of sixteen rows, whose blocks are read in lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.layout import Layout, Records, Tile
from sdk.compiler.ir.loops import (
    Alloc,
    Block,
    Buffer,
    For,
    Let,
    Load,
    Loops,
    Param,
    Ref,
    Rows,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.types import F32, I8, I16, I32, U8, U16, U32, DType, TensorType
from sdk.compiler.ir.walk import rewrite, statements, substitute_dims
from sdk.compiler.ops.group_formats import FORMATS, GROUP, Format, Reader, Run, Scales
from sdk.compiler.ops.group_products import number_of, products_loops
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import Dim, Var, ceildiv, floordiv, max_value, mod

__all__ = ["LINE", "PANEL", "Activations", "Factors", "format_of_products", "group_panels", "numbered", "panel_layout"]

PANEL: Final = 16  # rows of weights
WORD: Final = 4  # weights of a row that are next to each other in a vector
LINE: Final = 64  # bytes of a line of a cache: records are whole lines where they can be
Factors = Literal["word", "lane", "halves", "pairs", "signs"]
Activations = Literal["any", "quantised"]


def group_panels(
    loops: Loops, lanes: int, factors: Factors, sums: int, tokens: Sequence[int], given: Activations = "any"
) -> Loops:
    """Products with weights in groups, sixteen rows of weights at a time in vectors of ``lanes``, for each of
    ``tokens`` rows of activations at once in turn, with up to ``sums`` vectors of sums.

    rewrite: ``for m { for n { acc = 0; for blocks { groups … } o[m, n] = acc } }`` -->
    ``rows p in lo..hi of n/16 { for m/t { acc[t] = 0; for blocks { words { acc[t] += dot } } o[m, 16*p] = acc } }``
    with the weights stored as ``panel_layout`` has it. ``factors`` says how dot products take the activations: a "word"
    of four in all lanes by unsigned weights, a "lane" of a vector, "halves" of 16 bits, "pairs" of bytes whose sums
    have 16 bits (numbers of more than 7 bits do not fit these, and are multiplied in "halves"), or "signs": signed
    weights by activations that are never -128.
    obligation: the nest is that of ``dense_groups``; what it is ``given`` as activations and their sums is "quantised",
    if so called, by ``quantize_groups`` at every call, and "signs" take no other.
    """
    form = format_of_products(loops)
    if form is None:
        raise ScheduleError(f"group_panels: {loops.name} is no product with weights in groups")
    if PANEL % lanes or sums < 1 or not tokens or tokens[-1] != 1:
        raise ScheduleError(f"group_panels: no panels of {PANEL} rows in lanes of {lanes}, tiles of {list(tokens)}")
    if factors == "pairs" and not _in_pairs(form):
        factors = "halves"
    if factors == "signs" and not (form.signed and given == "quantised"):
        raise ScheduleError(f"group_panels: no signed weights by quantised activations in {loops.name}")
    return _Panels(loops, form, lanes, factors, sums, given).made(tokens)


def _in_pairs(form: Format) -> int:
    """How many sums of two products by activations of any 8 bits a sum of 16 bits has room for."""
    maximum = max((1 << run.low.bits + (run.high.bits if run.high else 0)) - 1 for run in form.runs)
    return I16.limits[1] // (2 * maximum * -I8.limits[0])


def format_of_products(loops: Loops) -> Format | None:
    """The format of the weights of a nest as ``dense_groups`` makes it; None where it is another."""
    buffers = {p.buffer.name: p.buffer for p in loops.params}
    if list(buffers) != ["x", "scale", "sums", "w", "o"] or loops.layouts or loops.trace:
        return None
    *types, out = (TensorType(b.dtype, b.shape) for b in buffers.values())
    plain = numbered(loops)
    for form in FORMATS.values():
        columns, nbytes = types[0].shape[-1], types[3].shape[-1]
        whole = isinstance(nbytes, int) and nbytes % form.nbytes == 0 and nbytes // form.nbytes * form.size == columns
        if whole and plain == numbered(drop_single_trips(products_loops("f", types, [out], {"format": form.name}))):
            return form
    return None


def numbered(loops: Loops) -> Block:
    """The body with loops numbered instead of named; passes may have named them anew."""
    found = {n.var: None for n in statements(loops.body) if isinstance(n, For)}
    new = {v: Var(f"loop{k}", v.lo, v.hi, v.multiple) for k, v in enumerate(found)}
    body = substitute_dims(loops.body, {v: n.expr for v, n in new.items()})
    ends = (loops.rows.lo, loops.rows.hi) if loops.rows else ()
    rows = {v: Var(f"rows{k}", v.lo, v.hi).expr for k, v in enumerate(ends)}

    def one(node: Any) -> Any:
        return replace(node, var=new[node.var]) if isinstance(node, For) else node

    return rewrite(substitute_dims(body, rows), one)


def panel_layout(form: Format, nbytes: int) -> Layout:
    """Rows of blocks in panels of sixteen: of each block the scales of all rows, then words of four bytes of each row.
    Where a panel's block is no whole lines of a cache, two are one record."""
    blocks = nbytes // form.nbytes
    pair = 2 if form.nbytes * PANEL % LINE and blocks % 2 == 0 else 1
    fields = sorted(_parts(form, pair), key=lambda part: part[2])
    return Layout((Tile(0, PANEL), Tile(1, form.nbytes * pair), Records(2, tuple(n for part in fields for n in part))))


def _parts(form: Format, blocks: int) -> Iterator[tuple[int, int, int]]:
    """The fields of some blocks behind each other, and what is between them in words."""
    for k in range(blocks):
        at = 0
        for first, count, unit in (*sorted(form.fields), (form.nbytes, 0, 1)):
            if first > at:
                yield k * form.nbytes + at, (first - at) // WORD, WORD
            if count:
                yield k * form.nbytes + first, count, unit
            at = first + count * unit


@dataclass(frozen=True)
class _Tile:
    """Rows of activations from ``row`` on, ``tokens`` of them, by ``vectors`` of a panel, counted from ``lane`` on."""

    row: Dim
    tokens: int
    lane: Dim
    vectors: tuple[int, ...]

    def places(self) -> Iterator[tuple[int, int]]:
        """Each row with each vector."""
        return ((t, v) for t in range(self.tokens) for v in self.vectors)


@dataclass(frozen=True)
class _Panels:
    loops: Loops
    form: Format
    lanes: int
    factors: Factors
    sums: int
    given: Activations

    @property
    def whole(self) -> DType:
        """Sums of products in lanes."""
        return I32.with_lanes(self.lanes)

    @property
    def real(self) -> DType:
        """Scaled sums in lanes."""
        return F32.with_lanes(self.lanes)

    @property
    def words(self) -> DType:
        """Weights of a vector."""
        return U8.with_lanes(WORD * self.lanes)

    def made(self, tokens: Sequence[int]) -> Loops:
        w, out = self.loops.param("w").buffer, self.loops.param("o").buffer
        (rows, nbytes), (many, _) = w.shape, out.shape
        assert isinstance(nbytes, int)
        assert isinstance(rows, int)
        layout = panel_layout(self.form, nbytes)
        type = layout.stored(w.type)
        panels = ceildiv(rows, PANEL)
        maximum = max_value(panels) or 0
        panel = Var("panel", 0, max(maximum - 1, 0))
        range_ = Rows(Var("row_lo", 0, maximum), Var("row_hi", 0, maximum), panels)
        body = Block(tuple(self._tiles(panel.expr, many, tokens, type)))
        params = tuple(
            Param(replace(w, dtype=type.dtype, shape=type.shape), "read", layout) if p.buffer is w else p
            for p in self.loops.params
        )
        around = For(panel, range_.lo.expr, range_.hi.expr, body)
        return replace(self.loops, params=params, body=Block((around,)), rows=range_)

    def _tiles(self, panel: Dim, many: Dim, tokens: Sequence[int], type: TensorType) -> Iterator[Stmt]:
        """All rows of activations by a panel, in tiles of as many as there are."""
        start: Dim = 0
        for k, count in enumerate(tokens):
            tiles = floordiv(many - start, count)
            maximum = max_value(tiles) or 0
            if maximum < 1:
                continue
            at = Var(f"tile{k}", 0, maximum - 1)
            vectors = min(max(self.sums // count, 1), PANEL // self.lanes)
            steps = PANEL // self.lanes // vectors
            part = Var(f"part{k}", 0, steps - 1)
            lane = part.expr * (vectors * self.lanes) if steps > 1 else 0
            row = start + (at.expr * count if tiles != 1 else 0)
            body = Block(tuple(self._tile(_Tile(row, count, lane, tuple(range(vectors))), panel, type)))
            if steps > 1:
                body = Block((For(part, 0, steps, body),))
            yield body if tiles == 1 else For(at, 0, tiles, body)
            start = start + tiles * count

    def _tile(self, tile: _Tile, panel: Dim, type: TensorType) -> Iterator[Stmt]:
        """The sums of a tile, over all records of the panel."""
        for t, v in tile.places():
            yield Alloc(Buffer(f"acc{t}_{v}", self.real, (), "register"))
            yield Store(f"acc{t}_{v}", (), self._splat(imm(0.0, F32)))
        _, records, width = type.shape
        assert isinstance(records, int)
        assert isinstance(width, int)
        record = Var("record", 0, max(records - 1, 0))
        at = record.expr if records > 1 else 0
        blocks = width // PANEL // self.form.nbytes
        body = Block(tuple(Block(tuple(self._block(tile, (panel, at), k, at * blocks + k))) for k in range(blocks)))
        yield For(record, 0, records, body) if records != 1 else body
        count = self.loops.param("o").buffer.shape[1]
        for t, v in tile.places():
            first = panel * PANEL + tile.lane + v * self.lanes
            some = None if mod(count, PANEL) == 0 else count - first
            yield Store("o", (tile.row + t, first), Load(f"acc{t}_{v}", (), self.real), some)

    def _block(self, tile: _Tile, place: tuple[Dim, Dim], k: int, block: Dim) -> Iterator[Stmt]:
        """The products of block ``k`` of the record at ``place``, the one numbered ``block`` of the row."""
        one = self.form.groups == 1  # whose scales need no registers until its sums are done
        # scales of several groups fill registers: by one token a vector at a time
        apart = tile.tokens == 1 and not one
        alone = [replace(tile, vectors=(v,)) for v in tile.vectors] if apart else [tile]
        for part in alone:
            made = {v: self._fields(part, place, k, v) for v in part.vectors}
            fields = [stmt for named, _ in made.values() for stmt in named]
            scales = {v: self.form.scales(read) for v, (_, read) in made.items()}
            groups: list[Stmt] = [*(() if one else fields)]
            for g in range(self.form.groups):
                sums, at = self._group(part, place, k, g, block), block * self.form.groups + g
                scaled = (s for v in part.vectors for s in self._scaled(part, v, scales[v][g], at))
                # sixteen registers hold what one group needs, of bytes that several groups have bits of
                settled = self._settled(part) if self.factors == "pairs" and self.form.apart and apart else ()
                groups.append(Block((*sums, *(fields if one else ()), *scaled, *settled)))
            yield Block(tuple(groups))
        if self.factors == "lane" and one:  # thirty-two registers hold what one block needs
            yield from self._settled(replace(tile, vectors=tile.vectors[-1:]))

    def _settled(self, tile: _Tile) -> Iterator[Stmt]:
        """Sums that C compilers compute before they read more memory, instead of storing what they read too early."""
        for t, v in tile.places():
            name = f"acc{t}_{v}"
            yield Store(name, (), op("settled", Load(name, (), self.real)))

    def _fields(self, tile: _Tile, place: tuple[Dim, Dim], k: int, v: int) -> tuple[list[Stmt], Reader]:
        """The fields of a block in lanes, named, and what reads them."""
        lets: list[Stmt] = []
        kinds: dict[tuple[int, int], Ref] = {}
        for first, count, unit in self.form.fields:
            for n in range(count):
                kind = (U16 if unit == 2 else U32).with_lanes(self.lanes)
                at = first + n * unit
                loaded = self._stored(tile, place, k * self.form.nbytes + at, unit, v)
                lets.append(Let(f"f{at}_{v}", op("bits", loaded, dtype=kind)))
                kinds[at, unit] = Ref(f"f{at}_{v}", kind)
        return lets, lambda first, unit: kinds[first, unit]

    def _stored(self, tile: _Tile, place: tuple[Dim, Dim], byte: int, unit: int, v: int) -> Load:
        """``unit`` bytes of each row of vector ``v`` from a byte of the record on."""
        before = 0
        nbytes = self.loops.param("w").buffer.shape[1]
        assert isinstance(nbytes, int)
        (records,) = (s for s in panel_layout(self.form, nbytes).steps if isinstance(s, Records))
        for first, count, size in records.parts:
            if first <= byte < first + count * size:
                at = PANEL * (before + byte - first) + tile.lane * size + v * self.lanes * size
                return Load("w", (*place, at), U8.with_lanes(unit * self.lanes))
            before += count * size
        raise AssertionError(f"byte {byte} is in no field")

    def _group(self, tile: _Tile, place: tuple[Dim, Dim], k: int, g: int, block: Dim) -> Iterator[Stmt]:
        """Products of a group in integers."""
        totals = self.form.per_group if self.form.apart else 1
        for t, v in tile.places():
            for n in range(totals):
                yield Alloc(Buffer(f"total{t}_{v}_{n}", self.whole, (), "register"))
        for t in range(tile.tokens):
            for n in range(totals):
                yield from self._begin(tile, t, n, block * (self.form.size // self.form.run) + g * totals + n, block, g)
        runs = self.form.runs[g * self.form.per_group : (g + 1) * self.form.per_group]
        words = [(n, j) for n, run in enumerate(runs) for j in range(0, run.count, WORD)]
        if totals == 1:  # runs in turn: they may be bits of the same bytes
            words.sort(key=lambda word: word[1])
        maximum = _in_pairs(self.form) if self.factors == "pairs" else len(words)
        for first in range(0, len(words), maximum):
            some: list[Stmt] = []
            for n, j in words[first : first + maximum]:
                x = block * self.form.size + g * GROUP + n * runs[n].count + j
                some.append(Block(tuple(self._word(tile, place, k, runs[n], j, x, n if totals > 1 else 0))))
            if self.factors == "pairs":
                yield Block(tuple(self._paired(tile, some, words[first][0] if totals > 1 else 0)))
            else:
                yield from some

    def _paired(self, tile: _Tile, words: list[Stmt], n: int) -> Iterator[Stmt]:
        """Sums of 16 bits around the products of some words, which are added to the sums of a run."""
        for t, v in tile.places():
            yield Alloc(Buffer(f"pair{t}_{v}", I16.with_lanes(2 * self.lanes), (), "register"))
            yield Store(f"pair{t}_{v}", (), op("broadcast", imm(0, I16), dtype=I16.with_lanes(2 * self.lanes)))
        yield from words
        ones = op("broadcast", imm(1, I16), dtype=I16.with_lanes(2 * self.lanes))
        for t, v in tile.places():
            name, pair = f"total{t}_{v}_{n}", Load(f"pair{t}_{v}", (), I16.with_lanes(2 * self.lanes))
            yield Store(name, (), op("dot", Load(name, (), self.whole), pair, ones))

    def _begin(self, tile: _Tile, t: int, n: int, at: Dim, block: Dim, g: int) -> Iterator[Stmt]:
        """What the sums of a run start from: that of the activations, which takes off what numbers are too large."""
        start: ValueExpr = Load("sums", (tile.row + t, at), I32) if self.form.zero else imm(0)
        if self._signed and self.given == "quantised":
            start = imm(0)
        elif self._signed:  # factors are the numbers less 128 here
            whole: ValueExpr = imm(0)
            x = block * self.form.size + g * GROUP
            four = op("broadcast", imm(0), dtype=I32.with_lanes(4))
            ones = op("broadcast", imm(1, I8), dtype=I8.with_lanes(16))
            for half in range(0, GROUP, 16):
                four = op("dot", four, Load("x", (tile.row + t, x + half), I8.with_lanes(16)), ones)
            whole = op("fold_add", four, dtype=I32)
            start = op("add", start, op("mul", whole, imm(self.form.zero)))
        for v in tile.vectors:
            yield Store(f"total{t}_{v}_{n}", (), self._splat(start))

    @property
    def _signed(self) -> bool:
        """Whether numbers do not fit factors, but are less ``zero`` what bytes are."""
        return self.form.signed and self._signed_bytes

    @property
    def _signed_bytes(self) -> bool:
        """Whether dot products take weights as signed bytes."""
        return self.factors in ("lane", "signs")

    def _word(self, tile: _Tile, place: tuple[Dim, Dim], k: int, run: Run, j: int, x: Dim, n: int) -> Iterator[Stmt]:
        """Four weights of each row by four activations of each token."""
        for v in tile.vectors:
            yield Let(f"n{v}", self._numbers(tile, place, k, run, j, v))
        if self.factors == "halves":
            for t in range(tile.tokens):
                word = op("bits", self._activations(tile.row + t, x), dtype=I16.with_lanes(2 * self.lanes))
                yield from self._halves(f"x{t}", word, signed=True)
            for v in tile.vectors:
                number = Ref(f"n{v}", self.words)
                yield from self._halves(f"h{v}", op("bits", number, dtype=U16.with_lanes(2 * self.lanes)), signed=False)
        for t, v in tile.places():
            name, kind = f"total{t}_{v}_{n}", self.whole
            if self.factors == "pairs":
                name, kind = f"pair{t}_{v}", I16.with_lanes(2 * self.lanes)
            yield Store(name, (), self._dot(Load(name, (), kind), tile, t, v, x))

    def _halves(self, name: str, pairs: ValueExpr, signed: bool) -> Iterator[Stmt]:
        """Even and odd bytes as 16 bits."""
        kind = I16.with_lanes(2 * self.lanes)
        eight = op("broadcast", imm(8, pairs.dtype.scalar), dtype=pairs.dtype)
        mask = op("broadcast", imm(255, pairs.dtype.scalar), dtype=pairs.dtype)
        low = op("shr", op("shl", pairs, eight), eight) if signed else op("and", pairs, mask)
        for part, value in (("e", low), ("o", op("shr", pairs, eight))):
            yield Let(f"{name}{part}", value if signed else op("bits", value, dtype=kind))

    def _numbers(self, tile: _Tile, place: tuple[Dim, Dim], k: int, run: Run, j: int, v: int) -> ValueExpr:
        """The numbers of four weights of each row of a vector, as factors of dot products."""

        def byte(first: int) -> ValueExpr:
            return self._stored(tile, place, k * self.form.nbytes + first + j, WORD, v)

        value = number_of(run, byte)
        if self.form.signed and not self._signed:
            value = op("xor", value, op("broadcast", imm(self.form.zero, U8), dtype=self.words))
        return op("bits", value, dtype=I8.with_lanes(WORD * self.lanes)) if self._signed_bytes else value

    def _dot(self, total: ValueExpr, tile: _Tile, t: int, v: int, x: Dim) -> ValueExpr:
        """A vector of sums with the products of a word more."""
        row = tile.row + t
        if self.factors == "halves":
            kind = I16.with_lanes(2 * self.lanes)
            for part in "eo":
                total = op("dot", total, Ref(f"h{v}{part}", kind), Ref(f"x{t}{part}", kind))
            return total
        if self.factors in ("word", "pairs"):
            dot = "dot" if self.factors == "word" else "dot_small"
            return op(dot, total, Ref(f"n{v}", self.words), self._activations(row, x))
        if self.factors == "signs":
            weights = Ref(f"n{v}", I8.with_lanes(WORD * self.lanes))
            return op("dot_narrow", total, weights, self._activations(row, x))
        lane = mod(x, 16)
        assert isinstance(lane, int)  # blocks are of multiples of 16
        vector = Load("x", (row, x - lane), I8.with_lanes(16))
        return op("dot_lane", total, vector, Ref(f"n{v}", I8.with_lanes(WORD * self.lanes)), imm(lane // WORD))

    def _activations(self, row: Dim, x: Dim) -> ValueExpr:
        """Four activations, by the weights of every lane."""
        return op("broadcast", Load("x", (row, x), I8.with_lanes(WORD)), dtype=I8.with_lanes(WORD * self.lanes))

    def _scaled(self, tile: _Tile, v: int, scales: Scales, group: Dim) -> Iterator[Stmt]:
        """Sums of products of a vector, scaled and added to those of the groups before."""
        yield Let(f"step{v}", scales.step)
        step = Ref(f"step{v}", self.real)
        for k, factor in enumerate(scales.factors):
            yield Let(f"factor{v}_{k}", factor)
        if scales.minimum is not None:
            yield Let(f"minimum{v}", scales.minimum)
        for t in range(tile.tokens):
            name, row = f"acc{t}_{v}", tile.row + t
            acc: ValueExpr = Load(name, (), self.real)
            names = [f"total{t}_{v}_{n}" for n in range(len(scales.factors) or 1)]
            first, *more = (cast(Load(part, (), self.whole), self.real) for part in names)
            total = op("mul", first, Ref(f"factor{v}_0", self.real)) if scales.factors else first
            for n, part in enumerate(more, 1):
                total = op("fma", part, Ref(f"factor{v}_{n}", self.real), total)
            if scales.minimum is not None:
                acc = op("fma", self._splat(Load("sums", (row, group), F32)), Ref(f"minimum{v}", self.real), acc)
            scale = op("mul", step, self._splat(Load("scale", (row, group), F32)))
            yield Store(name, (), op("fma", total, scale, acc))

    def _splat(self, value: ValueExpr) -> ValueExpr:
        """A number in all lanes."""
        return op("broadcast", value, dtype=value.dtype.with_lanes(self.lanes))
