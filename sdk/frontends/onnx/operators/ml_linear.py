"""Linear models and support vector machines of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32
from sdk.frontends.moves import part
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.operators.ml_common import (
    DOMAIN,
    class_count,
    labelled,
    post_transform,
    real_matrix,
    single,
)

__all__: list[str] = []

Array = np.ndarray[Any, Any]


def _numbers(node: OnnxNode, name: str) -> Array:
    return np.array(node.floats(name, ()), np.float32)


def _affine(node: OnnxNode, x: Value, rows: int) -> Value:
    """x @ coefficients' + intercepts, [n, rows]."""
    width, coefficients, base = x.type.shape[1], _numbers(node, "coefficients"), _numbers(node, "intercepts")
    if not isinstance(width, int) or coefficients.size != rows * width or base.size not in (0, rows):
        node.fail(f"{coefficients.size} coefficients and {base.size} intercepts for {rows} rows of {width}")
    weights = node.const(np.ascontiguousarray(coefficients.reshape(rows, width).T), "weights")
    y = node.call("matmul", x, weights)
    return node.call("add", y, node.const(base, "intercepts")) if base.size else y


@onnx_op("LinearRegressor", domain=DOMAIN)
def linear_regressor(node: OnnxNode) -> Value:
    """Weighted sums of columns."""
    x = single(node, real_matrix(node, node.x(0)))
    return post_transform(node, _affine(node, x, node.int("targets", 1)), node.text("post_transform", "NONE"))


@onnx_op("LinearClassifier", domain=DOMAIN)
def linear_classifier(node: OnnxNode) -> tuple[Value, Value]:
    """Labels, and scores that are weighted sums of columns; of one score for two classes the other is what is left."""
    x, count = single(node, real_matrix(node, node.x(0))), class_count(node)
    rows, transform = len(node.floats("intercepts", ())), node.text("post_transform", "NONE")
    scores = _affine(node, x, rows)
    if rows == 1 and count == 2:
        above = node.call("greater", scores, node.scalar(0.0, F32))
        return labelled(node, node.call("cast", above, to="i64")), _both(node, scores, transform)
    if rows != count:
        node.fail(f"{rows} scores for {count} classes")
    label = labelled(node, node.call("argmax", scores, axis=1, last=False))
    return label, post_transform(node, scores, transform)


def _both(node: OnnxNode, score: Value, transform: str) -> Value:
    """The scores of two classes of the second's, as onnxruntime has them: nothing else is made of one score."""
    if transform == "LOGISTIC":
        return node.call("sigmoid", node.call("concat", node.call("neg", score), score, axis=1))
    if transform == "PROBIT":
        node.fail("PROBIT of one score for two classes is not supported")
    return node.call("concat", node.call("sub", node.scalar(1.0, F32), score), score, axis=1)


# --- support vectors ------------------------------------------------------------------------------------------------


def _kernel(node: OnnxNode, x: Value, vectors: Array) -> Value:
    """The kernel of each row and each vector, [n, vectors]."""
    kind, given = node.text("kernel_type", "LINEAR"), [*node.floats("kernel_params", ()), 0.0, 0.0, 0.0][:3]
    gamma, shift, degree = given
    products = node.call("matmul", x, node.const(np.ascontiguousarray(vectors.T), "vectors"))

    def number(value: float) -> Value:
        return node.scalar(value, F32)

    match kind:
        case "LINEAR":
            return products
        case "POLY" | "SIGMOID":
            moved = node.call("add", node.call("mul", products, number(gamma)), number(shift))
            return node.call("tanh", moved) if kind == "SIGMOID" else node.call("pow", moved, number(degree))
        case "RBF":
            # of each vector alone: |x - v|**2 as a difference of squares would lose small distances
            rows, width = vectors.shape
            apart = node.call(
                "sub", node.call("reshape", x, shape=(x.type.shape[0], 1, width)), node.const(vectors, "at")
            )
            squares = node.call("reduce_sum", node.call("mul", apart, apart), axes=(2,))
            flat = node.call("reshape", squares, shape=(x.type.shape[0], rows))
            return node.call("exp", node.call("mul", flat, number(-gamma)))
    node.fail(f"the kernel {kind} is not supported")


def _vectors(node: OnnxNode, x: Value, count: int) -> Array:
    width, given = x.type.shape[1], _numbers(node, "support_vectors")
    if not isinstance(width, int) or given.size != count * width:
        node.fail(f"{given.size} numbers for {count} support vectors of {width}")
    return given.reshape(count, width)


@onnx_op("SVMRegressor", domain=DOMAIN)
def svm_regressor(node: OnnxNode) -> Value:
    """A weighted sum of kernels; 1 or -1 for above 0 or not where the model tells one class."""
    x, count = single(node, real_matrix(node, node.x(0))), node.int("n_supports", 0)
    coefficients, rho = _numbers(node, "coefficients"), _numbers(node, "rho")
    width = x.type.shape[1]
    if rho.size < 1 or coefficients.size != (count or width):
        node.fail(f"{coefficients.size} coefficients for {count} support vectors, {rho.size} offsets")
    kernels = _kernel(node, x, _vectors(node, x, count)) if count else x
    y = node.call("matmul", kernels, node.const(coefficients.reshape(-1, 1), "weights"))
    y = node.call("add", y, node.scalar(float(rho[0]), F32))
    if node.int("one_class", 0):
        above = node.call("greater", y, node.scalar(0.0, F32))
        return node.call("where", above, node.scalar(1.0, F32), node.scalar(-1.0, F32))
    return post_transform(node, y, node.text("post_transform", "NONE"))


@onnx_op("SVMClassifier", domain=DOMAIN)
def svm_classifier(node: OnnxNode) -> tuple[Value, Value]:
    """Labels by the votes of each pair of classes, and the scores of pairs, or the probabilities of classes."""
    x, count = single(node, real_matrix(node, node.x(0))), class_count(node)
    sizes, transform = node.ints("vectors_per_class", ()), node.text("post_transform", "NONE")
    if not sizes:
        node.fail("a support vector machine without vectors is not supported", hint="export it as a linear classifier")
    if len(sizes) != count or count < 2:
        node.fail(f"support vectors of {len(sizes)} classes for {count} labels")
    total, coefficients, rho = sum(sizes), _numbers(node, "coefficients"), _numbers(node, "rho")
    if min(sizes) < 0 or coefficients.size != (count - 1) * total or rho.size != count * (count - 1) // 2:
        node.fail(f"{coefficients.size} coefficients and {rho.size} offsets for {total} vectors of {count} classes")
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    kernels = _kernel(node, x, _vectors(node, x, total))
    weights = _pair_weights(coefficients.reshape(count - 1, total), sizes, pairs)
    scores = node.call("matmul", kernels, node.const(weights, "weights"))
    scores = node.call("add", scores, node.const(rho, "rho"))
    first = node.call("cast", node.call("greater", scores, node.scalar(0.0, F32)), to=str(F32))
    votes_of = np.zeros((len(pairs), count), np.float32)
    base = np.zeros(count, np.float32)
    for k, (i, j) in enumerate(pairs):  # the first of a pair, else the second
        votes_of[k, i] += 1
        votes_of[k, j] -= 1
        base[j] += 1
    votes = node.call("add", node.call("matmul", first, node.const(votes_of, "votes")), node.const(base, "base"))
    label = labelled(node, node.call("argmax", votes, axis=1, last=False))
    if node.given.get("prob_a"):
        return label, post_transform(node, _probabilities(node, scores, count, pairs), transform)
    return label, _both_pairs(node, scores, transform) if count == 2 else post_transform(node, scores, transform)


def _both_pairs(node: OnnxNode, score: Value, transform: str) -> Value:
    """The scores of two classes of that of their only pair, as onnxruntime has them."""
    if transform == "NONE":
        return node.call("concat", node.call("neg", score), score, axis=1)
    return _both(node, score, transform)


def _probabilities(node: OnnxNode, scores: Value, count: int, pairs: list[tuple[int, int]]) -> Value:
    """Probabilities of classes [n, count] from the scores of pairs, each of which a sigmoid makes a probability."""
    a, b = _numbers(node, "prob_a"), _numbers(node, "prob_b")
    if a.size != len(pairs) or b.size != len(pairs):
        node.fail(f"{a.size} and {b.size} numbers of sigmoids for {len(pairs)} pairs of classes")
    line = node.call("add", node.call("mul", scores, node.const(-a, "prob_a")), node.const(-b, "prob_b"))
    first = node.call("clip", node.call("sigmoid", line), lo=1e-7, hi=1.0 - 1e-7)
    second = node.call("sub", node.scalar(1.0, F32), first)
    none = node.call("mul", part(node, first, 1, 0, 1), node.scalar(0.0, F32))
    places = np.full((count, count), 2 * len(pairs), np.int64)
    for k, (i, j) in enumerate(pairs):
        places[i, j], places[j, i] = k, len(pairs) + k
    both = node.call("concat", first, second, none, axis=1)
    table = node.call("gather", both, node.const(places.reshape(-1), "pairs"), axis=1)
    return node.call("couple", node.call("reshape", table, shape=(scores.type.shape[0], count, count)))


def _pair_weights(given: Array, sizes: tuple[int, ...], pairs: list[tuple[int, int]]) -> Array:
    """The weight of each vector in the score of each pair: vectors of a class have one for every other class."""
    begins = np.concatenate([[0], np.cumsum(sizes)])
    found = np.zeros((given.shape[1], len(pairs)), np.float32)
    for k, (i, j) in enumerate(pairs):
        mine, other = slice(begins[i], begins[i + 1]), slice(begins[j], begins[j + 1])
        found[mine, k] = given[j - 1, mine]
        found[other, k] = given[i, other]
    return found
