"""Cross-layer equalisation: channels between two layers are scaled so that the weights on both sides have like ranges.

Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019. What lies between may be
any function with f(s x) = s f(x) for s > 0. A clamp to 0..h is none: there only channels that never reach h in the
samples are scaled, and none so far that it would. No channel grows beyond the largest one of its tensor: what weights
gain must not be lost by activations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from sdk import steps
from sdk.compiler.ir.types import TensorType
from sdk.quantizer.data import Samples
from sdk.quantizer.engine import Engine
from sdk.quantizer.net import Array, Net
from sdk.quantizer.sums import Sum, as_sum, set_bias, sum_at

__all__ = ["equalise"]

_ROUNDS: Final = 20
_ENOUGH: Final = 1e-3  # no factor is further from 1 in a round that changes nothing
_FURTHEST: Final = 256.0  # that a channel is scaled by in a round: channels of next to nothing have no ratio
_HOMOGENEOUS: Final = frozenset({"Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})


@dataclass(frozen=True)
class _Pair:
    """Two layers, by the numbers of their nodes; ``made`` is what the first one makes, before a clamp to 0..``limit``
    where there is one."""

    first: int
    second: int
    made: str
    limit: float = np.inf


def equalise(net: Net, types: Mapping[str, TensorType], samples: Samples) -> int:
    """Scales the channels between all pairs of layers that follow each other alone; how many pairs there are. The net
    computes what it did on the samples, up to rounding."""
    pairs = [pair for k in range(len(net.nodes)) if (pair := _pair(net, k, types)) is not None]
    peaks = _peaks(net, samples, pairs)
    maximum = {pair.first: min(pair.limit, float(peaks[pair.first].max(initial=0.0))) for pair in pairs}
    with steps.step("equalising"):
        for _ in range(_ROUNDS):
            moved = 0.0
            for pair in pairs:
                factor = _factor(net, pair, peaks[pair.first], maximum[pair.first])
                peaks[pair.first] = peaks[pair.first] / factor
                _apply(net, pair, factor)
                moved = max(moved, float(np.abs(np.log(factor)).max(initial=0.0)))
            if moved < _ENOUGH:
                break
    return len(pairs)


def _pair(net: Net, number: int, types: Mapping[str, TensorType]) -> _Pair | None:
    """The pair that a node begins."""
    one = as_sum(net, number)
    if one is None or one.op not in ("Conv", "Gemm"):
        return None
    weights = net.floats(one.weights)
    readers, out, limit = net.readers(), net.nodes[number].output[0], np.inf
    made = out
    while (after := net.alone(out, readers)) is not None:
        node = net.nodes[after]
        other = as_sum(net, after)
        if other is not None and other.x == out and other.op != "ConvTranspose":
            fits = other.op == "Conv" or types.get(out, None) is None or types[out].rank == 2
            count = one.channels(weights)
            return _Pair(number, after, made, limit) if fits and _inputs(net, other) == count else None
        if node.op_type == "Clip" and out == made:
            found = _limits(net, after)
            if found is None or found[0] != 0.0 or not found[1] > 0:
                return None
            limit = found[1]
        elif node.op_type not in _HOMOGENEOUS or node.domain not in ("", "ai.onnx") or len(node.output) > 1:
            return None
        out = node.output[0]
    return None


def _inputs(net: Net, one: Sum) -> int:
    """Channels that a layer reads."""
    weights = net.floats(one.weights)
    return int(weights.shape[one.inputs]) * one.groups


def _limits(net: Net, number: int) -> tuple[float, float] | None:
    """What a Clip holds its input to."""
    node = net.nodes[number]
    given = {a.name: a.f for a in node.attribute}
    bounds = [given.get("min", -np.inf), given.get("max", np.inf)]
    for k, name in enumerate(node.input[1:3]):
        data = net.reals(name) if name else None
        if name and (data is None or data.size != 1):
            return None
        if data is not None:
            bounds[k] = float(data.reshape(-1)[0])
    return bounds[0], bounds[1]


def _peaks(net: Net, samples: Samples, pairs: list[_Pair]) -> dict[int, Array]:
    """How large each channel becomes, by the first layer of the pair; before a clamp how far it reaches up."""
    if not pairs:
        return {}
    engine = Engine(net.proto(), samples.shapes, [pair.made for pair in pairs])
    found = {pair.first: np.zeros(1) for pair in pairs}
    with steps.step("finding the ranges of channels"):
        for inputs in samples.runs():
            told = engine.run(inputs)
            for pair in pairs:
                array = told[pair.made] if np.isfinite(pair.limit) else np.abs(told[pair.made])
                axes = tuple(k for k in range(array.ndim) if k != 1)
                found[pair.first] = np.maximum(found[pair.first], array.max(axis=axes).astype(np.float64))
    return found


def _factor(net: Net, pair: _Pair, peak: Array, maximum: float) -> Array:
    """What each channel is divided by."""
    first, second = sum_at(net, pair.first), sum_at(net, pair.second)
    before, after = net.floats(first.weights), net.floats(second.weights)
    axes = tuple(k for k in range(before.ndim) if k != first.outputs)
    left = np.abs(before).max(axis=axes).astype(np.float64)
    right = np.abs(_by_channel(after, second)).reshape(len(left), -1).max(axis=1).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where((left > 0) & (right > 0), np.sqrt(left / right), 1.0)
    factor = np.clip(factor, 1 / _FURTHEST, _FURTHEST)
    if maximum > 0:
        factor = np.maximum(factor, peak / maximum)
    return np.where(peak >= pair.limit, 1.0, factor)


def _by_channel(weights: Array, one: Sum) -> Array:
    """The weights of a layer by the channel that they multiply: [channels, ..]."""
    if one.op != "Conv":
        return np.moveaxis(weights, one.inputs, 0)
    grouped = weights.reshape(one.groups, -1, *weights.shape[1:])  # [groups, outputs, inputs, taps..]
    return np.moveaxis(grouped, 2, 1).reshape(one.groups * weights.shape[1], -1)


def _apply(net: Net, pair: _Pair, factor: Array) -> None:
    first, second = sum_at(net, pair.first), sum_at(net, pair.second)
    before, after = net.floats(first.weights), net.floats(second.weights)
    shape = [1] * before.ndim
    shape[first.outputs] = -1
    _replace(net, first, before / factor.reshape(shape))
    bias = net.reals(first.bias) if first.bias is not None else None
    if bias is not None:
        set_bias(net, first, np.broadcast_to(bias.reshape(-1), factor.shape) / factor)
    if second.op == "Conv":
        by = factor.reshape(second.groups, 1, -1, *[1] * (after.ndim - 2))
        scaled = (after.reshape(second.groups, -1, *after.shape[1:]) * by).reshape(after.shape)
    else:
        shape = [1] * after.ndim
        shape[second.inputs] = -1
        scaled = after * factor.reshape(shape)
    _replace(net, second, scaled)


def _replace(net: Net, one: Sum, weights: Array) -> None:
    net.nodes[one.node].input[1] = net.const(one.weights, weights.astype(np.float32))
