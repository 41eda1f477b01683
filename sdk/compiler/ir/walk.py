"""One field-driven traversal and rewrite for every frozen node of the loops level; unchanged parts keep identity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from operator import is_
from typing import Any, Final, TypeVar

from sdk.compiler.ir.loops import Alloc, Atomic, Block, Buffer, For, Idx, If, Let, Load, Op, Ref, Stmt, Store
from sdk.compiler.ir.types import DType
from sdk.compiler.sym import Dim, Expr, Var, substitute

__all__ = [
    "allocated",
    "below",
    "buffers_used",
    "inner_blocks",
    "instantiated",
    "rename_buffers",
    "rewrite",
    "statements",
    "substitute_dims",
    "walk",
]

T = TypeVar("T")
Names = tuple[str, ...]


class _Fields(dict[type, Names | None]):
    """The fields of each kind of node but those with annotations ``without``, as a stack takes them if ``last_first``;
    None for what is no node. Filled as kinds are met: a lookup is all that a node costs after the first of its kind."""

    def __init__(self, without: frozenset[str] = frozenset(), *, last_first: bool = False) -> None:
        super().__init__({DType: None})  # nothing is below it, and it stands everywhere
        self._without, self._step = without, -1 if last_first else 1

    def __missing__(self, kind: type) -> Names | None:
        held = [f.name for f in fields(kind) if f.type not in self._without] if is_dataclass(kind) else None
        names = self[kind] = None if held is None else tuple(held[:: self._step])
        return names


# annotations of fields that no node is in: most fields of the nodes that there are most of
_NO_DIM: Final = frozenset({"str", "int", "bool", "int | float", "DType", "Var"})
_PLAIN: Final = _NO_DIM | {"Dim", "Dim | None", "tuple[Dim, ...]"}
_FIELDS: Final = _Fields()
_BELOW: Final = _Fields(_PLAIN)
_LAST_FIRST: Final = _Fields(_PLAIN, last_first=True)
_WITH_DIMS: Final = _Fields(_NO_DIM)


def walk(node: object) -> Iterator[Any]:
    """Every node below and including ``node``, outer before inner, in field order."""
    waiting: list[Any] = [node]  # a stack of its own: large bodies are walked often, and recursion costs most of it
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is tuple:
            waiting += item[::-1]
            continue
        names = _LAST_FIRST[kind]
        if names is not None:
            yield item
            for name in names:
                waiting.append(getattr(item, name))


def below(node: object) -> tuple[Any, ...]:
    """What the fields of a node hold that nodes may be in: nodes and tuples of them; () for what is no node."""
    return tuple(getattr(node, name) for name in _LAST_FIRST[type(node)] or ())


def statements(block: Block) -> Iterator[Stmt]:
    """Every statement of a block, outer before inner, in order: as ``walk`` without the values below them."""
    waiting: list[Stmt] = [block]
    while waiting:
        item = waiting.pop()
        yield item
        match item:
            case Block(body):
                waiting.extend(reversed(body))
            case For():
                waiting.append(item.body)
            case If(_, then, orelse):
                waiting.extend([orelse, then] if orelse is not None else [then])


def inner_blocks(stmt: Stmt) -> tuple[Block, ...]:
    """The blocks that a statement holds, those inside them left out; a block holds itself."""
    match stmt:
        case Block():
            return (stmt,)
        case For():
            return (stmt.body,)
        case If():
            return (stmt.then,) if stmt.orelse is None else (stmt.then, stmt.orelse)
        case _:
            return ()


def allocated(block: Block) -> list[Buffer]:
    """The buffers that a block declares, at any depth, in order."""
    return [stmt.buffer for stmt in statements(block) if isinstance(stmt, Alloc)]


def rewrite(node: T, fn: Callable[[Any], Any]) -> T:
    """Rebuilds bottom up with ``fn(node) -> node``; returns the same object where nothing changed."""

    def one(item: Any) -> Any:
        kind = type(item)
        if kind is tuple:
            return _rewritten(item, one)
        names = _BELOW[kind]
        return item if names is None else fn(_rebuilt(item, names, one))

    result: T = one(node)
    return result


def _rewritten(items: Any, one: Callable[[Any], Any]) -> Any:
    """The tuple of what ``one`` makes of each; the same object where nothing changed."""
    new = tuple(map(one, items))
    return items if all(map(is_, new, items)) else new


def _rebuilt(node: Any, names: Names, one: Callable[[Any], Any]) -> Any:
    """The node with the fields ``names`` as ``one`` makes them; the same object where nothing changed."""
    if not names:
        return node
    old = [getattr(node, name) for name in names]
    new = list(map(one, old))
    if all(map(is_, new, old)):
        return node
    # all fields of a node are arguments of its class, in order; dataclasses.replace takes five times as long
    made = dict(zip(names, new, strict=True))
    kind = type(node)
    return kind(*[made[name] if name in made else getattr(node, name) for name in _FIELDS[kind] or ()])


def substitute_dims(node: T, env: Mapping[Var, Dim]) -> T:
    """Replaces variables in every dim of the node (indices, extents, shapes)."""

    def one(item: Any) -> Any:
        kind = type(item)
        if kind is Expr:
            return substitute(item, env)
        if kind is tuple:
            return _rewritten(item, one)
        names = _WITH_DIMS[kind]
        return item if names is None else _rebuilt(item, names, one)

    result: T = one(node)
    return result


def instantiated(node: T, env: Mapping[Var, Dim], buffers: Mapping[str, str], scalars: Mapping[str, str]) -> T:
    """What ``substitute_dims`` of ``env``, then new names of ``buffers`` and of the ``scalars`` that ``Let`` binds make
    of the node, in one pass: large tiles are made of nothing else."""

    def one(item: Any) -> Any:
        kind = type(item)
        if kind is Expr:
            return substitute(item, env)
        if kind is tuple:
            return _rewritten(item, one)
        names = _WITH_DIMS[kind]
        if names is None:
            return item
        item = _rebuilt(item, names, one)
        if kind is Let or kind is Ref:
            return _named(item, scalars)
        return _named(item, buffers) if kind in _NAMING else item

    result: T = one(node)
    return result


_NAMING: Final = {Load: "buffer", Store: "buffer", Atomic: "buffer", Buffer: "name", Let: "name", Ref: "name"}


def _named(node: Any, names: Mapping[str, str]) -> Any:
    """A node that names something under the new name."""
    field = _NAMING[type(node)]
    new = names.get(getattr(node, field))
    if new is None:
        return node
    return type(node)(*[new if name == field else getattr(node, name) for name in _FIELDS[type(node)] or ()])


def rename_buffers(node: T, names: Mapping[str, str]) -> T:
    """Renames buffers where they are declared and used."""
    return rewrite(node, lambda item: _named(item, names) if isinstance(item, Load | Store | Atomic | Buffer) else item)


def buffers_used(node: object) -> tuple[set[str], set[str]]:
    """Names of the buffers loaded and of those stored below ``node``."""
    loads: set[str] = set()
    stores: set[str] = set()
    for item in walk(node):
        if isinstance(item, Load):
            loads.add(item.buffer)
        elif isinstance(item, Store):
            stores.add(item.buffer)
        elif isinstance(item, Atomic):
            loads.add(item.buffer)
            stores.add(item.buffer)
    return loads, stores


def dims_used(node: object) -> Iterator[Dim]:
    """Every index expression below ``node``: loop bounds, indices, index values."""
    for item in walk(node):
        kind = type(item)
        if kind is Load or kind is Store:
            yield from item.index
            if item.count is not None:
                yield item.count
        elif kind is Atomic:
            yield from item.index
        elif kind is Idx:
            yield item.dim
        elif kind is not Op and hasattr(item, "lo") and hasattr(item, "hi") and hasattr(item, "body"):
            yield from (item.lo, item.hi)
