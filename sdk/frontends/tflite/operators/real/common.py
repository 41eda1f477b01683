"""What importers of real operators share: activations fused into a result, axes, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import Dim
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode
from sdk.frontends.tflite.quantize import ACTIVATIONS

__all__ = ["apply", "axes_of", "axis_of", "fused", "reshaped", "single"]

# The op of a fused activation, and its attributes.
_FUSED: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "RELU": ("relu", {}),
    "RELU_N1_TO_1": ("clip", {"lo": -1, "hi": 1}),
    "RELU6": ("clip", {"lo": 0, "hi": 6}),
}


def fused(node: OpNode) -> tuple[str, Mapping[str, Any]] | None:
    """The op of the activation fused into the operator, and its attributes; None without one.

    Raises:
        BuildError: LiteRT's kernels do not compute it.
    """
    number = int(node.option("FusedActivationFunction"))
    name = ACTIVATIONS.get(number, f"number {number}")
    if name == "NONE":
        return None
    if name not in _FUSED:  # LiteRT reads TANH and SIGN_BIT here as NONE, which no author can have meant
        raise BuildError(f"the fused activation {name} is not supported")
    return _FUSED[name]


def apply(node: OpNode, op: str, *args: Value, view: tuple[Dim, ...] | None = None, **given: Any) -> Value:
    """Emits a call and the fused activation after it, as output 0, where given in the shape ``view``."""
    after = fused(node)
    if after is None and view is None:
        return node.call(op, *args, **given)
    value = node.call(op, *args, to="linear", **given)
    if view is not None:
        value = node.call("reshape", value, to=0 if after is None else "view", shape=view)
    if after is None:
        return value
    name, limits = after
    if value.type.dtype.is_float:
        limits = {k: float(v) if isinstance(v, int) else v for k, v in limits.items()}
    return node.call(name, value, **limits)


def axis_of(number: int, rank: int) -> int:
    """An axis of a tensor of ``rank``, negative ones counted from the end.

    Raises:
        BuildError: there is none of that number.
    """
    if not -rank <= number < rank:
        raise BuildError(f"axis {number} of a tensor of rank {rank}")
    return number % rank


def axes_of(numbers: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes in ascending order, each once."""
    return tuple(sorted({axis_of(k, rank) for k in numbers}))


def single(node: OpNode, k: int) -> int:
    """Input ``k``, one integer known at import.

    Raises:
        BuildError: it holds another number of them, or is computed by the run.
    """
    found = node.integers(k)
    if len(found) != 1:
        raise BuildError(f"input {k} ({node.tensor(k).title}) holds {len(found)} integers instead of one")
    return found[0]


def reshaped(node: OpNode, x: Value, shape: Sequence[Dim], to: int | str = 0) -> Value:
    """``x`` in another shape of as many elements; itself where that is its shape and it is no output."""
    if isinstance(to, str) and tuple(shape) == x.type.shape:
        return x
    return node.call("reshape", x, to=to, shape=tuple(shape))
