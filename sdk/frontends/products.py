"""Products of matrices as numpy and PyTorch define them."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.frontends.emit import Emitter

__all__ = ["matrix_product"]


def matrix_product(node: Emitter, a: Value, b: Value) -> Value:
    """numpy's matmul: an operand of rank 1 is a row on the left, a column on the right."""
    left, right = a, b
    if a.type.rank == 1:
        left = node.call("reshape", a, shape=(1, a.type.shape[0]))
    if b.type.rank == 1:
        right = node.call("reshape", b, shape=(b.type.shape[0], 1))
    out = node.call("matmul", left, right)
    shape = list(out.type.shape)
    if b.type.rank == 1:
        del shape[-1]
    if a.type.rank == 1:
        del shape[-1 if b.type.rank == 1 else -2]
    return out if len(shape) == out.type.rank else node.call("reshape", out, shape=tuple(shape))
