"""Convolution2DTransposeBias, of the models of MediaPipe: a transposed convolution to the size in the file."""

from __future__ import annotations

import struct
from typing import Final

from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.real.products import transposed

__all__ = ["TABLE"]

# Its options are a record of C: padding, stride across, stride down, and in later ones an activation.
_PADDINGS: Final = {1: 0, 2: 1}  # by the number that the operators of the schema have
_MAX: Final = 1 << 15


def transpose_conv_bias(node: OpNode) -> None:
    """Convolution2DTransposeBias: inputs (x, weights [o, kh, kw, c], bias)."""
    raw = node.operator.custom_options
    if len(raw) < 12 or len(raw) % 4:
        raise BuildError(f"its options are {len(raw)} bytes, not 12 or more")
    kind, across, down, *rest = struct.unpack(f"<{len(raw) // 4}i", raw)
    if kind not in _PADDINGS or not 1 <= across < _MAX or not 1 <= down < _MAX or any(rest[:1]):
        raise BuildError(f"its options are a padding {kind}, strides {down} and {across}, an activation {rest[:1]}")
    shape = node.output().shape
    if len(shape) != 4 or -1 in node.output().signature:
        raise BuildError(f"the file does not tell the size of its output {node.output().title}")
    x, w, bias, window = transposed(node, (0, 1, 2), shape, (down, across), _PADDINGS[kind])
    node.call("conv_transpose2d", x, w, bias, **window)


TABLE: Table = {"Convolution2DTransposeBias": transpose_conv_bias}
