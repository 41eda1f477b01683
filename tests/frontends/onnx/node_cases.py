"""The node cases that ONNX publishes for its operators, run through the importer and the reference of our ops."""

from __future__ import annotations

import fcntl
import pickle
import re
import warnings
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.verify.module import verify
from sdk.frontends.names import identifier
from sdk.frontends.onnx.importer import import_onnx

FOREIGN_TYPES: Final = re.compile("BFLOAT16|bfloat16|FLOAT8|FLOAT4|INT4|INT2|string")


KEPT: Final = Path(__file__).resolve().parents[3] / ".pytest_cache" / f"onnx-{onnx.__version__}.pickle"


@cache
def all_cases() -> dict[str, Any]:
    """Every case by name, without its prefix. ONNX computes them, which takes ten seconds: the first of the processes
    that collect tests does it for all."""
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not KEPT.exists():
            made = KEPT.with_suffix(".new")
            made.write_bytes(pickle.dumps(_computed()))
            made.rename(KEPT)
    found: dict[str, Any] = pickle.loads(KEPT.read_bytes())
    return found


def _computed() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name.removeprefix("test_"): case for case in load_model_tests(kind="node")}


def cases_of(*operators: str) -> list[str]:
    """The cases whose model is one node of these operators, and those of their bodies in other operators; without
    element types that we do not have."""
    own = [name for name, case in all_cases().items() if _single(case, operators)]
    expanded = [name for name in all_cases() if name.split("_expanded")[0] in own]
    return [name for name in dict.fromkeys([*own, *expanded]) if not FOREIGN_TYPES.search(name)]


def _single(case: Any, operators: tuple[str, ...]) -> bool:
    nodes = case.model.graph.node
    return len(nodes) == 1 and nodes[0].op_type in operators and nodes[0].domain in ("", "ai.onnx")


def check(name: str, known: Collection[int] = ()) -> None:
    """Imports the model, verifies the module, runs it on each data set, compares with what ONNX expects. ``known``
    are the inputs of the node that are constants."""
    case = all_cases()[name]
    for inputs, wanted in case.data_sets:
        arrays = {p.name: _array(a) for p, a in zip(case.model.graph.input, inputs, strict=True)}
        model = _with_known(case.model, arrays, known)
        module = import_onnx(model, name)
        assert verify(module, ops) == []
        (graph,) = module.graphs.values()
        given = {identifier(p.name): arrays[p.name] for p in model.graph.input}
        found = run_graph(module, graph.name, given)
        for result, want in zip(graph.results, map(_array, wanted), strict=True):
            same(found[result.name], want, case)


def same(got: np.ndarray, want: np.ndarray, case: Any) -> None:
    """Checks types, shapes and values, floats within what the case allows."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=case.rtol, atol=case.atol)
    else:
        np.testing.assert_array_equal(got, want)


def _array(value: Any) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _with_known(model: Any, arrays: dict[str, np.ndarray], places: Collection[int]) -> Any:
    """The model with the inputs that must be known when it is built as constants: axes."""
    (first, *_) = model.graph.node
    known = set(first.input[1:]) if first.op_type.startswith(("Reduce", "Cum")) else set()
    names = first.input if len(model.graph.node) == 1 else [p.name for p in model.graph.input]
    known |= {n for k, n in enumerate(names) if k in places}
    known |= {n for node in model.graph.node for n in node.input[1:] if node.op_type.startswith("Reduce")}
    baked = [p for p in model.graph.input if p.name in known]
    if not baked:
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for p in baked:
        copy.graph.initializer.append(numpy_helper.from_array(arrays[p.name], p.name))
        copy.graph.input.remove(p)
    return copy
