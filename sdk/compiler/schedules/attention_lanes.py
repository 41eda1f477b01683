"""A primitive for attention: scores, shares and values of several rows at once, in lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.ir.loops import For, Idx, Imm, Let, Loops, Op, ValueExpr
from sdk.compiler.ir.types import I8, TensorType
from sdk.compiler.ir.walk import statements, substitute_dims, walk
from sdk.compiler.ops.attention_loops import Shape, Tiles, attention_loops
from sdk.compiler.schedules.group_panels import numbered
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import Dim, Var, substitute

__all__ = ["attention_lanes", "shape_of_attention"]

_INPUTS = ["q", "keys", "values"]
_SCALES = ["keys_scale", "values_scale"]


def attention_lanes(loops: Loops, lanes: int, sums: int, tokens: Sequence[int]) -> Loops:
    """Attention in vectors of ``lanes``, for each of ``tokens`` (or of heads, for one token) rows at once in turn, with
    up to ``sums`` vectors of sums.

    rewrite: ``for rows { for blocks { for slots { sum … } … } }`` -->
    ``for rows/t { for blocks { for slots/l { sum[t] … } … } }``, sums of products fused.
    obligation: the nest is that of ``attend`` or ``attend_bytes``, its blocks and its heads whole vectors.
    """
    shape = shape_of_attention(loops)
    if shape is None:
        raise ScheduleError(f"attention_lanes: {loops.name} is no attention")
    if lanes < 2 or shape.block % lanes or shape.size % lanes or not tokens or tokens[-1] != 1:
        sizes = f"blocks of {shape.block} and heads of {shape.size}"
        raise ScheduleError(f"attention_lanes: no vectors of {lanes} for {sizes}")
    made = attention_loops(loops.name, shape, Tiles(lanes, sums, tuple(tokens)))
    return replace(loops, body=made.body, rows=made.rows)


def shape_of_attention(loops: Loops, *, all_rows: bool = False) -> Shape | None:
    """What a nest as ``attend`` or ``attend_bytes`` makes it computes; None where it is another. ``all_rows``: the
    nest computes all rows whatever its range says."""
    buffers = {p.buffer.name: p.buffer for p in loops.params}
    known = list(buffers) in ([*_INPUTS, "o"], [*_INPUTS, *_SCALES, "o"])
    if not known or loops.layouts or loops.trace or not loops.rows:
        return None
    lets = {s.name: s.value for s in statements(loops.body) if isinstance(s, Let)}
    given = _attributes(lets)
    now = lets.get("now0")
    types = [TensorType(b.dtype, b.shape) for b in buffers.values()]
    if given is None or not isinstance(now, Idx) or [t.rank for t in types[:3]] != [3, 4, 3]:
        return None
    if (types[1].dtype == I8) is not (len(types) == 6):
        return None
    loop_vars = {s.var: 0 for s in statements(loops.body) if isinstance(s, For)}
    shape = Shape.of(types, {"start": substitute(now.dim, loop_vars), **given})
    plain = attention_loops(loops.name, shape)
    if all_rows and plain.rows is not None:
        whole: dict[Var, Dim] = {plain.rows.lo: 0, plain.rows.hi: plain.rows.extent}
        plain = replace(plain, body=substitute_dims(plain.body, whole))
    plain = drop_single_trips(plain)
    return shape if numbered(loops) == numbered(plain) else None


def _attributes(lets: Mapping[str, ValueExpr]) -> dict[str, float] | None:
    """Scale, cap, window and ring by the values that a nest names."""
    score, minimum, first = (lets.get(name) for name in ("score_sum0_0", "minimum0", "first0"))
    numbers = [n.value for n in walk(score) if isinstance(n, Imm)] if score is not None else []
    scaled = isinstance(score, Op) and len(numbers) in (1, 3)
    if not scaled:
        return None
    window = next((n.value for n in walk(minimum) if isinstance(n, Imm)), None) if minimum is not None else None
    cap = numbers[-1] if len(numbers) == 3 else 0.0
    wide = 0 if window is None else int(window) + 1
    return {"scale": numbers[0], "cap": cap, "window": wide, "ring": first is not None}
