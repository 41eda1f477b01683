"""Fourier transforms and what surrounds them: DFT, STFT, MelWeightMatrix."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I64
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, floordiv, product, prove_ge
from sdk.frontends.moves import part
from sdk.frontends.onnx.context import OnnxNode, in_single, onnx_op
from sdk.frontends.onnx.reader import element_type

__all__: list[str] = []

RADIX = 16  # the largest factor whose transform is one product of matrices, where a length has such factors


# --- the transform ------------------------------------------------------------------------------------------------
# Complex rows are [rows, 2, n], real parts first; rows of real numbers [rows, 1, n].


def _transform(node: OnnxNode, x: Value, inverse: bool, scale: float) -> Value:
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


def _times_roots(node: OnnxNode, x: Value, parts: int, n: int, inverse: bool, scale: float) -> Value:
    """``x[.., parts * n]`` times the matrix of roots of unity, as [.., 2 * n]."""
    # exponents modulo n first: the angles stay small, and so their cosines exact
    angles = 2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
    real, imaginary = np.cos(angles) * scale, (1 if inverse else -1) * np.sin(angles) * scale
    rows = [np.concatenate([real, imaginary], axis=1), np.concatenate([-imaginary, real], axis=1)]
    matrix = np.concatenate(rows[:parts], axis=0)
    return node.call("matmul", x, node.const(matrix.astype(x.type.dtype.numpy), f"roots_{n}"))


def _turned(node: OnnxNode, x: Value, n: int, inverse: bool) -> Value:
    """Element [l, k] of ``x[rows, b, 2, a]`` times the root of unity of l * k / n."""
    _, b, _, a = (d if isinstance(d, int) else 0 for d in x.type.shape)
    angles = 2 * np.pi / n * np.outer(np.arange(b), np.arange(a))
    real, imaginary = np.cos(angles), (1 if inverse else -1) * np.sin(angles)
    swapped = node.call("concat", part(node, x, 2, 1, 1), part(node, x, 2, 0, 1), axis=2)
    kind = x.type.dtype.numpy
    same = node.const(real[:, None, :].astype(kind), "cosines")
    other = node.const(np.stack([-imaginary, imaginary], axis=1).astype(kind), "sines")
    return node.call("add", node.call("mul", x, same), node.call("mul", swapped, other))


# --- DFT ----------------------------------------------------------------------------------------------------------


@onnx_op("DFT")
@in_single
def dft(node: OnnxNode) -> Value:
    """The transform along an axis of ``x[.., 1 or 2]``; onesided the half that says all of a real signal."""
    x, rank = node.x(0), node.type(0).rank
    given = node.int("axis", 1)
    if node.opset >= 20:
        given = _one_number(node, 2, -2)
    axis = node.axis(given, rank)
    if axis == rank - 1:
        node.fail("its axis is that of real and imaginary parts")
    inverse, half = bool(node.int("inverse", 0)), bool(node.int("onesided", 0))
    size = x.type.shape[axis]
    length = _one_number(node, 1, 2 * (size - 1) if inverse and half else size)
    order = tuple(k for k in range(rank - 1) if k != axis)
    lead = tuple(x.type.shape[k] for k in order)
    turned = node.call("transpose", x, perm=(*order, rank - 1, axis))
    rows = node.call("reshape", turned, shape=(product(lead), x.type.shape[-1], size))
    y = _spectrum(node, rows, length, inverse, half)
    back = node.call("reshape", y, shape=(*lead, *y.type.shape[1:]))
    places = [*order, rank - 1, axis]
    return node.call("transpose", back, perm=tuple(places.index(k) for k in range(rank)))


def _one_number(node: OnnxNode, k: int, missing: Dim) -> int:
    """Input ``k`` as a number, ``missing`` where it is left out."""
    (found,) = node.dims(k) if node.given_input(k) else (missing,)
    if not isinstance(found, int):
        node.fail(f"input {k} or the length of the axis is an open size", hint="give it a number: --dim NAME=N")
    return found


def _spectrum(node: OnnxNode, rows: Value, length: int, inverse: bool, half: bool) -> Value:
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


def _resized(node: OnnxNode, rows: Value, size: int) -> Value:
    have = rows.type.shape[2]
    if prove_ge(have, size) is True:
        return rows if same_extent(have, size) else part(node, rows, 2, 0, size)
    return node.call("pad", rows, pads=((0, 0), (0, 0), (0, size - have)), value=0.0)


def _hermitian(node: OnnxNode, rows: Value, length: int) -> Value:
    """The whole spectrum of a real signal: the other half is conjugated, in reverse."""
    count = length - length // 2 - 1
    if count == 0:
        return rows
    mirrored = part(node, rows, 2, count, count, -1)
    if rows.type.shape[1] == 2:
        signs = np.array([[1.0], [-1.0]], rows.type.dtype.numpy)
        mirrored = node.call("mul", mirrored, node.const(signs, "signs"))
    return node.call("concat", rows, mirrored, axis=2)


# --- STFT ---------------------------------------------------------------------------------------------------------


@onnx_op("STFT")
@in_single
def stft(node: OnnxNode) -> Value:
    """Transforms of frames of a signal [batch, length, 1 or 2], each times a window: [batch, frames, bins, 2]."""
    x = node.x(0)
    if x.type.rank == 2:
        x = node.call("reshape", x, shape=(*x.type.shape, 1))
    step = _one_number(node, 1, 0)
    length = _one_number(node, 3, node.type(2).size if node.given_input(2) else x.type.shape[1])
    if node.given_input(2) and not same_extent(node.type(2).size, length):
        node.fail(f"a window of {node.type(2).size} elements for frames of {length}")
    batch, size, parts = x.type.shape
    if step < 1 or prove_ge(size, length) is not True:
        node.fail(f"frames of {length} elements, {step} apart, of a signal of {size}")
    frames = floordiv(size - length, step) + 1
    starts = node.call("mul", node.call("iota", extent=frames, start=0, step=1, dtype="i64"), node.scalar(step, I64))
    inside = node.call("iota", extent=length, start=0, step=1, dtype="i64")
    at = node.call("add", node.call("reshape", starts, shape=(frames, 1)), inside)
    cut = node.call("transpose", node.call("gather", x, at, axis=1), perm=(0, 1, 3, 2))
    if node.given_input(2):
        window = node.x(2)
        cut = node.call("mul", cut, window)
    rows = node.call("reshape", cut, shape=(product((batch, frames)), parts, length))
    y = node.call("transpose", _spectrum(node, rows, length, False, bool(node.int("onesided", 1))), perm=(0, 2, 1))
    return node.call("reshape", y, shape=(batch, frames, *y.type.shape[1:]))


# --- MelWeightMatrix ----------------------------------------------------------------------------------------------


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(node: OnnxNode) -> Value:
    """The matrix that makes frequencies of a spectrum bands of equal width on the mel scale, by ONNX's schema."""
    given = [node.data(k) for k in range(5)]
    known = [float(a.reshape(-1)[0]) for a in given if a is not None and a.size == 1]
    kind = element_type(node.int("output_datatype", 1))
    if len(known) != 5 or kind is None:
        node.fail("its inputs must be numbers known when the model is built")
    bands, length, rate = (int(v) for v in known[:3])
    if bands < 1 or length < 1 or rate < 1 or not -700.0 < known[3] <= known[4]:
        node.fail(f"{bands} bands from {known[3]} to {known[4]} Hz of {rate} Hz in a transform of length {length}")
    low, high = (2595 * np.log10(1 + edge / 700) for edge in known[3:])
    mels = low + np.arange(bands + 2) * ((high - low) / (bands + 2))
    edges = np.floor((length + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate).astype(np.int64)
    if edges.min() < 0 or edges.max() > length // 2 + 1:
        node.fail(f"bands up to {known[4]} Hz are above half of {rate} Hz")
    return node.const(_triangles(edges, length // 2 + 1, bands).astype(kind.numpy))


def _triangles(edges: np.ndarray, bins: int, bands: int) -> np.ndarray:
    """One triangle a column: from an edge up to the next one and down to the one after."""
    found = np.zeros((bins, bands))
    at = np.arange(bins)
    for k in range(bands):
        left, top, right = edges[k : k + 3]
        if top == left:
            found[at == top, k] = 1.0
        else:
            rising = (at >= left) & (at <= top)
            found[rising, k] = (at[rising] - left) / (top - left)
        falling = (at >= top) & (at < right)
        found[falling, k] = (right - at[falling]) / max(right - top, 1)
    return found
