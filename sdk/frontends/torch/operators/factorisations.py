"""ATen's factorisations of matrices of a known size, step by step in operators of the graph: Cholesky, QR, and by
rotations of Jacobi eigenvalues and singular values. Signs are those of LAPACK but for vectors of the last two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, F64, I32
from sdk.frontends.moves import padded, part, spread
from sdk.frontends.torch.context import Number, TorchNode, aten
from sdk.frontends.torch.operators.linalg import solve_triangular, turned

__all__ = ["MAX_COLUMNS", "matrix_sizes"]

MAX_COLUMNS: Final = 64  # rows and columns of what is factorised column by column
_MAX_ROTATED: Final = 16  # the same of what is rotated: about 35 operators for each of size * sweeps turns


def matrix_sizes(node: TorchNode, x: Value, maximum: int, square: bool = False) -> tuple[int, int]:
    """Rows and columns of the matrices."""
    sizes = tuple(d for d in x.type.shape[-2:] if isinstance(d, int) and 0 < d <= maximum)
    if len(sizes) != 2:
        node.fail(f"it needs matrices of a fixed size, of 1 to {maximum} rows and columns")
    rows, columns = sizes
    if square and rows != columns:
        node.fail("it needs square matrices")
    if x.type.dtype not in (F32, F64):
        node.fail(f"it is not supported for {x.type.dtype}")
    return rows, columns


def _total(node: TorchNode, x: Value, axis: int) -> Value:
    """Sums of squares along one of the last two axes, which stays with size 1."""
    axis += x.type.rank
    sums = node.call("reduce_sum", node.call("mul", x, x), axes=(axis,))
    return node.call("reshape", sums, shape=tuple(1 if k == axis else d for k, d in enumerate(x.type.shape)))


def _bordered(node: TorchNode, x: Value, above: int, left: int) -> Value:
    """``x`` with zeros above and to its left."""
    return padded(node, x, [*[(0, 0)] * (x.type.rank - 2), (above, 0), (left, 0)], value=0.0)


def _block(node: TorchNode, x: Value, row: int, rows: int, column: int, columns: int) -> Value:
    last = x.type.rank - 1
    return part(node, part(node, x, last - 1, row, rows), last, column, columns)


# --- Cholesky -----------------------------------------------------------------------------------------------------


@aten("linalg_cholesky.default", "cholesky.default")
def cholesky(node: TorchNode, x: Value, upper: bool = False) -> Value:
    """The lower factor, or the upper one; NaN where a matrix is not positive definite and PyTorch raises an error."""
    size, _ = matrix_sizes(node, x, MAX_COLUMNS, square=True)
    rest = turned(node, x) if upper else x
    columns = []
    for k in range(size):
        left = size - k
        root = node.call("sqrt", _block(node, rest, 0, 1, 0, 1))
        below = node.call("div", _block(node, rest, 1, left - 1, 0, 1), root) if left > 1 else None
        column = root if below is None else node.call("concat", root, below, axis=x.type.rank - 2)
        columns.append(_bordered(node, column, k, 0))
        if below is not None:
            met = node.call("matmul", below, turned(node, below))
            rest = node.call("sub", _block(node, rest, 1, left - 1, 1, left - 1), met)
    found = node.call("concat", *columns, axis=x.type.rank - 1) if size > 1 else columns[0]
    return turned(node, found) if upper else found


@aten("linalg_cholesky_ex.default")
def cholesky_checked(node: TorchNode, x: Value, upper: bool = False, check_errors: bool = False) -> tuple[Value, Value]:
    """The same, and where it stopped, which is not found out."""
    return cholesky(node, x, upper), spread(node, node.scalar(0, I32), x.type.shape[:-2])


@aten("cholesky_solve.default")
def cholesky_solve(node: TorchNode, b: Value, factor: Value, upper: bool = False) -> Value:
    """x of a @ x = b, of a matrix whose factor is given."""
    lower = turned(node, factor) if upper else factor
    half = solve_triangular(node, lower, b, upper=False)
    return solve_triangular(node, turned(node, lower), half, upper=True)


@aten("cholesky_inverse.default")
def cholesky_inverse(node: TorchNode, factor: Value, upper: bool = False) -> Value:
    """The inverse of a matrix whose factor is given."""
    size, _ = matrix_sizes(node, factor, MAX_COLUMNS, square=True)
    ones = node.const(np.eye(size, dtype=factor.type.dtype.numpy), "ones")
    return cholesky_solve(node, ones, factor, upper)


# --- QR -----------------------------------------------------------------------------------------------------------


@aten("linalg_qr.default")
def qr(node: TorchNode, x: Value, mode: str = "reduced") -> tuple[Value, Value]:
    """Q and R by Householder's reflections, the diagonal of R with the signs that LAPACK gives it."""
    rows, columns = matrix_sizes(node, x, MAX_COLUMNS)
    rest, lines, mirrors = x, [], []
    steps = min(rows, columns)
    for k in range(steps):
        if k < rows - 1:
            mirror, scale, first = _reflection(node, _block(node, rest, 0, rows - k, 0, 1))
            rest = _reflected(node, rest, mirror, scale)
            mirrors.append((_bordered(node, mirror, k, 0), scale))
        else:
            first = _block(node, rest, 0, 1, 0, 1)
        line = first
        if columns - k > 1:
            after = _block(node, rest, 0, 1, 1, columns - k - 1)
            line = node.call("concat", first, after, axis=x.type.rank - 1)
        lines.append(_bordered(node, line, 0, k))
        if k < steps - 1:
            rest = _block(node, rest, 1, rows - k - 1, 1, columns - k - 1)
    wide = rows if mode == "complete" else steps
    if wide > steps:
        lines.append(spread(node, node.scalar(0.0, x.type), (*x.type.shape[:-2], wide - steps, columns)))
    r = node.call("concat", *lines, axis=x.type.rank - 2) if len(lines) > 1 else lines[0]
    if mode == "r":
        return node.const(np.zeros(0, x.type.dtype.numpy), "q"), r
    q = spread(node, node.const(np.eye(rows, wide, dtype=x.type.dtype.numpy), "ones"), (*x.type.shape[:-2], rows, wide))
    for mirror, scale in reversed(mirrors):
        q = _reflected(node, q, mirror, scale)
    return q, r


def _reflection(node: TorchNode, column: Value) -> tuple[Value, Value, Value]:
    """What leaves only the first element of a column: v and s of 1 - s * v @ v', and that element."""
    rank, size = column.type.rank, column.type.shape[-2]
    assert isinstance(size, int)
    zero = node.scalar(0.0, column.type)
    head, tail = part(node, column, rank - 2, 0, 1), part(node, column, rank - 2, 1, size - 1)
    under = _total(node, tail, -2)
    length = node.call("sqrt", node.call("add", node.call("mul", head, head), under))
    is_done = node.call("equal", under, zero)
    other = node.call("where", node.call("less", head, zero), length, node.call("sub", zero, length))
    first = node.call("where", is_done, head, other)
    begin = node.call("sub", head, first)
    norm = node.call("add", node.call("mul", begin, begin), under)
    divisor = node.call("where", is_done, node.scalar(1.0, column.type), norm)
    scale = node.call("where", is_done, zero, node.call("div", node.scalar(2.0, column.type), divisor))
    return node.call("concat", begin, tail, axis=rank - 2), scale, first


def _reflected(node: TorchNode, x: Value, mirror: Value, scale: Value) -> Value:
    along = node.call("mul", node.call("matmul", turned(node, mirror), x), scale)
    return node.call("sub", x, node.call("matmul", mirror, along))


# --- rotations ----------------------------------------------------------------------------------------------------


def _rounds(size: int) -> Iterator[list[tuple[int, int]]]:
    """Pairs of rows that are turned at once, over and over all of them: as many sweeps as single precision needs."""
    ring = list(range(size + size % 2))
    for _ in range((4 + (size - 1).bit_length()) * (len(ring) - 1)):
        met = ((ring[k], ring[-1 - k]) for k in range(len(ring) // 2))
        yield [(min(p), max(p)) for p in met if max(p) < size]
        ring = [ring[0], ring[-1], *ring[1:-1]]


@dataclass(frozen=True)
class _Turns:
    """Rotations of pairs of rows of ``size``, made of a symmetric matrix so that its elements of the pairs become 0."""

    node: TorchNode
    size: int
    pairs: list[tuple[int, int]]

    def of(self, matrix: Value) -> Value:
        """The orthogonal matrix of all of them."""
        node, size = self.node, self.size
        flat = node.call("reshape", matrix, shape=(*matrix.type.shape[:-2], size * size))
        p, q, met = (
            self._taken(flat, rows, columns)
            for rows, columns in ((self.first, self.first), (self.second, self.second), (self.first, self.second))
        )
        sine, cosine = self._angles(p, q, met)
        zero = node.scalar(0.0, matrix.type)
        lead = (*matrix.type.shape[:-2], 1)
        ends = (spread(node, node.scalar(v, matrix.type), lead) for v in (0.0, 1.0))
        parts = node.call("concat", *ends, cosine, sine, node.call("sub", zero, sine), axis=matrix.type.rank - 2)
        found = node.call("gather", parts, node.const(self._places(), "places"), axis=matrix.type.rank - 2)
        return node.call("reshape", found, shape=matrix.type.shape)

    @property
    def first(self) -> list[int]:
        """The first row of each pair."""
        return [a for a, _ in self.pairs]

    @property
    def second(self) -> list[int]:
        """The second row of each pair."""
        return [b for _, b in self.pairs]

    def _taken(self, flat: Value, rows: list[int], columns: list[int]) -> Value:
        at = np.asarray(rows, np.int64) * self.size + np.asarray(columns, np.int64)
        return self.node.call("gather", flat, self.node.const(at, "places"), axis=flat.type.rank - 1)

    def _angles(self, p: Value, q: Value, met: Value) -> tuple[Value, Value]:
        """Sines and cosines; none where the element is 0 already."""
        node = self.node
        zero, one = node.scalar(0.0, p.type), node.scalar(1.0, p.type)
        none = node.call("equal", met, zero)
        twice = node.call("where", none, one, node.call("add", met, met))
        ratio = node.call("div", node.call("sub", q, p), twice)
        root = node.call("sqrt", node.call("add", node.call("mul", ratio, ratio), one))
        sign = node.call("where", node.call("less", ratio, zero), node.scalar(-1.0, p.type), one)
        tangent = node.call("div", sign, node.call("add", node.call("abs", ratio), root))
        tangent = node.call("where", none, zero, tangent)
        cosine = node.call("div", one, node.call("sqrt", node.call("add", node.call("mul", tangent, tangent), one)))
        return node.call("mul", tangent, cosine), cosine

    def _places(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Where each element of the matrix lies in 0, 1, the cosines, the sines and their negatives."""
        places, count = np.eye(self.size, dtype=np.int64), len(self.pairs)
        for k, (a, b) in enumerate(self.pairs):
            places[a, a] = places[b, b] = 2 + k
            places[a, b], places[b, a] = 2 + count + k, 2 + 2 * count + k
        return places.reshape(-1)


def _ordered(node: TorchNode, values: Value, largest: bool, *columns: Value) -> tuple[Value, ...]:
    """Numbers in order, and the columns that belong to them."""
    axis = values.type.rank - 1
    found, at = node.calls("topk", values, k=values.type.shape[-1], axis=axis, largest=largest)
    row = node.call("reshape", at, shape=(*at.type.shape[:-1], 1, at.type.shape[-1]))
    moved = (node.call("gather_elements", c, spread(node, row, c.type.shape), axis=axis + 1) for c in columns)
    return found, *moved


@aten("_linalg_eigh.default", "linalg_eigh.default")
def eigh(node: TorchNode, x: Value, half: str = "L", compute_v: bool = True) -> tuple[Value, Value]:
    """Eigenvalues of symmetric matrices, the least first, and vectors, whose signs are as they come."""
    size, _ = matrix_sizes(node, x, _MAX_ROTATED, square=True)
    known = np.tril(np.ones((size, size), bool)) if half.upper() == "L" else np.triu(np.ones((size, size), bool))
    left = node.call("where", node.const(known, "half"), x, turned(node, x))
    vectors = spread(node, node.const(np.eye(size, dtype=x.type.dtype.numpy), "ones"), x.type.shape)
    for pairs in _rounds(size) if size > 1 else ():
        turn = _Turns(node, size, pairs).of(left)
        left = node.call("matmul", turned(node, turn), node.call("matmul", left, turn))
        vectors = node.call("matmul", vectors, turn)
    flat = node.call("reshape", left, shape=(*x.type.shape[:-2], size * size))
    diagonal = node.const(np.arange(size, dtype=np.int64) * (size + 1), "diagonal")
    values, vectors = _ordered(node, node.call("gather", flat, diagonal, axis=x.type.rank - 2), False, vectors)
    return values, vectors if compute_v else node.const(np.zeros(0, x.type.dtype.numpy), "vectors")


@aten("linalg_eigvalsh.default")
def eigenvalues(node: TorchNode, x: Value, half: str = "L") -> Value:
    """The eigenvalues alone."""
    return eigh(node, x, half)[0]


@aten("_linalg_svd.default", "linalg_svd.default")
def svd(
    node: TorchNode, x: Value, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Value, Value, Value]:
    """Singular values, the largest first, and vectors, whose signs are as they come; those on the left of a value of 0
    are 0."""
    rows, columns = matrix_sizes(node, x, _MAX_ROTATED)
    if full_matrices and rows != columns and compute_uv:
        node.fail("vectors beyond the singular values are not supported", hint="full_matrices=False")
    size, wide = min(rows, columns), rows < columns
    left = turned(node, x) if wide else x
    right = spread(
        node, node.const(np.eye(size, dtype=x.type.dtype.numpy), "ones"), (*x.type.shape[:-2], size, size)
    )
    for pairs in _rounds(size) if size > 1 else ():
        turn = _Turns(node, size, pairs).of(node.call("matmul", turned(node, left), left))
        left, right = node.call("matmul", left, turn), node.call("matmul", right, turn)
    lengths = node.call("sqrt", _total(node, left, -2))
    values = node.call("reshape", lengths, shape=(*x.type.shape[:-2], size))
    zero, one = node.scalar(0.0, x.type), node.scalar(1.0, x.type)
    left = node.call("div", left, node.call("where", node.call("equal", lengths, zero), one, lengths))
    values, left, right = _ordered(node, values, True, left, right)
    if not compute_uv:
        none = node.const(np.zeros(0, x.type.dtype.numpy), "vectors")
        return none, values, none
    return (right, values, turned(node, left)) if wide else (left, values, turned(node, right))


@aten("linalg_svdvals.default")
def singular_values(node: TorchNode, x: Value, *, driver: str | None = None) -> Value:
    """The singular values alone."""
    return svd(node, x, compute_uv=False)[1]


@aten("linalg_pinv.atol_rtol_tensor", "linalg_pinv.atol_rtol_float")
def pseudo_inverse(
    node: TorchNode, x: Value, *, atol: Number | None = None, rtol: Number | None = None, hermitian: bool = False
) -> Value:
    """V @ diag(1 / s) @ U' of the singular values above the larger of ``atol`` and ``rtol`` times the largest one."""
    rows, columns = matrix_sizes(node, x, _MAX_ROTATED)
    left, values, right = svd(node, x)
    epsilon = max(rows, columns) * float(np.finfo(x.type.dtype.numpy.name).eps)
    default = epsilon if atol is None else 0.0
    share = node.tensor(default if rtol is None else rtol, x.type.dtype)
    minimum = node.call("mul", part(node, values, values.type.rank - 1, 0, 1), share)
    if atol is not None:
        minimum = node.call("maximum", minimum, node.tensor(atol, x.type.dtype))
    one, zero = node.scalar(1.0, x.type), node.scalar(0.0, x.type)
    kept = node.call("less", minimum, values)
    inverse = node.call("where", kept, node.call("div", one, node.call("where", kept, values, one)), zero)
    column = node.call("reshape", inverse, shape=(*values.type.shape, 1))
    return node.call("matmul", turned(node, right), node.call("mul", column, turned(node, left)))
