"""Models of one operator on real numbers: every operator over its types, ranks and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tflite_files import ModelFile

__all__ = ["CASES", "HYBRID", "Case", "Const", "Held", "Kept", "stored", "weights"]

Array = np.ndarray[Any, Any]
SAME, VALID = 0, 1


@dataclass(frozen=True)
class Const:
    """An input of the operator that the file holds; ``scale`` and ``axis`` of weights that are stored in 8 bits."""

    data: Any
    dtype: str = "int32"
    scale: tuple[float, ...] | None = None
    axis: int = 0


@dataclass(frozen=True)
class Held:
    """An input of the model: random numbers of ``minimum`` to ``maximum``."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    minimum: float = -3.0
    maximum: float = 3.0
    scale: tuple[float, ...] | None = None
    axis: int = 0

    def draw(self, rng: np.random.Generator) -> Array:
        if self.dtype == "bool":
            return rng.random(self.shape) < 0.5
        if self.dtype.startswith("float"):
            steps = rng.integers(round(self.minimum * 16), round(self.maximum * 16), self.shape, endpoint=True)
            return np.asarray(steps / 16, self.dtype)  # some are equal, and halves between whole numbers
        return np.asarray(rng.integers(int(self.minimum), int(self.maximum), self.shape, endpoint=True), self.dtype)


@dataclass(frozen=True)
class Kept:
    """An input that the operator keeps from run to run."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Apart(Held):
    """The same, no two of them equal."""

    def draw(self, rng: np.random.Generator) -> Array:
        steps = rng.permutation(int(np.prod(self.shape))).reshape(self.shape)
        return np.asarray(steps / 8 - 0.25, self.dtype)


@dataclass(frozen=True)
class Case:
    """An operator, its inputs (None: left out, named so up to the ``minimum`` number of them), the types of its
    outputs, its options, and the scale and zero point of what it stores."""

    op: str
    inputs: tuple[Held | Const | Kept | None, ...]
    outputs: tuple[str, ...] = ("float32",)
    options: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    meaning: tuple[float, int] | None = None
    minimum: int = 0
    shape: tuple[int, ...] = ()  # of outputs, where LiteRT reads it
    body: str | None = None  # the operator that a subgraph computes of two numbers of the input's type; "": none

    def data(self) -> bytes:
        """The file. The shapes of outputs are left to the reader."""
        model = ModelFile()
        numbers: list[int] = []
        last = max(k for k, one in enumerate(self.inputs) if one is not None)
        for k, one in enumerate(self.inputs[: last + 1]):
            if one is None:
                numbers.append(-1)
            elif isinstance(one, Const):
                numbers.append(model.const(f"c{k}", one.data, one.dtype, scale=one.scale, axis=one.axis))
            elif isinstance(one, Kept):
                numbers.append(model.tensor(f"kept{k}", one.shape, "float32", variable=True))
            else:
                own = {"scale": one.scale, "axis": one.axis} if one.scale else {}
                numbers.append(model.input(f"x{k}", one.shape, one.dtype, *self._meaning(one.dtype), **own))
        kinds = enumerate(self.outputs)
        outputs = [model.output(f"y{k}", self.shape, dtype, *self._meaning(dtype)) for k, dtype in kinds]
        numbers += [-1] * (self.minimum - len(numbers))
        model.op(self.op, numbers, outputs, self.options, **self.fields)
        return model.build(*[] if self.body is None else [self._subgraph(self.body)])

    def _subgraph(self, op: str) -> ModelFile:
        graph = ModelFile()
        ins = [graph.input(f"n{k}", (), self.outputs[0], *self._meaning(self.outputs[0])) for k in range(2)]
        if op:
            graph.op(op, ins, [graph.output("m", (), self.outputs[0], *self._meaning(self.outputs[0]))])
        else:
            graph.outputs.append(ins[1])
        return graph

    def _meaning(self, dtype: str) -> tuple[Any, ...]:
        """Scale and zero point of a tensor that has some."""
        return self.meaning or () if dtype in SCALED else ()

    def draw(self, rng: np.random.Generator) -> list[Array]:
        """Numbers for the model's inputs."""
        return [one.draw(rng) for one in self.inputs if isinstance(one, Held)]


RNG = np.random.default_rng(5)
NUMBERS = ("float32", "int32", "int64")


def weights(*shape: int) -> Const:
    return Const(RNG.uniform(-1, 1, shape), "float32")


def conv(
    image: tuple[int, ...], kernel: tuple[int, ...], padding: int = SAME, stride: int = 1, dilation: int = 1,
    act: int = 0, bias: bool = True, op: str = "CONV_2D", held: bool = False,
) -> Case:  # fmt: skip
    channels = kernel[3] if op == "DEPTHWISE_CONV_2D" else kernel[4] if op == "CONV_3D" else kernel[0]
    fields = {"Padding": padding, "StrideH": stride, "StrideW": stride, "DilationHFactor": dilation,
              "DilationWFactor": dilation, "FusedActivationFunction": act}  # fmt: skip
    if op == "CONV_3D":
        fields |= {"StrideD": stride, "DilationDFactor": dilation}
    if op == "DEPTHWISE_CONV_2D":
        fields["DepthMultiplier"] = channels // image[3]
    options = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions", "CONV_3D": "Conv3DOptions"}
    taps = Held(kernel) if held else weights(*kernel)
    return Case(op, (Held(image), taps, weights(channels) if bias else None), options=options[op], fields=fields)


def transposed(
    image: tuple[int, ...], kernel: tuple[int, ...], out: tuple[int, ...], padding: int, stride: int,
    bias: bool = False, act: int = 0,
) -> Case:  # fmt: skip
    inputs = (Const(out), weights(*kernel), Held(image), *([weights(kernel[0])] if bias else []))
    fields = {"Padding": padding, "StrideH": stride, "StrideW": stride, "FusedActivationFunction": act}
    return Case("TRANSPOSE_CONV", inputs, options="TransposeConvOptions", fields=fields)


def dense(shape: tuple[int, ...], w: tuple[int, int], keep: bool = False, bias: bool = True, act: int = 0,
          held: bool = False) -> Case:  # fmt: skip
    inputs = (Held(shape), Held(w) if held else weights(*w), weights(w[0]) if bias else None)
    fields = {"KeepNumDims": keep, "FusedActivationFunction": act, "WeightsFormat": 0}
    return Case("FULLY_CONNECTED", inputs, options="FullyConnectedOptions", fields=fields)


def matmul(a: tuple[int, ...], b: tuple[int, ...], x: bool = False, y: bool = False) -> Case:
    return Case("BATCH_MATMUL", (Held(a), Held(b)), options="BatchMatMulOptions", fields={"AdjX": x, "AdjY": y})


def stored(shape: tuple[int, ...], axis: int, each: bool) -> Const:
    """Weights of 8 bits, with a scale for each channel or one."""
    scales = tuple(float(s) for s in RNG.uniform(0.005, 0.02, shape[axis] if each else 1))
    return Const(RNG.integers(-127, 128, shape), "int8", scales, axis)


def hybrid(case: Case, each: bool = True, asymmetric: bool = False, held: bool = False) -> Case:
    """The same layer with weights of 8 bits."""
    taps = case.inputs[1]
    assert isinstance(taps, Const)
    axis = 3 if case.op == "DEPTHWISE_CONV_2D" else 0
    eight: Const | Held = stored(np.shape(taps.data), axis, each)
    if held and isinstance(eight, Const):
        eight = Held(np.shape(taps.data), "int8", -127, 127, eight.scale, axis)
    fields = {**case.fields, "AsymmetricQuantizeInputs": asymmetric} if case.op == "FULLY_CONNECTED" else case.fields
    inputs = (case.inputs[0], eight, *case.inputs[2:])
    return replace(case, inputs=inputs, fields=fields)


FUSED = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}
SHAPES = (((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((1, 3, 1), (2, 1, 4)), ((), (3,)), ((1, 5, 5, 2), (1, 1, 1, 2)))


def binary(op: str, kind: str, a: tuple[int, ...], b: tuple[int, ...], out: str = "", act: int = 0, **by: Any) -> Case:
    fields = {"FusedActivationFunction": act} if op in FUSED else {}
    reals = kind == "float32"
    left = Held(a, kind, **(by.get("left") or ({} if reals else {"minimum": -9, "maximum": 9})))
    right = Held(b, kind, **(by.get("right") or ({} if reals else {"minimum": -9, "maximum": 9})))
    return Case(op, (left, right), (out or kind,), FUSED.get(op, ""), fields)


def unary(op: str, kind: str = "float32", shape: tuple[int, ...] = (2, 3, 5), out: str = "", options: str = "",
          minimum: float = -4.0, maximum: float = 4.0, **fields: Any) -> Case:  # fmt: skip
    return Case(op, (Held(shape, kind, minimum, maximum),), (out or kind,), options, fields)


def pool(op: str, image: tuple[int, ...], kernel: int, stride: int, padding: int, act: int = 0) -> Case:
    fields = {"Padding": padding, "StrideH": stride, "StrideW": stride, "FilterHeight": kernel, "FilterWidth": kernel,
              "FusedActivationFunction": act}  # fmt: skip
    return Case(op, (Held(image),), options="Pool2DOptions", fields=fields)


def reduced(op: str, kind: str, shape: tuple[int, ...], axes: Sequence[int], keep: bool) -> Case:
    return Case(op, (Held(shape, kind), Const(axes)), (kind,), "ReducerOptions", {"KeepDims": keep})


def moved(op: str, shape: tuple[int, ...], *consts: Any, kind: str = "float32", options: str = "", outputs: int = 1,
          first: bool = True, **fields: Any) -> Case:  # fmt: skip
    given = [c if c is None or isinstance(c, Const) else Const(c) for c in consts]
    inputs = [Held(shape, kind), *given] if first else [*given, Held(shape, kind)]
    return Case(op, tuple(inputs), (kind,) * outputs, options, fields)


def several(
    op: str, shapes: Sequence[tuple[int, ...]], kind: str = "float32", options: str = "", **fields: Any
) -> Case:  # fmt: skip
    return Case(op, tuple(Held(s, kind) for s in shapes), (kind,), options, fields)


def strided(
    shape: tuple[int, ...], begin: Sequence[int], end: Sequence[int], step: Sequence[int], **masks: int
) -> Case:  # fmt: skip
    fields = {"BeginMask": 0, "EndMask": 0, "EllipsisMask": 0, "NewAxisMask": 0, "ShrinkAxisMask": 0, **masks}
    return moved("STRIDED_SLICE", shape, begin, end, step, options="StridedSliceOptions", **fields)


def resized(op: str, image: tuple[int, ...], size: tuple[int, int], corners: bool, half: bool) -> Case:
    options = {"RESIZE_BILINEAR": "ResizeBilinearOptions"}.get(op, "ResizeNearestNeighborOptions")
    return moved(op, image, size, options=options, AlignCorners=corners, HalfPixelCenters=half)


def gathered(shape: tuple[int, ...], at: tuple[int, ...], axis: int, batch: int = 0, kind: str = "float32") -> Case:
    positions = Held(at, "int32", 0, shape[axis] - 1)
    return Case("GATHER", (Held(shape, kind), positions), (kind,), "GatherOptions", {"Axis": axis, "BatchDims": batch})


def buckets(x: Held, *boundaries: float) -> Case:
    return Case("BUCKETIZE", (x,), ("int32",), "BucketizeOptions", {"Boundaries": list(boundaries)})


def suppression(boxes: int, room: int, overlap: float, minimum: float, sigma: float | None = None) -> Case:
    """Boxes whose corners are in any order, of no area 0, which LiteRT chooses more than once; scores all different."""
    numbers = [Const(v, "float32") for v in (overlap, minimum, *([] if sigma is None else [sigma]))]
    inputs = (Apart((boxes, 4)), Apart((boxes,)), Const(room), *numbers)
    kinds = ("int32", "int32") if sigma is None else ("int32", "float32", "int32")
    version = 4 if sigma is None else 5
    return Case(f"NON_MAX_SUPPRESSION_V{version}", inputs, kinds, f"NonMaxSuppressionV{version}Options")


def segments(how: str, kind: str) -> Case:
    dtype = "int32" if kind else "float32"
    inputs = (Held((2, 3, 2), dtype), Const([[3, 0, -1], [0, 3, 1]]), Const(5))
    return Case(f"UNSORTED_SEGMENT_{how}", inputs, (dtype,), f"UnsortedSegment{how.capitalize()}Options")


def one_hot(at: tuple[int, ...], depth: int, axis: int, kind: str) -> Case:
    inputs = (Held(at, "int32", -2, depth + 1), Const(depth), Const(5, kind), Const(-1, kind))
    return Case("ONE_HOT", inputs, (kind,), "OneHotOptions", {"Axis": axis})


PRODUCTS = {
    "conv same": conv((2, 7, 6, 3), (4, 3, 3, 3), SAME, 2),
    "conv valid relu6": conv((1, 7, 6, 3), (4, 2, 3, 3), VALID, act=3),
    "conv dilated": conv((1, 9, 9, 2), (3, 3, 3, 2), SAME, dilation=2, act=1),
    "conv groups": conv((1, 5, 5, 6), (4, 3, 3, 3), SAME),
    "conv pointwise n1": conv((1, 4, 4, 8), (5, 1, 1, 8), VALID, act=2),
    "conv weights computed": conv((1, 4, 4, 3), (2, 3, 3, 3), SAME, held=True),
    "depthwise": conv((2, 7, 6, 3), (1, 3, 3, 3), SAME, 2, op="DEPTHWISE_CONV_2D", act=1),
    "depthwise multiplied": conv((1, 6, 6, 2), (1, 3, 3, 6), VALID, op="DEPTHWISE_CONV_2D", bias=False),
    "depthwise dilated": conv((1, 9, 9, 2), (1, 3, 3, 2), SAME, dilation=3, op="DEPTHWISE_CONV_2D"),
    "depthwise weights computed": conv((1, 6, 6, 2), (1, 3, 3, 4), VALID, op="DEPTHWISE_CONV_2D", held=True),
    "conv 3d": conv((1, 4, 5, 6, 2), (2, 3, 3, 2, 4), SAME, 2, op="CONV_3D", act=1),
    "conv 3d valid": conv((2, 4, 5, 6, 2), (2, 2, 3, 2, 3), VALID, op="CONV_3D", bias=False),
    "transposed same": transposed((1, 3, 4, 2), (3, 3, 3, 2), (1, 6, 8, 3), SAME, 2),
    "transposed odd": transposed((2, 3, 4, 2), (3, 3, 3, 2), (2, 5, 7, 3), SAME, 2, bias=True),
    "transposed valid": transposed((1, 3, 4, 2), (3, 2, 5, 2), (1, 6, 11, 3), VALID, 2, bias=True, act=1),
    "transposed small": transposed((1, 4, 4, 2), (3, 2, 2, 2), (1, 8, 8, 3), VALID, 2),
    "transposed wide stride": transposed((1, 3, 3, 1), (1, 2, 2, 1), (1, 9, 9, 1), SAME, 3),
    "dense": dense((2, 9), (5, 9)),
    "dense one row": dense((9,), (5, 9), bias=False),
    "dense flattened": dense((2, 3, 8), (4, 8), act=1),
    "dense joined": dense((2, 3, 8), (4, 24)),
    "dense kept": dense((2, 3, 8), (4, 8), keep=True, act=3),
    "dense kept 4d": dense((2, 1, 3, 8), (4, 8), keep=True, bias=False),
    "dense weights computed": dense((2, 9), (5, 9), held=True),
    "matmul": matmul((2, 3, 4), (2, 4, 5)),
    "matmul turned": matmul((2, 4, 3), (2, 5, 4), True, True),
    "matmul broadcast": matmul((1, 2, 3, 4), (3, 1, 4, 5)),
    "matmul plain": matmul((3, 4), (4, 2)),
}  # fmt: skip
HYBRID = {
    "hybrid conv": hybrid(conv((2, 7, 6, 3), (4, 3, 3, 3), SAME, 2)),
    "hybrid conv relu6": hybrid(conv((1, 7, 6, 3), (4, 2, 3, 3), VALID, act=3)),
    "hybrid conv one scale": hybrid(conv((2, 7, 6, 3), (4, 3, 3, 3), SAME), each=False),
    "hybrid conv one channel": hybrid(conv((1, 5, 5, 3), (1, 3, 3, 3), SAME)),
    "hybrid depthwise one channel": hybrid(conv((1, 6, 6, 1), (1, 3, 3, 1), SAME, op="DEPTHWISE_CONV_2D")),
    "hybrid depthwise": hybrid(conv((2, 7, 6, 3), (1, 3, 3, 3), SAME, 2, op="DEPTHWISE_CONV_2D", act=1)),
    "hybrid depthwise multiplied": hybrid(conv((1, 6, 6, 2), (1, 3, 3, 6), VALID, op="DEPTHWISE_CONV_2D")),
    "hybrid transposed": hybrid(transposed((2, 3, 4, 2), (3, 3, 3, 2), (2, 6, 8, 3), SAME, 2, bias=True)),
    "hybrid transposed one scale": hybrid(transposed((1, 3, 4, 2), (3, 2, 5, 2), (1, 6, 11, 3), VALID, 2, act=1),
                                          each=False),
    "hybrid transposed computed": hybrid(transposed((1, 3, 4, 2), (3, 3, 3, 2), (1, 5, 7, 3), SAME, 2), held=True),
    "hybrid conv computed": hybrid(conv((2, 7, 6, 3), (4, 3, 3, 3), SAME, 2), held=True),
    "hybrid dense computed": hybrid(dense((3, 9), (5, 9)), each=False, held=True),
    "hybrid depthwise computed": hybrid(conv((1, 6, 6, 2), (1, 3, 3, 6), VALID, op="DEPTHWISE_CONV_2D"), held=True),
    "hybrid dense": hybrid(dense((3, 9), (5, 9)), each=False),
    "hybrid dense asymmetric": hybrid(dense((3, 9), (5, 9), act=1), each=False, asymmetric=True),
    "hybrid dense kept": hybrid(dense((2, 3, 8), (4, 8), keep=True, bias=False), each=False),
    "hybrid dense channels": hybrid(dense((3, 9), (5, 9))),
}
AWAY = {"minimum": 0.5, "maximum": 4.0}
POSITIVE = {"minimum": 1, "maximum": 7}
NEAR = {k: {"minimum": -0.2, "maximum": 0.2} if k == "float32" else {"minimum": -2, "maximum": 2} for k in NUMBERS}
BINARY = {
    **{f"{op} {k} {n}": binary(op, k, *pair, **({"right": AWAY if k == "float32" else POSITIVE} if op == "DIV" else {}))
       for op in FUSED for k in NUMBERS for n, pair in enumerate(SHAPES) if k == "float32" or n < 2
       if not (op == "DIV" and k == "int64")},
    **{f"{op} fused {act}": binary(op, k, (2, 5), (2, 5), act=act, right=AWAY if k == "float32" else POSITIVE)
       for op in FUSED for act in (1, 2, 3) for k in ("float32",)},
    "ADD int fused": binary("ADD", "int32", (2, 5), (5,), act=3),
    **{f"{op} {k} {n}": binary(op, k, *SHAPES[n]) for op in ("MAXIMUM", "MINIMUM") for k in NUMBERS for n in (0, 2)},
    "POW": binary("POW", "float32", (2, 3), (3,), left=AWAY),
    "POW int": binary("POW", "int32", (2, 3), (3,), right={"minimum": 0, "maximum": 3}),
    **{f"{op} {k} {n}": binary(op, k, *SHAPES[n], right=AWAY if k == "float32" else {"minimum": -5, "maximum": -1})
       for op in ("FLOOR_DIV", "FLOOR_MOD") for k in ("float32", "int32") for n in (0, 2)},
    "FLOOR_MOD int64": binary("FLOOR_MOD", "int64", (9,), (9,), right=POSITIVE),
    "SQUARED_DIFFERENCE": binary("SQUARED_DIFFERENCE", "float32", (2, 3, 4), (4,)),
    "SQUARED_DIFFERENCE int": binary("SQUARED_DIFFERENCE", "int32", (2, 3), (2, 3)),
    **{f"{op} {k}": binary(op, k, (2, 3, 4), (3, 1), "bool", left=NEAR[k], right=NEAR[k])
       for op in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL") for k in NUMBERS},
    "EQUAL bool": binary("EQUAL", "bool", (9,), (9,)),
    "LOGICAL_AND": binary("LOGICAL_AND", "bool", (9,), (9,)),
    "LOGICAL_OR": binary("LOGICAL_OR", "bool", (3, 4), (4,)),
    "BITWISE_XOR": binary("BITWISE_XOR", "int32", (9,), (9,)),
    "RIGHT_SHIFT": binary("RIGHT_SHIFT", "int32", (9,), (9,), right=POSITIVE),
    "PRELU": Case("PRELU", (Held((1, 3, 4, 5)), weights(1, 1, 5))),
    "PRELU whole": Case("PRELU", (Held((2, 3, 4)), Held((2, 3, 4)))),
    "ADD_N": several("ADD_N", [(2, 3)] * 4),
    "ADD_N int": several("ADD_N", [(2, 3)] * 2, "int32"),
    "SELECT": Case("SELECT", (Held((2, 3), "bool"), Held((2, 3)), Held((2, 3)))),
    "SELECT rows": Case("SELECT", (Held((4,), "bool"), Held((4, 3, 2), "int32"), Held((4, 3, 2), "int32")), ("int32",)),
    "SELECT one": Case("SELECT", (Held((), "bool"), Held((4, 3)), Held((4, 3)))),
    "SELECT_V2": Case("SELECT_V2", (Held((2, 1, 3), "bool"), Held((4, 1)), Held((1, 4, 3)))),
    "SELECT_V2 bool": Case("SELECT_V2", (Held((4,), "bool"), Held((3, 4), "bool"), Held((1,), "bool")), ("bool",)),
}  # fmt: skip
WINDOW_IMAGE = (2, 7, 6, 3)
UNARY = {
    **{op: unary(op) for op in (
        "ABS", "NEG", "EXP", "SIN", "COS", "SQUARE", "FLOOR", "CEIL", "ROUND", "SIGN", "RELU", "RELU6", "RELU_N1_TO_1",
        "RELU_0_TO_1", "ELU", "HARD_SWISH", "LOGISTIC", "TANH", "LOG_SOFTMAX", "ZEROS_LIKE")},
    **{f"{op} positive": unary(op, minimum=0.1, maximum=9.0) for op in ("SQRT", "RSQRT", "LOG")},
    **{f"{op} {k}": unary(op, k) for op, k in (
        ("ABS", "int32"), ("NEG", "int32"), ("NEG", "int64"), ("SIGN", "int32"), ("ZEROS_LIKE", "int64"),
        ("LOGICAL_NOT", "bool"))},
    "LEAKY_RELU": unary("LEAKY_RELU", options="LeakyReluOptions", Alpha=0.3),
    "GELU": unary("GELU", options="GeluOptions", Approximate=False),
    "GELU tanh": unary("GELU", options="GeluOptions", Approximate=True),
    "SOFTMAX": unary("SOFTMAX", options="SoftmaxOptions", Beta=1.0),
    "SOFTMAX sharp": unary("SOFTMAX", shape=(2, 3, 4, 5), options="SoftmaxOptions", Beta=3.0),
    "SOFTMAX row": unary("SOFTMAX", shape=(7,), options="SoftmaxOptions", Beta=0.5),
    "ROUND halves": Case("ROUND", (Held((40,), "float32", -3, 3),)),
    "L2_NORMALIZATION": unary("L2_NORMALIZATION", options="L2NormOptions", FusedActivationFunction=0),
    "LRN": unary("LOCAL_RESPONSE_NORMALIZATION", shape=(1, 2, 3, 9), options="LocalResponseNormalizationOptions",
                 Radius=2, Bias=1.5, Alpha=0.7, Beta=0.6),
    **{f"{op} {p} {act}": pool(op, WINDOW_IMAGE, 3, 2, p, act)
       for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D") for p in (SAME, VALID) for act in (0, 3)},
    "AVERAGE_POOL_2D whole": pool("AVERAGE_POOL_2D", (1, 4, 4, 3), 4, 4, VALID),
}  # fmt: skip
REDUCED = {
    **{f"{op} {k}": reduced(op, k, (2, 3, 4), [1], False) for op in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN",
       "REDUCE_PROD") for k in NUMBERS},
    "MEAN image": reduced("MEAN", "float32", (2, 4, 5, 3), [1, 2], False),
    "MEAN kept": reduced("MEAN", "float32", (2, 4, 5, 3), [2, 1], True),
    "SUM all": reduced("SUM", "float32", (2, 3, 4), [0, 1, 2], False),
    "SUM twice": reduced("SUM", "float32", (2, 3, 4), [-1, 2], True),
    "REDUCE_ANY": reduced("REDUCE_ANY", "bool", (3, 4), [1], False),
    "REDUCE_ALL": reduced("REDUCE_ALL", "bool", (2, 9), [0], True),
    **{f"{op} {k} {o}": Case(op, (Held((2, 5, 3), k), Const(axis)), (o,), options, {"OutputType": code})
       for op, options in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions"))
       for k, o, axis, code in (("float32", "int32", 1, 2), ("float32", "int64", -1, 4), ("int32", "int64", 0, 4))},
    **{f"CUMSUM {k} {e} {r}": Case("CUMSUM", (Held((2, 4, 3), k), Const(1)), (k,), "CumsumOptions",
       {"Exclusive": e, "Reverse": r}) for k, e, r in (("float32", False, False), ("int32", True, False),
       ("float32", True, True), ("int64", False, True))},
    "CUMSUM last": Case("CUMSUM", (Held((2, 4)), Const(-1)), options="CumsumOptions",
                        fields={"Exclusive": False, "Reverse": False}),
    "TOPK_V2": Case("TOPK_V2", (Held((3, 7)), Const(4)), ("float32", "int32"), "TopKV2Options"),
    "TOPK_V2 counted": Case("TOPK_V2", (Held((3, 7)), Held((), "int32", 1, 7)), ("float32", "int32"), "TopKV2Options"),
    "TOPK_V2 ties": Case("TOPK_V2", (Held((3, 7), "int32", 0, 2), Const(7)), ("int32", "int32"), "TopKV2Options"),
}  # fmt: skip
SCALED = {"int8": (0.05, 3), "uint8": (0.05, 100), "int16": (0.0004, 0)}
STORED = {
    **{f"DEQUANTIZE {k}": Case("DEQUANTIZE", (Held((2, 9), k, *(0, 255) if k == "uint8" else (-128, 127)),), meaning=m)
       for k, m in SCALED.items()},
    **{f"QUANTIZE {k}": Case("QUANTIZE", (Held((2, 99), "float32", -9, 9),), (k,), meaning=m)
       for k, m in SCALED.items()},
    "QUANTIZE halves": Case("QUANTIZE", (Held((2, 99), "float32", -9, 9),), ("int8",), meaning=(0.125, -1)),
    "DEQUANTIZE half floats": Case("DEQUANTIZE", (Held((2, 9), "float16"),)),
}  # fmt: skip
MOVED = {
    "RESHAPE": moved("RESHAPE", (2, 3, 4), [4, -1]),
    "RESHAPE int64": moved("RESHAPE", (2, 3, 4), [24], kind="int64"),
    "RESHAPE option": moved("RESHAPE", (2, 6), options="ReshapeOptions", NewShape=(3, 4)),
    "RESHAPE scalar of old": moved("RESHAPE", (1, 1), options="ReshapeOptions", NewShape=(0,)),
    "SQUEEZE": moved("SQUEEZE", (1, 3, 1, 2), options="SqueezeOptions", SqueezeDims=()),
    "SQUEEZE one": moved("SQUEEZE", (1, 3, 1, 2), options="SqueezeOptions", SqueezeDims=(-2,)),
    "EXPAND_DIMS": moved("EXPAND_DIMS", (2, 3), -1, kind="bool"),
    "TRANSPOSE": moved("TRANSPOSE", (2, 3, 4, 5), [0, 3, 1, 2]),
    "TRANSPOSE int": moved("TRANSPOSE", (2, 3), [1, 0], kind="int32"),
    "CONCATENATION": several("CONCATENATION", [(2, 3, 1), (2, 3, 4)], options="ConcatenationOptions", Axis=-1),
    "CONCATENATION int": several("CONCATENATION", [(2, 3), (1, 3)], "int32", "ConcatenationOptions", Axis=0),
    "PACK": several("PACK", [(2, 3)] * 3, options="PackOptions", Axis=1, ValuesCount=3),
    "PACK one": several("PACK", [(2, 3)], "int32", "PackOptions", Axis=-1, ValuesCount=1),
    "UNPACK": moved("UNPACK", (2, 3, 4), options="UnpackOptions", outputs=3, Axis=1, Num=3),
    "SPLIT": moved("SPLIT", (2, 6), 1, options="SplitOptions", outputs=3, first=False, NumSplits=3),
    "SPLIT_V": moved("SPLIT_V", (6, 2), [1, -1, 2], 0, options="SplitVOptions", outputs=3, NumSplits=3),
    "SLICE": moved("SLICE", (3, 4, 5), [1, 0, 2], [2, -1, 3]),
    "SLICE int64": moved("SLICE", (3, 4), Const([1, 0], "int64"), Const([1, 2], "int64"), kind="int64"),
    "strided": strided((4, 6, 5), [1, 0, 4], [4, 6, 0], [2, 1, -1]),
    "strided negative": strided((4, 6), [-3, -1], [-1, -7], [1, -2]),
    "strided masks": strided((4, 6, 5), [1, 2, 3], [2, 3, 4], [1, 1, 1], BeginMask=1, EndMask=4),
    "strided reverse masks": strided((4, 6), [1, 2], [2, 3], [-1, -2], BeginMask=3, EndMask=3),
    "strided shrink": strided((4, 6, 5), [1, -2, 0], [2, 3, 5], [1, 1, 2], ShrinkAxisMask=3),
    "strided shrink all": strided((4, 6), [3, 2], [4, 3], [1, 1], ShrinkAxisMask=3),
    "strided ellipsis": strided((2, 3, 4, 5), [1, 0, 1], [2, 0, 4], [1, 1, 2], EllipsisMask=2),
    "strided new": strided((3, 4), [0, 0, 1], [3, 1, 4], [1, 1, 1], NewAxisMask=2),
    "strided ellipsis new shrink": strided((2, 3, 4), [0, 0, 2], [1, 0, 3], [1, 1, 1], EllipsisMask=1, NewAxisMask=2,
                                           ShrinkAxisMask=4),
    "strided shrink masked": strided((4, 6), [1, 2], [2, 3], [1, 1], BeginMask=1, ShrinkAxisMask=1),
    "strided fewer": strided((4, 3, 2), [1], [3], [1]),
    "strided beyond": strided((4, 3), [-9, 1], [99, 99], [1, 1]),
    "strided offset": strided((6, 3), [2, 1], [3, 1], [1, 1], Offset=True),
    "PAD": moved("PAD", (2, 3, 1), [[1, 0], [2, 2], [0, 3]]),
    "PAD int64": moved("PAD", (2, 3), Const([[1, 0], [0, 2]], "int64"), kind="int32"),
    "PADV2": moved("PADV2", (2, 3), [[1, 0], [2, 2]], Const(-7.5, "float32")),
    "PADV2 int": moved("PADV2", (2, 3), [[1, 0], [2, 2]], Const([9]), kind="int32"),
    "MIRROR_PAD reflect": moved("MIRROR_PAD", (3, 4), [[2, 1], [0, 3]], options="MirrorPadOptions", Mode=0),
    "MIRROR_PAD symmetric": moved("MIRROR_PAD", (3, 4), [[3, 1], [0, 2]], options="MirrorPadOptions", Mode=1),
    "REVERSE_V2": moved("REVERSE_V2", (2, 3, 4), [1]),
    "REVERSE_V2 bool": moved("REVERSE_V2", (7,), [0], kind="bool"),
    "TILE": moved("TILE", (2, 1, 3), [2, 4, 1]),
    "TILE int": moved("TILE", (2, 3), [1, 2], kind="int64"),
    "BROADCAST_TO": moved("BROADCAST_TO", (3, 1), [2, 3, 4]),
    "BROADCAST_TO int": moved("BROADCAST_TO", (3,), [4, 3], kind="int32"),
    "SPACE_TO_DEPTH": moved("SPACE_TO_DEPTH", (2, 4, 6, 3), options="SpaceToDepthOptions", BlockSize=2),
    "DEPTH_TO_SPACE": moved("DEPTH_TO_SPACE", (1, 2, 3, 12), options="DepthToSpaceOptions", BlockSize=2),
    "SPACE_TO_BATCH_ND": moved("SPACE_TO_BATCH_ND", (2, 4, 5, 3), [2, 3], [[0, 0], [1, 0]]),
    "SPACE_TO_BATCH_ND 3d": moved("SPACE_TO_BATCH_ND", (1, 6, 2), [3], [[1, 2]]),
    "BATCH_TO_SPACE_ND": moved("BATCH_TO_SPACE_ND", (6, 2, 3, 2), [3, 2], [[1, 0], [0, 2]]),
    "BATCH_TO_SPACE_ND plain": moved("BATCH_TO_SPACE_ND", (4, 2, 2), [2], [[0, 0]]),
    **{f"{op} {size} {c} {h}": resized(op, (1, 4, 3, 2), size, c, h)
       for op in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR") for size in ((8, 6), (7, 5), (2, 1), (4, 3))
       for c, h in ((False, False), (True, False), (False, True))},
    "REVERSE_SEQUENCE": Case("REVERSE_SEQUENCE", (Held((3, 5, 2)), Held((3,), "int32", 1, 5)),
                             options="ReverseSequenceOptions", fields={"SeqDim": 1, "BatchDim": 0}),
}  # fmt: skip
PLACED = {
    "GATHER": gathered((5, 3, 2), (4,), 0),
    "GATHER inner": gathered((2, 5, 3), (2, 2), 1, kind="int32"),
    "GATHER batch": gathered((2, 5, 3), (2, 4), 1, 1),
    "GATHER batch inner": gathered((2, 3, 5, 4), (2, 6), 2, 1),
    "GATHER scalar": gathered((5, 3), (), 0),
    "GATHER bool": gathered((5, 3), (2,), 1, kind="bool"),
    "GATHER constant": Case("GATHER", (Held((5, 3)), Const([4, 0, 2])), options="GatherOptions",
                            fields={"Axis": 0, "BatchDims": 0}),
    "GATHER_ND": Case("GATHER_ND", (Held((4, 4, 3)), Held((5, 2), "int32", 0, 3))),
    "GATHER_ND rows": Case("GATHER_ND", (Held((4, 3), "int32"), Held((2, 2, 1), "int32", 0, 3)), ("int32",)),
    "EMBEDDING_LOOKUP": Case("EMBEDDING_LOOKUP", (Held((5,), "int32", 0, 6), weights(7, 3))),
    "BUCKETIZE": buckets(Held((3, 4)), -1.5, 0.0, 0.25, 2.0),
    "BUCKETIZE int": buckets(Held((7,), "int32"), -1.0, 0.5),
    "MATRIX_DIAG": Case("MATRIX_DIAG", (Held((2, 3)),), options="MatrixDiagOptions"),
    "MATRIX_DIAG int8": Case("MATRIX_DIAG", (Held((4,), "int8"),), ("int8",), "MatrixDiagOptions"),
    "MATRIX_SET_DIAG": Case("MATRIX_SET_DIAG", (Held((2, 3, 4)), Held((2, 3))), options="MatrixSetDiagOptions"),
    "MATRIX_SET_DIAG tall": Case("MATRIX_SET_DIAG", (Held((5, 3), "int32"), Held((3,), "int32")), ("int32",),
                                 "MatrixSetDiagOptions"),
    "NON_MAX_SUPPRESSION_V4": suppression(9, 4, 0.3, 0.2),
    "NON_MAX_SUPPRESSION_V4 room": suppression(5, 9, 0.5, -9.0),
    "NON_MAX_SUPPRESSION_V5": suppression(9, 6, 0.2, 0.0, 0.0),
    "SEGMENT_SUM": Case("SEGMENT_SUM", (Held((5, 3)), Const([0, 0, 1, 2, 2])), options="SegmentSumOptions"),
    "SEGMENT_SUM int": Case("SEGMENT_SUM", (Held((4,), "int32"), Const([0, 1, 1, 1])), ("int32",), "SegmentSumOptions"),
    "UNIQUE": Case("UNIQUE", (Held((9,), "int32"),), ("int32", "int32"), "UniqueOptions", {"IdxOutType": 2}),
    "UNIQUE wide": Case("UNIQUE", (Held((8,), "float32", -1, 1),), ("float32", "int64"), "UniqueOptions",
                        {"IdxOutType": 4}),
    "DYNAMIC_UPDATE_SLICE": Case("DYNAMIC_UPDATE_SLICE", (Held((4, 6)), Held((2, 3)), Held((2,), "int32", -2, 6))),
    **{f"UNSORTED_SEGMENT_{how}{kind}": segments(how, kind) for how in ("MAX", "MIN", "PROD", "SUM")
       for kind in ("", " int")},
    "UNSORTED_SEGMENT_SUM run": Case("UNSORTED_SEGMENT_SUM", (Held((6, 2)), Held((6,), "int32", -1, 3), Const(4)),
                                     options="UnsortedSegmentSumOptions"),
    "ONE_HOT": one_hot((2, 5), 4, -1, "float32"),
    "ONE_HOT first": one_hot((5,), 4, 0, "int32"),
    "SCATTER_ND": Case("SCATTER_ND", (Held((4, 1), "int32", 0, 5), Held((4, 3)), Const([6, 3]))),
    "SCATTER_ND pairs": Case("SCATTER_ND", (Held((5, 2), "int32", 0, 2), Held((5,), "int32"), Const([3, 3])),
                             ("int32",)),
    "WHERE": Case("WHERE", (Held((3, 4), "bool"),), ("int64",)),
}  # fmt: skip
CODES = {"float32": 0, "int32": 2, "int64": 4, "bool": 6}
MADE = {
    **{f"CAST {a} {b}": Case("CAST", (Held((2, 9), a, *((-0.2, 0.2) if (a, b) == ("float32", "bool") else ())),),
       (b,), "CastOptions", {"InDataType": CODES[a], "OutDataType": CODES[b]}) for a in CODES for b in CODES if a != b},
    **{f"CAST far {k}": Case("CAST", (Held((2, 99), "float32", -far, far),), (k,), "CastOptions",
       {"InDataType": 0, "OutDataType": code}) for k, code, far in (("int8", 9, 300), ("uint8", 3, 600),
       ("int16", 7, 60000), ("int32", 2, 9e9))},
    "CAST half": Case("CAST", (Held((2, 9), "float16"),), ("float32",), "CastOptions",
                      {"InDataType": 1, "OutDataType": 0}),
    "CAST to half": Case("CAST", (Held((2, 9)),), ("float16",), "CastOptions", {"InDataType": 0, "OutDataType": 1}),
    "SHAPE": Case("SHAPE", (Held((2, 3, 4)),), ("int32",), "ShapeOptions", {"OutType": 2}),
    "SHAPE int64": Case("SHAPE", (Held((2, 3, 4)),), ("int64",), "ShapeOptions", {"OutType": 4}),
    "RANK": Case("RANK", (Held((2, 3, 4)),), ("int32",)),
    "FILL": Case("FILL", (Const([2, 3]), Held((), "float32"))),
    "FILL constant": Case("FILL", (Const([2, 3]), Const(7, "int32")), ("int32",)),
    "FILL bool": Case("FILL", (Const([2, 3]), Held((), "bool")), ("bool",)),
    "RANGE": Case("RANGE", (Const(2), Const(11), Const(3)), ("int32",)),
    "RANGE down": Case("RANGE", (Const(5), Const(-4), Const(-2)), ("int32",)),
    "RANGE float": Case("RANGE", (Const(0.5, "float32"), Const(2.0, "float32"), Const(0.25, "float32"))),
    "BROADCAST_ARGS": Case("BROADCAST_ARGS", (Const([3, 1]), Const([2, 1, 4])), ("int32",)),
}  # fmt: skip
CASES: Mapping[str, Case] = {**PRODUCTS, **HYBRID, **BINARY, **UNARY, **REDUCED, **STORED, **MOVED, **PLACED, **MADE}
