"""What importers of real operators share: activations fused into a result, axes, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import Dim, prove_ge
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode
from sdk.frontends.tflite.quantize import ACTIVATIONS

__all__ = [
    "activated", "apply", "axes_of", "axis_of", "fused", "reshaped", "shape_of", "single", "single_dim", "vector",
]  # fmt: skip

T = TypeVar("T")
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


def activated(node: OpNode, x: Value, number: int, to: int | str = 0) -> Value:
    """The activation of a recurrent operator after ``x``: these compute TANH too.

    Raises:
        BuildError: one that they do not.
    """
    name = ACTIVATIONS.get(number, f"number {number}")
    known = {**_FUSED, "NONE": ("identity", {}), "TANH": ("tanh", {})}
    if name not in known:
        raise BuildError(f"the fused activation {name} is not supported")
    op, limits = known[name]
    if op == "identity":
        return node.call("reshape", x, to=to, shape=x.type.shape)
    return node.call(op, x, to=to, **{k: float(v) for k, v in limits.items()})


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
    return _only(node, k, node.integers(k))


def single_dim(node: OpNode, k: int) -> Dim:
    """Input ``k``, one number or size of inputs.

    Raises:
        BuildError: as ``single``.
    """
    return _only(node, k, node.dims(k))


def shape_of(node: OpNode, k: int) -> tuple[Dim, ...]:
    """Input ``k`` as a shape.

    Raises:
        BuildError: a size is or may be negative, or is computed by the run.
    """
    found = node.dims(k)
    if any(prove_ge(d, 0) is not True for d in found):
        raise BuildError(f"input {k} ({node.tensor(k).title}) is no shape: {list(map(str, found))}")
    return found


def _only(node: OpNode, k: int, found: tuple[T, ...]) -> T:
    if len(found) != 1:
        raise BuildError(f"input {k} ({node.tensor(k).title}) holds {len(found)} integers instead of one")
    return found[0]


def vector(node: OpNode, name: str, count: int | None = None) -> tuple[int, ...]:
    """An option that is a vector of integers, of ``count`` where that is given.

    Raises:
        BuildError: it has another number of them.
    """
    found = tuple(int(v) for v in node.option(name) or ())
    if count is not None and len(found) != count:
        raise BuildError(f"the option {name.removesuffix('AsNumpy')} has {len(found)} numbers instead of {count}")
    return found


def reshaped(node: OpNode, x: Value, shape: Sequence[Dim], to: int | str = 0) -> Value:
    """``x`` in another shape of as many elements; itself where that is its shape and it is no output."""
    if isinstance(to, str) and tuple(shape) == x.type.shape:
        return x
    return node.call("reshape", x, to=to, shape=tuple(shape))
