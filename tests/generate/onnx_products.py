"""ONNX layers that multiply by weights, and pools."""

from __future__ import annotations

from typing import Any

from .builders import Op
from .draw import Draw
from .network import Layer, Spec, Unfit, layer
from .onnx_elementwise import reals

__all__ = ["TABLE", "draw_window", "images"]


def images(spec: Spec) -> bool:
    return reals(spec) and 3 <= len(spec.shape) <= 5


def draw_window(d: Draw, shape: tuple[int, ...], dilated: bool = True) -> dict[str, Any]:
    """Kernel, strides, pads (or how they follow) and dilations for an image of these sizes."""
    axes = len(shape) - 2
    given: dict[str, Any] = {
        "kernel": tuple(1 if n == 1 and d.chance(0.8) else d.one((1, 2, 3, 3, 4, 5)) for n in shape[2:]),
        "strides": tuple(d.one((1, 1, 1, 2, 3)) for _ in range(axes)),
        "dilations": tuple(d.one((1, 2, 3)) for _ in range(axes)) if dilated and d.chance(0.2) else (1,) * axes,
        "auto_pad": d.one(("NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")),
    }
    if d.chance(0.5):
        given["strides"] = given["strides"][:1] * axes
    if given["auto_pad"] != "NOTSET":  # onnxruntime wants no dilations there
        given["dilations"] = (1,) * axes
    else:
        given["pads"] = tuple(d.one((0, 0, 1, 1, 2)) for _ in range(2 * axes))
        if d.chance(0.5):
            given["pads"] = tuple(k // 2 for k in given["kernel"]) * 2
    return given


def window_attributes(one: Layer, spec: Spec) -> dict[str, Any]:
    """The attributes of a node with a window on an image ``spec``.

    Raises:
        Unfit: the window is larger than the image with its border, which ONNX's own inference does not see.
    """
    axes = len(one["kernel"])
    pads = one.get("pads") or (0,) * 2 * axes
    if one["auto_pad"] != "NOTSET" and any(pads):
        raise Unfit("pads that nothing reads")
    if min(*one["kernel"], *one["strides"], *one.get("dilations", (1,))) < 1:
        raise Unfit("a window of nothing")
    for k, (size, kernel) in enumerate(zip(spec.shape[2:], one["kernel"], strict=True)):
        reach = (kernel - 1) * one.get("dilations", (1,) * axes)[k] + 1
        if not one["auto_pad"].startswith("SAME") and one.op != "ConvTranspose" and (
            reach > size + pads[k] + pads[k + axes]
        ):
            raise Unfit(f"a window of {reach} on {size} elements")
    given = {"kernel_shape": one["kernel"], "strides": one["strides"], "auto_pad": one["auto_pad"]}
    if one.get("pads") is not None:
        given["pads"] = one["pads"]
    if any(k != 1 for k in one.get("dilations", ())):
        given["dilations"] = one["dilations"]
    return given


# --- convolutions ------------------------------------------------------------------------------------------------


def _draw_conv(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, images)
        if x is None:
            return None
        shape = b.specs[x].shape
        given = draw_window(d, shape)
        channels, groups = d.channels(), 1
        if d.chance(0.4):
            groups = d.one([g for g in (*(1, 2, 3, 4, 8), shape[1]) if shape[1] % g == 0])
            channels = groups * d.one((1, 1, 2, 3))
        if op == "ConvTranspose":
            given["auto_pad"] = "NOTSET" if given["auto_pad"].startswith("SAME") else given["auto_pad"]
            extra = tuple(d.below(s) for s in given["strides"])
            given["output_padding"] = extra if d.chance(0.3) else (0,) * len(extra)
        return layer(op, [x], b.fresh(), channels=channels, groups=groups, fill=d.fill(),
                     bias=d.fill() if d.chance(0.7) else None, **given)  # fmt: skip

    return draw


def _conv(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    if not images(spec) or len(one["kernel"]) != len(spec.shape) - 2:
        raise Unfit(f"{one.op} of {spec}")
    depth, groups, channels = spec.shape[1], one["groups"], one["channels"]
    if depth % groups or channels % groups:
        raise Unfit(f"{depth} and {channels} channels in {groups} groups")
    shape = (channels, depth // groups) if one.op == "Conv" else (depth, channels // groups)
    taps = depth // groups
    for k in one["kernel"]:
        taps *= k
    inputs = [one.inputs[0], b.filled((*shape, *one["kernel"]), one["fill"], 2.0 / taps + 0.05)]
    if one["bias"] is not None:
        inputs.append(b.filled((channels,), one["bias"]))
    given = window_attributes(one, spec)
    if any(one.get("output_padding", ())):
        given["output_padding"] = one["output_padding"]
        if any(e >= s for e, s in zip(one["output_padding"], one["strides"], strict=True)):
            raise Unfit("more rows added than a stride has")
    b.node(one.op, inputs, one.outputs, group=groups, **given)
    pixels = b.types[one.outputs[0]] if one.op == "Conv" else spec
    b.counted(products=pixels.elements // pixels.shape[1] * shape[0] * taps * (1 if one.op == "Conv" else channels))


# --- pools -------------------------------------------------------------------------------------------------------


def _draw_pool(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, images)
        if x is None:
            return None
        given = draw_window(d, b.specs[x].shape)
        if op == "AveragePool":
            given["count_include_pad"] = d.below(2)
        if op == "LpPool":
            given["p"] = d.one((1, 2, 3))
        else:
            given["ceil_mode"] = d.below(2)
        return layer(op, [x], b.fresh(), **given)

    return draw


def _pool(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    if not images(spec) or len(one["kernel"]) != len(spec.shape) - 2:
        raise Unfit(f"{one.op} of {spec}")
    given = {k: one[k] for k in ("count_include_pad", "ceil_mode", "p") if one.get(k) is not None}
    b.node(one.op, one.inputs, one.outputs, **given, **window_attributes(one, spec))
    for k, count in enumerate(b.types[one.outputs[0]].shape[2:]):
        _check_windows(one, k, spec.shape[2 + k], count)


def _check_windows(one: Layer, axis: int, size: int, count: int) -> None:
    """Every window has an element of the image: what the others give differs by engine, some are counted by ONNX's
    inference only, and onnxruntime refuses borders as wide as the window and SAME where it would cut."""
    axes = len(one["kernel"])
    kernel, stride = one["kernel"][axis], one["strides"][axis]
    dilation = one.get("dilations", (1,) * axes)[axis]
    pads = one.get("pads") or (0,) * 2 * axes
    before = pads[axis]
    if one["auto_pad"].startswith("SAME"):
        before = (count - 1) * stride + (kernel - 1) * dilation + 1 - size
        if before < 0:
            raise Unfit("windows that leave rows out")
        before //= 2
    elif max(pads[axis], pads[axis + axes]) >= kernel:
        raise Unfit("a border as wide as the window")
    for at in range(count):
        taps = (at * stride - before + k * dilation for k in range(kernel))
        if not any(0 <= t < size for t in taps):
            raise Unfit("a window outside of the image")


def _draw_unpool(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: reals(s) and len(s.shape) == 4 and s.exact)
        return None if x is None else layer(op, [x], b.fresh(), kernel=d.pair((1, 2, 3)))

    return draw


def _unpool(b: Any, one: Layer) -> None:
    """A pool without overlap that tells where its maxima are: these places, or the inverse of the pool."""
    spec = b.types[one.inputs[0]]
    if not images(spec) or len(spec.shape) != 4 or not spec.exact:
        raise Unfit(f"MaxUnpool of {spec}")
    given = {"kernel_shape": one["kernel"], "strides": one["kernel"]}
    # places count in the whole image, so that it must be a multiple of the window
    if any(n % k for n, k in zip(spec.shape[2:], one["kernel"], strict=True)):
        raise Unfit("rows that no window covers")
    values, places = b.several("MaxPool", one.inputs, 2, **given)
    if one.op == "Places":
        b.node("Cast", [places], one.outputs, to=6)  # i32
    else:
        b.node("MaxUnpool", [values, places], one.outputs, specs=[spec], **given)


# --- matrices ----------------------------------------------------------------------------------------------------


def _draw_gemm(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: reals(s) and len(s.shape) == 2)
    if x is None:
        return None
    given = {"alpha": d.one((1.0, 1.0, 0.5)), "beta": d.one((1.0, 1.0, 2.0)), "transA": d.below(2),
             "transB": d.below(2)}  # fmt: skip
    bias = (d.one(("row", "column", "one", "whole")), d.fill()) if d.chance(0.7) else None
    return layer("Gemm", [x], b.fresh(), channels=d.channels(), fill=d.fill(), bias=bias, **given)


def _gemm(b: Any, one: Layer) -> None:
    spec, channels = b.types[one.inputs[0]], one["channels"]
    if not reals(spec) or len(spec.shape) != 2:
        raise Unfit(f"Gemm of {spec}")
    rows, inner = spec.shape[::-1] if one["transA"] else spec.shape
    weights = b.filled((channels, inner) if one["transB"] else (inner, channels), one["fill"], 2.0 / inner + 0.05)
    inputs = [one.inputs[0], weights]
    if one["bias"] is not None:
        how, fill = one["bias"]
        shape = {"row": (channels,), "column": (rows, 1), "one": (), "whole": (rows, channels)}[how]
        inputs.append(b.filled(shape, fill))
    b.counted(products=rows * inner * channels)
    b.node("Gemm", inputs, one.outputs, **{k: one[k] for k in ("alpha", "beta", "transA", "transB")})


def _draw_matmul(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: reals(s) and len(s.shape) >= 1)
    if x is None:
        return None
    inner = b.specs[x].shape[-1]
    y = b.pick(d, lambda s: reals(s) and len(s.shape) >= 2 and s.shape[-2] == inner) if d.chance(0.3) else None
    if y is not None:
        return layer("MatMul", [x, y], b.fresh())
    return layer("MatMul", [x], b.fresh(), channels=d.one((None, *range(1, 10), 16, 17, 33)), fill=d.fill())


def _matmul(b: Any, one: Layer) -> None:
    specs = [b.types[n] for n in one.inputs]
    if any(not reals(s) or not s.shape for s in specs):
        raise Unfit("MatMul of others than reals")
    inner = specs[0].shape[-1]
    names = list(one.inputs)
    if len(names) == 1:
        shape = (inner,) if one["channels"] is None else (inner, one["channels"])
        names.append(b.filled(shape, one["fill"], 2.0 / inner + 0.05))
    b.node("MatMul", names, one.outputs)
    b.counted(products=b.types[one.outputs[0]].elements * inner)


def _draw_einsum(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: reals(s) and len(s.shape) in (2, 3))
    if x is None:
        return None
    texts = ("ij,jk->ik", "ij,kj->ik", "ij,ij->i", "ij,j->ij") if len(b.specs[x].shape) == 2 else (
        "bij,jk->bik", "bij,bjk->bik", "bij,bij->bj", "bij,kj->kbi")  # fmt: skip
    return layer("Einsum", [x], b.fresh(), equation=d.one(texts), fill=d.fill(), maximum=d.channels(9))


def _einsum(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    left, right = one["equation"].split("->")[0].split(",")
    if not reals(spec) or len(left) != len(spec.shape):
        raise Unfit(f"Einsum of {spec}")
    sizes = {"k": one["maximum"], **dict(zip(left, spec.shape, strict=True))}
    weights = b.filled([sizes[c] for c in right], one["fill"], 0.5)
    b.node("Einsum", [one.inputs[0], weights], one.outputs, equation=one["equation"])
    b.counted(products=spec.elements * one["maximum"])


TABLE = {
    "Conv": Op(_draw_conv("Conv"), _conv, 14),
    "ConvTranspose": Op(_draw_conv("ConvTranspose"), _conv, 5),
    **{op: Op(_draw_pool(op), _pool, 2) for op in ("MaxPool", "AveragePool", "LpPool")},
    **{op: Op(_draw_unpool(op), _unpool, 1) for op in ("MaxUnpool", "Places")},
    "Gemm": Op(_draw_gemm, _gemm, 5),
    "MatMul": Op(_draw_matmul, _matmul, 5),
    "Einsum": Op(_draw_einsum, _einsum, 2),
}
