"""References that results are compared with: TensorFlow Lite Micro, or our own interpreter of the imported graph."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.graph import Graph
from sdk.compiler.ir.module import Module
from sdk.compiler.sym import evaluate
from sdk.errors import BuildError, MissingToolError, UsageError

__all__ = ["Reference", "entry_graph", "open_reference", "random_inputs"]

Array = NDArray[Any]
TFLM_ARENA = 16 << 20


class Reference(Protocol):
    """Runs a model step by step; keeps its state between steps."""

    name: str

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name for inputs by name."""
        ...


def entry_graph(module: Module) -> Graph:
    """The only entry of an imported module.

    Raises:
        BuildError: it has several.
    """
    entries = [g for g in module.graphs.values() if g.entry]
    if len(entries) != 1:
        raise BuildError(f"the model has {len(entries)} entries; name one")
    return entries[0]


class _Interp:
    name = "interp"

    def __init__(self, module: Module) -> None:
        self.module = module
        self.entry = entry_graph(module).name
        self.states = initial_states(module)

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return run_graph(self.module, self.entry, inputs, self.states)


class _TfliteMicro:
    name = "tflite-micro"

    def __init__(self, path: Path, graph: Graph) -> None:
        self.graph = graph
        if graph.dims:
            raise UsageError(
                "tflite-micro runs fixed shapes only",
                where=f"dimensions {', '.join(v.name for v in graph.dims)}",
                hint="use --against interp, or leave --dim away",
            )
        try:
            runtime = import_module("tflite_micro.python.tflite_micro.runtime")
        except ImportError as err:
            raise MissingToolError(
                "the reference tflite-micro is not installed",
                why=str(err),
                hint="pip install 'crosslevel[verify]'",
            ) from None
        try:
            self.engine = runtime.Interpreter.from_bytes(path.read_bytes(), arena_size=TFLM_ARENA)
        except (RuntimeError, ValueError) as err:
            raise BuildError(
                "tflite-micro does not take this model", why=str(err), hint="use --against interp"
            ) from None

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        for k, value in enumerate(self.graph.params):
            self.engine.set_input(np.ascontiguousarray(inputs[value.name]), k)
        self.engine.invoke()
        return {v.name: np.array(self.engine.get_output(k)) for k, v in enumerate(self.graph.results)}


def open_reference(against: str, path: Path, module: Module) -> Reference:
    """The reference called ``against``; "auto" is tflite-micro for integer .tflite models, else the interpreter.

    Raises:
        UsageError: no such reference for this kind of model.
        MissingToolError: its package is not installed.
    """
    graph = entry_graph(module)
    if against == "auto":
        integer = all(not v.type.dtype.is_float for v in (*graph.params, *graph.results))
        against = "tflite-micro" if path.suffix == ".tflite" and integer else "interp"
    if against == "tflite-micro":
        if path.suffix != ".tflite":
            raise UsageError("tflite-micro runs .tflite files only", hint="use --against interp")
        return _TfliteMicro(path, graph)
    if against == "interp":
        return _Interp(module)
    raise UsageError(f"no reference {against!r} for {path.name}", hint="one of auto, tflite-micro, interp")


def random_inputs(graph: Graph, rng: np.random.Generator, at: Mapping[str, int]) -> dict[str, Array]:
    """Inputs over the whole range of integers, or standard normal for floats; dims as in ``at``."""
    from_dims = {v: at.get(v.name, v.hi) for v in graph.dims}
    out: dict[str, Array] = {}
    for value in graph.params:
        shape = tuple(evaluate(d, from_dims) for d in value.type.shape)
        if value.type.dtype.is_float:
            out[value.name] = rng.standard_normal(shape).astype(value.type.dtype.numpy)
        else:
            lo, hi = value.type.dtype.limits
            out[value.name] = rng.integers(lo, hi, shape, endpoint=True).astype(value.type.dtype.numpy)
    return out
