"""Fourier transforms of rows, by products of matrices."""

from __future__ import annotations

import numpy as np

from sdk.budget import FOLDED
from sdk.compiler.ir.graph import Value
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import prove_ge
from sdk.frontends.emit import Emitter
from sdk.frontends.moves import part

__all__ = ["spectrum"]

RADIX = 16  # the largest factor whose transform is one product of matrices, where a length has such factors


# Complex rows are [rows, 2, n], real parts first; rows of real numbers [rows, 1, n].


def _transform(node: Emitter, x: Value, inverse: bool, scale: float) -> Value:
    """The transform of each row times ``scale``, by Cooley and Tukey: with n = a * b, transforms of length a, a product
    with roots of unity, transforms of length b."""
    rows, parts, n = x.type.shape
    if not isinstance(n, int) or not isinstance(parts, int):
        node.fail("the length of the transform is only known at run time", hint="give dft_length as a constant")
    a = max((d for d in range(2, min(n, RADIX + 1)) if n % d == 0), default=n)
    if a == n or n <= RADIX:
        flat = node.call("reshape", x, shape=(rows, parts * n))
        return node.call("reshape", _times_roots(node, flat, parts, n, inverse, scale), shape=(rows, 2, n))
    b = n // a
    # element b * j + l of a row, bin k + a * m: sums over j first, for each l
    split = node.call("reshape", x, shape=(rows, parts, a, b))
    lines = node.call("reshape", node.call("transpose", split, perm=(0, 3, 1, 2)), shape=(rows, b, parts * a))
    inner = node.call("reshape", _times_roots(node, lines, parts, a, inverse, 1.0), shape=(rows, b, 2, a))
    turned = node.call("transpose", _turned(node, inner, n, inverse), perm=(0, 3, 2, 1))
    outer = _transform(node, node.call("reshape", turned, shape=(rows * a, 2, b)), inverse, scale)
    order = node.call("transpose", node.call("reshape", outer, shape=(rows, a, 2, b)), perm=(0, 2, 3, 1))
    return node.call("reshape", order, shape=(rows, 2, n))


def _times_roots(node: Emitter, x: Value, parts: int, n: int, inverse: bool, scale: float) -> Value:
    """``x[.., parts * n]`` times the matrix of roots of unity, as [.., 2 * n]."""
    node.builder.budget.spend(FOLDED, 2 * parts * n * n * x.type.dtype.nbytes, f"a transform of the prime length {n}")
    # exponents modulo n first: the angles stay small, and so their cosines exact
    angles = 2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
    real, imaginary = np.cos(angles) * scale, (1 if inverse else -1) * np.sin(angles) * scale
    rows = [np.concatenate([real, imaginary], axis=1), np.concatenate([-imaginary, real], axis=1)]
    matrix = np.concatenate(rows[:parts], axis=0)
    return node.call("matmul", x, node.const(matrix.astype(x.type.dtype.numpy), f"roots_{n}"))


def _turned(node: Emitter, x: Value, n: int, inverse: bool) -> Value:
    """Element [l, k] of ``x[rows, b, 2, a]`` times the root of unity of l * k / n."""
    _, b, _, a = (d if isinstance(d, int) else 0 for d in x.type.shape)
    angles = 2 * np.pi / n * np.outer(np.arange(b), np.arange(a))
    real, imaginary = np.cos(angles), (1 if inverse else -1) * np.sin(angles)
    swapped = node.call("concat", part(node, x, 2, 1, 1), part(node, x, 2, 0, 1), axis=2)
    kind = x.type.dtype.numpy
    same = node.const(real[:, None, :].astype(kind), "cosines")
    other = node.const(np.stack([-imaginary, imaginary], axis=1).astype(kind), "sines")
    return node.call("add", node.call("mul", x, same), node.call("mul", swapped, other))


def spectrum(node: Emitter, rows: Value, length: int, inverse: bool, half: bool) -> Value:
    """Transforms of length ``length`` of ``rows[rows, 1 or 2, size]``, which are cut or get zeros at their ends."""
    parts = rows.type.shape[1]
    if length < 1 or parts not in (1, 2):
        node.fail(f"a transform of length {length} of numbers with {parts} parts")
    bins = length // 2 + 1
    if not inverse:
        found = _transform(node, _resized(node, rows, length), False, 1.0)
        return part(node, found, 2, 0, bins) if half else found
    if not half:
        return _transform(node, _resized(node, rows, length), True, 1.0 / length)
    full = _hermitian(node, _resized(node, rows, bins), length)
    return part(node, _transform(node, full, True, 1.0 / length), 1, 0, 1)


def _resized(node: Emitter, rows: Value, size: int) -> Value:
    have = rows.type.shape[2]
    if prove_ge(have, size) is True:
        return rows if same_extent(have, size) else part(node, rows, 2, 0, size)
    return node.call("pad", rows, pads=((0, 0), (0, 0), (0, size - have)), value=0.0)


def _hermitian(node: Emitter, rows: Value, length: int) -> Value:
    """The whole spectrum of a real signal: the other half is conjugated, in reverse."""
    count = length - length // 2 - 1
    if count == 0:
        return rows
    mirrored = part(node, rows, 2, count, count, -1)
    if rows.type.shape[1] == 2:
        signs = np.array([[1.0], [-1.0]], rows.type.dtype.numpy)
        mirrored = node.call("mul", mirrored, node.const(signs, "signs"))
    return node.call("concat", rows, mirrored, axis=2)
