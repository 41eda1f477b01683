"""Reads a module from its text; every error points at its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Graph
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Const, Module, Stack, Stage, State, StateLayout
from sdk.compiler.ir.op_table import OpTable
from sdk.compiler.ir.plan import Plan
from sdk.compiler.ir.text.parse_graph import read_graph
from sdk.compiler.ir.text.parse_layout import read_layout
from sdk.compiler.ir.text.parse_loops import read_loops
from sdk.compiler.ir.text.parse_plan import read_plan
from sdk.compiler.ir.text.parse_types import Reader, one_of, read_dims_header, read_number, read_type
from sdk.compiler.ir.text.scope import Scope
from sdk.compiler.ir.types import DType, TensorType
from sdk.compiler.sym.tokens import Cursor
from sdk.errors import SdkError
from sdk.source import Source

__all__ = ["parse_module"]

Array = NDArray[Any]
Item = TypeVar("Item", Const, Stack, State, Graph, Loops, Plan)


def parse_module(text: str | Source, blobs: Mapping[str, bytes] | None = None, ops: OpTable | None = None) -> Module:
    """Reads what ``print_module`` wrote.

    ``blobs`` maps SHA-256 digests to the bytes of the constants that the text names by digest. With ``ops``
    (``sdk.compiler.ops``), the written type of each op is checked against what the op infers.

    Raises:
        ParseError: with line, column and the text it points at.
    """
    source = text if isinstance(text, Source) else Source(text)
    r = Reader(Cursor(source), Scope(), ops)
    r.cursor.expect("module")
    name = r.cursor.name("the name of the module")
    stage = cast(Stage, one_of(r.cursor, Stage, "a stage"))
    items = _Items(blobs or {})
    while r.cursor.kind != "end":
        items.read(r)
    return Module(name, stage, items.consts, items.states, items.graphs, items.loops, items.plans, items.stacks)


class _Items:
    """What a module holds, as it is read."""

    def __init__(self, blobs: Mapping[str, bytes]) -> None:
        self.blobs = blobs
        self.consts: dict[str, Const] = {}
        self.stacks: dict[str, Stack] = {}
        self.states: dict[str, State] = {}
        self.graphs: dict[str, Graph] = {}
        self.loops: dict[str, Loops] = {}
        self.plans: dict[str, Plan] = {}

    def read(self, r: Reader) -> None:
        """Reads one item."""
        cursor = r.cursor
        word = cursor.text
        if word not in ("const", "state", "graph", "internal", "loops", "plan"):
            words = "const, state, graph, internal graph, loops or plan"
            cursor.fail(f"expected {words}, found {cursor.found()}")
        cursor.advance()
        at = cursor.mark
        if word == "const":
            const = _read_const(r, self.blobs)
            r.scope.values[f"@{const.name}"] = const.type
            if isinstance(const, Stack):
                _add(self.stacks, const, cursor, at)
            else:
                _add(self.consts, const, cursor, at)
        elif word == "state":
            _add(self.states, _read_state(r), cursor, at)
        elif word == "loops":
            _add(self.loops, read_loops(r), cursor, at)
        elif word == "plan":
            _add(self.plans, read_plan(r), cursor, at)
        else:
            if word == "internal":
                cursor.expect("graph")
                at = cursor.mark
            _add(self.graphs, read_graph(r, entry=word == "graph"), cursor, at)


def _add(items: dict[str, Item], item: Item, cursor: Cursor, at: int) -> None:
    if item.name in items:
        cursor.fail(f"@{item.name} is declared twice", at)
    items[item.name] = item


def _read_const(r: Reader, blobs: Mapping[str, bytes]) -> Const | Stack:
    cursor = r.cursor
    name = cursor.sigil("@", "the name of the constant, as @name")
    cursor.expect(":")
    type_ = read_type(r)
    layout = read_layout(cursor)
    iterations = cursor.integer() if cursor.accept("iterations") else None
    cursor.expect("=")
    at = cursor.mark
    data = _read_blob(r, type_, blobs) if cursor.accept("blob") else _read_elements(r, type_)
    try:
        if iterations is not None:
            return Stack(name, type_, tuple(data.reshape(iterations, *type_.static_shape)), layout)
        return Const(name, type_, data.reshape(type_.static_shape), layout)
    except (SdkError, ValueError):
        cursor.fail(f"{data.size} elements for the type {type_.dtype}{list(type_.shape)}", at, cursor.mark)


def _read_blob(r: Reader, type_: TensorType, blobs: Mapping[str, bytes]) -> Array:
    cursor = r.cursor
    if cursor.kind != "hash":
        cursor.fail(f"expected a digest, as #1f3a…, found {cursor.found()}")
    found = [data for digest, data in blobs.items() if digest.startswith(cursor.text[1:])]
    if len(found) != 1:
        message = f"{len(found) or 'none'} of the given blobs has the digest {cursor.text}"
        cursor.fail(message, hint="constants lie in NAME.npz beside NAME.ir; in Python, pass collect_blobs(module)")
    cursor.advance()
    return np.frombuffer(found[0], dtype=type_.dtype.numpy)


def _read_elements(r: Reader, type_: TensorType) -> Array:
    """Reads ``[1, 2, …]``: the elements in row-major order."""
    r.cursor.expect("[")
    return np.array(r.cursor.many(lambda: _element(r.cursor, type_.dtype), "]"), dtype=type_.dtype.numpy)


def _element(cursor: Cursor, dtype: DType) -> int | float | bool:
    at = cursor.mark
    if dtype.kind == "b":
        if cursor.text not in ("true", "false"):
            cursor.fail(f"expected true or false, found {cursor.found()}")
        return cursor.advance() == "true"
    value = read_number(cursor)
    if dtype.is_float:
        return float(value)
    lo, hi = dtype.limits
    if not isinstance(value, int) or not lo <= value <= hi:
        cursor.fail(f"{value} is not of type {dtype}", at, cursor.mark)
    return value


def _read_state(r: Reader) -> State:
    cursor = r.cursor
    name = cursor.sigil("@", "the name of the state, as @name")
    own = Reader(cursor, Scope(), r.ops)
    read_dims_header(own)
    cursor.expect(":")
    type_ = read_type(own)
    layout: StateLayout = "plain"
    axis = 0
    if cursor.text not in ("=", "iterations"):
        layout = cast(StateLayout, one_of(cursor, StateLayout, "a layout"))
        cursor.expect("(")
        axis = cursor.integer()
        cursor.expect(")")
    iterations = cursor.integer() if cursor.accept("iterations") else 1
    cursor.expect("=")
    init: str | int | None = None
    if cursor.text == "any":
        cursor.expect("any")
    else:
        init = cursor.sigil("@", "a constant") if cursor.kind == "sigil" else cursor.integer()
    return State(name, type_, init, layout, axis, iterations)
