"""Operators on real numbers that cannot be imported: each is refused by node, in words that say what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from real_cases import (
    Case,
    Const,
    Held,
    conv,
    dense,
    gathered,
    moved,
    one_hot,
    reduced,
    resized,
    several,
    strided,
    transposed,
    unary,
    weights,
)
from tflite_files import ModelFile

from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

POOL = {"Padding": 1, "StrideH": 1, "StrideW": 1, "FilterHeight": 2, "FilterWidth": 2, "FusedActivationFunction": 0}
SCATTER = (Held((4, 1), "int32"), Held((4, 3)), Held((2,), "int32"))


def fused(op: str, options: str, number: int) -> Case:
    return several(op, [(2, 3)] * 2, options=options, FusedActivationFunction=number)


def spread(op: str, shape: tuple[int, ...], block: list[int], borders: list[list[int]]) -> Case:
    return moved(op, shape, block, borders)


def ranged(first: float, limit: float, step: float, kind: str) -> Case:
    return Case("RANGE", tuple(Const(v, kind) for v in (first, limit, step)), (kind,))


def stored(scales: list[float], shape: tuple[int, ...] = (2, 3)) -> bytes:
    model = ModelFile()
    x = model.input("x", shape, "int8", scales)
    model.op("DEQUANTIZE", [x], [model.output("y", shape, "float32")])
    return model.build()


def opened(
    op: str, shape: tuple[int, ...], consts: list[Any], options: str = "", axis: int = 0, **fields: Any
) -> bytes:
    """A model with an open axis."""
    model = ModelFile()
    x = model.input("x", shape, "float32", signature=tuple(-1 if k == axis else n for k, n in enumerate(shape)))
    given = [model.const(f"c{k}", c) for k, c in enumerate(consts)]
    model.op(op, [x, *given], [model.output("y", (), "float32")], options, **fields)
    return model.build()


def taps() -> bytes:
    """A convolution whose weights are as many as a run has."""
    model = ModelFile()
    x = model.input("x", (1, 4, 4, 2), "float32")
    w = model.input("w", (3, 1, 1, 2), "float32", signature=(-1, 1, 1, 2))
    steps = {"StrideH": 1, "StrideW": 1, "Padding": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    model.op("CONV_2D", [x, w], [model.output("y", (), "float32")], "Conv2DOptions", **steps)
    return model.build()


def rows() -> bytes:
    """A dense layer with a bias, of as many channels as a run has."""
    model = ModelFile()
    x = model.input("x", (2, 4), "float32")
    w = model.input("w", (3, 4), "float32", signature=(-1, 4))
    b = model.const("b", np.zeros(3), "float32")
    model.op("FULLY_CONNECTED", [x, w, b], [model.output("y", (), "float32")], "FullyConnectedOptions")
    return model.build()


def hybrid_of(scales: list[float]) -> Case:
    """A layer of floats whose weights have 8 bits."""
    fields = {"AsymmetricQuantizeInputs": False}
    inputs = (Held((2, 4)), Const(np.ones((3, 4)), "int8", tuple(scales)))
    return Case("FULLY_CONNECTED", inputs, options="FullyConnectedOptions", fields=fields)


def untyped() -> bytes:
    model = ModelFile()
    x = model.input("x", (2, 3), "float32")
    model.op("CAST", [x], [model.output("y", (2, 3), "float32", type=8)])  # complex numbers
    return model.build()


CASES: dict[str, Case | bytes] = {
    "the fused activation TANH is not supported": fused("ADD", "AddOptions", 4),
    "axis 3 of a tensor of rank 2": reduced("SUM", "float32", (2, 3), [3], False),
    "holds 2 integers instead of one": Case("CUMSUM", (Held((2, 3)), Const([0, 1])), options="CumsumOptions"),
    "must have positive finite scales, it has none": Case("DEQUANTIZE", (Held((2, 3), "int8", -9, 9),)),
    "must have positive finite scales, it has the scale -1.0": stored([-1.0]),
    "tensor x has 3 scales for 2 channels": stored([0.5] * 3),
    "weights c1 of i8 must have positive finite scales and no zero point": hybrid_of([-0.5]),
    "weights c1 have 2 scales on axis 0 for 3 channels": hybrid_of([0.5, 0.5]),
    "the input has rank 2 instead of 4": Case("MAX_POOL_2D", (Held((2, 3)),), options="Pool2DOptions", fields=POOL),
    "a fused activation is not supported here": several(
        "CONCATENATION", [(2, 3)] * 2, options="ConcatenationOptions", Axis=0, FusedActivationFunction=1
    ),
    "the input has rank 0": unary("SOFTMAX", shape=(), options="SoftmaxOptions", Beta=1.0),
    "a radius of 1 on a tensor of rank 2": unary(
        "LOCAL_RESPONSE_NORMALIZATION", shape=(2, 3), options="LocalResponseNormalizationOptions", Radius=1
    ),
    "the input has rank 3 instead of 4": conv((1, 4, 2), (3, 1, 1, 2)),
    "the weights have rank 3 instead of 4": Case(
        "CONV_2D", (Held((1, 4, 4, 2)), weights(3, 1, 2)), options="Conv2DOptions", fields={"StrideH": 1, "StrideW": 1}
    ),
    "weights of the open shape ['w_0', '1', '1', '2'] are not supported": taps(),
    "the bias has the shape [2] for 3 channels": Case(
        "FULLY_CONNECTED", (Held((2, 4)), weights(3, 4), weights(2)), options="FullyConnectedOptions"
    ),
    "weights of shape [3, 1, 1, 4] do not fit 6 input channels": conv((1, 4, 4, 6), (3, 1, 1, 4)),
    "weights of shape [1, 1, 1, 5] do not fit 2 input channels": conv(
        (1, 4, 4, 2), (1, 1, 1, 5), op="DEPTHWISE_CONV_2D"
    ),
    "weights of shape [1, 1, 1, 3, 4] do not fit 2 input channels": conv(
        (1, 2, 4, 4, 2), (1, 1, 1, 3, 4), op="CONV_3D"
    ),
    "the shape ['1', '6', '8', '5'] of the output does not fit 3 channels": transposed(
        (1, 3, 4, 2), (3, 3, 3, 2), (1, 6, 8, 5), 0, 2
    ),
    "weights of shape [3, 3, 3, 4] do not fit 2 input channels": transposed(
        (1, 3, 4, 2), (3, 3, 3, 4), (1, 6, 8, 3), 0, 2
    ),
    "shuffled weights are not supported": Case(
        "FULLY_CONNECTED", (Held((2, 4)), weights(3, 4)), options="FullyConnectedOptions", fields={"WeightsFormat": 1}
    ),
    "a bias for the open number of channels w_0 is not supported": rows(),
    "10 numbers are no rows of 4": dense((2, 5), (3, 4)),
    "it has a tensor of rank 0, or other than two outputs": Case(
        "TOPK_V2", (Held((3, 7)), Const(4)), options="TopKV2Options"
    ),
    "its inputs are f32 and i32": Case("ADD", (Held((2,)), Held((2,), "int32")), options="AddOptions"),
    "it has 1 inputs instead of at least 2": several("ADD_N", [(2, 3)]),
    "4 conditions for 3 slices": Case("SELECT", (Held((4,), "bool"), Held((3, 2)), Held((3, 2)))),
    "its operands are f32 and i32": Case("SELECT_V2", (Held((4,), "bool"), Held((4,)), Held((4,), "int32"))),
    "has type COMPLEX64": untyped(),
    "the target shape [-1, -1] is impossible": moved("RESHAPE", (2, 3), [-1, -1]),
    "the target shape [0, -1] leaves the size of its -1 open": moved("RESHAPE", (2, 3), [0, -1]),
    "6 elements are not known to fit the shape [2, 4]": moved("RESHAPE", (2, 3), [2, 4]),
    "axis 1 of extent 3 cannot be dropped": moved(
        "SQUEEZE", (1, 3), options="SqueezeOptions", SqueezeDims=(1,)
    ),
    "whether the open extent x_0 is 1 is not known": opened(
        "SQUEEZE", (1, 3, 1), [], "SqueezeOptions", SqueezeDims=()
    ),
    "its inputs have different shapes": several("PACK", [(2, 3), (2, 1)], options="PackOptions", Axis=0),
    "2 outputs for an axis of 3": moved("UNPACK", (3, 2), options="UnpackOptions", outputs=2, Axis=0),
    "parts of ['2', '3'] of an axis of 6": moved("SPLIT_V", (6,), [2, 3], 0, outputs=2),
    "an axis of 6 cannot be split into 4 equal parts": moved("SPLIT", (6,), 0, outputs=4, first=False),
    "parts of [2, 4] for 3 outputs": moved("SPLIT_V", (6,), [2, 4], 0, outputs=3),
    "pads ['0', '-1'] for rank 1": moved("PAD", (6,), [[0, -1]]),
    "the border has 2 values instead of one": moved("PADV2", (6,), [[0, 1]], Const([1, 2], "float32")),
    "the mode 7 is not supported": moved("MIRROR_PAD", (6,), [[0, 1]], options="MirrorPadOptions", Mode=7),
    "borders of 0 and 6 mirror more than an axis of 6 has": moved(
        "MIRROR_PAD", (6,), [[0, 6]], options="MirrorPadOptions", Mode=0
    ),
    "a symmetric border of the open extent x_0 is not supported": opened(
        "MIRROR_PAD", (4,), [[[1, 0]]], "MirrorPadOptions", Mode=1
    ),
    "['2'] repetitions of a tensor of rank 2": moved("TILE", (2, 3), [2]),
    "blocks of [2, 2] with borders [0, 0] of a tensor of rank 4": spread("SPACE_TO_BATCH_ND", (1, 4, 4, 1), [2, 2],
                                                                         [[0, 0]]),
    "['5', '4'] pixels do not fill blocks of [2, 2]": spread("SPACE_TO_BATCH_ND", (1, 5, 4, 1), [2, 2], [[0, 0]] * 2),
    "3 images do not fill blocks of [2, 2]": spread("BATCH_TO_SPACE_ND", (3, 4, 4, 1), [2, 2], [[0, 0]] * 2),
    "is no shape: ['2', '-1']": Case("FILL", (Const([2, -1]), Held(()))),
    "3 values instead of one": Case("FILL", (Const([2]), Held((3,)))),
    "a range from 1.0 to 2.0 by 0.0": ranged(1, 2, 0, "float32"),
    "its start, limit and step are not one number each": Case(
        "RANGE", (Const([], "float32"), Const(1, "float32"), Const(1, "float32"))
    ),
    "holds 0 integers instead of one": Case(
        "TOPK_V2", (Held((3, 7)), Const([])), ("float32", "int32"), "TopKV2Options"
    ),
    "input 2 (c2) holds 2 integers": Case("RANGE", (Const(0), Const(1), Const([1, 2])), ("int32",)),
    "the step 0 must be a number other than 0": ranged(1, 2, 0, "int32"),
    "sizes [4, 4] of an image of rank 3": resized("RESIZE_BILINEAR", (2, 2, 1), (4, 4), False, False),
    "resizing the open extent x_1 is not supported": opened(
        "RESIZE_BILINEAR", (1, 2, 2, 1), [[4, 4]], "ResizeBilinearOptions", axis=1
    ),
    "begin and size of 1 and 2 axes for rank 2": moved("SLICE", (2, 3), [0], [1, 1]),
    "4 elements from 0 of an axis of 3": moved("SLICE", (3,), [0], [4]),
    "begin, end and strides of 1, 2 and 2 axes": strided((3, 4), [0], [1, 1], [1, 1]),
    "a stride of zero": strided((3,), [0], [1], [0]),
    "more than one ellipsis": strided((3, 4), [0, 0], [1, 1], [1, 1], EllipsisMask=3),
    "begin, end and strides of 2 axes for rank 1": strided((3,), [0, 0], [1, 1], [1, 1]),
    "index 9 of an axis of 3": strided((3,), [9], [10], [1], ShrinkAxisMask=1),
    "2 batch axes of positions of rank 2 along axis 1": gathered((2, 5, 3), (2, 4), 1, 2),
    "positions of rank 2 in a table of rank 2": Case("EMBEDDING_LOOKUP", (Held((5, 1), "int32"), weights(7, 3))),
    "a scalar has no positions": Case("WHERE", (Held((), "bool"),), ("int64",)),
    "input 2 (x2) must hold integers known when the model is built": Case("SCATTER_ND", SCATTER),
    "axis 5 of a tensor of rank 3": one_hot((2, 5), 4, 5, "float32"),
    "unsupported operator": Case("RANDOM_UNIFORM", (Held((2, 4)),)),
}  # fmt: skip
DIMS = {
    "whether the open extent x_0 is 1 is not known": {"x_0": (1, 4)},
    "resizing the open extent x_1 is not supported": {"x_1": (2, 4)},
    "weights of the open shape ['w_0', '1', '1', '2'] are not supported": {"w_0": (1, 4)},
    "a bias for the open number of channels w_0 is not supported": {"w_0": (1, 4)},
    "a symmetric border of the open extent x_0 is not supported": {"x_0": (2, 4)},
}


@pytest.mark.parametrize("says", CASES)
def test_an_operator_is_refused(says: str) -> None:
    case = CASES[says]
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(case if isinstance(case, bytes) else case.data(), "model", dims=DIMS.get(says))
    assert says in str(error.value.where)
