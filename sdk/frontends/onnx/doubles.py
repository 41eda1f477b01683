"""A model of quantised tensors evaluated in float64: what its integers are where no sum was rounded on the way.

An engine computes between DequantizeLinear and QuantizeLinear in float32. A sum that lies within its rounding of half a
step becomes either integer, by the order in which the engine adds. float64, which holds these sums exactly or with an
error 2^29 times smaller, decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

__all__ = ["Doubles"]

Array = NDArray[Any]
AXIS = 1  # of scales, where a node has no attribute of it
NARROW = {np.dtype(kind) for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32)}


QUANTISE = frozenset({"QuantizeLinear", "QLinearConv", "QLinearMatMul"})


class Doubles:
    """A model whose float32 tensors are float64, run by the reference evaluator of the package onnx.

    Raises:
        ValueError: it quantises nothing, has subgraphs or computed scales, or types that are not rewritten here.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        if not any(node.op_type in QUANTISE for node in model.graph.node):
            raise ValueError("nothing is quantised")
        made = onnx.ModelProto()
        made.CopyFrom(model)
        self.kinds = [helper.tensor_dtype_to_np_dtype(o.type.tensor_type.elem_type) for o in made.graph.output]
        _Rewriting(made.graph).apply()
        self.run = ReferenceEvaluator(made).run

    def step(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Outputs in the model's order for inputs by name, of the types that the model gives them.

        Raises:
            Exception: the evaluator's own, where it lacks an operator.
        """
        found = self.run(None, dict(inputs))
        return [np.asarray(a).astype(kind) for a, kind in zip(found, self.kinds, strict=True)]


class _Rewriting:
    """One graph, rewritten in place."""

    def __init__(self, graph: GraphProto) -> None:
        self.graph = graph
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        self.nodes: list[NodeProto] = []
        self.made = 0

    def apply(self) -> None:
        """Inputs are cast, constants are float64, quantising is spelled out."""
        graph = self.graph
        renamed = {value.name: self._cast_input(value) for value in graph.input if _is_float(value)}
        for tensor in graph.initializer:
            self._widen(tensor)
        for node in graph.node:
            self._rewrite(node, renamed)
        del graph.node[:], graph.value_info[:]
        graph.node.extend(self.nodes)
        for value in graph.output:
            if _is_float(value):
                value.type.tensor_type.elem_type = TensorProto.DOUBLE

    def _cast_input(self, value: onnx.ValueInfoProto) -> str:
        return self._node("Cast", [value.name], to=TensorProto.DOUBLE)

    def _widen(self, tensor: TensorProto) -> None:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))

    def _rewrite(self, node: NodeProto, renamed: Mapping[str, str]) -> None:
        made = NodeProto()
        made.CopyFrom(node)
        made.input[:] = [renamed.get(name, name) for name in node.input]
        for attribute in made.attribute:
            self._widen_attribute(node, attribute)
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        match node.op_type:
            case "DequantizeLinear":
                self._dequantise(made)
            case "QuantizeLinear":
                self._quantise(made)
            case "QLinearConv" | "QLinearMatMul":
                self._spell_out(made)
            case _:
                self.nodes.append(made)

    def _widen_attribute(self, node: NodeProto, attribute: AttributeProto) -> None:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            raise ValueError(f"{node.op_type} has subgraphs")
        if attribute.type == AttributeProto.TENSOR:
            self._widen(attribute.t)
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE

    def _spell_out(self, node: NodeProto) -> None:
        """An operator of quantised tensors as one of floats, between tensors made of integers and made integers."""
        a, b, (scale, zero) = node.input[:3], node.input[3:6], node.input[6:8]
        conv = node.op_type == "QLinearConv"
        channels: dict[str, Any] = {"axis": 0 if conv else self._rank(b[0]) - 1} if self._size(b[1]) > 1 else {}
        made = [self._fresh() for _ in range(4)]
        parts = [helper.make_node("DequantizeLinear", a, made[:1])]
        parts.append(helper.make_node("DequantizeLinear", b, made[1:2], **channels))
        if len(node.input) > 8:
            self.constants[made[3]] = self.constants[a[1]].astype(np.float64) * self.constants[b[1]]
            parts.append(helper.make_node("DequantizeLinear", [node.input[8], made[3]], [made[3] + "/bias"], axis=0))
        given = [*made[:2], *(part.output[0] for part in parts[2:])]
        whole = helper.make_node("Conv" if conv else "MatMul", given, made[2:3])
        whole.attribute.extend(node.attribute)
        for part in (*parts, whole, helper.make_node("QuantizeLinear", [made[2], scale, zero], node.output)):
            self._rewrite(part, {})

    def _size(self, name: str) -> int:
        held = self.constants.get(name)
        return 1 if held is None else held.size

    def _dequantise(self, node: NodeProto) -> None:
        scale, zero, _ = self._parameters(node)
        wide = self._node("Cast", [node.input[0]], to=TensorProto.DOUBLE)
        self._last("Mul", [self._node("Sub", [wide, zero]), scale], node)

    def _quantise(self, node: NodeProto) -> None:
        scale, zero, kind = self._parameters(node)
        limits = np.iinfo(kind)
        steps = self._node("Round", [self._node("Div", [node.input[0], scale])])
        ends = [self._constant(np.float64(end)) for end in (limits.min, limits.max)]
        held = self._node("Clip", [self._node("Add", [steps, zero]), *ends])
        self._last("Cast", [held], node, to=helper.np_dtype_to_tensor_dtype(kind))

    def _parameters(self, node: NodeProto) -> tuple[str, str, np.dtype[Any]]:
        """Constants of a node's scale and zero point, along its axis, and the type of its integers."""
        attributes = {a.name: a.i for a in node.attribute}
        scale = self.constants.get(node.input[1])
        plain = np.zeros((), np.int32 if node.op_type == "DequantizeLinear" else np.uint8)  # nothing to take away
        zero = self.constants.get(node.input[2]) if len(node.input) > 2 and node.input[2] else plain
        if scale is None or zero is None or zero.dtype not in NARROW or attributes.get("block_size"):
            raise ValueError(f"{node.op_type} of {node.output[0]} has no constant scale for an integer type")
        if scale.size > 1:
            if attributes.get("axis", AXIS) < 0:
                raise ValueError("an axis from the end")
            after = self._rank(node.input[0]) - 1 - attributes.get("axis", AXIS)
            scale, zero = (a.reshape(-1, *(1,) * after) for a in (scale, np.broadcast_to(zero, scale.shape)))
        else:
            scale, zero = scale.reshape(()), zero.reshape(())
        numbers = [self._constant(a.astype(np.float64)) for a in (scale, zero)]
        return numbers[0], numbers[1], zero.dtype

    def _rank(self, name: str) -> int:
        held = self.constants.get(name)
        if held is None:
            raise ValueError(f"{name} is computed, and has a scale for each channel")
        return held.ndim

    def _node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = self._fresh()
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def _last(self, op: str, inputs: Sequence[str], node: NodeProto, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op, inputs, node.output, **attributes))

    def _constant(self, array: Any) -> str:
        name = self._fresh()
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _fresh(self) -> str:
        self.made += 1
        return f"in doubles/{self.made}"


def _is_float(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == TensorProto.FLOAT)
