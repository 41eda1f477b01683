"""Complex numbers by TensorFlow's operators, which converters leave in files as custom ones: Complex, ComplexAbs, Imag,
Real."""

from __future__ import annotations

from sdk.compiler.ir.types import F32
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.frontends.moves import spread
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.complex import complex_abs, imaginary, keep_complex, real
from sdk.frontends.tflite.operators.custom.terms import whole

__all__ = ["TABLE"]


def make(node: OpNode) -> None:
    """Complex: inputs (real parts, imaginary parts), of shapes that fit each other."""
    whole(node, 2, 1)
    parts = [node.input(k, F32) for k in range(2)]
    shape = broadcast_shapes(*(x.type.shape for x in parts))
    emit = node.emitter
    columns = [emit.call("reshape", spread(emit, x, shape), shape=(*shape, 1)) for x in parts]
    keep_complex(node, emit.call("concat", *columns, axis=len(shape)))


TABLE: Table = {"Complex": make, "ComplexAbs": complex_abs, "Imag": imaginary, "Real": real}
