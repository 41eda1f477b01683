"""Comparing an imported module with tflite-micro, or with LiteRT, on random inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ai_edge_litert import interpreter as litert
from tflite_micro.python.tflite_micro import runtime

from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.module import Module
from sdk.frontends.tflite.importer import import_tflite


def random_inputs(module: Module, rng: np.random.Generator, run: int = 0) -> dict[str, np.ndarray]:
    """Noise: on even runs over the whole range, on odd ones around a level, which saturates less."""
    out = {}
    for p in module.graphs["main"].params:
        lo, hi = p.type.dtype.limits
        if run % 2:
            lo, hi = sorted(int(v) for v in rng.integers(lo, hi, 2, endpoint=True))
        out[p.name] = rng.integers(lo, hi, p.type.static_shape, endpoint=True).astype(p.type.dtype.numpy)
    return out


def assert_bit_exact(data: bytes, runs: int = 10, seed: int = 0, distinct: bool = True) -> Module:
    """``runs`` random inputs through the interpreter and through tflite-micro, states carried along."""
    module = import_tflite(data, "model")
    graph = module.graphs["main"]
    reference = runtime.Interpreter.from_bytes(data, arena_size=len(data) * 10 + 200_000)
    rng = np.random.default_rng(seed)
    states = initial_states(module)
    seen = set()
    for run in range(runs):
        inputs = random_inputs(module, rng, run)
        for k, p in enumerate(graph.params):
            reference.set_input(inputs[p.name], k)
        reference.invoke()
        found = run_graph(module, "main", inputs, states)
        for k, r in enumerate(graph.results):
            np.testing.assert_array_equal(found[r.name], reference.get_output(k), err_msg=f"run {run}, {r}")
            seen.add(found[r.name].tobytes())
    assert len(seen) > 1 or not distinct, "every input gave the same output: the comparison says nothing"
    return module


def assert_equals_litert(data: bytes, runs: int = 6, seed: int = 0, distinct: bool = True, off: int = 0) -> Module:
    """``runs`` random inputs through the interpreter and through LiteRT's reference kernels; results may be ``off`` by
    so many steps."""
    module = import_tflite(data, "model")
    graph = module.graphs["main"]
    rng = np.random.default_rng(seed)
    given = [random_inputs(module, rng, run) for run in range(runs)]
    seen = set()
    answers = litert_outputs(data, [list(inputs.values()) for inputs in given])
    for run, (inputs, want) in enumerate(zip(given, answers, strict=True)):
        found = run_graph(module, "main", inputs)
        for r, expected in zip(graph.results, want, strict=True):
            assert found[r.name].dtype == expected.dtype
            np.testing.assert_allclose(
                found[r.name].astype(np.int64), expected.astype(np.int64), rtol=0, atol=off, err_msg=f"run {run}, {r}"
            )
            seen.add(expected.tobytes())
    assert len(seen) > 1 or not distinct, "every input gave the same output: the comparison says nothing"
    return module


def litert_outputs(
    data: bytes, inputs: Sequence[Sequence[np.ndarray]], kernels: str = "BUILTIN_REF"
) -> list[list[np.ndarray]]:
    """The outputs of each run by LiteRT's reference kernels."""
    resolver = getattr(litert.OpResolverType, kernels)
    engine = litert.Interpreter(model_content=data, experimental_op_resolver_type=resolver)
    engine.allocate_tensors()
    found = []
    for given in inputs:
        for detail, array in zip(engine.get_input_details(), given, strict=True):
            engine.set_tensor(detail["index"], array)
        engine.invoke()
        found.append([engine.get_tensor(detail["index"]) for detail in engine.get_output_details()])
    return found


def assert_steps_are_runs(data: bytes) -> None:
    """A recurrent model whose steps are open: six in one run are as six runs of one step each, states included."""
    module = import_tflite(data, "model", dims={"x_1": (1, 6)})
    x = np.random.default_rng(1).integers(-128, 128, (1, 6, 5)).astype(np.int8)
    whole, apart = initial_states(module), initial_states(module)
    want = run_graph(module, "main", {"x": x}, whole)["y"]
    rows = [run_graph(module, "main", {"x": x[:, k : k + 1]}, apart)["y"] for k in range(6)]
    np.testing.assert_array_equal(np.concatenate(rows, axis=1), want)
    assert all((whole[k] == apart[k]).all() for k in whole)
