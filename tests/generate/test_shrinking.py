"""The shrinker ends in the smallest network of a fault that is made up."""

from __future__ import annotations

from itertools import count

import pytest

from generate import Network, generate, shrink, size_of
from generate.network import Layer


def holding(kind: str, op: str, minimum: int) -> Network:
    """The first network of a kind with an operator among ``minimum`` and more layers."""
    for seed in count():
        network = generate(seed, kind)
        if len(network.layers) >= minimum and any(one.op == op for one in network.layers):
            return network
    raise AssertionError


def named(network: Network, op: str) -> list[Layer]:
    return [one for one in network.layers if one.op == op]


@pytest.mark.parametrize(
    ("kind", "op"), [("int8", "CONV_2D"), ("int16", "DEPTHWISE_CONV_2D"), ("onnx-float", "Conv"), ("onnx-qdq", "Gemm")]
)
def test_one_layer_is_left(kind: str, op: str) -> None:
    small = shrink(holding(kind, op, 4), lambda n: bool(named(n, op)))
    assert [one.op for one in small.layers] == [op]
    (one,) = small.layers
    assert len(small.inputs) == len(small.outputs) == small.steps == 1
    assert small.inputs[0][1].elements == 1
    assert set(one.get("stride", (1, 1))) | set(one.get("strides", (1, 1))) == {1}
    assert one.get("channels", 1) == 1
    assert one["bias"] is None
    assert one["fill"][1] == 0


def test_what_makes_it_fail_stays() -> None:
    """5 output channels or more of a 1x1 convolution with a stride: nothing else of it is left."""

    def fails(network: Network) -> bool:
        layers = named(network, "CONV_2D")
        return any(one["channels"] >= 5 and one["stride"][1] > 1 and one["kernel"] == (1, 1) for one in layers)

    start = next(n for n in (generate(seed, "int8") for seed in count()) if fails(n) and len(n.layers) > 2)
    small = shrink(start, fails)
    assert size_of(small) < size_of(start)
    (one,) = small.layers
    assert (one["channels"], one["stride"], one["kernel"]) == (5, (1, 2), (1, 1))
    assert small.inputs[0][1].elements == 1


def test_a_pair_that_must_be_read_together() -> None:
    """A sum of two different values keeps both of its inputs."""

    def fails(network: Network) -> bool:
        return any(len(set(one.inputs)) == 2 for one in named(network, "ADD"))

    start = next(n for n in (generate(seed, "int8") for seed in count()) if fails(n) and len(n.layers) > 3)
    small = shrink(start, fails)
    assert [one.op for one in small.layers] == ["ADD"]
    assert len(small.inputs) == 2


def test_states_and_steps_go_last() -> None:
    start = holding("int8", "WINDOW", 3)
    small = shrink(start, lambda n: n.steps >= 2 and bool(named(n, "WINDOW")))
    assert ([one.op for one in small.layers], small.steps, small.layers[0]["rows"]) == (["WINDOW"], 2, 1)


def test_questions_are_limited_and_never_repeated() -> None:
    asked = []

    def fails(network: Network) -> bool:
        asked.append(network)
        return True

    shrink(generate(3, "int8"), fails, tries=10)
    assert len(asked) == len(set(asked)) <= 10


def test_a_network_that_does_not_fail_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        shrink(generate(0, "int8"), lambda _: False)
