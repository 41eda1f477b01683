"""Libraries of the user: what their symbols compute, as small graphs, and C files to compile with the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sdk.compiler import ops
from sdk.compiler.ir.graph import Call, Graph, Value, fresh_name
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.text import parse_module
from sdk.errors import UsageError
from sdk.source import Source

__all__ = ["add_patterns", "extern_sources"]

_CODE = (".c", ".h")


def _text(path: Path) -> str:
    if path.suffix not in (".ir", *_CODE):
        raise UsageError(f"{path.name} is no library file", hint="give .ir files of patterns, and .c and .h files")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"cannot read {path}", why=str(err), hint="check the path after --extern") from None


def extern_sources(paths: Sequence[Path]) -> dict[str, str]:
    """The C files among ``paths``, by name.

    Raises:
        UsageError: a file cannot be read, or two have one name.
    """
    found: dict[str, str] = {}
    for path in paths:
        text = _text(path)
        if path.suffix in _CODE:
            if path.name in found:
                raise UsageError(f"two library files are called {path.name}", hint="rename one")
            found[path.name] = text
    return found


def add_patterns(module: Module, paths: Sequence[Path]) -> Module:
    """The module with the graphs of the ``.ir`` files among ``paths`` as patterns: the pass ``dispatch`` puts calls
    of the symbols they are named after where they fit.

    Raises:
        UsageError: a file cannot be read, or a symbol is given twice or called like an entry.
        ParseError: a file is no text of a module.
    """
    for path in paths:
        text = _text(path)
        if path.suffix == ".ir":
            given = parse_module(Source(text, str(path)), ops=ops)
            for graph in given.graphs.values():
                if graph.name in module.graphs:
                    hint = f"rename it in {path.name}"
                    raise UsageError(f"{path}: there is a graph or pattern @{graph.name} already", hint=hint)
                module = _with_pattern(module, graph, given)
    return module


def _with_pattern(module: Module, graph: Graph, given: Module) -> Module:
    """``graph`` with its constants under names that the module does not have."""
    taken = set(module.consts)
    consts: dict[str, Const] = {}
    for name, const in given.consts.items():
        consts[name] = Const(fresh_name(f"{graph.name}_{name}", taken), const.type, const.data, const.packing)

    def one(value: Value) -> Value:
        return replace(value, name=consts[value.name].name) if value.const else value

    body = tuple(replace(n, args=tuple(map(one, n.args))) if isinstance(n, Call) else n for n in graph.body)
    return module.with_graph(replace(graph, body=body, entry=False)).with_consts(*consts.values())
