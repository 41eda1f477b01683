"""Activation-aware quantisation (AWQ, arXiv 2306.00978): inputs of a matrix that are large on a text are made smaller,
and the matrix's columns larger by as much, so that their weights are rounded more finely. What computes the inputs is
changed for that: a norm, or the rows of another matrix. In floats the model stays the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.llm.calibration import Inputs
from sdk.llm.config import Config
from sdk.llm.quantise import LARGEST, quantised
from sdk.llm.weights import Weight

__all__ = ["activation_aware", "scaled"]

Floats = NDArray[np.float32]
_POWERS: Final = tuple(k / 10 for k in range(11))  # of the magnitudes, that are tried; 0 leaves a matrix as it is
_ROWS: Final = 256  # outputs of a matrix that the powers are compared on
# Of the mean magnitude. Every input is taken to be as large at least: what a text hardly shows is there in another.
_MIN: Final = np.float32(0.1)


@dataclass(frozen=True)
class _Group:
    """Matrices ``readers`` with the same inputs, and the tensors ``makers`` whose elements or rows are those inputs;
    each row of a maker is ``repeats`` inputs, heads of ``head`` numbers at a time."""

    readers: tuple[str, ...]
    makers: tuple[str, ...]
    repeats: int = 1
    head: int = 1


def activation_aware(
    config: Config, weights: Mapping[str, Weight], inputs: Mapping[str, Inputs], format: str
) -> dict[str, Weight]:
    """The model with its matrices stored in ``format``, so that their outputs on a text change little.

    The scale of an input is its mean magnitude on the text to a power, the one of eleven with which the outputs on the
    text are nearest to those of floats. Then each group is rounded by the mean squares of its inputs.

    Args:
        config, weights: of the model.
        inputs: what was observed of each matrix (``calibration.observed``).
        format: one of ``quantise.MADE``.
    """
    return quantised(*scaled(config, weights, inputs, format))


def scaled(
    config: Config, weights: Mapping[str, Weight], inputs: Mapping[str, Inputs], format: str
) -> tuple[dict[str, Weight], str, dict[str, Floats]]:
    """The arguments of ``quantised``: the same model with other floats, the format, and the mean squares of inputs."""
    found = dict(weights)
    all_tokens = max((held.count for held in inputs.values()), default=0)
    squares = {  # those of a matrix that few tokens met say little: the output's, which is often the embedding too
        name: held.squares + _unseen(held) if held.count == all_tokens else np.ones_like(held.squares)
        for name, held in inputs.items()
    }
    for group in _groups(config, found):
        if not all(name in inputs for name in group.readers):
            continue
        scales = _scales(group, found, inputs[group.readers[0]], format)
        if np.all(scales == 1):
            continue
        _apply(group, found, scales)
        for name in group.readers:
            squares[name] = (squares[name] / np.square(_spread(scales, group))).astype(np.float32)
    return found, format, squares


def _unseen(inputs: Inputs) -> np.float32:
    """What is added to the mean square of each input: weights of those that are zero on a text still count."""
    return np.float32(np.square(_MIN * inputs.magnitude.mean(dtype=np.float64)))


def _groups(config: Config, weights: Mapping[str, Weight]) -> Iterator[_Group]:
    """What of each layer can be scaled: products that follow a norm, or another product alone."""
    rep, size = config.heads // config.kv_heads, config.head_dim
    for k in range(len(config.layers)):
        layer = f"blk.{k}."
        gate = (f"{layer}ffn_gate.weight",) if f"{layer}ffn_gate.weight" in weights else ()
        up = f"{layer}ffn_up.weight"
        for norm, readers in (
            ("attn_norm", tuple(f"{layer}attn_{name}.weight" for name in "qkv")), ("ffn_norm", (*gate, up)),
        ):  # fmt: skip
            if f"{layer}{norm}.weight" in weights:
                yield _Group(readers, _present(weights, f"{layer}{norm}"))
        yield _Group((f"{layer}attn_output.weight",), _present(weights, f"{layer}attn_v"), rep, size)
        if gate:  # an activation lies between without one
            yield _Group((f"{layer}ffn_down.weight",), _present(weights, f"{layer}ffn_up"))


def _present(weights: Mapping[str, Weight], name: str) -> tuple[str, ...]:
    return tuple(full for full in (f"{name}.weight", f"{name}.bias") if full in weights)


def _scales(group: _Group, weights: Mapping[str, Weight], inputs: Inputs, format: str) -> Floats:
    """By what each row of the makers is divided, f32[rows]."""
    magnitude = _shared(inputs.magnitude, group)
    mean = magnitude.mean()
    if mean <= 0 or not all(weights[name].is_float for name in (*group.readers, *group.makers)):
        return np.ones_like(magnitude)
    magnitude = np.maximum(magnitude / mean, _MIN)
    parts = [_some(weights[name]) for name in group.readers]
    holds = _holds(group, weights, LARGEST[format])
    tried = []
    for power in _POWERS:
        scales = magnitude**power
        scales /= np.sqrt(scales.max() * scales.min())
        wide = _spread(scales, group)
        if power == 0 or holds(scales, wide):
            tried.append((sum(_error(part, inputs, wide, format) for part in parts), scales))
    best: Floats = min(tried, key=lambda pair: pair[0])[1]
    return best


def _holds(group: _Group, weights: Mapping[str, Weight], maximum: float) -> Callable[[Floats, Floats], bool]:
    """Whether no weight becomes larger than ``maximum`` with scales of the makers' rows and of the readers' columns."""
    columns = np.max([np.abs(weights[name].floats()).max(axis=0) for name in group.readers], axis=0)
    made = (np.abs(weights[name].floats()) for name in group.makers)
    rows = np.max([values.reshape(len(values), -1).max(axis=1) for values in made], axis=0)
    return lambda scales, wide: bool(np.all(columns * wide <= maximum) and np.all(rows / scales <= maximum))


def _shared(values: Floats, group: _Group) -> Floats:
    """The mean over the inputs that are one row of the makers."""
    found: Floats = values.reshape(-1, group.repeats, group.head).mean(axis=1).reshape(-1)
    return found


def _spread(scales: Floats, group: _Group) -> Floats:
    """Scales of rows as those of inputs."""
    found: Floats = np.repeat(scales.reshape(-1, 1, group.head), group.repeats, axis=1).reshape(-1)
    return found


def _some(weight: Weight) -> Floats:
    """At most 256 rows of a matrix, evenly chosen."""
    step = -(-weight.shape[0] // _ROWS)
    return weight.rows(slice(0, None, step)).floats()


def _error(matrix: Floats, inputs: Inputs, scales: Floats, format: str) -> float:
    """The squared error of the outputs when the columns are scaled, stored and scaled back, on the inputs that were
    kept and as many that have no more than what every input has at least."""
    stored = quantised({"": Weight.from_floats("", matrix * scales)}, format)[""].floats()
    off, rows = stored / scales - matrix, inputs.rows
    seen = np.square(rows @ off.T, dtype=np.float32).sum(dtype=np.float64)
    return float(seen + len(rows) * _unseen(inputs) * np.square(off).sum(dtype=np.float64))


def _apply(group: _Group, weights: dict[str, Weight], scales: Floats) -> None:
    wide = _spread(scales, group)
    for name in group.readers:
        weights[name] = weights[name].mapped(lambda matrix: matrix * wide)
    for name in group.makers:
        weights[name] = weights[name].mapped(lambda rows: rows / scales.reshape(-1, *[1] * (rows.ndim - 1)))
