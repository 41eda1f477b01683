"""What is compared: generated networks with the inputs of their runs and what the references say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from generate import Network, generate, values
from generate.engines import reference_outputs

from differential.apart import apart
from differential.case import Array, Runs, interpreted
from differential.engines import differences, load_engines, moved, unrounded
from sdk.compiler.ir.module import Module
from sdk.driver.reference import entry_graph
from sdk.errors import SdkError
from sdk.frontends.onnx.importer import import_onnx
from sdk.frontends.tflite.importer import import_tflite

__all__ = ["CASES", "Subject", "drawn", "is_quantised", "steps_of", "subjects"]

CASES = 8  # runs of a network without state, one for each style of inputs
ENGINE_S = 60.0


@dataclass(frozen=True)
class Subject:
    """A network, imported; ``want`` are the outputs of each run, in order; ``found`` is what went wrong before any
    core ran it, ``refused`` why it cannot be imported."""

    network: Network
    module: Module | None
    runs: Runs
    want: list[list[Array]]
    reference: str
    found: str = ""
    refused: str = ""

    def differences(self, got: list[list[Array]]) -> list[str]:
        """What outputs differ from those that are wanted, by more than the network makes of a last bit."""
        return _differing(self.network, list(self.runs.inputs), self.want, got, self.reference == "engine", True)


def _differing(
    network: Network, given: list[Mapping[str, Array]], want: list[list[Array]], got: list[list[Array]], engine: bool,
    built: bool,
) -> list[str]:  # fmt: skip
    """``built`` says that these are results of a build, whose sums are integers, and not of the interpreter."""
    quantised = is_quantised(network) and not built
    if engine and any(one.op == "MeanVarianceNormalization" for one in network.layers):
        want = [[_defined(*pair) for pair in zip(*run, strict=True)] for run in zip(want, got, strict=True)]
    steps = [list(one.values()) for one in given]
    if engine and is_quantised(network) and differences(want, got):
        want = unrounded(network.data(), steps, want, got)
    lines = differences(want, got, quantised)
    if not lines or not engine or not any(a.dtype.kind == "f" for one in want for a in one):
        return lines
    return differences(want, got, quantised, moved(network.data(), network.suffix, steps, want))


def _defined(want: Array, got: Array) -> Array:
    """``want`` with ``got`` where it is NaN: onnxruntime takes a variance as the difference of two rounded sums, which
    ends below 0 where all numbers are equal, and its root is NaN; that of the standard is 0 there."""
    if want.dtype.kind != "f" or want.shape != got.shape:
        return want
    return np.where(np.isnan(want), got, want).astype(want.dtype)


def drawn(seed: int, kind: str) -> Network:
    """The network of a seed."""
    return generate(seed, kind)


def is_quantised(network: Network) -> bool:
    """Whether its engine computes in floats what we compute in integers."""
    return network.kind == "onnx-qdq"


def steps_of(network: Network) -> list[dict[str, Array]]:
    """Inputs of each run: a style after the other; of a network with state these are steps."""
    count = max(CASES, network.steps)
    return [values(network, k % CASES, k) for k in range(count)]


def subjects(networks: Sequence[Network]) -> list[Subject]:
    """Each network with what is expected of it: by the engine that its file is made for, where that takes it, and by
    the interpreter of our import, which must agree with it."""
    steps = [steps_of(n) for n in networks]
    answers = _references(networks, steps)
    return [_subject(k, n, s, a) for k, (n, s, a) in enumerate(zip(networks, steps, answers, strict=True))]


def _references(networks: Sequence[Network], steps: Sequence[Any]) -> list[Any]:
    """What the engine says of each, None where it refuses a network or falls over it."""
    out: list[Any] = []
    load_engines()

    def work() -> Iterator[Any]:
        for network, given in zip(networks[len(out) :], steps[len(out) :], strict=True):
            try:
                arrays = [[s[name] for name, _ in network.inputs] for s in given]
                yield reference_outputs(network, arrays)
            except Exception:  # engines have errors of their own
                yield None

    while len(out) < len(networks):
        found, died = apart(work, ENGINE_S)
        out += [*found, None] if died else found
    return out


def _subject(number: int, network: Network, steps: list[dict[str, Array]], answer: Any) -> Subject:
    empty = Runs((), ())
    read = import_tflite if network.suffix == ".tflite" else import_onnx
    try:
        module = read(network.data(), f"m{number}")
    except SdkError as err:
        return Subject(network, None, empty, [], "", refused=err.message)
    except Exception as err:
        return Subject(network, None, empty, [], "", found=f"import: {type(err).__name__}: {err}")
    graph = entry_graph(module)
    given = [
        {p.name: s[name] for p, (name, _) in zip(graph.params, network.inputs, strict=True)} for s in steps
    ]
    runs = Runs(({},) * len(given), tuple(given))
    try:
        outputs = interpreted(module, runs)
    except Exception as err:
        return Subject(network, None, runs, [], "", found=f"interpreter: {type(err).__name__}: {err}")
    ours = [[np.asarray(o[r.name]) for r in graph.results] for o in outputs]
    if answer is None:
        return Subject(network, module, runs, ours, "interp")
    wrong = _differing(network, list(given), answer, ours, True, False)
    return Subject(network, module, runs, answer, "engine", found=f"interpreter: {wrong[0]}" if wrong else "")
