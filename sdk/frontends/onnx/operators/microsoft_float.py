"""Operators of com.microsoft that onnxruntime's optimiser fuses others into: products, activations, normalisations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I32
from sdk.frontends.moves import swap_axes
from sdk.frontends.onnx.context import OPERATORS, OnnxNode, onnx_op
from sdk.frontends.onnx.operators.conv import convolution

__all__ = ["DOMAIN", "activated", "apply", "transposed"]

DOMAIN = "com.microsoft"


def apply(node: OnnxNode, op: str, *inputs: Value | None, **given: object) -> Value:
    """The first result of the ONNX operator ``op``, of the newest opset, on these inputs with these attributes."""
    inner = replace(node, op=op, opset=_NEWEST, inputs=inputs, outputs=1, given=given)
    found = OPERATORS[op](inner)
    return found if isinstance(found, Value) else found[0]


_NEWEST = 22


def transposed(node: OnnxNode, x: Value) -> Value:
    """The last two axes exchanged."""
    rank = x.type.rank
    return swap_axes(node, x, [*range(rank - 2), rank - 1, rank - 2])


# --- products ----------------------------------------------------------------------------------------------------


@onnx_op("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def fused_matmul(node: OnnxNode) -> Value:
    """alpha * A @ B, the last axes of each perhaps exchanged before, or the first one moved behind the others."""
    sides = []
    for k, side in enumerate("AB"):
        x = node.x(k)
        rank = x.type.rank
        if node.int(f"transBatch{side}", 0) and rank > 2:
            x = swap_axes(node, x, [*range(1, rank - 1), 0, rank - 1])
        sides.append(transposed(node, x) if node.int(f"trans{side}", 0) and rank > 1 else x)
    out, alpha = apply(node, "MatMul", *sides), node.float("alpha", 1.0)
    return out if alpha == 1 else node.call("mul", out, node.scalar(alpha, out.type))


@onnx_op("FusedGemm", domain=DOMAIN)
def fused_gemm(node: OnnxNode) -> Value:
    """Gemm with an activation after it."""
    given = {name: node.given[name] for name in ("alpha", "beta", "transA", "transB") if node.has(name)}
    y = apply(node, "Gemm", *node.inputs, **given)
    settings = {name: node.float(f"activation_{name}") for name in ("alpha", "beta", "gamma")}
    return activated(node, y, node.text("activation", ""), {k: v for k, v in settings.items() if v is not None})


@onnx_op("FusedConv", domain=DOMAIN)
def fused_conv(node: OnnxNode) -> Value:
    """Conv, a tensor added, an activation."""
    y = convolution(node, node.x(0), 1, node.optional(2))
    if node.given_input(3):
        y = node.call("add", y, node.x(3))
    name = node.text("activation", "")
    names = {"Clip": ("min", "max"), "HardSigmoid": ("alpha", "beta")}.get(name, ("alpha",))
    return activated(node, y, name, dict(zip(names, node.floats("activation_params", ()), strict=False)))


_ACTIVATIONS = ("Elu", "HardSigmoid", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh",
                "ThresholdedRelu")  # fmt: skip


def activated(node: OnnxNode, x: Value, name: str, settings: Mapping[str, float]) -> Value:
    """The activation that ONNX calls ``name``; "" is none.

    Raises:
        BuildError: there is no such activation.
    """
    if not name:
        return x
    if name == "Clip":
        limits = (node.scalar(settings[k], x.type) if k in settings else None for k in ("min", "max"))
        return apply(node, "Clip", x, *limits)
    if name not in _ACTIVATIONS:
        node.fail(f"the activation {name} is not supported")
    return apply(node, name, x, **settings)


# --- activations --------------------------------------------------------------------------------------------------


@onnx_op("Gelu", "BiasGelu", "FastGelu", domain=DOMAIN)
def gelu(node: OnnxNode) -> Value:
    """The Gaussian error linear unit, of a sum with a bias where there is one; the fast one by tanh."""
    x = node.x(0) if not node.given_input(1) else node.call("add", node.x(0), node.x(1))
    return node.call("gelu", x, tanh=node.op == "FastGelu")


@onnx_op("QuickGelu", domain=DOMAIN)
def quick_gelu(node: OnnxNode) -> Value:
    """x * sigmoid(alpha * x)."""
    return node.call("silu", node.x(0), alpha=node.float("alpha", 1.702))


@onnx_op("BiasAdd", domain=DOMAIN)
def bias_add(node: OnnxNode) -> Value:
    """The sum of a tensor, a bias of its last axis, and a second tensor."""
    return node.call("add", node.call("add", node.x(0), node.x(1)), node.x(2))


# --- normalisations -----------------------------------------------------------------------------------------------


def _root_scale(node: OnnxNode, x: Value, axis: int, epsilon: float) -> Value:
    """1 / sqrt of the mean of the squares over the axes from ``axis`` on."""
    square = node.call("reduce_mean", node.call("mul", x, x), axes=tuple(range(axis, x.type.rank)))
    return node.call("rsqrt", node.call("add", square, node.scalar(epsilon, x.type)))


@onnx_op("SimplifiedLayerNormalization")
def simplified_layer_normalization(node: OnnxNode) -> tuple[Value, ...]:
    """Rows by the root of the mean of their squares. onnxruntime has it in ONNX's own domain."""
    x, epsilon = node.x(0), node.float("epsilon", 1e-5)
    axis = node.axis(node.int("axis", -1), x.type.rank)
    y = apply(node, "RMSNormalization", x, node.x(1), axis=axis, epsilon=epsilon)
    return (y,) if node.outputs < 2 else (y, _root_scale(node, x, axis, epsilon))


@onnx_op("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_layer_normalization(node: OnnxNode) -> tuple[Value, ...]:
    """The normalised sum of a tensor, one that skipped layers, and a bias; the sum itself as fourth result."""
    simple = node.op.startswith("SkipSimplified")
    total = node.call("add", node.x(0), node.x(1))
    bias = 3 if simple else 4
    if node.given_input(bias):
        total = node.call("add", total, node.x(bias))
    epsilon, last = node.float("epsilon", 1e-12), total.type.rank - 1
    if simple:
        y = apply(node, "RMSNormalization", total, node.x(2), axis=last, epsilon=epsilon)
        mean, spread = total, _root_scale(node, total, last, epsilon) if node.outputs > 2 else total
        return (y, mean, spread, total)[: node.outputs] if node.outputs != 2 else (y,)
    inner = replace(
        node, op="LayerNormalization", opset=_NEWEST, inputs=(total, node.raw(2), *node.inputs[3:4]),
        outputs=min(node.outputs, 3), given={"axis": last, "epsilon": epsilon},
    )  # fmt: skip
    found = OPERATORS["LayerNormalization"](inner)
    results = found if isinstance(found, tuple) else (found,)
    return (*results, total)


@onnx_op("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_normalization(node: OnnxNode) -> tuple[Value, ...]:
    """Rows of tables for words, places and segments, summed and normalised; how many of each row the mask keeps."""
    ids = node.x(0)
    batch, length = ids.type.shape
    total = node.call("gather", node.x(2), ids, axis=0)
    if node.given_input(8):
        places = node.call("gather", node.x(3), node.x(8), axis=0)
    else:
        places = node.call(
            "slice", node.x(3), begin=(0, 0), size=(length, node.type(3).shape[1]), strides=(1, 1)
        )
    total = node.call("add", total, places)
    if node.given_input(1) and node.given_input(4):
        total = node.call("add", total, node.call("gather", node.x(4), node.x(1), axis=0))
    given = {"axis": 2, "epsilon": node.float("epsilon", 1e-12)}
    y = apply(node, "LayerNormalization", total, node.raw(5), node.raw(6), **given)
    if node.outputs < 2:
        return (y,)
    if node.int("mask_index_type", 1) not in (0, 1) or not node.given_input(7):
        counts = node.call("full", shape=(batch,), value=0, dtype=str(I32))
    else:
        wide = node.call("cast", node.x(7), to=str(I32))
        counts = node.call("reshape", node.call("reduce_sum", wide, axes=(1,)), shape=(batch,))
    return y, counts, total
