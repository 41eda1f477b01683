"""Models that an engine takes, and computes nothing right of: where its kernels do otherwise than TensorFlow means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from sdk.compiler.ir.types import F32, I8, I16, U8
from sdk.compiler.ops.fixed import quantize_multiplier
from sdk.errors import BuildError
from sdk.frontends.tflite.context import tensor_quant
from sdk.frontends.tflite.reader import Operator, Subgraph, Tensor, read_model

__all__ = ["SIGNAL", "unsuited"]

SIGNAL: Final = "Signal"  # operators of the audio front end of tflite-micro


_ACTIVATION: Final = {"FULLY_CONNECTED": ("FullyConnectedOptions", ("FusedActivationFunction",))}


def unsuited(data: bytes, engine: str) -> str | None:
    """Why an engine, "tflite-micro" or "litert", is no reference for a file that it takes; None where it is one.

    Raises:
        BuildError: the file is damaged.
    """
    rules = _RULES[engine]
    for graph in read_model(data, _ACTIVATION):
        for one in graph.operators:
            why = rules[one.name](graph, one) if one.name in rules else None
            if why is not None:
                return why
    return None


def _tensors(graph: Subgraph, numbers: tuple[int, ...]) -> Iterator[Tensor]:
    return (graph.tensors[k] for k in numbers if k >= 0)


def _stored(graph: Subgraph, one: Operator) -> bool:
    """Whether an operator is of quantised tensors."""
    return any(t.dtype in (I8, U8, I16) for t in _tensors(graph, one.outputs))


def _svdf_without_bias(graph: Subgraph, one: Operator) -> str | None:
    whole = len(one.inputs) >= 5 and min(one.inputs[0], one.inputs[4]) >= 0
    return "SVDF without a bias ends its process" if whole and one.inputs[3] < 0 else None


def _svdf_of_bytes(graph: Subgraph, one: Operator) -> str | None:
    if len(one.inputs) < 5 or min(one.inputs[0], one.inputs[4]) < 0:
        return None
    bytes_ = all(graph.tensors[one.inputs[k]].dtype == I8 for k in (0, 4))
    return "it takes the memory of SVDF for int16, which is int8" if bytes_ else None


def _relu6_rescales(graph: Subgraph, one: Operator) -> str | None:
    meanings = {tensor_quant(t) for t in _tensors(graph, (*one.inputs, *one.outputs))}
    other = _stored(graph, one) and len(meanings) > 1
    return "its RELU6 keeps stored numbers where scales differ" if other else None


def _space_to_batch_pads(graph: Subgraph, one: Operator) -> str | None:
    quants = [tensor_quant(t) for t in _tensors(graph, one.outputs)]
    other = _stored(graph, one) and any(q is not None and q.zero_point for q in quants)
    return "its SPACE_TO_BATCH_ND pads with a stored 0" if other else None


def _of_words(what: str) -> Callable[[Subgraph, Operator], str | None]:
    def rule(graph: Subgraph, one: Operator) -> str | None:
        words = any(t.dtype == I16 for t in _tensors(graph, one.inputs))
        return f"its {one.name} of int16 {what}" if words else None

    return rule


def _div_rounds(graph: Subgraph, one: Operator) -> str | None:
    return "its DIV of int8 rounds otherwise than LiteRT's" if _stored(graph, one) else None


def _div_overflows(graph: Subgraph, one: Operator) -> str | None:
    """Quotients are shifted right by the bits that a dividend leaves free, up to 31, and those of the divisor: in all
    by more than a word has where the ratio of scales does not make up for it."""
    if not _stored(graph, one) or len(one.inputs) != 2 or min(one.inputs) < 0:
        return None
    above, below, result = (graph.tensors[k] for k in (*one.inputs, one.outputs[0]))
    quants = [tensor_quant(t) for t in (above, below, result)]
    if None in quants or below.dtype is None:
        return None
    first, second, third = (q for q in quants if q is not None)
    ratio = np.float32(first.scale) / (np.float32(second.scale) * np.float32(third.scale))
    try:
        _, shift = quantize_multiplier(float(ratio))
    except BuildError:
        return None  # refused by the importer
    ends = np.asarray(below.dtype.limits) if below.data is None else below.data
    largest = int(np.abs(ends.astype(np.int64) - second.zero_point).max(initial=1))
    small = "its DIV of int8 shifts small quotients by 32 bits or more, which leaves anything"
    return small if largest.bit_length() - 1 > shift else None


def _one_scale_of_many(graph: Subgraph, one: Operator) -> str | None:
    """Of matrices with a scale a column both engines read one scale, of many none."""
    many = len(one.inputs) == 2 and min(one.inputs) >= 0 and len(graph.tensors[one.inputs[1]].scales) > 1
    return "its BATCH_MATMUL reads one scale where each column has its own" if many and _stored(graph, one) else None


def _one_scale_for_channels(graph: Subgraph, one: Operator) -> str | None:
    """Of dynamic range LiteRT's kernel reads a scale for each channel, and memory behind the one that is there."""
    if len(one.inputs) < 2 or min(one.inputs[:2]) < 0:
        return None
    x, weights = (graph.tensors[k] for k in one.inputs[:2])
    mixed = x.dtype == F32 and weights.dtype == I8
    single = len(weights.scales) == 1 and weights.shape[-1:] not in ((), (1,))
    why = "its DEPTHWISE_CONV_2D of float32 and int8 reads a scale for each channel, where there is one for all"
    return why if mixed and single else None


def _activation_of_blocks(graph: Subgraph, one: Operator) -> str | None:
    blocks = any(t.blocks is not None for t in _tensors(graph, one.inputs))
    other = blocks and one.options and one.options["FusedActivationFunction"]
    return "its FULLY_CONNECTED of weights with scales for blocks leaves out the activation" if other else None


def _plain_lstm(graph: Subgraph, one: Operator) -> str | None:
    """An LSTM that tflite-micro has a kernel for too is computed as it does."""
    if len(one.inputs) < 20 or min(one.inputs[0], one.inputs[1]) < 0 or graph.tensors[one.inputs[0]].dtype != I8:
        return None
    parts = (*one.inputs[9:12], *one.inputs[16:18], *one.inputs[20:])
    other = "its UNIDIRECTIONAL_SEQUENCE_LSTM of int8 rounds its curves otherwise than tflite-micro's"
    return other if max(parts) < 0 else None


_Rules = Mapping[str, Callable[[Subgraph, Operator], str | None]]
_RULES: Final[Mapping[str, _Rules]] = {
    "tflite-micro": {
        "BATCH_MATMUL": _one_scale_of_many,
        "DIV": _div_rounds,
        "GREATER": _of_words("compares otherwise than LiteRT's"),
        "RELU6": _relu6_rescales,
        "RSQRT": _of_words("computes otherwise than LiteRT's"),
        "SPACE_TO_BATCH_ND": _space_to_batch_pads,
        "SVDF": _svdf_without_bias,
    },
    "litert": {
        "BATCH_MATMUL": _one_scale_of_many,
        "DEPTHWISE_CONV_2D": _one_scale_for_channels,
        "DIV": _div_overflows,
        "FULLY_CONNECTED": _activation_of_blocks,
        "SVDF": _svdf_of_bytes,
        "UNIDIRECTIONAL_SEQUENCE_LSTM": _plain_lstm,
    },
}
