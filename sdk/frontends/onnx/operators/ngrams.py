"""TfIdfVectorizer of numbers: how often runs of a sequence are in it."""

from __future__ import annotations

from functools import reduce

import numpy as np

from sdk.budget import FOLDED
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I32
from sdk.compiler.sym import prove_ge, prove_lt
from sdk.frontends.moves import part
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []

Pool = np.ndarray[tuple[int, int], np.dtype[np.int64]]


def _pools(node: OnnxNode) -> dict[int, Pool]:
    """The runs [count, length] by their length, in the order of the pool."""
    if node.texts("pool_strings", ()):
        node.fail("runs of text are not supported", hint="give the model the numbers of words")
    begins, pool = node.ints("ngram_counts", ()), np.array(node.ints("pool_int64s", ()), np.int64)
    ends = (*begins[1:], pool.size)
    found = {}
    for length, (begin, end) in enumerate(zip(begins, ends, strict=True), start=1):
        if not 0 <= begin <= end <= pool.size or (end - begin) % length:
            node.fail(f"runs of {length} from {begin} to {end} of a pool of {pool.size}")
        found[length] = pool[begin:end].reshape(-1, length)
    return found


@onnx_op("TfIdfVectorizer")
def tf_idf_vectorizer(node: OnnxNode) -> Value:
    """How often each run of the pool is in a row: counts, whether at all, or counts, both times weights."""
    mode = node.text("mode", "")
    if mode not in ("TF", "IDF", "TFIDF"):
        node.fail(f"the mode {mode} is not supported")
    x = node.x(0)
    flat = x.type.rank == 1
    rows = node.call("reshape", x, shape=(1, *x.type.shape)) if flat else x
    if rows.type.rank != 2 or x.type.dtype.kind != "i":
        node.fail(f"a tensor of {x.type.dtype} of rank {x.type.rank}")
    minimum, maximum = node.int("min_gram_length", 1), node.int("max_gram_length", 1)
    counts = [
        _counts(node, rows, pool, node.int("max_skip_count", 0), minimum <= length <= maximum)
        for length, pool in _pools(node).items()
        if len(pool)
    ]
    if not counts:
        node.fail("its pool is empty")
    found = counts[0] if len(counts) == 1 else node.call("concat", *counts, axis=1)
    if mode == "IDF":
        found = node.call("minimum", found, node.scalar(1.0, F32))
    weights, places = node.floats("weights", ()), node.ints("ngram_indexes", ())
    total = found.type.shape[1]
    if len(places) != total or (weights and len(weights) != total) or min(places, default=0) < 0:
        node.fail(f"{len(places)} places and {len(weights)} weights for {total} runs")
    node.builder.budget.spend(FOLDED, 4 * (max(places) + 1), node.source)
    if mode != "TF" and weights:
        found = node.call("mul", found, node.const(np.array(weights, np.float32), "weights"))
    source = np.full(max(places) + 1, len(places), np.int32)  # a column that no run is for reads 0
    source[list(places)] = np.arange(len(places))
    y = node.call("gather", found, node.const(source, "places"), axis=1)
    return node.call("reshape", y, shape=(source.size,)) if flat else y


def _counts(node: OnnxNode, x: Value, pool: Pool, skips: int, wanted: bool) -> Value:
    """How often each run is in each row, f32[rows, runs], with up to so many elements left out between two."""
    rows, width = x.type.shape
    count, length = pool.shape
    found: list[Value] = []
    for skip in range((skips if length > 1 else 0) + 1) if wanted else ():
        places = width - (length - 1) * (skip + 1)
        if prove_lt(places, 1) is True:
            break
        if prove_ge(places, 1) is not True:
            node.fail(f"whether rows of {width} have runs of {length} is not known", hint="raise their lower bound")
        same: list[Value] = []
        for k in range(length):
            at = node.call("reshape", part(node, x, 1, k * (skip + 1), places), shape=(rows, places, 1))
            same.append(node.call("equal", at, node.const(pool[:, k].astype(x.type.dtype.numpy), "run")))
        both = node.call("cast", reduce(lambda a, b: node.call("and", a, b), same), to=str(I32))
        found.append(node.call("reshape", node.call("reduce_sum", both, axes=(1,)), shape=(rows, count)))
    if not found:
        return node.call("full", shape=(rows, count), value=0.0, dtype=str(F32))
    return node.call("cast", reduce(lambda a, b: node.call("add", a, b), found), to=str(F32))
