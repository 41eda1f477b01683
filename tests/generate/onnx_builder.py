"""Networks as .onnx files: nodes whose results ONNX's own shape inference tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from . import (
    onnx_control,
    onnx_elementwise,
    onnx_integers,
    onnx_moves,
    onnx_places,
    onnx_products,
    onnx_quantised,
    onnx_recurrent,
    onnx_reduce,
)
from .builders import FileBuilder, Op
from .fills import floats, integers
from .network import Layer, Spec, Unfit

__all__ = ["OnnxBuilder"]

Array = NDArray[Any]
OPSET, IR = 21, 10
_FLOAT = {
    **onnx_products.TABLE, **onnx_elementwise.TABLE, **onnx_moves.TABLE, **onnx_places.TABLE, **onnx_reduce.TABLE,
    **onnx_control.TABLE, **onnx_recurrent.TABLE,
}  # fmt: skip
TABLES: Mapping[str, Mapping[str, Op]] = {
    "onnx-float": _FLOAT,
    "onnx-qdq": onnx_quantised.TABLE,
    "onnx-integer": {**onnx_integers.TABLE, **onnx_moves.TABLE, **onnx_places.TABLE},
}


class OnnxBuilder(FileBuilder):
    """An ONNX graph: ``types`` are those of all values in it, also of those that no layer makes known."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.table: Mapping[str, Op] = TABLES[kind]
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.inputs: list[Any] = []
        self.types: dict[str, Spec] = {}
        self.known: dict[str, Any] = {}
        self.opset, self.last = OPSET, 1000
        self.made = 0

    def input(self, name: str, spec: Spec) -> None:
        self.now_has(name, spec)
        self.types[name] = spec
        self.inputs.append(helper.make_tensor_value_info(name, _code(spec.dtype), spec.shape))

    def need(self, opset: int) -> None:
        """Some operator is not there before this opset."""
        self.opset = max(self.opset, opset)
        self.until(self.last)

    def until(self, opset: int) -> None:
        """Some operator is there up to this opset only."""
        self.last = min(self.last, opset)
        if self.opset > self.last:
            raise Unfit(f"opset {self.opset} is after {self.last}")

    def hidden(self) -> str:
        """A name for a value that no layer sees."""
        self.made += 1
        return f"h{self.made}"

    def const(self, data: Any, dtype: str | None = None) -> str:
        """A constant: an initialiser, or every third one a node."""
        array = np.asarray(data, dtype=dtype)
        name = self.hidden()
        tensor = numpy_helper.from_array(array, name)
        self.counted(weights=array.nbytes)
        self.types[name] = Spec(array.shape, str(array.dtype))
        self.known[name] = tensor
        if self.made % 3 == 0:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        return name

    def filled(self, shape: Sequence[int], fill: Any, maximum: float = 1.0, dtype: str = "float32") -> str:
        """A constant of a style: reals up to ``maximum``, integers up to it on both sides of 0 (or from 0)."""
        if dtype.startswith("float"):
            return self.const(floats(tuple(shape), fill, maximum), dtype)
        minimum = 0 if dtype.startswith("u") or dtype == "bool" else -int(maximum)
        return self.const(integers(tuple(shape), fill, minimum, 1 if dtype == "bool" else int(maximum)), dtype)

    def node(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str] | None = None, exact: bool | None = None,
        specs: Sequence[Spec] | None = None, **given: Any,
    ) -> str:  # fmt: skip
        """A node; the name of its first result. ``outputs`` are those of the layer, by default a hidden one.

        Raises:
            Unfit: ONNX says that it does not fit its inputs.
        """
        names = [self.hidden()] if outputs is None else list(outputs)
        return self._written(op, inputs, names, outputs or (), exact, specs, given)[0]

    def several(self, op: str, inputs: Sequence[str], count: int, **given: Any) -> list[str]:
        """A node with that many results that no layer sees."""
        return self._written(op, inputs, [self.hidden() for _ in range(count)], (), None, None, given)

    def _written(
        self, op: str, inputs: Sequence[str], names: list[str], outputs: Sequence[str], exact: bool | None,
        specs: Sequence[Spec] | None, given: Mapping[str, Any],
    ) -> list[str]:  # fmt: skip
        made = helper.make_node(op, list(inputs), names, **given)
        if exact is None:
            exact = all(self.types[n].exact for n in inputs if n) and op in EXACT
        for name, spec in zip(names, specs or self._inferred(made), strict=True):
            if name:
                exact_too = exact or not spec.dtype.startswith("float")
                self.types[name] = Spec(spec.shape, spec.dtype, spec.scale, spec.zero, exact_too)
        self.nodes.append(made)
        for name in outputs:
            if name:
                self.now_has(name, self.types[name])
        return names

    def cut(self, x: str, shape: Sequence[int]) -> str:
        """The first elements of a value in another shape, for operators that want one of their own."""
        flat = self.node("Reshape", [x, self.const([-1], "int64")])
        count = int(np.prod(shape))
        part = self.node("Slice", [flat, *(self.const([v], "int64") for v in (0, count))])
        return self.node("Reshape", [part, self.const(list(shape), "int64")])

    def _inferred(self, made: Any) -> list[Spec]:
        try:
            schema = onnx.defs.get_schema(made.op_type, self.opset, "")
            types = {n: _type(self.types[n]) for n in made.input if n}
            data = {n: self.known[n] for n in made.input if n in self.known}
            found = onnx.shape_inference.infer_node_outputs(
                schema, made, types, data, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=IR
            )
        except (onnx.shape_inference.InferenceError, RuntimeError, onnx.checker.ValidationError) as error:
            raise Unfit(f"{made.op_type}: {error}") from None
        return [_spec(made, name, found.get(name)) if name else Spec((1,), "float32") for name in made.output]

    def finish(self, outputs: Sequence[str], name: str) -> bytes:
        results = [helper.make_tensor_value_info(o, _code(self.types[o].dtype), self.types[o].shape) for o in outputs]
        if {i.name for i in self.inputs} & set(outputs):
            raise Unfit("an input is an output")
        graph = helper.make_graph(self.nodes, name, self.inputs, results, self.initializers)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="generate")
        try:
            onnx.checker.check_model(model, full_check=True)
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
            raise Unfit(str(error)) from None
        return bytes(model.SerializeToString(deterministic=True))

    def apply(self, one: Layer) -> None:
        before = len(self.nodes)
        try:
            super().apply(one)
        except (Unfit, IndexError) as error:  # a shape that lost an axis
            del self.nodes[before:]
            raise Unfit(str(error)) from None


# What gives the same bits in every engine where its inputs do: moves, choices and sums of two.
EXACT = frozenset((
    "Abs", "Add", "And", "ArgMax", "ArgMin", "BitShift", "Ceil", "CenterCropPad", "Clip", "Compress", "Concat",
    "DepthToSpace", "Dropout", "Equal", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements",
    "GatherND", "GlobalMaxPool", "Greater", "GreaterOrEqual", "Hardmax", "Identity", "IsInf", "IsNaN", "Less",
    "LessOrEqual", "Max", "MaxPool", "MaxUnpool", "Min", "Neg", "Not", "Optional", "OptionalGetElement", "Or",
    "Pad", "ReduceMax", "ReduceMin", "Relu", "Reshape", "ReverseSequence", "Round", "ScatterElements", "ScatterND",
    "Shape", "Sign", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "Sub", "TensorScatter", "Tile", "TopK",
    "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
))  # fmt: skip


def _code(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _type(spec: Spec) -> Any:
    return helper.make_tensor_type_proto(_code(spec.dtype), spec.shape)


def _spec(made: Any, name: str, found: Any) -> Spec:
    if found is None or not found.HasField("tensor_type") or not found.tensor_type.HasField("shape"):
        raise Unfit(f"{made.op_type}: {name} has no known shape")
    dims = found.tensor_type.shape.dim
    if any(not d.HasField("dim_value") for d in dims):
        raise Unfit(f"{made.op_type}: {name} is as large as the data say")
    dtype = str(helper.tensor_dtype_to_np_dtype(found.tensor_type.elem_type))
    return Spec(tuple(int(d.dim_value) for d in dims), dtype)


