"""ATen's linear algebra of matrices of a known size: inverses, systems of equations, determinants."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I32
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.frontends.moves import spread, swap_axes
from sdk.frontends.torch.context import TorchNode, aten

__all__ = ["solve", "solve_triangular", "turned"]


def _size(node: TorchNode, x: Value) -> int:
    size = x.type.shape[-1] if x.type.rank > 1 else None
    if not isinstance(size, int) or size != x.type.shape[-2]:
        node.fail("it needs square matrices of a fixed size", hint="leave only the axes before them open")
    return size


def turned(node: TorchNode, x: Value) -> Value:
    """Each matrix transposed."""
    last = x.type.rank - 1
    return swap_axes(node, x, [*range(last - 1), last, last - 1])


def _solved(node: TorchNode, a: Value, b: Value) -> Value:
    """x of a @ x = b, the matrices of one with each of the other."""
    lead = broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2])
    a, b = (spread(node, v, (*lead, *v.type.shape[-2:])) for v in (a, b))
    return node.call("solve", a, b)


@aten("linalg_inv.default", "inverse.default")
def inverse(node: TorchNode, x: Value) -> Value:
    """The inverse of each matrix; numbers that are not finite where PyTorch raises an error."""
    return _solved(node, x, node.const(np.eye(_size(node, x), dtype=x.type.dtype.numpy), "ones"))


@aten("linalg_inv_ex.default")
def inverse_checked(node: TorchNode, x: Value, check: bool = False) -> tuple[Value, Value]:
    """The same, and which matrices have none, which is not found out."""
    return inverse(node, x), spread(node, node.scalar(0, I32), x.type.shape[:-2])


@aten("linalg_solve.default")
def solve(node: TorchNode, a: Value, b: Value, *, left: bool = True) -> Value:
    """x of a @ x = b, or of x @ a = b."""
    _size(node, a)
    if tuple(b.type.shape) == tuple(a.type.shape[:-1]):  # vectors
        column = node.call("reshape", b, shape=(*b.type.shape, 1))
        return node.call("reshape", _solved(node, a, column), shape=node.out.shape)
    return _solved(node, a, b) if left else turned(node, _solved(node, turned(node, a), turned(node, b)))


@aten("triangular_solve.default")
def old_solve_triangular(
    node: TorchNode, b: Value, a: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Value, Value]:
    """The same of one half of a matrix, and that matrix."""
    half = turned(node, a) if transpose else a
    return solve_triangular(node, half, b, upper=upper != transpose, unitriangular=unitriangular), a


@aten("linalg_solve_triangular.default")
def solve_triangular(
    node: TorchNode, a: Value, b: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    """The same of one half of a matrix, and its diagonal or ones on it."""
    size = _size(node, a)
    half = np.triu(np.ones((size, size), bool), 0) if upper else np.tril(np.ones((size, size), bool), 0)
    known = node.call("where", node.const(half, "half"), a, node.scalar(0, a.type))
    if unitriangular:
        known = node.call("where", node.const(np.eye(size, dtype=bool), "diagonal"), node.scalar(1, a.type), known)
    return _solved(node, known, b) if left else turned(node, _solved(node, turned(node, known), turned(node, b)))


@aten("linalg_det.default", "det.default")
def determinant(node: TorchNode, x: Value) -> Value:
    """The determinant of each matrix."""
    _size(node, x)
    return node.call("det", x)


@aten("logdet.default")
def log_determinant(node: TorchNode, x: Value) -> Value:
    """Its logarithm; NaN where it is below 0."""
    return node.call("log", determinant(node, x))


@aten("linalg_slogdet.default", "slogdet.default")
def sign_and_log(node: TorchNode, x: Value) -> tuple[Value, Value]:
    """Its sign, and the logarithm of its absolute value."""
    found = determinant(node, x)
    return node.call("sign", found), node.call("log", node.call("abs", found))
