"""References that results are compared with: engines of the model's format or our own interpreter; and the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.graph import Call, Graph, Value
from sdk.compiler.ir.module import Module
from sdk.compiler.sym import evaluate
from sdk.driver.files import read_model_file
from sdk.errors import UsageError
from sdk.frontends import engine_names, frontends
from sdk.frontends.base import ModelFile, Option, Reference

__all__ = ["Interp", "case_inputs", "entry_graph", "open_reference", "random_dims", "random_inputs"]

Array = NDArray[Any]
EXTREMES = ("lowest", "highest", "zero point")  # of cases 1, 2 and 3
FLOAT_EXTREME = 4.0  # about where 100,000 draws of a normal distribution end


def entry_graph(module: Module, entry: str | None = None) -> Graph:
    """An entry of an imported module by name; None is the only one.

    Raises:
        UsageError: it has several, or none of that name.
    """
    entries = {g.name: g for g in module.graphs.values() if g.entry}
    if entry is None and len(entries) != 1:
        raise UsageError(f"the model has {len(entries)} entries", hint=f"name one with --entry: {', '.join(entries)}")
    if entry is not None and entry not in entries:
        raise UsageError(f"the model has no entry {entry!r}", hint=f"it has {', '.join(entries)}")
    return next(iter(entries.values())) if entry is None else entries[entry]


class Interp:
    """Our interpreter, on an entry of an imported module."""

    name = "interp"
    options: Mapping[str, Option] = {"graph": "as imported, before any pass", "engine": "numpy"}

    def __init__(self, module: Module, entry: str) -> None:
        self.module, self.entry = module, entry
        self.states = initial_states(module)

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        """Outputs by name for inputs by name."""
        return run_graph(self.module, self.entry, inputs, self.states, dims)


def open_reference(
    against: str, model: ModelFile | Path, module: Module, entry: str | None = None
) -> Reference:
    """The reference called ``against`` for an entry (None is the only one): an engine of the model's format, or
    "interp", our interpreter; "auto" is the first engine that suits the model, else the interpreter.

    Raises:
        UsageError: no such reference for this kind of model.
        MissingToolError: its package is not installed.
    """
    file = read_model_file(model)
    graph, engines = entry_graph(module, entry), file.frontend.engines
    if against == "auto":
        against = next((engine.name for engine in engines if engine.suits(graph)), "interp")
    if against == "interp":
        return Interp(module, graph.name)
    for engine in engines:
        if engine.name == against:
            return engine.open(file, graph)
    for other in frontends():
        if against in [engine.name for engine in other.engines]:
            raise UsageError(
                f"{against} runs {other.title}s only", where=f"{file.name} is a {file.frontend.title}",
                hint="use --against interp",
            )  # fmt: skip
    known = ", ".join(("auto", *engine_names(), "interp"))
    raise UsageError(f"no reference {against!r} for {file.name}", hint=f"one of {known}")


def random_dims(graph: Graph, rng: np.random.Generator, case: int, at: Mapping[str, int]) -> dict[str, int]:
    """Values of the dims of a run: those in ``at``; of the others the largest in case 0, the smallest in case 1, any
    in others."""
    found: dict[str, int] = {}
    for var in graph.dims:
        if case < 2:
            chosen = (var.most, var.least)[case]
        else:
            step = var.multiple
            chosen = step * int(rng.integers(var.least // step, var.most // step, endpoint=True))
        found[var.name] = at.get(var.name, chosen)
    return found


def case_inputs(
    graph: Graph, rng: np.random.Generator, dims: Mapping[str, int], case: int
) -> tuple[dict[str, Array], str]:
    """Inputs of a case and what they are: in cases 1, 2 and 3 every element the lowest, the highest, the zero point of
    its type (of floats -4, 4 and 0; wide integers as ``random_inputs`` draws them), else random ones."""
    found = random_inputs(graph, rng, dims)
    if not 1 <= case <= len(EXTREMES):
        return found, "random"
    tables = _tables(graph)
    for value in graph.params:
        kind, quant = value.type.dtype, value.type.quant
        lo, hi = (-FLOAT_EXTREME, FLOAT_EXTREME) if kind.is_float else _range(value, tables)
        zero = quant.zero_point if quant is not None else 0
        found[value.name] = np.full(found[value.name].shape, (lo, hi, zero)[case - 1], kind.numpy)
    return found, f"all {EXTREMES[case - 1]}"


def _range(value: Value, tables: Mapping[str, int]) -> tuple[int, int]:
    """The integers that an input may hold: all of a small type; of a wide one, positions in a table, or 0 and 1."""
    kind = value.type.dtype
    return kind.limits if kind.bits < 32 else (0, tables.get(value.name, 2) - 1)


def random_inputs(graph: Graph, rng: np.random.Generator, dims: Mapping[str, int]) -> dict[str, Array]:
    """Inputs over the whole range of small integers, or standard normal for floats; wide integers are positions where
    they index a table, else 0 or 1. ``dims`` gives every symbol its value."""
    values = {v: dims[v.name] for v in graph.dims}
    tables = _tables(graph)
    out: dict[str, Array] = {}
    for value in graph.params:
        shape, kind = tuple(evaluate(d, values) for d in value.type.shape), value.type.dtype
        if kind.is_float:
            out[value.name] = rng.standard_normal(shape).astype(kind.numpy)
            continue
        lo, hi = _range(value, tables)
        out[value.name] = rng.integers(lo, hi, shape, endpoint=True).astype(kind.numpy)
    return out


def _tables(graph: Graph) -> dict[str, int]:
    """For each parameter that a gather takes positions from, the entries of the smallest table."""
    found: dict[str, int] = {}
    for node in graph.body:
        if isinstance(node, Call) and node.callee == "gather":
            table, positions = node.args
            axis = dict(node.attrs).get("axis", 0)
            extent = table.type.shape[axis] if isinstance(axis, int) else 1
            if isinstance(extent, int):
                found[positions.name] = min(extent, found.get(positions.name, extent))
    return found
