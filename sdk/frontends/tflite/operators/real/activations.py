"""Activation functions of floats, each element alone or over the last axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sdk.compiler.ir.types import F32
from sdk.errors import BuildError
from sdk.frontends.tflite.context import Importer, OpNode, Table

__all__ = ["TABLE"]

# op, and its attributes
_PLAIN: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "RELU": ("relu", {}),
    "RELU6": ("clip", {"lo": 0.0, "hi": 6.0}),
    "RELU_N1_TO_1": ("clip", {"lo": -1.0, "hi": 1.0}),
    "RELU_0_TO_1": ("clip", {"lo": 0.0, "hi": 1.0}),
    "ELU": ("elu", {"alpha": 1.0}),
    "HARD_SWISH": ("hard_swish", {}),
    "LOGISTIC": ("sigmoid", {}),
    "TANH": ("tanh", {}),
    "LOG_SOFTMAX": ("log_softmax", {}),
}


def _plain(op: str, given: Mapping[str, Any]) -> Importer:
    def run(node: OpNode) -> None:
        node.call(op, node.input(0, F32), **given)

    return run


def leaky_relu(node: OpNode) -> None:
    """LEAKY_RELU: a slope below 0."""
    node.call("leaky_relu", node.input(0, F32), alpha=float(node.option("Alpha")))


def gelu(node: OpNode) -> None:
    """GELU, by the error function or by a tanh."""
    node.call("gelu", node.input(0, F32), tanh=bool(node.option("Approximate")))


def softmax(node: OpNode) -> None:
    """SOFTMAX of the last axis, of inputs times beta."""
    x, beta = node.input(0, F32), float(node.option("Beta"))
    if x.type.rank < 1:
        raise BuildError("the input has rank 0")
    if beta != 1:
        x = node.call("mul", x, node.scalar(beta, x), to="scaled")
    node.call("softmax", x)


TABLE: Table = {
    **{name: _plain(op, given) for name, (op, given) in _PLAIN.items()},
    "LEAKY_RELU": leaky_relu,
    "GELU": gelu,
    "SOFTMAX": softmax,
}
