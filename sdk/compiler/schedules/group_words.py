"""A primitive for products with weights in groups: panels of sixteen rows, whose blocks are read in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.layout import Records
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, If, Load, Loops, Param, Rows, Stmt, Store
from sdk.compiler.ir.types import F32, I8, I32
from sdk.compiler.ops.build import loop, variable
from sdk.compiler.ops.group_formats import GROUP, Format, Run
from sdk.compiler.ops.group_products import Place, named_fields, number_at, reader_of, scaled_sums
from sdk.compiler.schedules.group_panels import PANEL, format_of_products, panel_layout
from sdk.compiler.schedules.group_rows import byte_of_record
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import Dim, Var, ceildiv, max_value

__all__ = ["group_words", "in_words"]

WORD: Final = 4  # bytes


def group_words(loops: Loops) -> Loops:
    """Products with weights in groups, which lie in panels of sixteen rows as ``panel_layout`` has them: sixteen
    neighbours read neighbouring words.

    rewrite: ``for m { for n { acc = 0; for blocks { groups … } o[m, n] = acc } }`` --> ``rows p in lo..hi of n/16 {
    for m { for l in 0..16 { acc = 0; for records { words … } o[m, 16*p + l] = acc } } }``, each result a sum of its own
    obligation: the nest is that of ``dense_groups``.
    """
    form = format_of_products(loops)
    if form is None:
        raise ScheduleError(f"group_words: {loops.name} is no product with weights in groups")
    return _Words(loops, form).made()


def in_words(loops: Loops) -> bool:
    """Whether a nest is what ``group_words`` makes."""
    w = next((p for p in loops.params if p.buffer.name == "w"), None)
    named = [p.buffer.name for p in loops.params[:5]] == ["x", "scale", "sums", "w", "o"]
    return named and w is not None and any(isinstance(step, Records) for step in w.layout.steps)


@dataclass(frozen=True)
class _Words:
    loops: Loops
    form: Format

    def made(self) -> Loops:
        w, out = self.loops.param("w").buffer, self.loops.param("o").buffer
        (count, nbytes), (many, _) = w.shape, out.shape
        assert isinstance(nbytes, int)
        assert isinstance(count, int)
        layout = panel_layout(self.form, nbytes)
        type = layout.stored(w.type)
        panels = ceildiv(count, PANEL)
        maximum = max_value(panels) or 0
        range_ = Rows(Var("row_lo", 0, maximum), Var("row_hi", 0, maximum), panels)
        panel, row, lane = variable("panel", max(panels, 1)), variable("token", many), variable("lane", PANEL)
        token: Dim = 0 if many == 1 else row.expr
        (records,) = (step for step in layout.steps if isinstance(step, Records))
        work = loop(lane, PANEL, *self._result(token, panel.expr, lane.expr, records, type.shape[1]))
        body = Block((work,)) if many == 1 else Block((loop(row, many, work),))
        params = tuple(
            Param(replace(w, dtype=type.dtype, shape=type.shape), "read", layout) if p.buffer is w else p
            for p in self.loops.params
        )
        around = For(panel, range_.lo.expr, range_.hi.expr, body)
        return replace(self.loops, params=params, body=Block((around,)), rows=range_)

    def _result(self, m: Dim, panel: Dim, lane: Dim, records: Records, count: Dim) -> Iterator[Stmt]:
        """One number of the result."""
        yield Alloc(Buffer("acc", F32, (), "register"))
        yield Store("acc", (), imm(0.0, F32))
        record = variable("record", count)
        blocks = records.width // self.form.nbytes
        at: Dim = 0 if count == 1 else record.expr
        body: list[Stmt] = []
        for k in range(blocks):

            def place(first: int, more: Dim, k: int = k) -> Load:
                return byte_of_record(records, (panel, at, lane), k * self.form.nbytes + first, more)

            body.append(Block(tuple(self._block(m, at * blocks + k, place))))
        yield Block(tuple(body)) if count == 1 else loop(record, count, *body)
        rows = self.loops.param("o").buffer.shape[1]
        assert isinstance(rows, int)
        n = panel * PANEL + lane
        store = Store("o", (m, n), Load("acc", (), F32))
        yield store if rows % PANEL == 0 else If(op("lt", idx(n), imm(rows)), Block((store,)))

    def _block(self, m: Dim, block: Dim, place: Place) -> Iterator[Stmt]:
        """The products of a block, group by group."""
        lets, read = named_fields(self.form, reader_of(place))
        yield from lets
        acc = Load("acc", (), F32)
        for g, scales in enumerate(self.form.scales(read)):
            more = Store("acc", (), op("add", acc, scaled_sums(self.form, g, scales, m, block)))
            yield Block((*self._group(m, block, g, place), more))

    def _group(self, m: Dim, block: Dim, g: int, place: Place) -> Iterator[Stmt]:
        """The sums of the products of a group, a word of each run at a time: runs may be bits of the same bytes."""
        form = self.form
        totals = form.per_group if form.apart else 1
        for k in range(totals):
            yield Alloc(Buffer(f"total{k}", I32, (), "register"))
            start = block * (form.size // form.run) + g * totals + k
            yield Store(f"total{k}", (), Load("sums", (m, start), I32) if form.zero else imm(0))
        runs = form.runs[g * form.per_group : (g + 1) * form.per_group]
        whole = [[(n, run)] for n, run in enumerate(runs)] if form.apart else [list(enumerate(runs))]
        for number, some in enumerate(whole):
            word = variable(f"word{number}", some[0][1].count // WORD)
            yield loop(word, some[0][1].count // WORD, *self._word(m, block * form.size + g * GROUP, word, some, place))

    def _word(self, m: Dim, first: Dim, word: Var, runs: Sequence[tuple[int, Run]], place: Place) -> Iterator[Store]:
        for n, run in runs:
            name = f"total{n if self.form.apart else 0}"
            for k in range(WORD):
                j = word.expr * WORD + k
                x = cast(Load("x", (m, first + n * run.count + j), I8), I32)
                product = op("mul", x, number_at(self.form, run, place, j))
                yield Store(name, (), op("add", Load(name, (), I32), product))
