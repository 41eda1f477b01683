"""Models of one operator each, of any element type: what the sweep over operators and types is made of.

A row says what goes in and what comes out. Sizes, scales, zero points and constants are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from meanings import bytes_of, meaning
from tflite_files import ModelFile

__all__ = ["MODELS", "TYPES", "build"]

Rng = np.random.Generator
TYPES: Final = ("int8", "uint8", "int16", "int32", "int64", "bool", "float32")
_STORED: Final = ("int8", "uint8", "int16")
_BOTTOM: Final = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)}
_MIDDLE: Final = {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)}
_TOP: Final = {"int8": (1 / 16, 127), "uint8": (1 / 16, 255), "int16": (1 / 16, 0)}


@dataclass(frozen=True)
class One:
    """An operator of tensors of the type asked for, or of ``kind``. Arrays in ``ins`` are constants of i32."""

    op: str
    ins: tuple[Any, ...]
    outs: tuple[Any, ...]
    options: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    alike: bool = True  # all tensors have one scale and zero point
    centred: bool = False  # which is 0
    stated: Mapping[str, tuple[float, int]] = field(default_factory=dict)  # of the result, by type


@dataclass(frozen=True)
class Of:
    """A tensor of a shape; ``kind`` where it is not the type asked for, ``fixed`` where it is a constant."""

    shape: tuple[int, ...]
    kind: str = ""
    fixed: bool = False


def build(one: One, rng: Rng, dtype: str) -> bytes:
    """The file of one operator."""
    m, common = ModelFile(), meaning(rng, dtype)
    common = (common[0], 0) if one.centred else common

    def scaled(kind: str, last: bool) -> tuple[Any, ...]:
        if kind not in _STORED:
            return ()
        return one.stated[kind] if last and kind in one.stated else common if one.alike else meaning(rng, kind)

    ins = []
    for k, given in enumerate(one.ins):
        if not isinstance(given, Of):
            ins.append(m.const(f"c{k}", given))
            continue
        kind = given.kind or dtype
        quant = scaled(kind, False)
        if given.fixed:
            data = bytes_of(rng, kind, given.shape) if kind in _STORED else rng.integers(0, 2, given.shape)
            named = {"scale": quant[0], "zero": quant[1]} if quant else {}
            ins.append(m.const(f"c{k}", data, kind, **named))
        else:
            ins.append(m.input(f"x{k}", given.shape, kind, *quant))
    outs = [m.output(f"y{k}", o.shape, o.kind or dtype, *scaled(o.kind or dtype, True)) for k, o in enumerate(one.outs)]
    m.op(one.op, ins, outs, one.options, **one.fields)
    return m.build()


# --- rows ----------------------------------------------------------------------------------------------------------

Row = Callable[[Rng], One]
_SHAPES: Final = ((7,), (2, 5, 16), (1, 2, 3, 2, 5), (1, 1), (2, 3, 4, 5))
_IMAGE: Final = (2, 4, 6, 8)


def _shape(rng: Rng) -> tuple[int, ...]:
    return _SHAPES[int(rng.integers(len(_SHAPES)))]


def _unary(op: str, options: str = "", stated: Any = None, **fields: Any) -> Row:
    def row(rng: Rng) -> One:
        shape = _shape(rng)
        alike = op in ("NEG", "ZEROS_LIKE")
        return One(op, (Of(shape),), (Of(shape),), options, fields, alike, op == "NEG", stated or {})

    return row


def _pair(op: str, options: str = "", to: str = "", alike: bool = False, **fields: Any) -> Row:
    """The second operand is of the same shape, or broadcast, or a constant; or the first one is."""

    def row(rng: Rng) -> One:
        shape = _shape(rng)
        other = (Of(shape), Of(shape[-1:]), Of((1,) * len(shape)), Of(shape[-1:], fixed=True))[int(rng.integers(4))]
        ins = (Of(shape), other) if rng.random() < 0.7 else (other, Of(shape))
        return One(op, ins, (Of(shape, to),), options, fields, alike)

    return row


def _fixed(op: str, ins: tuple[Any, ...], outs: tuple[Any, ...], options: str = "", **fields: Any) -> Row:
    return lambda rng: One(op, ins, outs, options, fields)


def _reducer(op: str, alike: bool) -> Row:
    def row(rng: Rng) -> One:
        shape = (2, 3, 4, 5)
        axes = sorted({int(a) for a in rng.integers(0, 4, int(rng.integers(1, 4)))})
        keep = bool(rng.integers(2))
        out = tuple(1 if k in axes else d for k, d in enumerate(shape) if keep or k not in axes)
        at = np.asarray(axes) - 4 * rng.integers(0, 2, len(axes))
        return One(op, (Of(shape), at), (Of(out),), "ReducerOptions", {"KeepDims": keep}, alike)

    return row


def _pool(op: str) -> Row:
    def row(rng: Rng) -> One:
        rows, cols = (int(n) for n in rng.integers(1, 4, 2))
        fields = {"Padding": 0, "StrideH": 1, "StrideW": 1, "FilterHeight": rows, "FilterWidth": cols}
        return One(op, (Of(_IMAGE),), (Of(_IMAGE),), "Pool2DOptions", fields | {"FusedActivationFunction": 0})

    return row


def _resize(op: str, options: str) -> Row:
    def row(rng: Rng) -> One:
        size, how = rng.integers(1, 12, 2), int(rng.integers(3))
        fields = {"AlignCorners": how == 1, "HalfPixelCenters": how == 2}
        return One(op, (Of(_IMAGE), size), (Of((2, *(int(n) for n in size), 8)),), options, fields)

    return row


def _softmaxes() -> dict[str, Row]:
    return {
        "SOFTMAX": _unary("SOFTMAX", "SoftmaxOptions", _BOTTOM, Beta=1.0),
        "LOG_SOFTMAX": _unary("LOG_SOFTMAX", "LogSoftmaxOptions", _TOP),
        "L2_NORMALIZATION": _unary("L2_NORMALIZATION", "L2NormOptions", _MIDDLE),
        "LOGISTIC": _unary("LOGISTIC", stated=_BOTTOM),
        "TANH": _unary("TANH", stated=_MIDDLE),
    }


_X: Final = Of((2, 4, 6, 8))
_FUSED: Final = {"FusedActivationFunction": 0}
_FUNCTIONS: Final = (
    "ABS", "NEG", "EXP", "LOG", "SQRT", "RSQRT", "SIN", "COS", "SQUARE", "SIGN", "FLOOR", "HARD_SWISH", "RELU", "RELU6",
    "RELU_N1_TO_1", "RELU_0_TO_1", "ZEROS_LIKE", "LOGICAL_NOT",
)  # fmt: skip
_REDUCERS: Final = ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL")
_COMPARISONS: Final = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
MODELS: Final[Mapping[str, Row]] = {
    **{op: _unary(op) for op in _FUNCTIONS},
    "GELU": _unary("GELU", "GeluOptions", Approximate=False),
    "LEAKY_RELU": _unary("LEAKY_RELU", "LeakyReluOptions", Alpha=0.3),
    **_softmaxes(),
    "ADD": _pair("ADD", "AddOptions", **_FUSED),
    "SUB": _pair("SUB", "SubOptions", **_FUSED),
    "MUL": _pair("MUL", "MulOptions", **_FUSED),
    "SQUARED_DIFFERENCE": _pair("SQUARED_DIFFERENCE"),
    **{op: _pair(op, alike=True) for op in ("MAXIMUM", "MINIMUM", "BITWISE_XOR", "RIGHT_SHIFT")},
    **{op: _pair(op, to="bool", alike=True) for op in _COMPARISONS},
    **{op: _pair(op) for op in ("LOGICAL_AND", "LOGICAL_OR")},
    "ADD_N": _fixed("ADD_N", (Of((2, 3)),) * 3, (Of((2, 3)),)),
    "PRELU": lambda rng: One("PRELU", (Of((2, 5, 6)), Of((1, 6), fixed=True)), (Of((2, 5, 6)),), alike=False),
    "BATCH_MATMUL": lambda rng: One(
        "BATCH_MATMUL", (Of((3, 2, 7)), Of((7, 5))), (Of((3, 2, 5)),), "BatchMatMulOptions",
        {"AdjX": False, "AdjY": False}, False,
    ),
    **{op: _reducer(op, op not in ("MEAN", "SUM")) for op in _REDUCERS},
    "ARG_MAX": _fixed("ARG_MAX", (_X, np.int32(3)), (Of((2, 4, 6), "int32"),), "ArgMaxOptions", OutputType=2),
    "ARG_MIN": _fixed("ARG_MIN", (_X, np.int32(1)), (Of((2, 6, 8), "int32"),), "ArgMinOptions", OutputType=2),
    "CUMSUM": _fixed("CUMSUM", (_X, np.int32(2)), (_X,), "CumsumOptions", Exclusive=False, Reverse=True),
    "TOPK_V2": _fixed("TOPK_V2", (_X, np.int32(3)), (Of((2, 4, 6, 3)), Of((2, 4, 6, 3), "int32"))),
    **{op: _pool(op) for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")},
    "RESIZE_BILINEAR": _resize("RESIZE_BILINEAR", "ResizeBilinearOptions"),
    "RESIZE_NEAREST_NEIGHBOR": _resize("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
    "RESHAPE": _fixed("RESHAPE", (_X, [8, 48]), (Of((8, 48)),), "ReshapeOptions"),
    "SQUEEZE": _fixed("SQUEEZE", (Of((2, 1, 3)),), (Of((2, 3)),), "SqueezeOptions"),
    "EXPAND_DIMS": _fixed("EXPAND_DIMS", (Of((2, 3)), np.int32(-2)), (Of((2, 1, 3)),), "ExpandDimsOptions"),
    "TRANSPOSE": _fixed("TRANSPOSE", (_X, [0, 2, 1, 3]), (Of((2, 6, 4, 8)),), "TransposeOptions"),
    "CONCATENATION": _fixed(
        "CONCATENATION", (_X, Of((2, 4, 6, 3))), (Of((2, 4, 6, 11)),), "ConcatenationOptions", Axis=3, **_FUSED
    ),
    "SLICE": _fixed("SLICE", (_X, [0, 1, 2, 3], [2, 2, -1, 4]), (Of((2, 2, 4, 4)),), "SliceOptions"),
    "STRIDED_SLICE": _fixed(
        "STRIDED_SLICE", (_X, [0, 1, 2, -1], [2, 4, 6, 0], [1, 2, 2, -3]), (Of((2, 2, 2, 3)),), "StridedSliceOptions"
    ),
    "SPLIT": _fixed("SPLIT", (np.int32(3), _X), (Of((2, 4, 6, 4)),) * 2, "SplitOptions", NumSplits=2),
    "SPLIT_V": _fixed(
        "SPLIT_V", (_X, [3, 5], np.int32(3)), (Of((2, 4, 6, 3)), Of((2, 4, 6, 5))), "SplitVOptions", NumSplits=2
    ),
    "PAD": _fixed("PAD", (_X, [[0, 0], [1, 2], [0, 1], [0, 0]]), (Of((2, 7, 7, 8)),), "PadOptions"),
    "PADV2": _fixed(
        "PADV2", (_X, [[0, 0], [1, 2], [0, 1], [0, 0]], Of((1,), fixed=True)), (Of((2, 7, 7, 8)),), "PadV2Options"
    ),
    "MIRROR_PAD": _fixed(
        "MIRROR_PAD", (_X, [[0, 0], [1, 2], [0, 1], [0, 0]]), (Of((2, 7, 7, 8)),), "MirrorPadOptions", Mode=1
    ),
    "TILE": _fixed("TILE", (_X, [1, 2, 1, 3]), (Of((2, 8, 6, 24)),), "TileOptions"),
    "GATHER": _fixed("GATHER", (_X, [1, 3, 0]), (Of((2, 3, 6, 8)),), "GatherOptions", Axis=1),
    "GATHER_ND": _fixed("GATHER_ND", (_X, [[1, 3], [0, 0]]), (Of((2, 6, 8)),), "GatherNdOptions"),
    "SCATTER_ND": _fixed("SCATTER_ND", ([[1], [3]], Of((2, 4)), [5, 4]), (Of((5, 4)),), "ScatterNdOptions"),
    "SELECT": _fixed("SELECT", (Of((2, 3), "bool"), Of((2, 3)), Of((2, 3))), (Of((2, 3)),), "SelectOptions"),
    "SELECT_V2": _fixed("SELECT_V2", (Of((2, 1), "bool"), Of((2, 3)), Of((3,))), (Of((2, 3)),), "SelectV2Options"),
    "PACK": _fixed("PACK", (_X, _X), (Of((2, 2, 4, 6, 8)),), "PackOptions", Axis=1, ValuesCount=2),
    "UNPACK": _fixed("UNPACK", (_X,), (Of((4, 6, 8)),) * 2, "UnpackOptions", Axis=0, Num=2),
    "REVERSE_V2": _fixed("REVERSE_V2", (_X, [1]), (_X,), "ReverseV2Options"),
    "REVERSE_SEQUENCE": _fixed("REVERSE_SEQUENCE", (_X, [2, 3]), (_X,), "ReverseSequenceOptions", SeqDim=1, BatchDim=0),
    "BROADCAST_TO": _fixed("BROADCAST_TO", (Of((4, 1)), [2, 4, 3]), (Of((2, 4, 3)),)),
    "SPACE_TO_DEPTH": _fixed("SPACE_TO_DEPTH", (_X,), (Of((2, 2, 3, 32)),), "SpaceToDepthOptions", BlockSize=2),
    "DEPTH_TO_SPACE": _fixed("DEPTH_TO_SPACE", (_X,), (Of((2, 8, 12, 2)),), "DepthToSpaceOptions", BlockSize=2),
    "SPACE_TO_BATCH_ND": _fixed("SPACE_TO_BATCH_ND", (_X, [2, 2], [[0, 0], [1, 1]]), (Of((8, 2, 4, 8)),)),
    "BATCH_TO_SPACE_ND": _fixed(
        "BATCH_TO_SPACE_ND", (Of((4, 2, 3, 8)), [2, 2], [[0, 0], [1, 0]]), (Of((1, 4, 5, 8)),)
    ),
    "ONE_HOT": _fixed(
        "ONE_HOT", ([[1, 0, 5]], np.int32(4), Of((), fixed=True), Of((), fixed=True)), (Of((1, 3, 4)),),
        "OneHotOptions", Axis=-1,
    ),
    "FILL": _fixed("FILL", ([2, 3], Of(())), (Of((2, 3)),), "FillOptions"),
    "WHERE": _fixed("WHERE", (Of((3, 4)),), (Of((0, 2), "int64"),)),
    "EMBEDDING_LOOKUP": _fixed("EMBEDDING_LOOKUP", ([1, 0, 2], Of((3, 5), fixed=True)), (Of((3, 5)),)),
    "DYNAMIC_UPDATE_SLICE": _fixed("DYNAMIC_UPDATE_SLICE", (_X, Of((1, 2, 6, 8)), [1, 3, 0, 0]), (_X,)),
}  # fmt: skip
