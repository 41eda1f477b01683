"""Recurrent layers: every node case of ONNX, and each variant against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import agree, compare, one_node, reference, run
from node_cases import cases_of, check

from sdk.errors import BuildError


@pytest.mark.parametrize("name", cases_of("GRU", "LSTM", "RNN"))
def test_node_case(name: str) -> None:
    check(name)


RNG = np.random.default_rng(3)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OUTPUTS = {"RNN": ("y", "h"), "GRU": ("y", "h"), "LSTM": ("y", "h", "c")}
STEPS, BATCH, FEATURES, UNITS = 5, 3, 4, 6


def floats(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.5).astype(np.float32)


def layer(op: str, directions: int, *, layout: int = 0, lengths: bool = False, states: bool = False) -> dict[str, Any]:
    """Inputs by name: weights and biases for every gate, lengths and states where asked for."""
    gates = GATES[op]
    x = floats(BATCH, STEPS, FEATURES) if layout else floats(STEPS, BATCH, FEATURES)
    given: dict[str, Any] = {
        "x": x,
        "w": floats(directions, gates * UNITS, FEATURES),
        "r": floats(directions, gates * UNITS, UNITS),
        "b": floats(directions, 2 * gates * UNITS),
    }
    if lengths:
        given["lengths"] = np.array([5, 2, 3], dtype=np.int32)
    if states:
        shape = (BATCH, directions, UNITS) if layout else (directions, BATCH, UNITS)
        given |= {f"{s}0": floats(*shape) for s in ("h", "c")[: len(OUTPUTS[op]) - 1]}
    return given


def order(given: dict[str, Any]) -> list[str]:
    """The node's inputs in their places."""
    names = [n if n in given else "" for n in ("x", "w", "r", "b", "lengths", "h0", "c0", "p")]
    while not names[-1]:
        names.pop()
    return names


@pytest.mark.parametrize("op", list(GATES))
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("extra", [{}, {"states": True}, {"lengths": True, "states": True}])
def test_directions(op: str, direction: str, extra: dict[str, bool]) -> None:
    given = layer(op, 2 if direction == "bidirectional" else 1, **extra)
    compare(
        op, given, order=order(given), outputs=OUTPUTS[op], constants=("w", "r", "b"), opset=14,
        hidden_size=UNITS, direction=direction,
    )  # fmt: skip


@pytest.mark.parametrize("op", list(GATES))
def test_symbolic_steps_and_batch(op: str) -> None:
    given = layer(op, 1, states=True)
    shapes = {"x": ("t", "b", FEATURES), "h0": (1, "b", UNITS), "c0": (1, "b", UNITS)}
    compare(
        op, given, order=order(given), outputs=OUTPUTS[op], constants=("w", "r", "b"), opset=14,
        hidden_size=UNITS, shapes=shapes, dims={"t": (1, 100), "b": (1, 4)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("op", "more"),
    [
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"linear_before_reset": 1, "clip": 0.3}),
        ("GRU", {"activations": ["HardSigmoid", "Softsign"], "activation_alpha": [0.3], "activation_beta": [0.4]}),
        ("LSTM", {"clip": 0.5}),
        ("LSTM", {"input_forget": 1}),
        ("LSTM", {"activations": ["Sigmoid", "Relu", "Softplus"]}),
        ("RNN", {"activations": ["Relu"]}),
        ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [0.3]}),
        ("RNN", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.2]}),
        ("RNN", {"activations": ["ScaledTanh"], "activation_alpha": [1.5], "activation_beta": [0.5]}),
        ("RNN", {"activations": ["Elu"], "activation_alpha": [0.7]}),
        ("RNN", {"activations": ["Affine"], "activation_alpha": [0.7], "activation_beta": [0.1]}),
    ],
)
def test_variants(op: str, more: dict[str, Any]) -> None:
    given = layer(op, 1)
    compare(op, given, order=order(given), outputs=OUTPUTS[op], opset=14, hidden_size=UNITS, **more)


def test_peepholes() -> None:
    given = {**layer("LSTM", 2, states=True), "p": floats(2, 3 * UNITS)}
    how: dict[str, Any] = {"outputs": OUTPUTS["LSTM"], "opset": 14, "hidden_size": UNITS, "direction": "bidirectional"}
    compare("LSTM", given, order=order(given), **how)


@pytest.mark.parametrize("op", list(GATES))
def test_batch_first(op: str) -> None:
    """Equals the layer with time first, which onnxruntime is asked for: it has no other."""
    given = layer(op, 2, states=True)
    how: dict[str, Any] = {"outputs": OUTPUTS[op], "opset": 14, "hidden_size": UNITS, "direction": "bidirectional"}
    model = one_node(op, given, order=order(given), **how)
    swapped = {k: v.swapaxes(0, 1) if k in ("x", "h0", "c0") else v for k, v in given.items()}
    other = one_node(op, swapped, order=order(given), layout=1, **how)
    want, got = reference(model, given), run(other, swapped)[1]
    agree(got["y"], want["y"].transpose(2, 0, 1, 3))
    for name in OUTPUTS[op][1:]:
        agree(got[name], want[name].swapaxes(0, 1))


def test_an_unknown_activation_is_refused() -> None:
    given = layer("RNN", 1)
    model = one_node("RNN", given, outputs=("y", "h"), opset=14, hidden_size=UNITS, activations=["Gelu"])
    with pytest.raises(BuildError, match="RNN") as caught:
        run(model, given)
    assert "the activation gelu" in str(caught.value.where)
