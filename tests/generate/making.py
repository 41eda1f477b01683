"""From a seed to a network: layers are drawn one after another, what does not fit is drawn again."""

from __future__ import annotations

from dataclasses import replace

from .builders import FileBuilder, builder_of, tables
from .draw import Draw
from .network import KINDS, Layer, Network, Unfit
from .tflite_recurrent import RECURRENT
from .tflite_states import STATEFUL

__all__ = ["generate", "pruned"]

TRIES, ATTEMPTS = 60, 12


def generate(seed: int, kind: str) -> Network:
    """The network of a seed: one of ``KINDS``, of 1 to 8 layers; the same on every machine.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in KINDS:
        raise ValueError(f"no kind {kind!r}; there are {', '.join(KINDS)}")
    # seeds in a row take turns at what they must hold, so that a few hundred of them hold everything
    names = sorted(tables(kind))
    last = None
    for attempt in range(ATTEMPTS):
        found = _attempt(Draw(seed * ATTEMPTS + attempt, kind), seed, kind, names[seed % len(names)])
        if found is not None and any(one.op == names[seed % len(names)] for one in found.layers):
            return found
        last = found or last
    assert last is not None, f"seed {seed} gives no network of kind {kind}"
    return last


def _attempt(d: Draw, seed: int, kind: str, first: str) -> Network | None:
    from .inputs import draw_input

    made = builder_of(kind)
    inputs = []
    for k in range(d.one((1, 1, 1, 2, 2, 3))):
        inputs.append((f"x{k}", draw_input(d, kind, [s for _, s in inputs])))
        made.input(*inputs[-1])
    layers: list[Layer] = []
    wanted = d.one((1, 1, 2, 3, 4, 5, 6, 8))
    bag = [n for n, op in made.table.items() for _ in range(op.weight)]
    turn = d.below(wanted)  # when its turn comes
    for _ in range(TRIES):
        again = _again(d, made, layers) if layers and d.chance(0.12) else None
        name = first if len(layers) == turn and d.chance(0.7) else d.one(bag)
        one = _taken(made, again or made.table[name].draw(d, made))
        if one is not None:
            layers.append(one)
        if len(layers) == wanted:
            break
    ends = [n for n in made.unread if n not in dict(inputs)]
    inner = [n for one in layers for n in one.outputs if n not in ends]
    if inner and d.chance(0.2):
        ends.append(d.one(inner))  # also read by a layer
    if not layers or not ends or len(ends) > 6:
        return None
    network = pruned(Network(kind, seed, tuple(inputs), tuple(layers), tuple(ends)))
    if any(one.op in (*STATEFUL, *RECURRENT) for one in network.layers):
        network = Network(kind, seed, network.inputs, network.layers, network.outputs, d.between(3, 8))
    try:
        network.data()
    except Unfit:
        return None
    return network


def _again(d: Draw, made: FileBuilder, layers: list[Layer]) -> Layer | None:
    """An earlier layer once more, its weights too, on other values of the same shapes where there are any."""
    one = d.one(layers)
    inputs = []
    for name in one.inputs:
        spec = made.specs[name]
        inputs.append(made.pick(d, lambda s, spec=spec: (s.shape, s.dtype) == (spec.shape, spec.dtype)) or name)
    return replace(one, inputs=tuple(inputs), outputs=made.fresh(len(one.outputs)))


def _taken(made: FileBuilder, one: Layer | None) -> Layer | None:
    """The layer where it fits, then it is in ``made``."""
    if one is None:
        return None
    # a copy of the state is enough to undo: what a refused layer left in the file is not in the network
    specs, unread, counts = dict(made.specs), list(made.unread), (made.weights, made.products)
    try:
        made.apply(one)
    except Unfit:
        made.specs, made.unread = specs, unread
        made.weights, made.products = counts
        return None
    return one


def pruned(network: Network) -> Network:
    """Without layers and inputs that no output needs; one input stays."""
    needed, kept = set(network.outputs), []
    for one in reversed(network.layers):
        if needed & set(one.outputs):
            kept.append(one)
            needed |= set(one.inputs)
    inputs = tuple(pair for pair in network.inputs if pair[0] in needed) or network.inputs[:1]
    return Network(network.kind, network.seed, inputs, tuple(reversed(kept)), network.outputs, network.steps)
