"""References that results are compared with: engines of the model's format or our own interpreter; and the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.match import match_types
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.graph import Call, Graph, MatchCast, Value
from sdk.compiler.ir.module import Module
from sdk.compiler.sym import Dim, Var, evaluate, free_vars
from sdk.driver.files import read_model_file
from sdk.errors import BuildError, UsageError
from sdk.frontends import engine_names, frontends
from sdk.frontends.base import ModelFile, Option, Reference
from sdk.frontends.unsteady import moved_by

__all__ = ["Interp", "case_inputs", "entry_graph", "open_reference", "random_dims", "random_inputs", "try_out"]

Array = NDArray[Any]
EXTREMES = ("lowest", "highest", "zero point")  # of cases 1, 2 and 3
TRIES = 200  # to find dims that meet what a graph states of them
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

    def moved(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, float] | None:
        """How far floats of the outputs move where the last bits of float inputs do; None for a model with state."""
        return None if self.module.states else moved_by([partial(self.step, dims=dims)], inputs)


def open_reference(
    against: str, model: ModelFile | Path, module: Module, entry: str | None = None
) -> Reference:
    """The reference called ``against`` for an entry (None is the only one): an engine of the model's format, or
    "interp", our interpreter; "auto" is the first engine that takes the model, of those that suit it first, where
    none suits the interpreter.

    Raises:
        UsageError: no such reference for this kind of model.
        MissingToolError: its package is not installed.
        BuildError: it does not take the model.
    """
    file = read_model_file(model)
    graph, engines = entry_graph(module, entry), file.frontend.engines
    if against == "auto":
        suited = [engine for engine in engines if engine.suits(graph)]
        for engine in suited[:-1]:
            with suppress(BuildError, UsageError):
                try_out(engine.open(file, graph), graph)
                return engine.open(file, graph)
        for engine in [*suited[-1:], *(one for one in engines if suited and one not in suited)]:
            with suppress(BuildError, UsageError):
                return engine.open(file, graph)
        against = suited[-1].name if suited else "interp"
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


def try_out(reference: Reference, graph: Graph) -> None:
    """One run: engines may take a model and refuse it only then.

    Raises:
        BuildError: it fails.
    """
    rng = np.random.default_rng(0)
    dims = random_dims(graph, rng, 1, {})
    reference.step(case_inputs(graph, rng, dims, 0)[0], dims)


def random_dims(graph: Graph, rng: np.random.Generator, case: int, at: Mapping[str, int]) -> dict[str, int]:
    """Values of the dims of a run: those in ``at``; of the others the largest in case 0, the smallest in case 1, any
    in others. Where the graph states sizes that these do not meet, values that do, or else just these."""
    checks = _checks(graph)
    found = first = {v.name: at.get(v.name, _random_dim(v, rng, case)) for v in graph.dims}
    for _ in range(TRIES if checks else 0):
        values = {v: found[v.name] for v in graph.dims}
        if all(evaluate(left, values) == evaluate(right, values) for left, right in checks):
            return found
        # sizes that must agree are often 1, or what another one is
        likely = [1, *first.values(), *(d for pair in checks for d in _numbers(pair))]
        found = {v.name: at.get(v.name, _likely_dim(v, rng, likely)) for v in graph.dims}
    return first


def _random_dim(var: Var, rng: np.random.Generator, case: int) -> int:
    if case < 2:
        return (var.maximum, var.minimum)[case]
    step = var.multiple
    return step * int(rng.integers(var.minimum // step, var.maximum // step, endpoint=True))


def _likely_dim(var: Var, rng: np.random.Generator, likely: Sequence[int]) -> int:
    held = [value for value in likely if var.holds(value)]
    return held[int(rng.integers(len(held)))] if held else _random_dim(var, rng, 2)


def _checks(graph: Graph) -> list[tuple[Dim, Dim]]:
    """The sizes that a run of a graph checks to be equal, of those that follow from its dims alone."""
    found = []
    for node in graph.body:
        if isinstance(node, MatchCast):
            pairs = match_types(node.value.type, node.out.type, graph.dims).checks
            found += [(a, b) for a, b, _ in pairs if free_vars(a) | free_vars(b) <= set(graph.dims)]
    return found


def _numbers(pair: tuple[Dim, Dim]) -> list[int]:
    return [size for size in pair if isinstance(size, int)]


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
