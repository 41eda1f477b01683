"""ONNX's matrix products: MatMul, Gemm, Einsum, Det."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, product
from sdk.frontends.moves import swap_axes
from sdk.frontends.onnx.context import OnnxNode, in_single, onnx_op
from sdk.frontends.products import matrix_product

__all__: list[str] = []


@onnx_op("MatMul")
def matmul(node: OnnxNode) -> Value:
    """numpy's matmul: an operand of rank 1 is a row on the left, a column on the right."""
    return matrix_product(node, node.x(0), node.x(1))


@onnx_op("Gemm")
def gemm(node: OnnxNode) -> Value:
    """alpha * A @ B + beta * C, A and B perhaps transposed; factors and transposes go into constants."""
    a, b = node.x(0), node.x(1)
    flags = {}
    if node.int("transA", 0):
        flags["trans_a"] = True
    data = node.data(1)
    if node.int("transB", 0):
        if data is None:
            flags["trans_b"] = True
        else:
            data = np.ascontiguousarray(data.T)
            b = node.const(data, "b")
    alpha = node.float("alpha", 1.0)
    if alpha != 1 and data is not None:
        b = node.const((data * alpha).astype(data.dtype), "b")
        alpha = 1.0
    out = _scaled(node, node.call("matmul", a, b, **flags), alpha)
    if not node.given_input(2):
        return out
    beta, bias = node.float("beta", 1.0), node.data(2)
    if bias is None:
        return node.call("add", out, _scaled(node, node.x(2), beta))
    return node.call("add", out, node.x(2) if beta == 1 else node.const((bias * beta).astype(bias.dtype), "c"))


def _scaled(node: OnnxNode, x: Value, factor: float) -> Value:
    return x if factor == 1 else node.call("mul", x, node.scalar(factor, x.type))


# --- Einsum -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Term:
    """A value and the letter of each of its axes."""

    value: Value
    letters: str


@onnx_op("Einsum")
def einsum(node: OnnxNode) -> Value:
    """Sums of products by letters: two operands at a time, as a batch of matrix products."""
    values = [node.x(k) for k in range(node.count)]
    inputs, output = _letters(node, node.text("equation"), [v.type.rank for v in values])
    terms = [_diagonal(node, _Term(v, letters)) for v, letters in zip(values, inputs, strict=True)]
    total = _summed(node, terms[0], set(output).union(*(t.letters for t in terms[1:])))
    for k, term in enumerate(terms[1:], start=2):
        later = set(output).union(*(t.letters for t in terms[k:]))
        total = _product(node, total, _summed(node, term, later | set(total.letters)), later)
    total = _summed(node, total, set(output))
    return swap_axes(node, total.value, [total.letters.index(c) for c in output])


def _letters(node: OnnxNode, equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; the axes of "..." get letters of their own."""
    left, arrow, right = re.sub(r"\s", "", equation).partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks) or not re.fullmatch(r"[A-Za-z.,]*", left) or not re.fullmatch(r"[A-Za-z.]*", right):
        node.fail(f"the equation {equation!r} does not fit {len(ranks)} operands")
    widest = 0
    for text, rank in zip(inputs, ranks, strict=True):
        extra = rank - len(text.replace("...", ""))
        if extra < 0 or (extra and "..." not in text) or text.count("...") > 1:
            node.fail(f"the operand {text!r} of the equation does not fit a tensor of rank {rank}")
        widest = max(widest, extra)
    dots = "".join(chr(0x3B1 + k) for k in range(widest))
    full = []
    for text, rank in zip(inputs, ranks, strict=True):
        extra = rank - len(text.replace("...", ""))
        full.append(text.replace("...", dots[widest - extra :]))
    if arrow:
        return full, right.replace("...", dots)
    every = "".join(full)
    return full, dots + "".join(sorted(c for c in set(every) - set(dots) if every.count(c) == 1))


def _diagonal(node: OnnxNode, term: _Term) -> _Term:
    """A letter that stands twice keeps only the diagonal: a mask, then a sum over one of the two axes."""
    for letter in dict.fromkeys(term.letters):
        while term.letters.count(letter) > 1:
            first = term.letters.index(letter)
            second = term.letters.index(letter, first + 1)
            shape = term.value.type.shape
            eye = node.call("eye", shape=(shape[first], shape[second]), k=0, dtype=str(term.value.type.dtype))
            wide = tuple(d if k in (first, second) else 1 for k, d in enumerate(shape))
            masked = node.call("mul", term.value, node.call("reshape", eye, shape=wide))
            total = node.call("reduce_sum", masked, axes=(second,))
            kept = tuple(d for k, d in enumerate(shape) if k != second)
            letters = term.letters[:second] + term.letters[second + 1 :]
            term = _Term(node.call("reshape", total, shape=kept), letters)
    return term


def _summed(node: OnnxNode, term: _Term, wanted: set[str]) -> _Term:
    """Without the axes that nothing else uses."""
    gone = tuple(k for k, c in enumerate(term.letters) if c not in wanted)
    if not gone:
        return term
    total = node.call("reduce_sum", term.value, axes=gone)
    kept = tuple(d for k, d in enumerate(term.value.type.shape) if k not in gone)
    letters = "".join(c for c in term.letters if c in wanted)
    return _Term(node.call("reshape", total, shape=kept), letters)


def _product(node: OnnxNode, a: _Term, b: _Term, wanted: set[str]) -> _Term:
    """The product of two terms, summed over the letters that nothing later wants."""
    sizes: dict[str, Dim] = {}
    for term in (a, b):
        for letter, dim in zip(term.letters, term.value.type.shape, strict=True):
            if letter not in sizes or (isinstance(sizes[letter], int) and sizes[letter] == 1):
                sizes[letter] = dim
    # a letter of size 1 on one side only broadcasts: it cannot be an axis of that matrix
    a, b = (_without_ones(node, t, sizes) for t in (a, b))
    both = [c for c in a.letters if c in b.letters]
    batch = [c for c in both if c in wanted]
    inner = [c for c in both if c not in wanted]
    rows = [c for c in a.letters if c not in both]
    columns = [c for c in b.letters if c not in both]
    left = _arranged(node, a, [batch, rows, inner])
    right = _arranged(node, b, [batch, inner, columns])
    out = node.call("matmul", left, right)
    letters = "".join([*batch, *rows, *columns])
    return _Term(node.call("reshape", out, shape=tuple(sizes[c] for c in letters)), letters)


def _without_ones(node: OnnxNode, term: _Term, sizes: dict[str, Dim]) -> _Term:
    gone = [
        k
        for k, (c, d) in enumerate(zip(term.letters, term.value.type.shape, strict=True))
        if isinstance(d, int) and d == 1 and not same_extent(d, sizes[c])
    ]
    if not gone:
        return term
    kept = tuple(d for k, d in enumerate(term.value.type.shape) if k not in gone)
    letters = "".join(c for k, c in enumerate(term.letters) if k not in gone)
    return _Term(node.call("reshape", term.value, shape=kept), letters)


def _arranged(node: OnnxNode, term: _Term, groups: Sequence[Sequence[str]]) -> Value:
    """The value with its axes in groups, each group one axis."""
    order = [term.letters.index(c) for group in groups for c in group]
    moved = swap_axes(node, term.value, order)
    shape = tuple(product(tuple(term.value.type.shape[term.letters.index(c)] for c in group)) for group in groups)
    return node.call("reshape", moved, shape=shape)



@onnx_op("Det")
@in_single
def det(node: OnnxNode) -> Value:
    """The determinant of each matrix."""
    return node.call("det", node.x(0))
