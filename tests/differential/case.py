"""What is asked of one model: its file, the inputs of each run, and what the references say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.graph import Graph
from sdk.compiler.ir.module import Module
from sdk.driver.reference import entry_graph, random_dims, random_inputs

__all__ = ["Array", "Runs", "inputs_of", "interpreted"]

Array = NDArray[Any]
LARGE = 16.0  # what "all highest" is for floats


@dataclass(frozen=True)
class Runs:
    """Runs of a model, one after the other: dims and inputs of each by name."""

    dims: tuple[Mapping[str, int], ...]
    inputs: tuple[Mapping[str, Array], ...]


def inputs_of(module: Module, count: int, seed: int) -> Runs:
    """``count`` runs: all lowest, all highest, all at the zero point, then random numbers over the whole range and,
    every second time, around a level, which saturates less."""
    graph, rng = entry_graph(module), np.random.default_rng(seed)
    dims = tuple(random_dims(graph, rng, k, {}) for k in range(count))
    return Runs(dims, tuple(_one(graph, rng, k, at) for k, at in enumerate(dims)))


def _one(graph: Graph, rng: np.random.Generator, k: int, dims: Mapping[str, int]) -> dict[str, Array]:
    found = random_inputs(graph, rng, dims)
    for value in graph.params:
        kind, array = value.type.dtype, found[value.name]
        if kind.is_float:
            if k < 3:
                found[value.name] = np.full_like(array, (-LARGE, LARGE, 0.0)[k])
            elif k % 2:
                found[value.name] = (array * rng.uniform(0.1, 8.0)).astype(array.dtype)
        elif 1 < kind.bits < 32:
            lo, hi = kind.limits
            zero = value.type.quant.zero_point if value.type.quant else 0
            if k < 3:
                found[value.name] = np.full_like(array, (lo, hi, zero)[k])
            elif k % 2 == 0:
                lo, hi = sorted(int(v) for v in rng.integers(lo, hi, 2, endpoint=True))
                found[value.name] = rng.integers(lo, hi, array.shape, endpoint=True).astype(array.dtype)
        elif k < 3:
            found[value.name] = np.full_like(array, array.max(initial=0) if k == 1 else 0)
    return found


def interpreted(module: Module, runs: Runs) -> list[dict[str, Array]]:
    """What the interpreter of the imported graph gives, states carried from run to run."""
    states, graph = initial_states(module), entry_graph(module)
    pairs = zip(runs.inputs, runs.dims, strict=True)
    return [run_graph(module, graph.name, given, states, dims) for given, dims in pairs]
