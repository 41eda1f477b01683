"""A float model made ready to be quantised: constants are constants, what inference does not need is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx
from onnx import inliner, numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator

from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.errors import BuildError, SdkError, UsageError
from sdk.frontends.onnx.functions import check_expanded
from sdk.frontends.onnx.reader import opset_versions
from sdk.quantizer.net import Array, Net, attribute
from sdk.quantizer.sums import as_sum, set_bias

__all__ = ["plain_products", "prepared"]

_QUANTISED: Final = (
    "QuantizeLinear", "DequantizeLinear", "QLinear", "DynamicQuantize", "ConvInteger", "MatMulInteger", "MatMulNBits"
)  # fmt: skip
# What moves or computes constants that exporters leave in the graph; none makes more elements than it reads.
_FOLDED: Final = frozenset(
    {
        "Add", "Cast", "Concat", "Div", "Flatten", "Identity", "Mul", "Neg", "Reciprocal", "Reshape", "Slice", "Sqrt",
        "Squeeze", "Sub", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
_ELEMENTWISE: Final = frozenset({"Add", "Div", "Mul", "Sub"})
_IR_VERSIONS: Final = {21: 10}  # the oldest version of the file that may hold an opset


def prepared(model: onnx.ModelProto, opset: int) -> Net:
    """The graph of a float model, of at least this opset.

    Raises:
        UsageError: it is quantised already.
        BuildError: it cannot be converted to the opset.
    """
    _check_float(model)
    check_expanded(model)
    if model.functions:
        model = _converted("inlining its functions", lambda: inliner.inline_local_functions(model))
    if opset_versions(model).get("", opset) < opset:
        model = _converted(f"converting it to opset {opset}", lambda: version_converter.convert_version(model, opset))
    net = Net.of(model)
    net.model.ir_version = max(net.model.ir_version, _IR_VERSIONS.get(opset, 8))
    _constants(net)
    _without_copies(net)
    return net


def _check_float(model: onnx.ModelProto) -> None:
    """Refuses a model with quantised parts."""
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    found = next((node.op_type for node in nodes if node.op_type.startswith(_QUANTISED)), None)
    if found is not None:
        raise UsageError(
            "the model is quantised already", where=f"it has a {found}", hint="give the float model it was made of"
        )


def _converted(what: str, convert: Callable[[], Any]) -> Any:
    try:
        return convert()
    except Exception as error:  # what the converters raise shares no base
        raise BuildError(
            f"{what} fails", why=str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__,
            hint="export the model with a newer opset",
        ) from None


def _constants(net: Net) -> None:
    """Nodes that compute constants from constants become these."""
    kept: list[onnx.NodeProto] = []
    for node in net.nodes:
        found = _constant(net, node)
        if found is None or node.output[0] in net.outputs:
            kept.append(node)
        else:
            net.tensors[node.output[0]] = found
    net.nodes = kept


def _constant(net: Net, node: onnx.NodeProto) -> onnx.TensorProto | None:
    """What a node computes that only constants reach."""
    if node.domain not in ("", "ai.onnx") or len(node.output) != 1:
        return None
    if node.op_type == "Constant":
        value = next((a for a in node.attribute if a.name == "value" and a.HasField("t")), None)
        if value is not None:
            made = onnx.TensorProto()
            made.CopyFrom(value.t)
            made.name = node.output[0]
            return made
        return _evaluated(net, node, {})
    if node.op_type not in _FOLDED or not node.input or not all(n in net.tensors for n in node.input if n):
        return None
    try:
        arrays = {name: net.array(name) for name in node.input if name}
    except SdkError:
        return None  # the import says what is wrong with it, if it matters
    if node.op_type in _ELEMENTWISE and not _small(list(arrays.values())):
        return None
    return _evaluated(net, node, arrays)


def _small(arrays: list[Array | None]) -> bool:
    """Whether the result of elementwise arithmetic has no more elements than the larger operand."""
    shapes = [a.shape for a in arrays if a is not None]
    try:
        result = broadcast_shapes(*shapes)
    except SdkError:
        return False
    return result in shapes


def _evaluated(net: Net, node: onnx.NodeProto, arrays: dict[str, Array | None]) -> onnx.TensorProto | None:
    """The result of a node by ONNX's reference, None where that cannot tell it."""
    try:
        versions = opset_versions(net.model)
        (found,) = ReferenceEvaluator(node, opsets={"": versions.get("", 21)}).run(None, arrays)
        return numpy_helper.from_array(np.ascontiguousarray(found), node.output[0])
    except Exception:  # whatever damaged attributes lead to: the import says what is wrong with the node
        return None


def _without_copies(net: Net) -> None:
    """Dropout and Identity pass on what they read."""
    renamed: dict[str, str] = {}
    gone = []
    for k, node in enumerate(net.nodes):
        inputs = [renamed.get(name, name) for name in node.input]
        del node.input[:]
        node.input.extend(inputs)
        used = [name for name in node.output[1:] if name]
        copies = node.op_type in ("Identity", "Dropout") and node.domain in ("", "ai.onnx") and not used
        if copies and node.output[0] not in net.outputs and not _training(net, node):
            renamed[node.output[0]] = inputs[0]
            gone.append(k)
    net.drop(gone)


def _training(net: Net, node: onnx.NodeProto) -> bool:
    """Whether a Dropout drops anything, or might."""
    if len(node.input) < 3 or not node.input[2]:
        return False
    mode = net.array(node.input[2])
    return mode is None or bool(mode.any())


def plain_products(net: Net) -> None:
    """The factors of every Gemm go into its constants. The nodes are those of a model that was imported.

    Raises:
        BuildError: the weights of a layer are not finite.
    """
    for k, node in enumerate(net.nodes):
        one = as_sum(net, k)
        if one is not None:
            _check_finite(net, node, [one.weights, *([one.bias] if one.bias else [])])
        if one is None or one.op != "Gemm":
            continue
        weights = net.reals(one.weights)
        alpha, beta = float(attribute(node, "alpha", 1.0)), float(attribute(node, "beta", 1.0))
        assert weights is not None
        if alpha != 1.0:
            node.input[1] = net.const(one.weights, (weights * np.float32(alpha)).astype(np.float32))
        bias = net.reals(one.bias) if one.bias is not None else None
        if bias is not None:
            wide = np.broadcast_to(bias.reshape(-1) * np.float32(beta), one.channels(weights))
            set_bias(net, one, wide)
        for name in ("alpha", "beta"):
            found = [a for a in node.attribute if a.name == name]
            for a in found:
                node.attribute.remove(a)


def _check_finite(net: Net, node: onnx.NodeProto, names: list[str]) -> None:
    for name in names:
        if not np.isfinite(net.floats(name)).all():
            raise BuildError(
                f"the constant {name} holds NaN or infinities", where=f"{node.op_type} {node.name or node.output[0]}",
                hint="train the model anew, or export it from a state that was sound",
            )  # fmt: skip
