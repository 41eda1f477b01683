"""A primitive for single rows of weights in groups: they are read out of the panels that products read."""

from __future__ import annotations

from dataclasses import replace

from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.ir.layout import Layout, Records
from sdk.compiler.ir.loops import Load, Loops, Param
from sdk.compiler.ir.types import U8, TensorType
from sdk.compiler.ops.group_formats import FORMATS, Format
from sdk.compiler.ops.group_products import Held, Place, lookup_loops, rows_loops
from sdk.compiler.schedules.group_panels import PANEL, numbered, panel_layout
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import Dim, floordiv, mod

__all__ = ["byte_of_record", "format_of_rows", "group_rows"]


def group_rows(loops: Loops) -> Loops:
    """Rows of weights in groups, stored in panels of sixteen: a matrix that is an embedding and a factor of products
    is stored once.

    rewrite: ``for m { for blocks { o[m, ...] = step * w[at, block + byte] } }`` -->
    ``for m { for records { o[m, ...] = step * w[at/16, record, places(byte) + at mod 16] } }`` with the weights stored
    as ``panel_layout`` has it.
    obligation: the nest is that of ``lookup_groups``.
    """
    form = format_of_rows(loops)
    if form is None:
        raise ScheduleError(f"group_rows: {loops.name} takes no rows of weights in groups")
    w, indices, out = (p.buffer for p in loops.params)
    nbytes = w.shape[1]
    assert isinstance(nbytes, int)
    layout = panel_layout(form, nbytes)
    (records,) = (step for step in layout.steps if isinstance(step, Records))
    types, out_type = [TensorType(b.dtype, b.shape) for b in (w, indices)], TensorType(out.dtype, out.shape)

    def place(panel: Dim, row: Dim, record: Dim, k: int) -> Place:
        return lambda first, more: byte_of_record(records, (panel, record, row), k * form.nbytes + first, more)

    held = Held(PANEL, records.width // form.nbytes, place)
    made = lookup_loops(loops.name, types, [out_type], form, held)
    return replace(loops, params=_stored(loops, layout), body=made.body, rows=made.rows)


def format_of_rows(loops: Loops) -> Format | None:
    """The format of the weights of a nest as ``lookup_groups`` makes it; None where it is another."""
    buffers = [p.buffer for p in loops.params]
    if [b.name for b in buffers] != ["w", "indices", "o"] or loops.layouts or loops.trace:
        return None
    *types, out = (TensorType(b.dtype, b.shape) for b in buffers)
    nbytes = types[0].shape[-1]
    if types[0].rank != 2 or not isinstance(nbytes, int) or not out.rank:
        return None
    found = numbered(loops)
    for form in FORMATS.values():
        whole = nbytes % form.nbytes == 0 and form.columns(nbytes) == out.shape[-1]
        if whole and found == numbered(drop_single_trips(rows_loops("f", types, [out], {"format": form.name}))):
            return form
    return None


def _stored(loops: Loops, layout: Layout) -> tuple[Param, ...]:
    """The parameters, the weights stored in panels."""
    w = loops.param("w").buffer
    type = layout.stored(TensorType(w.dtype, w.shape))
    packed = Param(replace(w, dtype=type.dtype, shape=type.shape), "read", layout)
    return tuple(packed if p.buffer is w else p for p in loops.params)


def byte_of_record(records: Records, place: tuple[Dim, Dim, Dim], byte: int, more: Dim) -> Load:
    """The byte ``more`` behind ``byte``, which are in one field, of a record of a panel's row."""
    panel, record, row = place
    before = 0
    for first, count, size in records.parts:
        if first <= byte < first + count * size:
            inside = byte - first + more
            at = PANEL * (before + floordiv(inside, size) * size) + row * size + mod(inside, size)
            return Load("w", (panel, record, at), U8)
        before += count * size
    raise AssertionError(f"byte {byte} is in no field")
