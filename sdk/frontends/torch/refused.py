"""Operators that have no converter and never will have one as things stand, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["REFUSED", "Reason"]

Reason = tuple[str, str]  # the cause, and what to do instead

_RANDOM: Final = ("it draws random numbers, which no run could repeat", "draw them outside, and make them an input")
_GRADIENT: Final = ("it computes a gradient, as in training", "export module.eval() for inference")
_WRITES: Final = ("it writes into an argument, which an exported program does not", "write it without out=")
_GENERAL: Final = (
    "eigenvalues of a matrix that is not symmetric are complex, and found by as many steps as they need",
    "linalg.eigh for symmetric matrices, or compute them outside and make them an input",
)

REFUSED: Final[Mapping[str, Reason]] = {
    "aten._adaptive_avg_pool2d_backward.default": _GRADIENT,
    "aten.atan2.out": _WRITES,
    "aten.avg_pool2d_backward.default": _GRADIENT,
    "aten.convolution_backward.default": _GRADIENT,
    "aten.embedding_dense_backward.default": _GRADIENT,
    "aten.linalg_eig.default": _GENERAL,
    "aten.linalg_eigvals.default": _GENERAL,
    "aten.max_pool2d_with_indices_backward.default": _GRADIENT,
    "aten.native_group_norm_backward.default": _GRADIENT,
    "aten.native_layer_norm_backward.default": _GRADIENT,
    "aten.normal.Tensor_Tensor": _RANDOM,
    "aten.rand.default": _RANDOM,
    "aten.randint.low": _RANDOM,
    "aten.randn.default": _RANDOM,
    "aten.randperm.default": _RANDOM,
    "aten.resize_.default": ("it gives a tensor another size in place", "make a new tensor of that size"),
}
