"""The ops of modules as nodes of ONNX: a writer for each, in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sdk.compiler.ir.graph import Call, Value
from sdk.errors import BuildError
from sdk.frontends.onnx.reader import element_code

__all__ = ["WRITERS"]


Writer = Callable[[Any, Call], None]

_UNARY: Final = {
    "abs": "Abs", "acos": "Acos", "asin": "Asin", "atan": "Atan", "ceil": "Ceil", "cos": "Cos", "erf": "Erf",
    "exp": "Exp", "floor": "Floor", "hard_swish": "HardSwish", "log": "Log", "mish": "Mish", "neg": "Neg", "not": "Not",
    "reciprocal": "Reciprocal", "relu": "Relu", "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin",
    "softplus": "Softplus", "softsign": "Softsign", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
_BINARY: Final = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "maximum": "Max", "minimum": "Min",
    "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual",
    "equal": "Equal", "and": "And", "or": "Or", "xor": "Xor", "where": "Where",
}  # fmt: skip
_REDUCTIONS: Final = {
    "reduce_max": "ReduceMax", "reduce_mean": "ReduceMean", "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd",
    "reduce_sum": "ReduceSum",
}  # fmt: skip
_HINT: Final = "export the model as ONNX, and quantise that"
_TAPS: Final = 8  # of a resampling: each becomes three nodes


def _given(call: Call) -> dict[str, Any]:
    return dict(call.attrs)


def _axis_first(axis: int, rank: int) -> int:
    """The number of a channels-last axis when channels are first."""
    return axis if axis == 0 else 1 if axis == rank - 1 else axis + 1


# --- elementwise ------------------------------------------------------------------------------------------------------


def _unary(e: Any, call: Call, op: str, **given: Any) -> None:
    first = e.has_first(call.args[0])
    e.put(call, op, [e.get(call.args[0], first)], first, **given)


def _clip(e: Any, call: Call) -> None:
    given, first = _given(call), e.has_first(call.args[0])
    kind = call.args[0].type.dtype.numpy
    bounds = [e.const("limit", np.asarray(given[k], kind)) for k in ("lo", "hi")]
    e.put(call, "Clip", [e.get(call.args[0], first), *bounds], first)


def _rsqrt(e: Any, call: Call) -> None:
    first = e.has_first(call.args[0])
    e.put(call, "Reciprocal", [e.emit("Sqrt", [e.get(call.args[0], first)])], first)


def _silu(e: Any, call: Call) -> None:
    first = e.has_first(call.args[0])
    x, alpha = e.get(call.args[0], first), _given(call).get("alpha", 1.0)
    scaled = x if alpha == 1.0 else e.emit("Mul", [x, e.const("alpha", np.float32(alpha))])
    e.put(call, "Mul", [x, e.emit("Sigmoid", [scaled])], first)


def _operand(e: Any, value: Value, rank: int, first: bool) -> str:
    """An operand that broadcasts to a rank, in a form."""
    if not first or value.type.size == 1:
        if value.type.size == 1 and value.const:
            return str(e.const(value.name, np.asarray(e.data(value)).reshape(())))
        return str(e.get(value))
    if value.const:
        data = e.data(value)
        wide = data.reshape((1,) * (rank - data.ndim) + data.shape)
        return str(e.const(value.name, np.moveaxis(wide, -1, 1)))
    return str(e.get(value, True))


def _binary(e: Any, call: Call) -> None:
    rank = call.out.type.rank
    fits = all(v.const or v.type.rank == rank for v in call.args) and rank > 2
    first = fits and any(e.has_first(v) for v in call.args) and call.out.type.size != 1
    inputs = [_operand(e, v, rank, first) for v in call.args]
    if not first and all(v.type.size == 1 for v in call.args):
        inputs = [e.get(v) for v in call.args]  # the rank of the result is theirs
    e.put(call, _BINARY[call.callee], inputs, first)


def _cast(e: Any, call: Call) -> None:
    from_, to = call.args[0].type.dtype, call.out.type.dtype
    if from_.is_float and not to.is_float:
        raise BuildError(f"{call.source}: floats cut off to {to} cannot be written as ONNX", hint=_HINT)
    _unary(e, call, "Cast", to=element_code(to))


# --- sums of products and windows -------------------------------------------------------------------------------------


def _window(given: dict[str, Any]) -> dict[str, Any]:
    return {"strides": list(given["stride"]), "dilations": list(given["dilation"]), "pads": list(given["pad"])}


def _weights(e: Any, value: Value, perm: tuple[int, ...], what: str) -> str:
    """Constant weights with their axes in another order."""
    data = e.data(value)
    if data is None:
        return str(e.emit("Transpose", [e.get(value)], perm=list(perm)))
    return str(e.const(what, np.transpose(data, perm)))


def _bias(e: Any, value: Value) -> list[str]:
    data = e.data(value)
    return [] if data is not None and not data.any() else [e.get(value)]


def _conv(e: Any, call: Call) -> None:
    x, w, b = call.args
    given, rank = _given(call), w.type.rank
    weights = _weights(e, w, (0, rank - 1, *range(1, rank - 1)), w.name)
    groups = given.get("groups", 1)
    e.put(call, "Conv", [e.get(x, True), weights, *_bias(e, b)], True, group=groups, **_window(given))


def _depthwise(e: Any, call: Call) -> None:
    x, w, b = call.args
    given = _given(call)
    data, channels = e.data(w), x.type.shape[-1]
    if data is None:
        raise BuildError(f"{call.source}: weights that are no constants cannot be written as ONNX", hint=_HINT)
    weights = e.const(w.name, np.moveaxis(data, -1, 0)[:, None])
    e.put(call, "Conv", [e.get(x, True), weights, *_bias(e, b)], True, group=channels, **_window(given))


def _conv_transpose(e: Any, call: Call) -> None:
    x, w, b = call.args
    given, data = _given(call), e.data(w)
    if data is None:
        raise BuildError(f"{call.source}: weights that are no constants cannot be written as ONNX", hint=_HINT)
    groups = given.get("groups", 1)
    grouped = data.reshape(groups, -1, *data.shape[1:])  # [groups, outputs, taps.., inputs]
    by_input = np.moveaxis(grouped, -1, 1)
    weights = e.const(w.name, by_input.reshape(-1, *by_input.shape[2:]))
    more = {"group": groups, "output_padding": list(given["more"])}
    e.put(call, "ConvTranspose", [e.get(x, True), weights, *_bias(e, b)], True, **more, **_window(given))


def _pool(e: Any, call: Call, op: str) -> None:
    given = _given(call)
    more: dict[str, Any] = {"kernel_shape": list(given["kernel"]), "strides": list(given["stride"])}
    more |= {"pads": list(given["pad"]), "ceil_mode": int(given.get("ceil", False))}
    if given.get("dilation"):
        more["dilations"] = list(given["dilation"])
    if op == "AveragePool":
        more["count_include_pad"] = int(given.get("include_pad", False))
    e.put(call, op, [e.get(call.args[0], True)], True, **more)


def _matmul(e: Any, call: Call) -> None:
    inputs = []
    for value, flag in zip(call.args, ("trans_a", "trans_b"), strict=True):
        rank = value.type.rank
        perm = (*range(rank - 2), rank - 1, rank - 2)
        turned = bool(_given(call).get(flag))
        inputs.append(_weights(e, value, perm, value.name) if turned else e.get(value))
    e.put(call, "MatMul", inputs)


# --- along axes -------------------------------------------------------------------------------------------------------


def _reduce(e: Any, call: Call) -> None:
    x, rank = call.args[0], call.args[0].type.rank
    first = e.has_first(x)
    axes = [_axis_first(a, rank) if first else a for a in _given(call)["axes"]]
    e.put(call, _REDUCTIONS[call.callee], [e.get(x, first), e.const("axes", np.asarray(axes, np.int64))], first)


def _last_axis(e: Any, call: Call, op: str) -> None:
    x = call.args[0]
    first = e.has_first(x)
    e.put(call, op, [e.get(x, first)], first, axis=1 if first else -1)


def _normalised(e: Any, call: Call) -> None:
    inputs = [e.get(v) for v in call.args]
    e.put(call, "LayerNormalization", inputs, axis=-1, epsilon=float(_given(call)["epsilon"]))


def _rms(e: Any, call: Call) -> None:
    x, scale = (e.get(v) for v in call.args)
    axes = e.const("axes", np.asarray([-1], np.int64))
    mean = e.emit("ReduceMean", [e.emit("Mul", [x, x]), axes])
    spread = e.emit("Sqrt", [e.emit("Add", [mean, e.const("epsilon", np.float32(_given(call)["epsilon"]))])])
    e.put(call, "Mul", [e.emit("Div", [x, spread]), scale])


# --- moves ------------------------------------------------------------------------------------------------------------


def _reshape(e: Any, call: Call) -> None:
    x, shape = call.args[0], call.out.type.shape
    if e.has_first(x) and x.type.rank == len(shape) and x.type.shape == shape:
        e.alias(call.out, e.get(x, True), True)
        return
    single = e.has_first(x) and all(d == 1 for d in x.type.shape[1:-1])  # one pixel: both forms lie alike
    sizes = e.const("shape", np.asarray(e.sizes(shape, call.out.name), np.int64))
    e.put(call, "Reshape", [e.get(x, single), sizes])


def _transpose(e: Any, call: Call) -> None:
    x, perm = call.args[0], tuple(_given(call)["perm"])
    rank = len(perm)
    if rank > 2 and perm == (0, *range(2, rank), 1) and not x.const:
        e.alias(call.out, e.get(x), True)
    elif rank > 2 and perm == (0, rank - 1, *range(1, rank - 1)) and e.has_first(x):
        e.alias(call.out, e.get(x, True), False)
    else:
        e.put(call, "Transpose", [e.get(x)], perm=list(perm))


def _concat(e: Any, call: Call) -> None:
    rank, axis = call.out.type.rank, int(_given(call)["axis"])
    first = any(e.has_first(v) for v in call.args) and rank > 2
    e.put(call, "Concat", [e.get(v, first) for v in call.args], first, axis=_axis_first(axis, rank) if first else axis)


def _slice(e: Any, call: Call) -> None:
    given, x = _given(call), call.args[0]
    first = e.has_first(x)
    starts, ends, axes, steps = [], [], [], []
    for k, (begin, count, stride) in enumerate(zip(given["begin"], call.out.type.shape, given["strides"], strict=True)):
        if begin == 0 and stride == 1 and count == x.type.shape[k]:
            continue
        start, size = e.number(begin, call.source), e.number(count, call.source)
        stop = start + size * stride
        starts.append(start)
        ends.append(stop if stop >= 0 else -(1 << 31))
        axes.append(_axis_first(k, x.type.rank) if first else k)
        steps.append(stride)
    if not axes:
        e.alias(call.out, e.get(x, first), first)
        return
    bounds = [e.const("bounds", np.asarray(v, np.int64)) for v in (starts, ends, axes, steps)]
    e.put(call, "Slice", [e.get(x, first), *bounds], first)


def _pad(e: Any, call: Call) -> None:
    given, x = _given(call), call.args[0]
    first, rank = e.has_first(x), x.type.rank
    pads = [[e.number(n, call.source) for n in pair] for pair in given["pads"]]
    order = [0, rank - 1, *range(1, rank - 1)] if first else list(range(rank))
    flat = [pads[k][0] for k in order] + [pads[k][1] for k in order]
    mode = given.get("mode", "constant")
    fill = [e.const("fill", np.asarray(given["value"], x.type.dtype.numpy))] if mode == "constant" else []
    e.put(call, "Pad", [e.get(x, first), e.const("pads", np.asarray(flat, np.int64)), *fill], first, mode=mode)


def _gather(e: Any, call: Call) -> None:
    x, indices = call.args
    e.put(call, "Gather", [e.get(x), e.get(indices)], axis=int(_given(call).get("axis", 0)))


def _broadcast(e: Any, call: Call) -> None:
    sizes = [e.number(d, call.source) for d in call.out.type.shape]
    e.put(call, "Expand", [e.get(call.args[0]), e.const("shape", np.asarray(sizes, np.int64))])


def _nearest(e: Any, call: Call) -> None:
    """Whole multiples by Resize, other places by positions."""
    given, x = _given(call), call.args[0]
    first, rank = e.has_first(x), x.type.rank
    name, scales = e.get(x, first), [1.0] * rank
    for k, given_map in enumerate(given["maps"]):
        if not given_map:
            continue
        at = _axis_first(k, rank) if first else k
        num, add, den = (e.number(n, call.source) for n in given_map)
        extent, size = e.number(x.type.shape[k], call.source), e.number(given["sizes"][k], call.source)
        if (num, add) == (1, 0) and size == extent * den:
            scales[at] = float(den)
            continue
        places = np.clip((num * np.arange(size) + add) // den, 0, extent - 1)
        name = e.emit("Gather", [name, e.const("places", places.astype(np.int64))], axis=at)
    factors = e.const("scales", np.asarray(scales, np.float32))
    given_resize = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    e.put(call, "Resize", [name, "", factors], first, **given_resize)


def _resample(e: Any, call: Call) -> None:
    """Each tap gathered, times its weights, added."""
    x, index, weight = call.args
    places, factors, axis = e.data(index), e.data(weight), int(_given(call)["axis"])
    if places is None or factors is None or places.shape[1] > _TAPS:
        raise BuildError(f"{call.source}: this resampling cannot be written as ONNX", hint=_HINT)
    first, rank = e.has_first(x), x.type.rank
    at, extent = _axis_first(axis, rank) if first else axis, e.number(x.type.shape[axis], call.source)
    shape = [1] * rank
    shape[at] = len(places)
    total = ""
    for k in range(places.shape[1]):
        inside = (places[:, k] >= 0) & (places[:, k] < extent)
        taken = e.emit("Gather", [e.get(x, first), e.const("places", np.where(inside, places[:, k], 0))], axis=at)
        by = e.const("weights", np.where(inside, factors[:, k], 0).astype(np.float32).reshape(shape))
        part = e.emit("Mul", [taken, by])
        total = part if k == 0 else e.emit("Add", [total, part])
    e.put(call, "Identity", [total], first)


def _blocks(e: Any, call: Call, op: str) -> None:
    given = _given(call)
    if given.get("inner") or len(set(given["block"])) != 1:
        raise BuildError(f"{call.source}: blocks of {given['block']} cannot be written as ONNX", hint=_HINT)
    e.put(call, op, [e.get(call.args[0], True)], True, blocksize=int(given["block"][0]))


def _full(e: Any, call: Call) -> None:
    given = _given(call)
    shape = [e.number(d, call.source) for d in call.out.type.shape]
    value = given["value"] if isinstance(given["value"], float) else e.number(given["value"], call.source)
    e.alias(call.out, e.const(call.out.name, np.full(shape, value, call.out.type.dtype.numpy)), False)


def _named(op: str, **names: str) -> Writer:
    """An elementwise op with attributes, each under its name in ONNX."""

    def write(e: Any, call: Call) -> None:
        given = _given(call)
        _unary(e, call, op, **{theirs: float(given[ours]) for ours, theirs in names.items() if ours in given})

    return write


WRITERS: Final[dict[str, Writer]] = {
    **{ours: _named(op) for ours, op in _UNARY.items()},
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "avg_pool2d": lambda e, call: _pool(e, call, "AveragePool"),
    "broadcast_to": _broadcast,
    "cast": _cast,
    "clip": _clip,
    "concat": _concat,
    "conv2d": _conv,
    "conv3d": _conv,
    "conv_transpose2d": _conv_transpose,
    "conv_transpose3d": _conv_transpose,
    "depth_to_space": lambda e, call: _blocks(e, call, "DepthToSpace"),
    "depthwise_conv2d": _depthwise,
    "elu": _named("Elu", alpha="alpha"),
    "full": _full,
    "gather": _gather,
    "gelu": lambda e, call: _unary(e, call, "Gelu", approximate="tanh" if _given(call).get("tanh") else "none"),
    "hard_sigmoid": _named("HardSigmoid", alpha="alpha", beta="beta"),
    "layer_norm": _normalised,
    "leaky_relu": _named("LeakyRelu", alpha="alpha"),
    "log_softmax": lambda e, call: _last_axis(e, call, "LogSoftmax"),
    "matmul": _matmul,
    "max_pool2d": lambda e, call: _pool(e, call, "MaxPool"),
    "pad": _pad,
    "resample": _resample,
    "reshape": _reshape,
    "resize_nearest": _nearest,
    "rms_norm": _rms,
    "rsqrt": _rsqrt,
    "silu": _silu,
    "slice": _slice,
    "softmax": lambda e, call: _last_axis(e, call, "Softmax"),
    "space_to_depth": lambda e, call: _blocks(e, call, "SpaceToDepth"),
    "transpose": _transpose,
}
