"""Weights in groups of a few bits, as a model file stores them: products with them, and rows of them as floats."""

from __future__ import annotations

from typing import Any

from sdk.compiler.ops.group_formats import FORMATS, format_of
from sdk.compiler.sym import Dim, product
from sdk.errors import BuildError
from sdk.graph.entry import Entry
from sdk.graph.tensor import Tensor

__all__ = ["FORMATS", "group_dense", "group_embedding", "group_shape"]


def group_shape(format: str, rows: int, columns: int) -> tuple[int, int]:
    """The shape u8[rows, bytes] of the blocks of a matrix [rows, columns].

    Raises:
        BuildError: no such format, or rows that are no whole blocks.
    """
    form = format_of(format)
    if columns % form.size:
        raise BuildError(f"rows of {columns} weights are no whole blocks of {format}, which has {form.size} in each")
    return rows, columns // form.size * form.nbytes


def group_dense(e: Entry, x: Tensor, weights: Tensor, format: str, *, half_scales: bool = False) -> Tensor:
    """``x @ W.T`` for the matrix ``W`` whose blocks are ``weights``.

    Activations are quantised to 8 bits in groups of 32 (``sdk.compiler.ops.group_products``); several products of one
    ``x`` in formats alike share that.

    Args:
        e: where the product is made.
        x: f32[..., K].
        weights: u8[N, bytes], the rows' blocks as a GGUF file stores them.
        format: one of ``FORMATS``.
        half_scales: whether the scales of the activations are rounded to f16, as llama.cpp has them for Q4_0, Q4_1 and
            Q8_0. A group whose largest is beyond 8e6 makes its row infinite or NaN then, one below 8e-6 is less exact.

    Returns:
        f32[..., N].

    Raises:
        BuildError: no such format, types or shapes that do not fit.
    """
    form = format_of(format)
    if not x.shape or not isinstance(x.shape[-1], int):
        raise BuildError(f"a product in groups needs rows of a fixed length, not {x!r}", where=f"entry {e.name}")
    lead: tuple[Dim, ...] = x.shape[:-1]
    flat = x if len(lead) == 1 else e.call("reshape", x, shape=(product(lead), x.shape[-1]))
    more: dict[str, Any] = {"half": True} if half_scales else {}
    made = e.op("quantize_groups", flat, run=form.run, zero=form.zero, **more)
    y = e.call("dense_groups", *made, weights, format=format)
    return y if len(lead) == 1 else e.call("reshape", y, shape=(*lead, y.shape[-1]))


def group_embedding(e: Entry, weights: Tensor, indices: Tensor, format: str) -> Tensor:
    """Rows of the matrix whose blocks are ``weights`` (u8[N, bytes]), as f32[..., K], by ``indices`` of any integer
    type: negative ones count from the end, one outside gives zeros.

    Raises:
        BuildError: no such format, or types that do not fit.
    """
    return e.call("lookup_groups", weights, indices, format=format)
