"""Vectors of constants that a kernel reads at one place become one table: an array of structures, a row per channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call, Graph, Value, WriteState
from sdk.compiler.ir.intrinsics import apply
from sdk.compiler.ir.loops import Block, Buffer, Idx, Imm, Load, Loops, Op, Param, Ref, ValueExpr
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.types import I32, TensorType
from sdk.compiler.ir.walk import rewrite, walk
from sdk.compiler.schedules.locate import fresh
from sdk.compiler.sym import Dim
from sdk.errors import BuildError

__all__ = ["InterleaveConstants"]

MIN_VECTORS: Final = 2  # that make a table worth it
HOISTED: Final = frozenset({"add", "sub", "neg", "shl", "shr"})


@dataclass(frozen=True)
class InterleaveConstants:
    """Scheduled to scheduled: 32-bit vectors as long as each other that every call of a kernel gives as constants, and
    that are read a number at a time, are one table of a row for each place. What is computed of one row alone is a
    column of its own, so that it is computed here."""

    name = "interleave-constants"

    def run(self, module: Module) -> Module:
        """The module with such tables; itself where there are none."""
        made = {name: found for name, f in module.loops.items() if (found := _tabled(module, f)) is not None}
        if not made:
            return module
        consts: dict[str, Const] = {}
        graphs = {g.name: _called(g, made, module, consts) for g in module.graphs.values()}
        loops = {name: made[name].loops if name in made else f for name, f in module.loops.items()}
        return replace(module, loops=loops, graphs=graphs).with_consts(*consts.values())


@dataclass(frozen=True)
class _Table:
    """A function that reads a table: ``params`` are the vectors it had before, at these positions of what it reads;
    ``columns`` say what of them a column is, read at index 0."""

    loops: Loops
    params: Mapping[str, int]
    columns: tuple[ValueExpr, ...]


def _tabled(module: Module, f: Loops) -> _Table | None:
    reads = [p.buffer.name for p in f.params if p.mode == "read"]
    vectors = {p.buffer.name: reads.index(p.buffer.name) for p in f.params if _is_vector(p)}
    calls = [n for g in module.graphs.values() for n in g.body if isinstance(n, Call) and n.callee == f.name]
    states = any(
        isinstance(n, WriteState) and n.kernel == f.name for g in module.graphs.values() for n in g.body
    )
    plain = {b for b, k in vectors.items() if all(_is_plain(module, c.args[k]) for c in calls)}
    loads = [n for n in walk(f.body) if isinstance(n, Load) and n.buffer in plain]
    plain -= {n.buffer for n in loads if n.dtype != I32 or n.count is not None}
    plain &= {n.buffer for n in loads}
    lengths = {f.param(b).buffer.shape for b in plain}
    if states or not calls or len(plain) < MIN_VECTORS or len(lengths) != 1:
        return None
    (length,) = lengths.pop()
    name = fresh(f, "table")
    found = [n for n in walk(f.body) if isinstance(n, Load | Op) and _place(n, plain) is not None]
    columns: list[ValueExpr] = []
    body = f.body
    # what holds others comes before them, and is no place to read them any more
    for value in dict.fromkeys(sorted(found, key=lambda n: -sum(1 for _ in walk(n)))):
        place = _place(value, plain)
        if place is None or not any(n == value for n in walk(body)):
            continue
        what = _at_zero(value)
        if what not in columns:
            columns.append(what)
        body = _replaced(body, value, Load(name, (place, columns.index(what)), I32))
    order = _order(body, name, len(columns))
    body = rewrite(body, lambda n: _moved(n, name, order))
    table = Param(Buffer(name, I32, (length, len(columns))), "read")
    first = min(vectors[b] for b in plain)
    params = [table if p.buffer.name == reads[first] else p for p in f.params]
    kept = tuple(p for p in params if p.buffer.name not in plain)
    positions = {b: vectors[b] for b in sorted(plain, key=vectors.__getitem__)}
    return _Table(replace(f, params=kept, body=body), positions, tuple(columns[k] for k in order))


def _replaced(body: Block, old: ValueExpr, new: ValueExpr) -> Block:
    return rewrite(body, lambda n: new if n == old else n)


def _is_vector(param: Param) -> bool:
    buffer = param.buffer
    shape = buffer.shape
    return param.mode == "read" and buffer.dtype == I32 and len(shape) == 1 and isinstance(shape[0], int)


def _is_plain(module: Module, arg: Value) -> bool:
    return arg.const and not module.consts[arg.name].layout.steps


def _place(value: ValueExpr, plain: set[str]) -> Dim | None:
    """Where a value reads the vectors, if it is made of nothing else and reads them at one place."""
    loads: list[Load] = []
    for node in walk(value):
        match node:
            case Load() if node.buffer in plain:
                loads.append(node)
            case Op() if node.name in HOISTED and node.dtype == I32:
                pass
            case Imm() if node.dtype == I32:
                pass
            case Load() | Op() | Imm() | Idx() | Ref():
                return None
    places = {n.index[0] for n in loads}
    return places.pop() if len(places) == 1 else None


def _at_zero(value: ValueExpr) -> ValueExpr:
    """The value where it reads the vectors at index 0."""
    found: ValueExpr = rewrite(value, lambda n: replace(n, index=(0,)) if isinstance(n, Load) else n)
    return found


def _order(body: Block, name: str, count: int) -> list[int]:
    """The columns as they are first read."""
    reads = [n.index[1] for n in walk(body) if isinstance(n, Load) and n.buffer == name]
    return [k for k in dict.fromkeys(reads) if isinstance(k, int)][:count]


def _moved(node: Any, name: str, order: list[int]) -> Any:
    if isinstance(node, Load) and node.buffer == name and isinstance(node.index[1], int):
        return replace(node, index=(node.index[0], order.index(node.index[1])))
    return node


def _called(graph: Graph, made: Mapping[str, _Table], module: Module, consts: dict[str, Const]) -> Graph:
    body = []
    for node in graph.body:
        if isinstance(node, Call) and node.kind == "loops" and node.callee in made:
            table = made[node.callee]
            data = {b: module.consts[node.args[k].name].data for b, k in table.params.items()}
            rows = np.stack([_column(c, data) for c in table.columns], axis=1)
            first = min(table.params.values())
            name = _name(f"{node.args[first].name}_table", rows, module, consts)
            value = Value(name, consts[name].type, const=True)
            taken = set(table.params.values())
            args = (value if k == first else v for k, v in enumerate(node.args) if k == first or k not in taken)
            node = replace(node, args=tuple(args))
        body.append(node)
    return replace(graph, body=tuple(body))


def _column(value: ValueExpr, data: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The value at every place."""
    match value:
        case Load():
            return data[value.buffer]
        case Imm():
            return np.full_like(next(iter(data.values())), value.value)
        case Op():
            return np.asarray(apply(value.name, [_column(a, data) for a in value.args], value.dtype))
    raise BuildError(f"a column of a table is made of {value}")


def _name(stem: str, rows: NDArray[Any], module: Module, consts: dict[str, Const]) -> str:
    """The name of a constant with these rows, which is made where there is none."""
    name = stem
    while name in module.consts or (name in consts and not np.array_equal(consts[name].data, rows)):
        name += "_"
    consts.setdefault(name, Const(name, TensorType(I32, rows.shape), rows))
    return name
