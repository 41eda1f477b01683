"""Networks on the engines that their results are compared with, and on our own interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.module import Module
from sdk.frontends.onnx.importer import import_onnx
from sdk.frontends.tflite.importer import import_tflite

from .builders import operators_in
from .network import Network

__all__ = ["differences", "imported", "on_interpreter", "on_litert", "on_reference", "outputs", "reference_outputs"]

Array = NDArray[Any]
Step = Mapping[str, Array]
OWN_KERNELS = {"CEIL", "ELU", "ROUND", "LOCAL_RESPONSE_NORMALIZATION"}  # of LiteRT, where the reference is not taken
ARENA = 1 << 20  # bytes, for the small; real models take as much as they are large


def imported(network: Network) -> Module:
    """The module of a network's file."""
    read = import_tflite if network.suffix == ".tflite" else import_onnx
    return read(network.data(), network.name)


def on_interpreter(network: Network, steps: Sequence[Step], module: Module | None = None) -> list[list[Array]]:
    """The outputs of each of the steps, which are one run of the network from its first state."""
    module = module or imported(network)
    graph = module.graphs["main"]
    states = initial_states(module)
    found = []
    for step in steps:
        given = {p.name: step[name] for p, (name, _) in zip(graph.params, network.inputs, strict=True)}
        got = run_graph(module, "main", given, states)
        found.append([np.asarray(got[r.name]) for r in graph.results])
    return found


def on_reference(network: Network, steps: Sequence[Step]) -> list[list[Array]]:
    """The same by tflite-micro, LiteRT or onnxruntime: see ``reference_outputs``."""
    given = [[step[name] for name, _ in network.inputs] for step in steps]
    return reference_outputs(network, given)


def reference_outputs(network: Network, inputs: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The outputs of each run of a network by the engine that its kind is compared with."""
    if network.kind == "uint8":
        return list(_litert(network.data(), inputs, len(network.outputs)))
    return outputs(network.data(), network.suffix, inputs, len(network.outputs))


def outputs(file: bytes | Path, suffix: str, inputs: Sequence[Sequence[Array]], results: int) -> list[list[Array]]:
    """The outputs of each run, by tflite-micro, LiteRT where the model has floats, or onnxruntime (with its
    optimisations off: those change last bits).

    Args:
        file: the model, as bytes or, where other files lie beside it, by its path.
        suffix: what kind of file it is.
        inputs: of each run, in the model's order; a model with state keeps it from run to run.
        results: outputs of the model.

    Raises:
        Exception: the engine's own, where it does not take the model.
    """
    run = _onnxruntime
    if suffix == ".tflite":
        run = _litert if _has_floats(file) else _tflite_micro
    return list(run(file, inputs, results))


def _tflite_micro(file: bytes | Path, inputs: Sequence[Sequence[Array]], results: int) -> Iterator[list[Array]]:
    runtime = import_module("tflite_micro.python.tflite_micro.runtime")
    data = file if isinstance(file, bytes) else file.read_bytes()
    engine = runtime.Interpreter.from_bytes(data, arena_size=ARENA + 10 * len(data))
    for given in inputs:
        for k, array in enumerate(given):
            engine.set_input(np.ascontiguousarray(array), k)
        engine.invoke()
        yield [np.array(engine.get_output(k)) for k in range(results)]


def _has_floats(file: bytes | Path) -> bool:
    """Whether a .tflite file computes with floats."""
    import tflite

    graph = tflite.Model.GetRootAsModel(file if isinstance(file, bytes) else file.read_bytes(), 0).Subgraphs(0)
    kinds = (graph.Tensors(k).Type() for k in range(graph.TensorsLength()))
    return tflite.TensorType.FLOAT32 in kinds


def _litert(file: bytes | Path, inputs: Sequence[Sequence[Array]], results: int) -> Iterator[list[Array]]:
    """By its reference kernels; by others where these lack an operator, or compute it otherwise than TensorFlow."""
    from ai_edge_litert import interpreter as litert

    data = file if isinstance(file, bytes) else file.read_bytes()
    kinds = litert.OpResolverType
    kind = kinds.BUILTIN_REF
    there = set(operators_in(data, ".tflite"))
    if OWN_KERNELS & there:
        if "QUANTIZE" in there:
            raise NotImplementedError("LiteRT's own kernels round halves to even where its reference rounds them away")
        kind = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    engine = litert.Interpreter(model_content=data, experimental_op_resolver_type=kind, num_threads=1)
    engine.allocate_tensors()
    ins, outs = engine.get_input_details(), engine.get_output_details()
    for given in inputs:
        for detail, array in zip(ins, given, strict=True):
            engine.set_tensor(detail["index"], array)
        engine.invoke()
        yield [engine.get_tensor(detail["index"]) for detail in outs][:results]


def _onnxruntime(file: bytes | Path, inputs: Sequence[Sequence[Array]], results: int) -> Iterator[list[Array]]:
    runtime = import_module("onnxruntime")
    runtime.set_default_logger_severity(4)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = file if isinstance(file, bytes) else str(file)
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [p.name for p in session.get_inputs()]
    for given in inputs:
        yield [np.asarray(v) for v in session.run(None, dict(zip(names, given, strict=True)))][:results]


def on_litert(network: Network, steps: Sequence[Step]) -> list[list[Array]]:
    """The same by LiteRT; of .tflite files only."""
    given = [[step[name] for name, _ in network.inputs] for step in steps]
    return list(_litert(network.data(), given, len(network.outputs)))


def differences(
    network: Network, want: Sequence[Sequence[Array]], got: Sequence[Sequence[Array]], bound: float = 1e-4
) -> list[str]:
    """What differs, a line each: integers in any bit, reals by more than ``bound`` of the largest one (or of 1).

    Of quantised ONNX networks one element in a hundred (and any one) may be a step off: their results are rounded sums
    of reals, and engines add in different orders.
    """
    found: list[str] = []
    quantised = network.kind == "onnx-qdq"
    for step, (one, two) in enumerate(zip(want, got, strict=True)):
        for k, (a, b) in enumerate(zip(one, two, strict=True)):
            where = f"step {step}, output {k}"
            if a.shape != b.shape or a.dtype != b.dtype:
                found.append(f"{where}: {b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}")
            elif a.dtype.kind == "f":
                found += _reals_differ(where, a.astype(np.float64), b.astype(np.float64), bound)
            elif not np.array_equal(a, b):
                gap = np.abs(a.astype(np.int64) - b.astype(np.int64)).reshape(-1)
                wrong = np.flatnonzero(gap)
                if quantised and gap.max() == 1 and len(wrong) <= 1 + a.size // 100:
                    continue
                at = int(wrong[0])
                text = f"{b.reshape(-1)[at]} instead of {a.reshape(-1)[at]}"
                found.append(f"{where}: {len(wrong)} of {a.size} elements, the first at {at}: {text}")
    return found


def _reals_differ(where: str, a: Array, b: Array, bound: float) -> list[str]:
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    scale = max(1.0, float(np.abs(a[finite]).max(initial=0.0)))
    gap = np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))
    wrong = np.flatnonzero(~same & (~finite | (gap > bound * scale)))
    if not len(wrong):
        return []
    at = int(wrong[0])
    text = f"{b.reshape(-1)[at]} instead of {a.reshape(-1)[at]}"
    return [f"{where}: {len(wrong)} of {a.size} elements, the first at {at}: {text}"]
