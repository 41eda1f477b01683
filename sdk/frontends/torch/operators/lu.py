"""ATen's LU factorisation of matrices of a known size, with the pivots that LAPACK chooses, and what is made of it."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I32, I64, TensorType
from sdk.frontends.moves import part, spread
from sdk.frontends.torch.context import TorchNode, aten
from sdk.frontends.torch.operators.factorisations import MAX_COLUMNS, matrix_sizes
from sdk.frontends.torch.operators.linalg import solve, solve_triangular, turned

__all__: list[str] = []


def _mask(node: TorchNode, which: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Value:
    return node.const(which, "which")


def _rows(node: TorchNode, like: TensorType, rows: int) -> Value:
    """0, 1, 2 ... for the rows of each matrix, as a column."""
    counted = node.const(np.arange(rows, dtype=np.int64).reshape(rows, 1), "rows")
    return spread(node, counted, (*like.shape[:-2], rows, 1))


def _swapped(node: TorchNode, x: Value, k: int, other: Value) -> Value:
    """``x`` with row ``k`` and the row that ``other`` (i64 [..., 1, 1]) tells exchanged."""
    rows, rank = x.type.shape[-2], x.type.rank
    assert isinstance(rows, int)
    numbers = node.const(np.arange(rows, dtype=np.int64).reshape(rows, 1), "rows")
    mine = node.const(np.asarray(k, np.int64), "row")
    moved = node.call("where", node.call("equal", numbers, other), mine, numbers)
    moved = node.call("where", _mask(node, np.arange(rows).reshape(rows, 1) == k), other, moved)
    return node.call("gather_elements", x, spread(node, moved, x.type.shape), axis=rank - 2)


def _factored(node: TorchNode, x: Value) -> tuple[Value, Value, Value]:
    """Both factors in one matrix, the row that each step chose (i64 [..., steps], from 0), and the order that the rows
    are in after all of them (i64 [..., rows, 1])."""
    rows, columns = matrix_sizes(node, x, MAX_COLUMNS)
    rank, zero = x.type.rank, node.scalar(0.0, x.type)
    order, chosen = _rows(node, x.type, rows), []
    down, across = np.arange(rows).reshape(rows, 1), np.arange(columns).reshape(1, columns)
    for k in range(min(rows, columns)):
        tail = part(node, part(node, x, rank - 1, k, 1), rank - 2, k, rows - k)
        at = node.call("argmax", node.call("abs", tail), axis=rank - 2, last=False)
        at = node.call("reshape", node.cast(at, I64), shape=(*x.type.shape[:-2], 1, 1))
        other = node.call("add", at, node.const(np.asarray(k, np.int64), "step")) if k else at
        chosen.append(node.call("reshape", other, shape=(*x.type.shape[:-2], 1)))
        if k == rows - 1:
            break
        x, order = _swapped(node, x, k, other), _swapped(node, order, k, other)
        line, column = part(node, x, rank - 2, k, 1), part(node, x, rank - 1, k, 1)
        pivot = part(node, column, rank - 2, k, 1)
        none = node.call("equal", pivot, zero)  # then all of the column is 0, and stays
        divisor = node.call("where", none, node.scalar(1.0, x.type), pivot)
        factor = node.call("where", _mask(node, down > k), node.call("div", column, divisor), zero)
        if k < columns - 1:
            after = node.call("where", _mask(node, across > k), line, zero)
            x = node.call("sub", x, node.call("matmul", factor, after))
        x = node.call("where", _mask(node, (down > k) & (across == k)), factor, x)
    steps = node.call("concat", *chosen, axis=rank - 2) if len(chosen) > 1 else chosen[0]
    return x, steps, order


def _with_pivots(node: TorchNode, pivot: bool) -> None:
    if not pivot:
        node.fail("factors without pivots are not supported", hint="pivot=True")


@aten("linalg_lu_factor.default")
def lu_factor(node: TorchNode, x: Value, *, pivot: bool = True) -> tuple[Value, Value]:
    """L without its diagonal of ones and U in one matrix, and the row, from 1, that each step exchanged its own for."""
    _with_pivots(node, pivot)
    factors, steps, _ = _factored(node, x)
    return factors, node.cast(node.call("add", steps, node.const(np.asarray(1, np.int64), "one")), I32)


@aten("linalg_lu_factor_ex.default", "_lu_with_info.default")
def lu_factor_checked(
    node: TorchNode, x: Value, pivot: bool = True, check_errors: bool = True
) -> tuple[Value, Value, Value]:
    """The same, and the first pivot that is 0, which is not found out."""
    return *lu_factor(node, x, pivot=pivot), spread(node, node.scalar(0, I32), x.type.shape[:-2])


@aten("linalg_lu.default")
def lu(node: TorchNode, x: Value, *, pivot: bool = True) -> tuple[Value, Value, Value]:
    """P, L and U of a = P @ L @ U."""
    _with_pivots(node, pivot)
    factors, _, order = _factored(node, x)
    return _permutation(node, order, x.type), *_halves(node, factors)


def _halves(node: TorchNode, factors: Value) -> tuple[Value, Value]:
    """L with ones on its diagonal, and U."""
    rows, columns = matrix_sizes(node, factors, MAX_COLUMNS)
    steps, rank, zero = min(rows, columns), factors.type.rank, node.scalar(0.0, factors.type)
    ones = node.const(np.eye(rows, steps, dtype=factors.type.dtype.numpy), "ones")
    left = part(node, factors, rank - 1, 0, steps)
    lower = node.call("where", _mask(node, np.tril(np.ones((rows, steps), bool), -1)), left, ones)
    over = part(node, factors, rank - 2, 0, steps)
    return lower, node.call("where", _mask(node, np.triu(np.ones((steps, columns), bool))), over, zero)


def _permutation(node: TorchNode, order: Value, like: TensorType) -> Value:
    """The matrix that puts rows in this order back where they were."""
    rows = order.type.shape[-2]
    assert isinstance(rows, int)
    numbers = node.const(np.arange(rows, dtype=np.int64).reshape(rows, 1), "rows")
    return node.cast(node.call("equal", numbers, turned(node, order)), like.dtype)


def _order(node: TorchNode, pivots: Value, rows: int) -> Value:
    """The order of rows after exchanges that are given, from 1."""
    shape = (*pivots.type.shape[:-1], 1, 1)
    order = _rows(node, TensorType(I64, shape), rows)
    from_0 = node.call("sub", node.cast(pivots, I64), node.const(np.asarray(1, np.int64), "one"))
    steps = pivots.type.shape[-1]
    if not isinstance(steps, int) or not 0 < steps <= min(rows, MAX_COLUMNS):
        node.fail(f"it needs a fixed number of pivots, of 1 to {min(rows, MAX_COLUMNS)}")
    for k in range(steps):
        other = node.call("reshape", part(node, from_0, pivots.type.rank - 1, k, 1), shape=shape)
        order = _swapped(node, order, k, other)
    return order


@aten("lu_unpack.default")
def lu_unpack(
    node: TorchNode, factors: Value, pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Value, Value, Value]:
    """P, L and U of what ``lu_factor`` gives; what is not asked for is empty."""
    rows, _ = matrix_sizes(node, factors, MAX_COLUMNS)
    none = node.const(np.zeros(0, factors.type.dtype.numpy), "none")
    halves = _halves(node, factors) if unpack_data else (none, none)
    return _permutation(node, _order(node, pivots, rows), factors.type) if unpack_pivots else none, *halves


@aten("linalg_lu_solve.default")
def lu_solve(
    node: TorchNode, factors: Value, pivots: Value, b: Value, *, left: bool = True, adjoint: bool = False
) -> Value:
    """x of a @ x = b, of x @ a = b or of the transpose of a, for the matrix that these are the factors of."""
    rows, _ = matrix_sizes(node, factors, MAX_COLUMNS, square=True)
    right = b if left else turned(node, b)
    place = _permutation(node, _order(node, pivots, rows), factors.type)
    if adjoint == left:  # by the transposed factors: U' first, then L', then the rows back in order
        half = solve_triangular(node, turned(node, factors), right, upper=False)
        half = solve_triangular(node, turned(node, factors), half, upper=True, unitriangular=True)
        found = node.call("matmul", place, half)
    else:
        moved = node.call("matmul", turned(node, place), right)
        half = solve_triangular(node, factors, moved, upper=False, unitriangular=True)
        found = solve_triangular(node, factors, half, upper=True)
    return found if left else turned(node, found)


@aten("lu_solve.default")
def old_lu_solve(node: TorchNode, b: Value, factors: Value, pivots: Value) -> Value:
    """The same by its older name."""
    return lu_solve(node, factors, pivots, b)


@aten("_linalg_solve_ex.default")
def solve_checked(
    node: TorchNode, a: Value, b: Value, *, left: bool = True, check_errors: bool = False
) -> tuple[Value, Value, Value, Value]:
    """x of a @ x = b or of x @ a = b, the factors and pivots of a, and which systems have no solution, which is not
    found out."""
    factors, pivots = lu_factor(node, a)
    return solve(node, a, b, left=left), factors, pivots, spread(node, node.scalar(0, I32), a.type.shape[:-2])
