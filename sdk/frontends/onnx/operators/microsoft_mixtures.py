"""Operators of com.microsoft for mixtures of experts and of streams, group normalisation of images, and crops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdk.budget import AXIS_TABLE, check_limit
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import product
from sdk.frontends.grids import space_first, space_last, summed
from sdk.frontends.moves import part, swap_axes
from sdk.frontends.onnx.context import OPERATORS, OnnxNode, in_single, onnx_op
from sdk.frontends.onnx.operators.microsoft_float import DOMAIN, apply, transposed
from sdk.frontends.onnx.operators.sampling import over_regions
from sdk.frontends.places import Tap, linear_taps, number, weighed

__all__: list[str] = []


# --- mixtures of experts --------------------------------------------------------------------------------------------


@onnx_op("MoE", domain=DOMAIN)
@in_single
def mixture(node: OnnxNode) -> Value:
    """Rows through experts, of which each row takes the ``k`` that a router rates highest, weighed by its softmax.

    Every expert computes every row: which rows are whose only the run knows, and no copy of weights is made.
    """
    x, rated = node.x(0), node.x(1)
    experts, width = rated.type.shape[-1], x.type.shape[-1]
    k = node.int("k", 1)
    if not isinstance(experts, int) or not 1 <= k <= experts or not same_extent(node.type(2).shape[0], experts):
        node.fail(f"the best {k} of {experts} experts, with weights for {node.type(2).shape[0]}")
    if node.int("use_sparse_mixer", 0):
        node.fail("the sparse mixer, which draws at random in training, is not supported")
    rows = node.call("reshape", x, shape=(product(x.type.shape[:-1]), width))
    chosen = replace(node, op="TopK", opset=11, outputs=2, given={"axis": -1},
                     inputs=(node.call("softmax", rated), node.shape_value((k,))))  # fmt: skip
    weights, places = OPERATORS["TopK"](chosen)  # type: ignore[misc]  # two results
    if node.int("normalize_routing_weights", 0):
        weights = node.call("div", weights, node.call("reduce_sum", weights, axes=(1,)))
    total: Value | None = None
    for expert in range(experts):
        here = node.call("equal", places, node.scalar(expert, places.type))
        gate = node.call("reduce_sum", node.call("where", here, weights, node.scalar(0.0, F32)), axes=(1,))
        y = node.call("mul", _expert(node, rows, expert), gate)
        total = y if total is None else node.call("add", total, y)
    assert total is not None  # there is at least one
    return node.call("reshape", total, shape=x.type.shape)


def _expert(node: OnnxNode, x: Value, expert: int) -> Value:
    """What one expert makes of all rows."""
    name = node.text("activation_type", "relu")
    hidden = _linear(node, x, 2, expert)
    if name == "swiglu":
        hidden = _swiglu(node, hidden, _linear(node, x, 6, expert) if node.given_input(6) else None)
    else:
        match name:
            case "relu":
                hidden = node.call("relu", hidden)
            case "silu":
                hidden = node.call("silu", hidden, alpha=1.0)
            case "gelu":
                hidden = node.call("gelu", hidden, tanh=True)  # as onnxruntime computes it
            case "identity":
                pass
            case _:
                node.fail(f"the activation {name} is not supported")
        if node.given_input(6):
            hidden = node.call("mul", hidden, _linear(node, x, 6, expert))
    return _linear(node, hidden, 4, expert)


def _linear(node: OnnxNode, x: Value, k: int, expert: int) -> Value:
    """Rows times the weights that input ``k`` has for an expert, [experts, outputs, inputs], and the bias after it."""
    known = node.data(k)
    if known is not None:
        weights = node.const(np.ascontiguousarray(known[expert].T.astype(np.float32)), f"expert{expert}")
    else:
        given = part(node, node.x(k), 0, expert, 1)
        weights = transposed(node, node.call("reshape", given, shape=given.type.shape[1:]))
    y = node.call("matmul", x, weights)
    return node.call("add", y, part(node, node.x(k + 1), 0, expert, 1)) if node.given_input(k + 1) else y


def _swiglu(node: OnnxNode, x: Value, other: Value | None) -> Value:
    """gate * sigmoid(alpha * gate) * (linear + beta): the halves of ``x``, every other element, or two products."""
    fusion, width = node.int("swiglu_fusion", 0), x.type.shape[1]
    if fusion and (not isinstance(width, int) or width % 2):
        node.fail(f"{width} numbers are no pairs of gate and value")
    half = width // 2 if isinstance(width, int) else 0
    if fusion == 1:
        gate, linear = (part(node, x, 1, begin, half, 2) for begin in (0, 1))
    elif fusion == 2:
        gate, linear = (part(node, x, 1, begin, half) for begin in (0, half))
    elif fusion == 0 and other is not None:
        gate, linear = x, other
    else:
        node.fail(f"swiglu_fusion {fusion} without a third matrix")
    limit = node.float("swiglu_limit")
    if limit is not None:
        gate = node.call("minimum", gate, node.scalar(limit, F32))
        linear = node.call("maximum", node.call("minimum", linear, node.scalar(limit, F32)), node.scalar(-limit, F32))
    moved = node.call("add", linear, node.scalar(node.float("activation_beta", 0.0), F32))
    return node.call("mul", node.call("silu", gate, alpha=node.float("activation_alpha", 1.0)), moved)


# --- streams --------------------------------------------------------------------------------------------------------


@onnx_op("HyperConnectionPreMix", domain=DOMAIN)
@in_single
def pre_mix(node: OnnxNode) -> Value:
    """Streams [.., c, h], weighed and summed: [.., h]."""
    x = _streams(node, node.x(0))
    total = node.call("reduce_sum", node.call("mul", x, _gates(node, node.x(1), x)), axes=(x.type.rank - 2,))
    y = node.call("reshape", total, shape=(*x.type.shape[:-2], x.type.shape[-1]))
    scale = node.float("reduction_scale", 1.0)
    return y if scale == 1.0 else node.call("mul", y, node.scalar(scale, y.type))


@onnx_op("HyperConnectionPostMix", domain=DOMAIN)
@in_single
def post_mix(node: OnnxNode) -> Value:
    """Streams mixed with each other, and one result put into each by its weight."""
    x, made = _streams(node, node.x(0)), node.x(1)
    wide = node.call("reshape", made, shape=(*x.type.shape[:-2], 1, x.type.shape[-1]))
    put = node.call("mul", _gates(node, node.x(2), x), wide)
    mixed = node.call("matmul", transposed(node, node.x(3)), x) if node.given_input(3) else x
    return node.call("reshape", node.call("add", mixed, put), shape=node.type(0).shape)


def _streams(node: OnnxNode, x: Value) -> Value:
    """Streams with an axis of their own."""
    count, width = node.int("num_branches", 0), x.type.shape[-1]
    if not count:
        return x
    if not isinstance(width, int) or width % count:
        node.fail(f"{count} streams in {width} numbers")
    return node.call("reshape", x, shape=(*x.type.shape[:-1], count, width // count))


def _gates(node: OnnxNode, gates: Value, x: Value) -> Value:
    """Weights of streams, of one number each, or of each feature, as they broadcast to ``x``."""
    shape = gates.type.shape
    if len(shape) == x.type.rank - 1:
        flat = not same_extent(shape[-1], x.type.shape[-2])
        return node.call("reshape", gates, shape=x.type.shape if flat else (*shape, 1))
    return gates


@onnx_op("LinearAttentionGate", domain=DOMAIN)
@in_single
def linear_attention_gate(node: OnnxNode) -> tuple[Value, ...]:
    """scale * softplus(a + bias), and the sigmoid of b."""
    decay = node.call("mul", node.x(2), apply(node, "Softplus", node.call("add", node.x(0), node.x(1))))
    return (decay, node.call("sigmoid", node.x(3))) if node.given_input(3) else (decay,)


# --- image networks -------------------------------------------------------------------------------------------------


@onnx_op("GroupNorm", "SkipGroupNorm", domain=DOMAIN)
@in_single
def group_norm(node: OnnxNode) -> tuple[Value, ...]:
    """Images, with what skipped layers added before, by the means and variances of groups of channels."""
    x, last = node.x(0), bool(node.int("channels_last", 1))
    if node.op == "SkipGroupNorm":
        skip = node.x(3)
        if skip.type.rank == 2:
            n, c = skip.type.shape
            skip = node.call("reshape", skip, shape=(n, 1, 1, c) if last else (n, c, 1, 1))
        x = node.call("add", x, skip)
        if node.given_input(4):
            bias = node.x(4)
            x = node.call("add", x, bias if last else node.call("reshape", bias, shape=(bias.type.shape[0], 1, 1)))
    image = swap_axes(node, x, (0, 3, 1, 2)) if last else x
    given = {"num_groups": node.int("groups", 1), "epsilon": node.float("epsilon", 1e-5)}
    y = apply(node, "GroupNormalization", image, node.x(1), node.x(2), **given)
    if node.int("activation", 0):
        y = node.call("silu", y, alpha=1.0)
    return (swap_axes(node, y, (0, 2, 3, 1)) if last else y), x


@onnx_op("BiasSplitGelu", domain=DOMAIN)
def bias_split_gelu(node: OnnxNode) -> Value:
    """The first half of the last axis, after a bias, times Gelu of the second."""
    x = node.call("add", node.x(0), node.x(1))
    axis, width = x.type.rank - 1, x.type.shape[-1]
    if not isinstance(width, int) or width % 2:
        node.fail(f"{width} numbers have no halves")
    a, b = (part(node, x, axis, begin, width // 2) for begin in (0, width // 2))
    return node.call("mul", a, node.call("gelu", b, tanh=False))


@onnx_op("NhwcConv", domain=DOMAIN)
def nhwc_conv(node: OnnxNode) -> Value | tuple[Value, ...]:
    """Conv of images [n, .., c]."""
    return OPERATORS[f"{DOMAIN}::NhwcFusedConv"](replace(node, op="NhwcFusedConv"))


@onnx_op("GemmFastGelu", domain=DOMAIN)
def gemm_fast_gelu(node: OnnxNode) -> Value:
    """The fast Gelu of a product and a bias."""
    y = apply(node, "MatMul", node.raw(0), node.raw(1))
    return node.call("gelu", node.call("add", y, node.x(2)) if node.given_input(2) else y, tanh=True)


# --- crops ----------------------------------------------------------------------------------------------------------


@onnx_op("CropAndResize", domain=DOMAIN)
@in_single
def crop_and_resize(node: OnnxNode) -> Value:
    """Regions [y1, x1, y2, x2] of an image, as fractions of it, in one size, corners on corners."""
    x, regions, batches, sizes = node.x(0), node.x(1), node.x(2), node.dims(3)
    mode = node.text("mode", "bilinear")
    if mode not in ("bilinear", "nearest") or x.type.rank != 4 or len(sizes) != 2:
        node.fail(f"the mode {mode} on a tensor of rank {x.type.rank}, in {len(sizes)} sizes")
    if not all(isinstance(s, int) and s >= 1 for s in sizes):
        node.fail(f"crops of {' by '.join(map(str, sizes))}")
    count, cells = regions.type.shape[0], (int(str(sizes[0])), int(str(sizes[1])))
    lines, inside = [], None
    for axis, size in enumerate(cells):
        at, within = _crop_places(node, regions, axis, size, number(node, x.type.shape[2 + axis], F32))
        taps = linear_taps(node, at) if mode == "bilinear" else [Tap(_rounded(node, at), None)]
        lines.append(taps)
        flag = node.call("reshape", within, shape=(count, size, 1) if axis == 0 else (count, 1, size))
        inside = flag if inside is None else node.call("and", inside, flag)
    parts = weighed(node, space_first(node, x), over_regions(node, batches, (count, *cells), lines), 0)
    y = summed(node, parts) if len(parts) > 1 else parts[0]
    assert inside is not None
    wide = node.call("reshape", inside, shape=(count, *cells, 1))
    y = node.call("where", wide, y, node.scalar(node.float("extrapolation_value", 0.0), F32))
    return space_last(node, y)


def _crop_places(node: OnnxNode, regions: Value, axis: int, size: int, extent: Value) -> tuple[Value, Value]:
    """Where the samples of each region lie along an axis, held inside of it, and which were, [regions, size]."""
    first, final = (part(node, regions, 1, k, 1) for k in (axis, axis + 2))
    last = node.call("sub", extent, node.scalar(1.0, F32))
    if size > 1:
        step = node.call("div", node.call("mul", node.call("sub", final, first), last), node.scalar(size - 1.0, F32))
        check_limit(AXIS_TABLE, size, "sampling along an axis")
        steps = node.const(np.arange(size, dtype=np.float32).reshape(1, -1), "samples")
        at = node.call("add", node.call("mul", first, last), node.call("mul", steps, step))
    else:
        at = node.call("mul", node.call("mul", node.call("add", first, final), node.scalar(0.5, F32)), last)
    zero = node.scalar(0.0, F32)
    within = node.call("and", node.call("greater_equal", at, zero), node.call("less_equal", at, last))
    return node.call("minimum", node.call("maximum", at, zero), last), within


def _rounded(node: OnnxNode, at: Value) -> Value:
    """To the nearest, halves up, of what is not below 0."""
    return node.call("floor", node.call("add", at, node.scalar(0.5, F32)))
