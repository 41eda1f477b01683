"""One-node ONNX models: built, imported, run by the interpreter, compared with onnxruntime or ONNX's reference."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.verify.module import check
from sdk.frontends.names import identifier
from sdk.frontends.onnx.engine import session_options
from sdk.frontends.onnx.importer import import_onnx

Array = np.ndarray


def one_node(
    op: str,
    inputs: Mapping[str, Array],
    *,
    outputs: Sequence[str] = ("y",),
    constants: Sequence[str] = (),
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    order: Sequence[str] | None = None,
    opset: int = 18,
    domain: str = "",
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node. ``constants`` names the inputs that are initializers; ``shapes`` gives inputs symbolic
    sizes; ``order`` the node's inputs with "" for those left out (default: all, in order)."""
    node = helper.make_node(op, list(order or inputs), list(outputs), name=f"the_{op}", domain=domain, **attributes)
    return model_of([node], inputs, outputs, constants=constants, shapes=shapes, opset=opset, domain=domain)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
    *,
    constants: Sequence[str] = (),
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    opset: int = 18,
    domain: str = "",
) -> onnx.ModelProto:
    """A model of some nodes; the types of its outputs are left to the reader."""
    params = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), (shapes or {}).get(name, array.shape)
        )
        for name, array in inputs.items()
        if name not in constants
    ]
    graph = helper.make_graph(
        list(nodes), "test", params, [onnx.ValueInfoProto(name=n) for n in outputs],
        [numpy_helper.from_array(inputs[name], name) for name in constants],
    )  # fmt: skip
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def run(model: onnx.ModelProto, inputs: Mapping[str, Array], dims: Any = None) -> tuple[Module, dict[str, Array]]:
    """The imported module, verified, and its results by the interpreter."""
    module = import_onnx(model, "test", dims=dims or {})
    check(module, ops)
    wanted = {identifier(p.name): p.name for p in model.graph.input}
    return module, run_graph(module, "main", {k: np.asarray(inputs[n]) for k, n in wanted.items()})


def reference(model: onnx.ModelProto, inputs: Mapping[str, Array], against: str = "ort") -> dict[str, Array]:
    """What onnxruntime ("ort") or ONNX's own evaluator ("onnx") computes."""
    given = {p.name: inputs[p.name] for p in model.graph.input}
    names = [o.name for o in model.graph.output]
    if against == "onnx":
        return dict(zip(names, ReferenceEvaluator(model).run(None, given), strict=True))
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    typed = onnx.shape_inference.infer_shapes(model)
    options = session_options(onnxruntime)
    session = onnxruntime.InferenceSession(typed.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(None, given), strict=True))


def weights_of(rng: np.random.Generator, kind: str, *shape: int) -> Array:
    """8-bit weights, signed ones of 7 bits: onnxruntime's fused products of u8 and i8 saturate sums of two products
    on processors without VNNI."""
    low, high = (-64, 64) if kind == "int8" else (0, 256)
    return rng.integers(low, high, shape).astype(kind)


def agree(got: Array, want: Array, tolerance: float = 1e-4) -> None:
    """Integers equal, floats within the tolerance of the largest value; same type and shape."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[~finite], want[~finite])
    scale = max(1.0, float(np.abs(want[finite]).max(initial=0)))
    assert float(np.abs(got[finite].astype(np.float64) - want[finite]).max(initial=0)) <= tolerance * scale


def record(model: onnx.ModelProto, inputs: Mapping[str, Array], want: Sequence[Array], tolerance: float = 1e-4) -> None:
    """Keeps a case whose reference is known in the folder of CASES, where it is set: others run it as compiled C."""
    folder = os.environ.get("CASES")
    if folder:
        case = model.SerializeToString(), [np.asarray(inputs[p.name]) for p in model.graph.input], list(want), tolerance
        name = os.environ["PYTEST_CURRENT_TEST"].split(" ")[0].split("/")[-1]
        data = pickle.dumps((name, *case))
        Path(folder, f"{hashlib.sha256(data).hexdigest()}.pickle").write_bytes(data)


def compare(
    op: str, inputs: Mapping[str, Array], *, against: str = "ort", dims: Any = None, **how: Any
) -> Module:
    """Imports and runs one node, compares every output with the reference; the module."""
    model = one_node(op, inputs, **how)
    module, got = run(model, inputs, dims)
    found = {name: np.asarray(want) for name, want in reference(model, inputs, against).items()}
    for name, want in found.items():
        agree(got[identifier(name)], want, 2e-3 if want.dtype == np.float16 else 1e-4)
    record(model, inputs, [*found.values()], 2e-3 if any(w.dtype == np.float16 for w in found.values()) else 1e-4)
    return module


def fused(
    op: str, inputs: Mapping[str, Array], *, domain: str = "com.microsoft", steps: int = 0, **how: Any
) -> None:
    """Compares one node of another domain with onnxruntime, which wants the outputs of such typed: ``kinds`` gives
    ONNX's number of those that are not f32. Integers may be ``steps`` apart."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    dims, kinds = how.pop("dims", None), how.pop("kinds", {})
    meant = how.pop("meant", None)  # the attribute of the name opset
    model = one_node(op, inputs, domain=domain, **how)
    if meant is not None:
        model.graph.node[0].attribute.append(helper.make_attribute("opset", meant))
    for info in model.graph.output:
        info.type.tensor_type.elem_type = kinds.get(info.name, onnx.TensorProto.FLOAT)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more would wait for each other
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = {p.name: inputs[p.name] for p in model.graph.input}
    _, got = run(model, inputs, dims)
    wanted = session.run(None, given)
    if not steps:
        record(model, inputs, wanted)
    for info, want in zip(model.graph.output, wanted, strict=True):
        if steps and want.dtype.kind in "iu":
            assert got[info.name].shape == want.shape
            assert np.abs(got[info.name].astype(np.int64) - want).max() <= steps
        else:
            agree(got[info.name], want)
