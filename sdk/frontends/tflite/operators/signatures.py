"""What the operators of TensorFlow Lite look like in a file: their options, and how many inputs they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["SIGNATURES", "Signature"]


@dataclass(frozen=True, slots=True)
class Signature:
    """At most ``inputs`` inputs (None: any number), and which fields of which table of options are read."""

    inputs: int | None
    options: str = ""
    fields: tuple[str, ...] = ()



def _vectors(*names: str) -> tuple[str, ...]:
    """Options that are vectors, read as arrays."""
    return tuple(f"{name}AsNumpy" for name in names)


_FUSED = ("FusedActivationFunction",)
_STRIDES = ("Padding", "StrideH", "StrideW")
_WINDOW = (*_STRIDES, "DilationHFactor", "DilationWFactor", *_FUSED)
_VOLUME = (*_WINDOW, "StrideD", "DilationDFactor")
_POOL = (*_STRIDES, "FilterHeight", "FilterWidth", *_FUSED)
_SLICE = ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset")
_RESIZE = ("AlignCorners", "HalfPixelCenters")
_CELLS = (*_FUSED, "CellClip", "ProjClip")
_HANDLE = ("Container", "SharedName")
_REDUCER = Signature(2, "ReducerOptions", ("KeepDims",))
_UNARY = Signature(1)
_BINARY = Signature(2)

# By what they do, as in the schema; a row here says nothing about whether an importer exists.
SIGNATURES: Final[Mapping[str, Signature]] = {
    # sums of products
    "BATCH_MATMUL": Signature(2, "BatchMatMulOptions", ("AdjX", "AdjY")),
    "CONV_2D": Signature(3, "Conv2DOptions", _WINDOW),
    "CONV_3D": Signature(3, "Conv3DOptions", _VOLUME),
    "DEPTHWISE_CONV_2D": Signature(3, "DepthwiseConv2DOptions", _WINDOW),
    "FULLY_CONNECTED": Signature(
        3, "FullyConnectedOptions", (*_FUSED, "WeightsFormat", "KeepNumDims", "AsymmetricQuantizeInputs")
    ),
    "CONV_3D_TRANSPOSE": Signature(4, "Conv3DOptions", _VOLUME),
    "TRANSPOSE_CONV": Signature(4, "TransposeConvOptions", (*_STRIDES, *_FUSED)),
    # elementwise, of two tensors or more
    "ADD": Signature(2, "AddOptions", _FUSED),
    "SUB": Signature(2, "SubOptions", _FUSED),
    "MUL": Signature(2, "MulOptions", _FUSED),
    "DIV": Signature(2, "DivOptions", _FUSED),
    **dict.fromkeys(
        ("ATAN2", "BITWISE_XOR", "EQUAL", "FLOOR_DIV", "FLOOR_MOD", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL",
         "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "NOT_EQUAL", "POW", "PRELU", "RIGHT_SHIFT",
         "SQUARED_DIFFERENCE", "STABLEHLO_ADD", "STABLEHLO_AND", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM",
         "STABLEHLO_MULTIPLY", "STABLEHLO_SHIFT_LEFT"), _BINARY,
    ),
    "ADD_N": Signature(None),
    "SELECT": Signature(3),
    "SELECT_V2": Signature(3),
    # elementwise, of one
    **dict.fromkeys(
        ("ABS", "CEIL", "COS", "DEQUANTIZE", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOG", "LOGICAL_NOT", "LOGISTIC",
         "LOG_SOFTMAX", "NEG", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIGN",
         "SIN", "SQRT", "SQUARE", "TANH", "ZEROS_LIKE"), _UNARY,
    ),
    "BITCAST": Signature(1),
    "CAST": Signature(1),
    "FAKE_QUANT": Signature(1, "FakeQuantOptions", ("Min", "Max", "NumBits", "NarrowRange")),
    "GELU": Signature(1, "GeluOptions", ("Approximate",)),
    "LEAKY_RELU": Signature(1, "LeakyReluOptions", ("Alpha",)),
    "SOFTMAX": Signature(1, "SoftmaxOptions", ("Beta",)),
    # windows, neighbours and reductions
    "AVERAGE_POOL_2D": Signature(1, "Pool2DOptions", _POOL),
    "MAX_POOL_2D": Signature(1, "Pool2DOptions", _POOL),
    "L2_POOL_2D": Signature(1, "Pool2DOptions", _POOL),
    "L2_NORMALIZATION": Signature(1, "L2NormOptions", _FUSED),
    "LOCAL_RESPONSE_NORMALIZATION": Signature(
        1, "LocalResponseNormalizationOptions", ("Radius", "Bias", "Alpha", "Beta")
    ),
    **dict.fromkeys(
        ("MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"), _REDUCER
    ),
    "ARG_MAX": Signature(2),
    "ARG_MIN": Signature(2),
    "CUMSUM": Signature(2, "CumsumOptions", ("Exclusive", "Reverse")),
    "REDUCE_WINDOW": Signature(5, "ReduceWindowOptions", ("ReduceFunction",)),
    "STABLEHLO_REDUCE_WINDOW": Signature(
        2, "StablehloReduceWindowOptions",
        (*_vectors("WindowDimensions", "WindowStrides", "WindowDilations", "BaseDilations", "Padding"),
         "BodySubgraphIndex"),
    ),
    "TOPK_V2": Signature(2),
    # elements moved
    "BATCH_TO_SPACE_ND": Signature(3),
    "BROADCAST_TO": Signature(2),
    "CONCATENATION": Signature(None, "ConcatenationOptions", ("Axis", *_FUSED)),
    "DILATE": Signature(3),
    "DEPTH_TO_SPACE": Signature(1, "DepthToSpaceOptions", ("BlockSize",)),
    "EXPAND_DIMS": Signature(2),
    "MIRROR_PAD": Signature(2, "MirrorPadOptions", ("Mode",)),
    "PACK": Signature(None, "PackOptions", ("Axis",)),
    "PAD": Signature(2),
    "PADV2": Signature(3),
    "RESHAPE": Signature(2, "ReshapeOptions", ("NewShapeAsNumpy",)),
    "RESIZE_BILINEAR": Signature(2, "ResizeBilinearOptions", _RESIZE),
    "RESIZE_NEAREST_NEIGHBOR": Signature(2, "ResizeNearestNeighborOptions", _RESIZE),
    "REVERSE_SEQUENCE": Signature(2, "ReverseSequenceOptions", ("SeqDim", "BatchDim")),
    "REVERSE_V2": Signature(2),
    "SLICE": Signature(3),
    "SPACE_TO_BATCH_ND": Signature(3),
    "SPACE_TO_DEPTH": Signature(1, "SpaceToDepthOptions", ("BlockSize",)),
    "SPLIT": Signature(2),
    "SPLIT_V": Signature(3),
    "SQUEEZE": Signature(1, "SqueezeOptions", ("SqueezeDimsAsNumpy",)),
    "STABLEHLO_PAD": Signature(
        2, "StablehloPadOptions", _vectors("EdgePaddingLow", "EdgePaddingHigh", "InteriorPadding")
    ),
    "STRIDED_SLICE": Signature(4, "StridedSliceOptions", _SLICE),
    "TILE": Signature(2),
    "TRANSPOSE": Signature(2),
    "UNPACK": Signature(1, "UnpackOptions", ("Axis",)),
    # by positions
    "DYNAMIC_UPDATE_SLICE": Signature(3),
    "DENSIFY": Signature(1),
    "EMBEDDING_LOOKUP": Signature(2),
    "EMBEDDING_LOOKUP_SPARSE": Signature(5, "EmbeddingLookupSparseOptions", ("Combiner",)),
    "GATHER": Signature(2, "GatherOptions", ("Axis", "BatchDims")),
    "GATHER_ND": Signature(2),
    "HASHTABLE_LOOKUP": Signature(3),
    "ONE_HOT": Signature(4, "OneHotOptions", ("Axis",)),
    "SCATTER_ND": Signature(3),
    "SPARSE_TO_DENSE": Signature(4),
    "STABLEHLO_GATHER": Signature(
        2, "StablehloGatherOptions",
        (*_vectors("OffsetDims", "CollapsedSliceDims", "StartIndexMap", "SliceSizes"), "IndexVectorDim"),
    ),
    "STABLEHLO_SCATTER": Signature(
        3, "StablehloScatterOptions",
        (*_vectors("UpdateWindowDims", "InsertedWindowDims", "ScatterDimsToOperandDims"), "IndexVectorDim",
         "UpdateComputationSubgraphIndex"),
    ),
    "WHERE": Signature(1),
    # put together by numbers, chosen by scores
    "BUCKETIZE": Signature(1, "BucketizeOptions", ("BoundariesAsNumpy",)),
    "MATRIX_DIAG": Signature(1),
    "MATRIX_SET_DIAG": Signature(2),
    "NON_MAX_SUPPRESSION_V4": Signature(5),
    "NON_MAX_SUPPRESSION_V5": Signature(6),
    "SEGMENT_SUM": Signature(2),
    "UNIQUE": Signature(1),
    **{f"UNSORTED_SEGMENT_{how}": Signature(3) for how in ("MAX", "MIN", "PROD", "SUM")},
    # complex numbers
    "COMPLEX_ABS": Signature(1),
    "IMAG": Signature(1),
    "REAL": Signature(1),
    "RFFT2D": Signature(2),
    # made of shapes and numbers
    "BROADCAST_ARGS": Signature(2),
    "FILL": Signature(2),
    "RANGE": Signature(3),
    "RANK": Signature(1),
    "SHAPE": Signature(1),
    # other subgraphs
    "CALL": Signature(None, "CallOptions", ("Subgraph",)),
    "IF": Signature(None, "IfOptions", ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "STABLEHLO_CASE": Signature(None, "StablehloCaseOptions", _vectors("BranchSubgraphIndices")),
    "STABLEHLO_COMPOSITE": Signature(None, "StableHLOCompositeOptions", ("DecompositionSubgraphIndex",)),
    "WHILE": Signature(None, "WhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
    # variables and state
    "ASSIGN_VARIABLE": Signature(2),
    "CALL_ONCE": Signature(0, "CallOnceOptions", ("InitSubgraphIndex",)),
    "READ_VARIABLE": Signature(1),
    "BIDIRECTIONAL_SEQUENCE_LSTM": Signature(
        48, "BidirectionalSequenceLSTMOptions", (*_CELLS, "MergeOutputs", "TimeMajor", "AsymmetricQuantizeInputs")
    ),
    "BIDIRECTIONAL_SEQUENCE_RNN": Signature(
        12, "BidirectionalSequenceRNNOptions", (*_FUSED, "MergeOutputs", "TimeMajor", "AsymmetricQuantizeInputs")
    ),
    "LSTM": Signature(24, "LSTMOptions", (*_CELLS, "KernelType", "AsymmetricQuantizeInputs")),
    "RNN": Signature(5, "RNNOptions", (*_FUSED, "AsymmetricQuantizeInputs")),
    "SVDF": Signature(5, "SVDFOptions", ("Rank", *_FUSED, "AsymmetricQuantizeInputs")),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Signature(
        24, "UnidirectionalSequenceLSTMOptions",
        (*_CELLS, "TimeMajor", "AsymmetricQuantizeInputs", "DiagonalRecurrentTensors"),
    ),
    "UNIDIRECTIONAL_SEQUENCE_RNN": Signature(
        5, "SequenceRNNOptions", (*_FUSED, "TimeMajor", "AsymmetricQuantizeInputs")
    ),
    "VAR_HANDLE": Signature(0, "VarHandleOptions", _HANDLE),
}  # fmt: skip
