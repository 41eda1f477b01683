"""ONNX models shaped by hand to be hostile: each operator with attributes and contents at and beyond their ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

SMALL = (0, 1, 2, 3, 4, 5, 7, -1, -2, -3)
LARGE = (8, 64, 1 << 12, 1 << 15, 1 << 20, 1 << 24, 1 << 30, (1 << 31) - 1, 1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1)
FLOATS = (0.0, -0.0, -1.0, 0.5, 1.0, 1.5, 2.0, 1e-40, 1e-9, 1e9, 3e38, np.inf, -np.inf, np.nan)
KINDS = ("float32", "int8", "uint8", "int32", "int64", "bool", "float64", "float16")
SHAPES = ((1, 2, 7, 7), (2, 3), (4,), (), (1, 4, 6), (0, 3), (1, 1, 1, 1), (1, 8, 4, 4), (2, 3, 4, 5, 6))

# Operators with the attributes to give: i a number, I numbers, f a float, F floats, or words; and what inputs after
# the first are: "w" a constant like the first, "x" another input, "I" numbers, "F" floats, "s" one number.
OPERATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "Conv": ("w", {"kernel_shape": "I", "strides": "I", "pads": "I", "dilations": "I", "group": "i",
                   "auto_pad": ("NOTSET", "SAME_UPPER", "VALID", "X")}),
    "ConvTranspose": ("w", {"strides": "I", "pads": "I", "dilations": "I", "group": "i", "output_padding": "I",
                            "output_shape": "I"}),
    "ConvInteger": ("w", {"strides": "I", "pads": "I", "group": "i"}),
    "MaxPool": ("", {"kernel_shape": "I", "strides": "I", "pads": "I", "dilations": "I", "ceil_mode": "i"}),
    "AveragePool": ("", {"kernel_shape": "I", "strides": "I", "pads": "I", "dilations": "I", "ceil_mode": "i",
                         "count_include_pad": "i"}),
    "LpPool": ("", {"kernel_shape": "I", "strides": "I", "pads": "I", "p": "i"}),
    "Resize": ("_F", {"mode": ("nearest", "linear", "cubic"), "antialias": "i", "axes": "I",
                      "coordinate_transformation_mode": ("half_pixel", "align_corners", "asymmetric",
                                                         "tf_crop_and_resize")}),
    "Upsample": ("F", {"mode": ("nearest", "linear")}),
    "Pad": ("Isi", {"mode": ("constant", "edge", "reflect", "wrap", "x")}),
    "Slice": ("IIII", {}), "Split": ("I", {"axis": "i", "num_outputs": "i"}), "Concat": ("xw", {"axis": "i"}),
    "Transpose": ("", {"perm": "I"}), "Reshape": ("I", {"allowzero": "i"}), "Expand": ("I", {}), "Tile": ("I", {}),
    "Squeeze": ("I", {}), "Unsqueeze": ("I", {}), "Flatten": ("", {"axis": "i"}), "Gather": ("I", {"axis": "i"}),
    "GatherND": ("I", {"batch_dims": "i"}), "GatherElements": ("I", {"axis": "i"}),
    "ScatterND": ("Iw", {}), "ScatterElements": ("Iw", {"axis": "i"}), "OneHot": ("sF", {"axis": "i"}),
    "TopK": ("s", {"axis": "i", "largest": "i"}), "CumSum": ("s", {"exclusive": "i", "reverse": "i"}),
    "ReduceSum": ("I", {"keepdims": "i"}), "ReduceMax": ("I", {"keepdims": "i"}),
    "ArgMax": ("", {"axis": "i", "keepdims": "i"}), "Softmax": ("", {"axis": "i"}), "LogSoftmax": ("", {"axis": "i"}),
    "DepthToSpace": ("", {"blocksize": "i", "mode": ("DCR", "CRD")}), "SpaceToDepth": ("", {"blocksize": "i"}),
    "Trilu": ("s", {"upper": "i"}), "EyeLike": ("", {"k": "i", "dtype": "i"}), "LRN": ("", {"size": "i", "alpha": "f"}),
    "BatchNormalization": ("wwww", {"epsilon": "f"}), "InstanceNormalization": ("ww", {"epsilon": "f"}),
    "LayerNormalization": ("w", {"axis": "i", "epsilon": "f"}), "GroupNormalization": ("ww", {"num_groups": "i"}),
    "LSTM": ("ww", {"hidden_size": "i", "direction": ("forward", "reverse", "bidirectional")}),
    "GRU": ("ww", {"hidden_size": "i", "linear_before_reset": "i"}), "RNN": ("ww", {"hidden_size": "i"}),
    "Gemm": ("ww", {"alpha": "f", "beta": "f", "transA": "i", "transB": "i"}), "MatMul": ("w", {}),
    "Einsum": ("w", {"equation": ("ij,jk->ik", "...,...", "i,i->", "", "a->aa", "->", "abcdefgh")}),
    "Cast": ("", {"to": "i"}), "Clip": ("ss", {}), "QuantizeLinear": ("FI", {"axis": "i", "block_size": "i"}),
    "DequantizeLinear": ("FI", {"axis": "i", "block_size": "i"}), "DynamicQuantizeLinear": ("", {}),
    "NonMaxSuppression": ("xsFF", {}), "RoiAlign": ("wI", {"output_height": "i", "sampling_ratio": "i"}),
    "GridSample": ("x", {"mode": ("linear", "cubic")}), "Col2Im": ("II", {"pads": "I", "strides": "I"}),
    "CenterCropPad": ("I", {"axes": "I"}), "ReverseSequence": ("I", {"batch_axis": "i", "time_axis": "i"}),
    "Compress": ("I", {"axis": "i"}), "Mod": ("w", {"fmod": "i"}), "Pow": ("w", {}), "Div": ("w", {}),
    "BitShift": ("w", {"direction": ("LEFT", "RIGHT", "UP")}), "Where": ("xw", {}), "NonZero": ("", {}),
    "Unique": ("", {"axis": "i"}), "Shrink": ("", {"lambd": "f"}), "Elu": ("", {"alpha": "f"}), "Identity": ("", {}),
    "MeanVarianceNormalization": ("", {"axes": "I"}), "GlobalAveragePool": ("", {}), "Det": ("", {}),
    "Shape": ("", {"start": "i", "end": "i"}), "Size": ("", {}), "IsInf": ("", {}), "Mish": ("", {}),
    "SoftmaxCrossEntropyLoss": ("I", {"ignore_index": "i"}), "AffineGrid": ("I", {"align_corners": "i"}),
    "ImageDecoder": ("", {}), "StringNormalizer": ("", {}), "DFT": ("s", {"axis": "i", "inverse": "i"}),
}  # fmt: skip
SOURCES = ("ConstantOfShape", "Range", "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix",
           "RandomNormal", "RandomUniform", "Constant")  # fmt: skip


class Draw:
    """Random choices, most of them harmless, so that a model gets past the first check."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def of(self, pool: Any) -> Any:
        return pool[int(self.rng.integers(len(pool)))]

    def number(self) -> int:
        value = self.of(SMALL if self.rng.random() < 0.75 else LARGE)
        return -value if self.rng.random() < 0.1 else value

    def numbers(self) -> list[int]:
        count = self.of((1, 2, 2, 2, 4, 4, 4, 0, 3, 8))
        if self.rng.random() < 0.5:
            return [self.of((1, 1, 2, 3, 0))] * count
        return [self.number() for _ in range(count)]

    def float(self) -> float:
        return float(self.of(FLOATS))

    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.of(SHAPES)
        return shape

    def array(self, shape: tuple[int, ...], kind: str) -> np.ndarray:
        return (self.rng.integers(-4, 5, shape) if kind != "bool" else self.rng.random(shape) > 0.5).astype(kind)

    def attribute(self, kind: Any) -> Any:
        if self.rng.random() < 0.04:  # one of the wrong type
            kind = self.of(("i", "I", "f", "F", ("x",)))
        match kind:
            case "i":
                return self.number()
            case "I":
                return self.numbers() or [1]
            case "f":
                return self.float()
            case "F":
                return [self.float() for _ in range(self.of((1, 2, 4)))]
        return self.of(kind)


def one_operator(draw: Draw) -> onnx.ModelProto:
    """One node of a random operator on an input, the rest of its inputs constants or further inputs."""
    op = draw.of(tuple(OPERATORS))
    inputs, attributes = OPERATORS[op]
    kind = draw.of(KINDS) if draw.rng.random() < 0.4 else "float32"
    shape = draw.shape() if draw.rng.random() < 0.5 else (1, 4, 6, 6)
    params, constants, names = [param("x", shape, kind)], [], ["x"]
    for k, what in enumerate(inputs):
        name = "" if what == "_" else f"i{k}"
        names.append(name)
        if what == "x":
            params.append(param(name, draw.shape(), kind))
        elif what == "w":
            own = draw.shape() if draw.rng.random() < 0.7 else (4, 4, 3, 3)
            constants.append(numpy_helper.from_array(draw.array(own, kind), name))
        elif what in "IsiF":
            constant_numbers(draw, what, name, params, constants)
    if draw.rng.random() < 0.1:
        names += ["x"] * int(draw.rng.integers(1, 4))  # surplus inputs
    if draw.rng.random() < 0.1:
        names = names[: int(draw.rng.integers(0, len(names)))]  # missing ones
    chosen = {k: draw.attribute(v) for k, v in attributes.items() if draw.rng.random() < 0.6}
    outputs = [f"y{k}" for k in range(draw.of((1, 1, 1, 1, 2, 3, 0)))]
    node = helper.make_node(op, names, outputs, **chosen)
    return one_model(draw, [node], params, outputs or ["x"], constants)


def constant_numbers(draw: Draw, what: str, name: str, params: list[Any], constants: list[Any]) -> None:
    if draw.rng.random() < 0.1:
        params.append(param(name, (draw.of((1, 2, 4)),), "float32" if what == "F" else "int64"))
        return
    values = {
        "I": lambda: np.array(draw.numbers(), np.int64), "F": lambda: np.array(draw.attribute("F"), np.float32),
        "s": lambda: np.array(draw.number(), np.int64), "i": lambda: np.array(draw.number(), np.int64),
    }[what]()  # fmt: skip
    constants.append(numpy_helper.from_array(values, name))


def source(draw: Draw) -> onnx.ModelProto:
    """A tensor out of nothing, of a size that the model states."""
    op = draw.of(SOURCES)
    count = {"Range": 3, "MelWeightMatrix": 5}.get(op, 0 if op in ("Constant", "RandomNormal", "RandomUniform") else 1)
    names = [f"i{k}" for k in range(count)]
    constants = [
        numpy_helper.from_array(
            np.array(draw.numbers() if op == "ConstantOfShape" else draw.number(), np.int64), name
        )
        for name in names
    ]
    attributes = {"shape": draw.attribute("I")} if op.startswith("Random") else {}
    nodes = [helper.make_node(op, names, ["c"], **attributes), helper.make_node("Identity", ["x"], ["y"])]
    return one_model(draw, nodes, [param("x", (2,), "float32")], ["y", "c"], constants)


def growing(draw: Draw) -> onnx.ModelProto:
    """A chain in which each node makes more of the one before: constants, or tensors of the graph."""
    constant = draw.rng.random() < 0.6
    count = draw.of((3, 20, 45, 70))
    op = draw.of(("Concat", "Tile", "Expand", "Add", "Pad", "Unsqueeze", "MatMul", "Resize", "ConstantOfShape"))
    numbers = {"Tile": [draw.of((2, 1000))], "Expand": [1 << 20, 1], "Pad": [draw.of((1, 1 << 20))] * 2,
               "Unsqueeze": [0]}  # fmt: skip
    nodes, at = [], "w" if constant else "x"
    constants = [numpy_helper.from_array(np.ones(2, np.float32), "w")]
    if op in numbers:
        constants.append(numpy_helper.from_array(np.array(numbers[op], np.int64), "n"))
    if op == "Resize":
        constants.append(numpy_helper.from_array(np.array([draw.of((2.0, 1000.0))], np.float32), "n"))
    for k in range(count):
        names = {"Concat": [at, at], "Add": [at, at], "MatMul": [at, at], "Resize": [at, "", "n"],
                 "ConstantOfShape": ["n"] if "n" in numbers else [at]}.get(op, [at, "n"])  # fmt: skip
        nodes.append(helper.make_node(op, names, [f"t{k}"], **({"axis": 0} if op == "Concat" else {})))
        at = f"t{k}"
    nodes.append(helper.make_node("Shape" if draw.rng.random() < 0.3 else "Relu", [at], ["y"]))
    return one_model(draw, nodes, [param("x", (2,), "float32")], ["y"], constants)


def looping(draw: Draw) -> onnx.ModelProto:
    """Loops inside one another, of counts that may be anything."""
    depth = draw.of((1, 1, 2, 3, 40))
    counts = [draw.of((0, 1, 3, 50, 600, 2000, 10**6, -5, 1 << 62)) for _ in range(depth)]
    body = [helper.make_node(draw.of(("Relu", "Sigmoid", "Add")), ["v0"] * 1, ["r"])]
    if body[0].op_type == "Add":
        body[0].input.append("v0")
    for k, count in enumerate(counts):
        inner = "v0" if k == 0 else f"v{k}"
        graph = helper.make_graph(
            [*body, helper.make_node("Identity", [f"c{k}"], [f"d{k}"])], f"b{k}",
            [param(f"n{k}", (), "int64"), param(f"c{k}", (), "bool"), param(inner, (3,), "float32")],
            [param(f"d{k}", (), "bool"), param("r" if k == 0 else f"r{k}", (3,), "float32")],
        )  # fmt: skip
        here = f"v{k + 1}" if k + 1 < depth else "x"
        constants = [
            helper.make_node("Constant", [], [f"m{k}"], value=numpy_helper.from_array(np.array(count))),
            helper.make_node("Constant", [], [f"t{k}"], value=numpy_helper.from_array(np.array(True))),
        ]
        body = [*constants, helper.make_node("Loop", [f"m{k}", f"t{k}", here], [f"r{k + 1}"], body=graph)]
    return one_model(draw, body, [param("x", (3,), "float32")], [f"r{depth}"], [])


def nesting(draw: Draw) -> onnx.ModelProto:
    """Functions that call functions, some of them themselves; or branches inside branches."""
    depth, twice = draw.of((1, 3, 8, 25, 60, 300)), draw.of((1, 2, 2, 3))
    if draw.rng.random() < 0.4:
        node = helper.make_node("Relu", ["x"], ["y0"])
        for k in range(min(depth, 60)):
            graph = helper.make_graph([node], f"g{k}", [], [onnx.ValueInfoProto(name=f"y{k}")])
            node = helper.make_node("If", ["c"], [f"y{k + 1}"], then_branch=graph, else_branch=graph) if k < 12 else (
                helper.make_node("If", ["c"], [f"y{k + 1}"], then_branch=graph))  # fmt: skip
        params = [param("x", (3,), "float32"), param("c", (), "bool")]
        return one_model(draw, [node], params, [node.output[0]], [])
    functions = []
    for k in range(depth):
        nodes = [
            helper.make_node("Neg" if k == 0 else f"f{k - 1}", [f"a{n}"], [f"a{n + 1}"], domain="" if k == 0 else "own")
            for n in range(twice)
        ]
        if draw.rng.random() < 0.02:
            nodes[0] = helper.make_node(f"f{draw.of(range(depth))}", ["a0"], ["a1"], domain="own")
        imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
        functions.append(helper.make_function("own", f"f{k}", ["a0"], [f"a{twice}"], nodes, imports))
    node = helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="own")
    model = one_model(draw, [node], [param("x", (3,), "float32")], ["y"], [])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(functions)
    return model


def broken(draw: Draw) -> onnx.ModelProto:
    """A graph whose names, constants or versions contradict each other."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Add", ["a", "w"], ["y"])]
    weight = numpy_helper.from_array(np.ones(3, np.float32), "w")
    model = one_model(draw, nodes, [param("x", (3,), "float32")], ["y"], [weight])
    graph = model.graph

    def names(node: int, field: str, name: str) -> None:
        getattr(graph.node[node], field)[0] = name

    def sparse() -> None:
        graph.sparse_initializer.add().values.CopyFrom(weight)

    def text() -> None:
        graph.initializer[0].CopyFrom(helper.make_tensor("w", TensorProto.STRING, [1], [b"a"]))

    actions: list[Callable[[], Any]] = [
        lambda: names(0, "input", "y"), lambda: names(0, "output", "x"), lambda: names(1, "output", "a"),
        lambda: names(0, "input", "none"), lambda: names(1, "output", "w"), sparse, text,
        lambda: graph.initializer.append(weight), lambda: graph.ClearField("node"), lambda: graph.ClearField("output"),
        lambda: graph.ClearField("input"), lambda: model.ClearField("opset_import"), lambda: model.ClearField("graph"),
        lambda: setattr(model.opset_import[0], "version", draw.number()),
        lambda: setattr(graph.node[0], "domain", draw.of(("x", "ai.onnx.ml", "com.microsoft", "\x1b[31m"))),
        lambda: setattr(graph.initializer[0], "raw_data", b"123"), lambda: graph.output.append(graph.output[0]),
        lambda: setattr(graph.output[0], "name", draw.of(("x", "w", "", "a"))),
        lambda: graph.initializer[0].dims.append(draw.number()), lambda: graph.initializer[0].dims.insert(0, -3),
        lambda: setattr(graph.initializer[0], "data_type", draw.of(range(-1, 30))),
        lambda: setattr(graph.input[0].type.tensor_type.shape.dim[0], "dim_value", draw.number()),
        lambda: setattr(graph.input[0].type.tensor_type, "elem_type", draw.of(range(-1, 30))),
        lambda: graph.input[0].ClearField("type"), lambda: setattr(model, "ir_version", draw.number()),
        lambda: graph.node.extend([graph.node[0]] * 3), lambda: graph.node[1].input.append("w"),
        lambda: graph.node[1].input.pop(), lambda: graph.node[0].attribute.add(),
        lambda: graph.node[0].attribute.append(helper.make_attribute("alpha", 1)),
        lambda: setattr(graph.input[0].type.tensor_type.shape.dim[0], "dim_param", draw.of(
            ("n", "length", "int", "(" * 300, "-" * 300 + "n", "n*" * 150 + "n", "n//0", "x", "\n"))),
    ]  # fmt: skip
    for _ in range(int(draw.rng.integers(1, 3))):
        draw.of(actions)()
    return model


def param(name: str, shape: tuple[int, ...], kind: str) -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)


def one_model(draw: Draw, nodes: list[Any], params: list[Any], outputs: list[str], constants: list[Any]) -> Any:
    graph = helper.make_graph(nodes, "g", params, [onnx.ValueInfoProto(name=n) for n in outputs], constants)
    version = draw.of((18, 18, 18, 13, 11, 20, 21))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)


GENERATORS = (one_operator, one_operator, one_operator, one_operator, source, growing, looping, nesting, broken)


def shaped(rng: np.random.Generator) -> tuple[bytes, str]:
    """A file of one of the generators, and which one made it."""
    while True:
        draw = Draw(rng)
        chosen = draw.of(GENERATORS)
        try:
            return chosen(draw).SerializeToString(), chosen.__name__
        except (ValueError, TypeError, IndexError, OverflowError, DecodeError):
            continue  # what protobuf itself does not let anyone write
