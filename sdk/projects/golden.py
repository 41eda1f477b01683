"""Golden cases: inputs of a model with the outputs of our interpreter, for tests where no tool of ours runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.graph import init_values
from sdk.compiler.ir.graph import Graph
from sdk.compiler.sym import evaluate
from sdk.driver.built import Built
from sdk.driver.importing import import_model
from sdk.driver.options import BuildOptions
from sdk.driver.prefix import prefix_of
from sdk.driver.reference import Interp, case_inputs, entry_graph, random_dims
from sdk.frontends.base import ModelFile
from sdk.toolchains import Blob

__all__ = ["Case", "golden_cases", "golden_files"]

Array = NDArray[Any]
CASES: Final = 5  # of an entry: random numbers, the three extremes of ``case_inputs``, random ones again
MAX_MACS: Final = 2_000_000_000  # of an entry's cases together, which the interpreter takes seconds for
MAX_BYTES: Final = 4 << 20  # of an entry's cases together
SEED: Final = 0
ALIGN: Final = 8  # of each tensor in the file: a multiple of every element's size


@dataclass(frozen=True)
class Case:
    """One run: its entry, the value of each dim that a caller gives, inputs and expected outputs in order, and what
    the inputs are. The cases of an entry are run in their order, the first after a reset."""

    entry: str
    dims: Mapping[str, int]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    drawn: str


def golden_cases(file: ModelFile, options: BuildOptions, built: Built) -> list[Case]:
    """Cases of all entries of a model, at the largest dims, the smallest, then random ones. Where these take too long
    or too much room it is the smallest dims, then fewer cases; each entry has at least one."""
    module = import_model(file, options, prefix_of(file, options))
    held = {var.name: value for var, value in init_values(module).items()}
    cases: list[Case] = []
    for name, own in built.entries.items():
        graph = entry_graph(module, name)
        macs = {var.name: var for var in own.dims}
        reference, rng = Interp(module, graph.name), np.random.default_rng(SEED)
        left = [MAX_MACS, MAX_BYTES]
        for number in range(CASES):
            dims = random_dims(graph, rng, number, held)
            for minimum in (dims, random_dims(graph, rng, 1, held)):
                work = evaluate(0 if own.macs is None else own.macs, {var: minimum[key] for key, var in macs.items()})
                cost = [work, _input_bytes(graph, minimum)]
                dims = minimum
                if all(a <= b for a, b in zip(cost, left, strict=True)):
                    break
            else:
                if number:
                    break
            case = _case(name, graph, reference, rng, dims, number, list(macs))
            cases.append(case)
            left = [left[0] - work, left[1] - sum(a.nbytes for a in (*case.inputs, *case.outputs))]
    return cases


def _input_bytes(graph: Graph, dims: Mapping[str, int]) -> int:
    values = {v: dims[v.name] for v in graph.dims}
    shapes = [(p.type.dtype.numpy, [evaluate(d, values) for d in p.type.shape]) for p in graph.params]
    return sum(int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize for kind, shape in shapes)


def _case(
    entry: str, graph: Graph, reference: Interp, rng: np.random.Generator, dims: Mapping[str, int], number: int,
    given: Sequence[str],
) -> Case:  # fmt: skip
    inputs, drawn = case_inputs(graph, rng, dims, number)
    found = reference.step(inputs, dims)
    outputs = tuple(np.asarray(found[value.name]) for value in graph.results)
    ordered = tuple(inputs[param.name] for param in graph.params)
    return Case(entry, {name: dims[name] for name in given}, ordered, outputs, drawn)


def golden_files(cases: Sequence[Case]) -> tuple[str, Blob]:
    """Cases as JSON, where tensors are ``[offset, shape]``, and all tensors as little-endian bytes."""
    data = bytearray()

    def place(tensors: Sequence[Array]) -> Iterator[list[Any]]:
        for tensor in tensors:
            data.extend(bytes(-len(data) % ALIGN))
            yield [len(data), list(tensor.shape)]
            data.extend(np.ascontiguousarray(tensor, tensor.dtype.newbyteorder("<")).tobytes())

    told = [
        {
            "entry": case.entry, "drawn": case.drawn, "dims": dict(case.dims),
            "inputs": list(place(case.inputs)), "outputs": list(place(case.outputs)),
        }
        for case in cases
    ]  # fmt: skip
    lines = ",\n".join(f"  {json.dumps(case)}" for case in told)
    return f'{{ "cases": [\n{lines}\n] }}\n', Blob(bytes(data))
