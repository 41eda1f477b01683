"""What operators of ai.onnx.ml share: numbers as real matrices, what scores become, labels of classes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, F64
from sdk.frontends.onnx.context import OnnxNode

__all__ = ["DOMAIN", "class_count", "labelled", "ml_array", "post_transform", "real_matrix", "single"]

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_LABELS = ("classlabels_int64s", "classlabels_ints")


def real_matrix(node: OnnxNode, x: Value) -> Value:
    """``x`` as f32 (f64 stays), a row [f] as a matrix [1, f]."""
    if x.type.dtype not in (F32, F64):
        x = node.call("cast", x, to=str(F32))
    if x.type.rank == 1:
        return node.call("reshape", x, shape=(1, x.type.shape[0]))
    if x.type.rank != 2:
        node.fail(f"it takes a row or a matrix, not a tensor of rank {x.type.rank}")
    return x


def single(node: OnnxNode, x: Value) -> Value:
    """``x`` as f32."""
    return x if x.type.dtype == F32 else node.call("cast", x, to=str(F32))


def ml_array(
    node: OnnxNode, name: str, kind: type[np.generic] = np.float32
) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    """The numbers of an attribute, a list or under ``name_as_tensor`` a tensor; none where neither is given."""
    tensor = node.array(f"{name}_as_tensor")
    return np.asarray(node.floats(name, ()) if tensor is None else tensor.reshape(-1)).astype(
        kind if tensor is None else tensor.dtype
    )


# --- what scores become -------------------------------------------------------------------------------------------


def post_transform(node: OnnxNode, scores: Value, name: str) -> Value:
    """Scores [n, c] after the transform called ``name``."""
    match name:
        case "NONE":
            return scores
        case "SOFTMAX":
            return node.call("softmax", scores)
        case "LOGISTIC":
            return node.call("sigmoid", scores)
        case "SOFTMAX_ZERO":
            return _softmax_zero(node, scores)
        case "PROBIT":
            return _probit(node, scores)
    node.fail(f"the post_transform {name} is not supported")


def _softmax_zero(node: OnnxNode, x: Value) -> Value:
    """Softmax of the scores that are not 0; those stay 0, or as good as that."""
    highest = node.call("reduce_max", x, axes=(1,))
    power = node.call("exp", node.call("sub", x, highest))
    small = node.call("mul", x, node.call("exp", node.call("neg", highest)))
    is_set = node.call("greater", node.call("abs", x), node.scalar(1e-7, x.type))
    total = node.call("reduce_sum", node.call("where", is_set, power, node.scalar(0.0, x.type)), axes=(1,))
    return node.call("div", node.call("where", is_set, power, small), total)


def _probit(node: OnnxNode, x: Value) -> Value:
    """sqrt(2) * the inverse of erf at 2*x - 1, by Winitzki's approximation, which onnxruntime takes."""

    def number(value: float) -> Value:
        return node.scalar(value, x.type)

    at = node.call("sub", node.call("mul", x, number(2.0)), number(1.0))
    inside = node.call("mul", node.call("sub", number(1.0), at), node.call("add", number(1.0), at))
    log = node.call("log", inside)
    half = node.call("add", node.call("mul", log, number(0.5)), number(2.0 / (math.pi * 0.147)))
    root = node.call("sub", node.call("mul", half, half), node.call("mul", log, number(1.0 / 0.147)))
    size = node.call("sqrt", node.call("sub", node.call("sqrt", root), half))
    sign = node.call("where", node.call("less", at, number(0.0)), number(-1.0), number(1.0))
    return node.call("mul", node.call("mul", sign, size), number(math.sqrt(2.0)))


# --- labels -------------------------------------------------------------------------------------------------------


def _labels(node: OnnxNode) -> tuple[int, ...]:
    """The labels of classes, which are numbers.

    Raises:
        BuildError: they are text.
    """
    if node.texts("classlabels_strings", ()):
        node.fail("labels that are text are not supported", hint="export the model with numbers as classes")
    found: Sequence[int] = ()
    for name in _LABELS:
        found = found or node.ints(name, ())
    return tuple(found)


def class_count(node: OnnxNode) -> int:
    """How many classes the node has labels for.

    Raises:
        BuildError: the labels are text.
    """
    return len(_labels(node))


def labelled(node: OnnxNode, places: Value) -> Value:
    """The labels i64[n] of classes by number i64[n, 1] or i64[n]."""
    labels = _labels(node)
    flat = node.call("reshape", places, shape=(places.type.shape[0],))
    if labels == tuple(range(len(labels))):
        return flat
    return node.call("gather", node.const(np.array(labels, np.int64), "labels"), flat, axis=0)
