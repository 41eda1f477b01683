"""One field-driven traversal and rewrite for every frozen node of the loops level; unchanged parts keep identity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from sdk.compiler.ir.loops import Atomic, Buffer, Idx, Load, Store
from sdk.compiler.sym import Dim, Expr, Var, substitute

__all__ = ["buffers_used", "rename_buffers", "rewrite", "substitute_dims", "walk"]

T = TypeVar("T")
_FIELDS: dict[type, tuple[str, ...]] = {}


def _names(node: object) -> tuple[str, ...]:
    kind = type(node)
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f.name for f in fields(node)) if is_dataclass(node) else ()
    return _FIELDS[kind]


def walk(node: object) -> Iterator[Any]:
    """Every node below and including ``node``, outer before inner, in field order."""
    if isinstance(node, tuple):
        for item in node:
            yield from walk(item)
    elif is_dataclass(node):
        yield node
        for name in _names(node):
            value = getattr(node, name)
            if isinstance(value, tuple) or is_dataclass(value):
                yield from walk(value)


def rewrite(node: T, fn: Callable[[Any], Any]) -> T:
    """Rebuilds bottom up with ``fn(node) -> node``; returns the same object where nothing changed."""
    if isinstance(node, tuple):
        items = tuple(rewrite(item, fn) for item in node)
        return node if all(a is b for a, b in zip(items, node, strict=True)) else items  # type: ignore[return-value]
    if not is_dataclass(node):
        return node
    changes = {}
    for name in _names(node):
        old = getattr(node, name)
        if isinstance(old, tuple) or is_dataclass(old):
            new = rewrite(old, fn)
            if new is not old:
                changes[name] = new
    out: Any = replace(node, **changes) if changes else node  # type: ignore[type-var]  # is_dataclass above
    result: T = fn(out)
    return result


def substitute_dims(node: T, env: Mapping[Var, Dim]) -> T:
    """Replaces variables in every dim of the node (indices, extents, shapes)."""

    def dim(value: object) -> object:
        if isinstance(value, Expr):
            return substitute(value, env)
        if isinstance(value, tuple):
            new = tuple(dim(v) for v in value)
            return value if all(a is b for a, b in zip(new, value, strict=True)) else new
        return value

    def one(item: Any) -> Any:
        changes = {}
        for name in _names(item):
            old = getattr(item, name)
            if isinstance(old, Expr | tuple):
                new = dim(old)
                if new is not old:
                    changes[name] = new
        return replace(item, **changes) if changes else item

    return rewrite(node, one)


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
    loads = {n.buffer for n in walk(node) if isinstance(n, Load | Atomic)}
    stores = {n.buffer for n in walk(node) if isinstance(n, Store | Atomic)}
    return loads, stores


def dims_used(node: object) -> Iterator[Dim]:
    """Every index expression below ``node``: loop bounds, indices, index values."""
    for item in walk(node):
        if isinstance(item, Load | Store | Atomic):
            yield from item.index
        elif isinstance(item, Idx):
            yield item.dim
        elif hasattr(item, "lo") and hasattr(item, "hi") and hasattr(item, "body"):
            yield from (item.lo, item.hi)
