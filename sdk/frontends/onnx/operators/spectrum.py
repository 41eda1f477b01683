"""Fourier transforms and what surrounds them: DFT, STFT, MelWeightMatrix."""

from __future__ import annotations

import numpy as np

from sdk.budget import FOLDED
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I64
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, floordiv, product, prove_ge
from sdk.frontends.onnx.context import OnnxNode, in_single, onnx_op
from sdk.frontends.onnx.reader import element_type
from sdk.frontends.spectra import spectrum

__all__: list[str] = []

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
    y = spectrum(node, rows, length, inverse, half)
    back = node.call("reshape", y, shape=(*lead, *y.type.shape[1:]))
    places = [*order, rank - 1, axis]
    return node.call("transpose", back, perm=tuple(places.index(k) for k in range(rank)))


def _one_number(node: OnnxNode, k: int, missing: Dim) -> int:
    """Input ``k`` as a number, ``missing`` where it is left out."""
    (found,) = node.dims(k) if node.given_input(k) else (missing,)
    if not isinstance(found, int):
        node.fail(f"input {k} or the length of the axis is an open size", hint="give it a number: --dim NAME=N")
    return found


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
    y = node.call("transpose", spectrum(node, rows, length, False, bool(node.int("onesided", 1))), perm=(0, 2, 1))
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
    bins = length // 2 + 1
    node.builder.budget.spend(FOLDED, 8 * (bands + 2) * bins, node.source)
    low, high = (2595 * np.log10(1 + edge / 700) for edge in known[3:])
    mels = low + np.arange(bands + 2) * ((high - low) / (bands + 2))
    edges = np.floor((length + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate).astype(np.int64)
    if edges.min() < 0 or edges.max() > bins:
        node.fail(f"bands up to {known[4]} Hz are above half of {rate} Hz")
    return node.const(_triangles(edges, bins, bands).astype(kind.numpy))


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
