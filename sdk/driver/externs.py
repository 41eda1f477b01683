"""Libraries of the user: what their symbols compute, as small graphs, and C files to compile with the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sdk.compiler import ops
from sdk.compiler.ir.graph import Call, Graph, Value, fresh_name
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.text import parse_module
from sdk.driver.files import Library
from sdk.errors import UsageError
from sdk.source import Source

__all__ = ["add_patterns", "extern_sources"]


def extern_sources(libraries: Sequence[Library]) -> dict[str, str]:
    """The C files of libraries, by name.

    Raises:
        UsageError: two have one name.
    """
    found: dict[str, str] = {}
    for library in libraries:
        if library.is_code:
            if library.name in found:
                raise UsageError(f"two library files are called {library.name}", hint="rename one")
            found[library.name] = library.text
    return found


def add_patterns(module: Module, libraries: Sequence[Library]) -> Module:
    """The module with the graphs of the ``.ir`` files of libraries as patterns: the pass ``dispatch`` puts calls of the
    symbols they are named after where they fit.

    Raises:
        UsageError: a symbol is given twice or called like an entry.
        ParseError: a file is no text of a module.
    """
    for library in libraries:
        if not library.is_code:
            given = parse_module(Source(library.text, str(library.path)), ops=ops)
            for graph in given.graphs.values():
                if graph.name in module.graphs:
                    hint = f"rename it in {library.name}"
                    message = f"{library.path}: there is a graph or pattern @{graph.name} already"
                    raise UsageError(message, hint=hint)
                module = _with_pattern(module, graph, given)
    return module


def _with_pattern(module: Module, graph: Graph, given: Module) -> Module:
    """``graph`` with its constants under names that the module does not have."""
    taken = set(module.consts)
    consts: dict[str, Const] = {}
    for name, const in given.consts.items():
        consts[name] = Const(fresh_name(f"{graph.name}_{name}", taken), const.type, const.data, const.layout)

    def one(value: Value) -> Value:
        return replace(value, name=consts[value.name].name) if value.const else value

    body = tuple(replace(n, args=tuple(map(one, n.args))) if isinstance(n, Call) else n for n in graph.body)
    return module.with_graph(replace(graph, body=body, entry=False)).with_consts(*consts.values())
