"""One field-driven traversal and rewrite for every frozen node of the loops level; unchanged parts keep identity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from operator import is_
from typing import Any, Final, TypeVar

from sdk.compiler.ir.loops import Atomic, Block, Buffer, For, Idx, If, Load, Stmt, Store
from sdk.compiler.ir.types import DType
from sdk.compiler.sym import Dim, Expr, Var, substitute

__all__ = ["below", "buffers_used", "rename_buffers", "rewrite", "statements", "substitute_dims", "walk"]

T = TypeVar("T")
_FIELDS: dict[type, tuple[str, ...] | None] = {DType: None}  # nothing is below it, and it stands everywhere
_BELOW: dict[type, tuple[str, ...] | None] = {}
# annotations of fields that no node is in: most fields of the nodes that there are most of
_PLAIN: Final = frozenset({"str", "int", "bool", "int | float", "DType", "Dim", "Dim | None", "tuple[Dim, ...]", "Var"})


def _names(kind: type) -> tuple[str, ...] | None:
    """The fields of a kind of node; None for what is none."""
    try:
        return _FIELDS[kind]
    except KeyError:
        _FIELDS[kind] = tuple(f.name for f in fields(kind)) if is_dataclass(kind) else None
        return _FIELDS[kind]


def _below(kind: type) -> tuple[str, ...] | None:
    """The fields of a kind of node that nodes may be in, the last first; None for what is none."""
    try:
        return _BELOW[kind]
    except KeyError:
        named = _names(kind)
        holding = () if named is None else (f.name for f in fields(kind) if f.type not in _PLAIN)
        _BELOW[kind] = None if named is None else tuple(holding)[::-1]
        return _BELOW[kind]


def walk(node: object) -> Iterator[Any]:
    """Every node below and including ``node``, outer before inner, in field order."""
    waiting = [node]  # a stack of its own: large bodies are walked often, and recursion costs most of it
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(reversed(item))
            continue
        try:
            names = _BELOW[type(item)]
        except KeyError:
            names = _below(type(item))
        if names is not None:
            yield item
            for name in names:
                waiting.append(getattr(item, name))


def below(node: object) -> tuple[Any, ...]:
    """What the fields of a node hold that nodes may be in: nodes and tuples of them; () for what is no node."""
    return tuple(getattr(node, name) for name in _below(type(node)) or ())


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


def rewrite(node: T, fn: Callable[[Any], Any]) -> T:
    """Rebuilds bottom up with ``fn(node) -> node``; returns the same object where nothing changed."""

    def one(item: Any) -> Any:
        kind = type(item)
        if kind is tuple:
            return _rewritten(item, one)
        names = _names(kind)
        return item if names is None else fn(_rebuilt(item, names, one))

    result: T = one(node)
    return result


def _rewritten(items: Any, one: Callable[[Any], Any]) -> Any:
    """The tuple of what ``one`` makes of each; the same object where nothing changed."""
    new = tuple(map(one, items))
    return items if all(map(is_, new, items)) else new


def _rebuilt(node: Any, names: tuple[str, ...], one: Callable[[Any], Any]) -> Any:
    """The node with every field as ``one`` makes it; the same object where nothing changed."""
    old = [getattr(node, name) for name in names]
    new = list(map(one, old))
    # all fields of a node are arguments of its class, in order; dataclasses.replace takes five times as long
    return node if all(map(is_, new, old)) else type(node)(*new)


def substitute_dims(node: T, env: Mapping[Var, Dim]) -> T:
    """Replaces variables in every dim of the node (indices, extents, shapes)."""

    def one(item: Any) -> Any:
        kind = type(item)
        if kind is Expr:
            return substitute(item, env)
        if kind is tuple:
            return _rewritten(item, one)
        names = _names(kind)
        return item if names is None else _rebuilt(item, names, one)

    result: T = one(node)
    return result


def rename_buffers(node: T, names: Mapping[str, str]) -> T:
    """Renames buffers where they are declared and used."""

    def one(item: Any) -> Any:
        if isinstance(item, Load | Store | Atomic) and item.buffer in names:
            return replace(item, buffer=names[item.buffer])
        if isinstance(item, Buffer) and item.name in names:
            return replace(item, name=names[item.name])
        return item

    return rewrite(node, one)


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
        if isinstance(item, Load | Store | Atomic):
            yield from item.index
            if not isinstance(item, Atomic) and item.count is not None:
                yield item.count
        elif isinstance(item, Idx):
            yield item.dim
        elif hasattr(item, "lo") and hasattr(item, "hi") and hasattr(item, "body"):
            yield from (item.lo, item.hi)
