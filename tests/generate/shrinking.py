"""The smallest network that still fails: what is not needed goes, what is left becomes plain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from .fills import FILLS
from .making import pruned
from .network import Layer, Network, Spec, Unfit

__all__ = ["shrink", "size_of"]

STYLES = ("zero", "one", *dict.fromkeys(FILLS))
NULLABLE = ("bias", "first", "open", "pads")  # what a layer can do without
PLAIN_TEXT = {"auto_pad": "VALID", "direction": "forward", "mode": "nearest", "act": ""}


def shrink(network: Network, fails: Callable[[Network], bool], tries: int = 3000) -> Network:
    """The smallest network found for which ``fails`` still says True, after at most ``tries`` questions.

    ``network`` itself must fail. Every candidate can be written (``data`` works), and each one taken is smaller by
    ``size_of`` than the one before it, so that the search ends.

    Raises:
        ValueError: ``network`` does not fail.
    """
    if not fails(network):
        raise ValueError("the network to shrink does not fail")
    asked = {network}
    smaller = True
    while smaller:
        smaller = False
        size = size_of(network)
        for candidate in _candidates(network):
            if candidate in asked or not _written(candidate) or size_of(candidate) >= size:
                continue
            asked.add(candidate)
            if len(asked) > tries:
                return network
            if fails(candidate):
                network, smaller = candidate, True
                break
    return network


def size_of(network: Network) -> tuple[int, int]:
    """What makes a network large: its layers first, then all else."""
    specs = network.specs()
    elements = sum(s.elements for s in specs.values())
    plain = sum(_weight(v) for one in network.layers for _, v in one.attrs)
    plain += sum(_weight(s) for _, s in network.inputs)
    parts = len(network.outputs) + len(network.inputs) + network.steps
    return len(network.layers), elements + 4 * plain + 50 * parts


def _written(candidate: Network) -> bool:
    try:
        candidate.data()
    except (Unfit, ArithmeticError, LookupError, TypeError, ValueError):
        return False  # a plainer value need not make sense, and writers only expect those that are drawn
    return bool(candidate.layers)


def _weight(value: Any) -> int:
    """How far a value is from the plainest one of its kind."""
    if isinstance(value, Spec):
        return _weight(value.scale) + _weight(value.zero) + sum(value.shape)
    if _is_fill(value):
        return STYLES.index(value[0]) + (value[1] != 0)
    if isinstance(value, tuple):
        return 1 + sum(map(_weight, value))
    if isinstance(value, float):
        return 0 if value == 1.0 else 1 if math.frexp(value)[0] == 0.5 else 2
    if isinstance(value, int):
        return min(abs(value), 1000)
    return 0 if value is None or value in PLAIN_TEXT.values() else 1


def _is_fill(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and value[0] in STYLES


# --- candidates --------------------------------------------------------------------------------------------------


def _candidates(network: Network) -> Iterator[Network]:
    """Smaller networks, those that lose most first."""
    if len(network.outputs) > 1:
        for name in network.outputs:
            yield pruned(replace(network, outputs=(name,)))
    yield from _shorter(network)
    for steps in sorted({1, network.steps // 2, network.steps - 1}):
        if 0 < steps < network.steps:
            yield replace(network, steps=steps)
    for k, (name, spec) in enumerate(network.inputs):
        for plain in _simpler(spec):
            yield replace(network, inputs=(*network.inputs[:k], (name, plain), *network.inputs[k + 1 :]))
    for k, one in enumerate(network.layers):
        for plain in _plainer(one):
            yield _with_layer(network, k, plain)
    for other in (n for n, _ in network.inputs[1:]):
        yield pruned(_renamed(network, other, network.inputs[0][0]))


def _shorter(network: Network) -> Iterator[Network]:
    """Networks with fewer layers: all up to one gone, all from one on gone, one bypassed."""
    specs = network.specs()
    for k in reversed(range(len(network.layers))):
        yield _from(network, k, specs)
    for k, one in enumerate(network.layers[:-1]):
        yield pruned(replace(network, layers=network.layers[: k + 1], outputs=one.outputs[-1:]))
    for k, one in enumerate(network.layers):
        rest = replace(network, layers=network.layers[:k] + network.layers[k + 1 :])
        for source in dict.fromkeys(one.inputs):
            found = rest
            for name in one.outputs:
                found = _renamed(found, name, source)
            yield pruned(found)
        added = tuple((n, specs[n]) for n in one.outputs)
        if not set(one.outputs) & set(network.outputs):
            yield pruned(replace(rest, inputs=(*network.inputs, *added)))


def _from(network: Network, k: int, specs: dict[str, Spec]) -> Network:
    """The layers from ``k`` on; what earlier ones made becomes an input."""
    layers = network.layers[k:]
    made = {n for one in layers for n in one.outputs}
    read = dict.fromkeys(n for one in layers for n in one.inputs if n not in made)
    inputs = tuple((n, specs[n]) for n in read)
    outputs = tuple(n for n in network.outputs if n in made)
    return pruned(replace(network, layers=layers, inputs=inputs, outputs=outputs or layers[-1].outputs[-1:]))


def _renamed(network: Network, old: str, new: str) -> Network:
    """Everything that read ``old`` reads ``new``."""
    layers = tuple(
        replace(one, inputs=tuple(new if n == old else n for n in one.inputs)) for one in network.layers
    )
    outputs = tuple(dict.fromkeys(new if n == old else n for n in network.outputs))
    given = {n for n, _ in network.inputs}
    left = tuple(n for n in outputs if n not in given)
    if not left and layers:
        left = layers[-1].outputs[-1:]
    return replace(network, layers=layers, outputs=left)


def _with_layer(network: Network, k: int, one: Layer) -> Network:
    return replace(network, layers=(*network.layers[:k], one, *network.layers[k + 1 :]))


def _plainer(one: Layer) -> Iterator[Layer]:
    for name, value in one.attrs:
        if name in NULLABLE and value is not None:
            yield one.having(**{name: None})
        for plain in _simpler(value, name):
            yield one.having(**{name: plain})


def _simpler(value: Any, name: str = "") -> Iterator[Any]:
    """Plainer values in place of one."""
    if isinstance(value, bool):
        if value:
            yield False
    elif isinstance(value, Spec):
        yield from _simpler_specs(value)
    elif _is_fill(value):
        yield from ((s, 0) for s in STYLES[: STYLES.index(value[0]) + 1] if (s, 0) != value)
    elif isinstance(value, tuple):
        if value and all(isinstance(v, int) for v in value):
            yield from (tuple([few] * len(value)) for few in (0, 1) if value != (few,) * len(value))
        if len(value) > 1:
            yield from (value[:k] + value[k + 1 :] for k in range(len(value)))
        for k, part in enumerate(value):
            yield from ((*value[:k], plain, *value[k + 1 :]) for plain in _simpler(part))
    elif isinstance(value, float):
        power = math.ldexp(1.0, math.frexp(value)[1] - 1) if value > 0 else 1.0
        yield from (v for v in (1.0, 0.5, power) if v != value)
    elif isinstance(value, int) and value:
        sign = 1 if value > 0 else -1
        yield from dict.fromkeys(v for v in (0, sign, int(value / 2), value - sign) if
                                 abs(v) < abs(value))  # fmt: skip
    elif isinstance(value, str) and value != PLAIN_TEXT.get(name, value):
        yield PLAIN_TEXT[name]


def _simpler_specs(spec: Spec) -> Iterator[Spec]:
    for k, n in enumerate(spec.shape):
        for few in dict.fromkeys((1, n // 2, n - 1)):
            if 0 < few < n:
                yield replace(spec, shape=(*spec.shape[:k], few, *spec.shape[k + 1 :]))
    if spec.zero:
        yield replace(spec, zero=0)
    if spec.scale is not None:
        yield from (replace(spec, scale=s) for s in _simpler(spec.scale))
