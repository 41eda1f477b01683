"""GroupQueryAttention of com.microsoft, against onnxruntime: caches, windows, places, caps, sinks, groups of heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from harness import Array, agree, fused, one_node, record, run
from onnx import helper

import sdk
from sdk.errors import SdkError
from sdk.frontends.onnx.importer import import_onnx

RNG = np.random.default_rng(11)
HEADS, GROUPS, WIDTH = 4, 2, 16  # onnxruntime wants multiples of 16
ORDER = ["q", "k", "v", "pk", "pv", "last", "total", "cos", "sin"]


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def inputs_of(batch: int, rows: int, past: int, lengths: list[int] | None = None) -> dict[str, Array]:
    """Inputs of a step; ``lengths`` are those of the sequences without the new rows."""
    known = [past] * batch if lengths is None else lengths
    total = max(known) + rows
    return {
        "q": reals(batch, rows, HEADS * WIDTH), "k": reals(batch, rows, GROUPS * WIDTH),
        "v": reals(batch, rows, GROUPS * WIDTH), "pk": reals(batch, GROUPS, past, WIDTH),
        "pv": reals(batch, GROUPS, past, WIDTH), "last": np.array([n + rows - 1 for n in known], np.int32),
        "total": np.array(total, np.int32), "cos": reals(64, WIDTH // 2), "sin": reals(64, WIDTH // 2),
    }  # fmt: skip


def compare(inputs: dict[str, Array], order: list[str] = ORDER, **attributes: Any) -> None:
    """Compares the output, and of the caches the rows that are known, with onnxruntime."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, **attributes}
    model = one_node(
        "GroupQueryAttention", inputs, outputs=("y", "ok", "ov"), order=order, constants=["total"],
        domain="com.microsoft", **attributes,
    )  # fmt: skip
    for info in model.graph.output:
        kind = helper.np_dtype_to_tensor_dtype(inputs["q"].dtype)
        info.type.tensor_type.elem_type = kind
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {p.name: inputs[p.name] for p in model.graph.input}
    want = dict(zip(("y", "ok", "ov"), session.run(None, given), strict=True))
    _, got = run(model, inputs)
    tolerance = 1e-4 if inputs["q"].dtype == np.float32 else 3e-3
    if inputs["q"].shape[0] == 1:  # where all rows of the cache are known
        record(model, inputs, [*want.values()], tolerance)
    agree(got["y"], want["y"], tolerance)
    for name in ("ok", "ov"):
        assert got[name].shape == want[name].shape
        for b, last in enumerate(inputs["last"].reshape(-1)):
            agree(got[name][b, :, : last + 1], want[name][b, :, : last + 1], tolerance)


@pytest.mark.parametrize(("batch", "rows", "past"), [(1, 5, 0), (2, 5, 0), (1, 1, 6), (3, 1, 6), (1, 3, 6)])
@pytest.mark.parametrize("rotary", [0, 1])
def test_steps(batch: int, rows: int, past: int, rotary: int) -> None:
    compare(inputs_of(batch, rows, past), do_rotary=rotary)


def test_sequences_of_several_lengths() -> None:
    compare(inputs_of(3, 1, 7, [7, 2, 4]), do_rotary=1, rotary_interleaved=1)


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("window", [1, 3, 64])
def test_windows(rows: int, window: int) -> None:
    compare(inputs_of(1, rows, 5 if rows == 1 else 0), local_window_size=window)


@pytest.mark.parametrize("how", ["cap", "scale", "smooth", "sink", "bias", "places", "both ways"])
def test_variants(how: str) -> None:
    inputs, order = inputs_of(2, 4, 0), [*ORDER, "", "", ""]
    given: dict[str, Any] = {
        "cap": {"softcap": 2.0}, "scale": {"scale": 0.7}, "smooth": {"smooth_softmax": 1}, "places": {"do_rotary": 1},
        "both ways": {"causal": 0},
    }.get(how, {})  # fmt: skip
    extra: dict[str, dict[str, tuple[int, Array]]] = {
        "sink": {"s": (11, reals(HEADS))}, "bias": {"b": (10, reals(2, HEADS, 4, 4))},
        "places": {"p": (9, np.broadcast_to(np.arange(4), (2, 4)).copy())},
    }  # fmt: skip
    for name, (at, array) in extra.get(how, {}).items():
        inputs[name], order[at] = array, name
    while not order[-1]:
        order.pop()
    compare(inputs, order, **given)


def test_normalised_heads() -> None:
    """Which onnxruntime has on other processors only: the same queries and keys normalised before."""
    inputs, norms = inputs_of(2, 4, 0), {"qn": reals(WIDTH), "kn": reals(WIDTH)}
    how: dict[str, Any] = {"num_heads": HEADS, "kv_num_heads": GROUPS, "do_rotary": 1, "domain": "com.microsoft"}
    order = [*ORDER, "", "", "", "", "", "qn", "kn"]
    model = one_node("GroupQueryAttention", {**inputs, **norms}, order=order, constants=["total"], **how)
    got = run(model, {**inputs, **norms})[1]["y"]
    for name in "qk":
        heads = inputs[name].reshape(2, 4, -1, WIDTH)
        root = np.sqrt((heads.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6)
        inputs[name] = (heads / root * norms[f"{name}n"]).reshape(inputs[name].shape).astype(np.float32)
    agree(got, run(one_node("GroupQueryAttention", inputs, order=ORDER, constants=["total"], **how), inputs)[1]["y"])


def test_packed_and_half() -> None:
    inputs = inputs_of(2, 3, 0)
    packed = np.concatenate([inputs.pop(n) for n in "qkv"], axis=2)
    compare({"q": packed, **inputs}, ["q", "", "", *ORDER[3:]], do_rotary=1)
    half = {k: v.astype(np.float16) if v.dtype == np.float32 else v for k, v in inputs_of(1, 1, 4).items()}
    compare(half, do_rotary=1)


def exported(rows: int | str, past: int | str) -> onnx.ModelProto:
    """As exporters write it: the lengths follow from a mask of the whole sequence."""
    nodes = [
        helper.make_node("Shape", ["mask"], ["shape"]), helper.make_node("Gather", ["shape", "one"], ["size"]),
        helper.make_node("Cast", ["size"], ["total"], to=onnx.TensorProto.INT32),
        helper.make_node("ReduceSum", ["mask", "axis"], ["sum"], keepdims=0),
        helper.make_node("Sub", ["sum", "one"], ["before"]),
        helper.make_node("Cast", ["before"], ["last"], to=onnx.TensorProto.INT32),
        helper.make_node("GroupQueryAttention", ORDER, ["y", "ok", "ov"], domain="com.microsoft", num_heads=HEADS,
                         kv_num_heads=GROUPS, do_rotary=1),
    ]  # fmt: skip
    real, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    wide = {"q": HEADS, "k": GROUPS, "v": GROUPS}
    params = [helper.make_tensor_value_info(n, real, [1, rows, wide[n] * WIDTH]) for n in "qkv"]
    params += [helper.make_tensor_value_info(n, real, [1, GROUPS, past, WIDTH]) for n in ("pk", "pv")]
    params.append(helper.make_tensor_value_info("mask", whole, [1, "total_len"]))
    angles = np.outer(np.arange(64), 0.5 ** np.arange(WIDTH // 2))
    held = {"one": np.array(1), "axis": np.array([1])}
    held |= {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    graph = helper.make_graph(
        nodes, "g", params, [helper.make_tensor_value_info(n, real, None) for n in ("y", "ok", "ov")],
        [onnx.numpy_helper.from_array(a, n) for n, a in held.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def test_a_decoder_step_by_step() -> None:
    """A prompt, then tokens: as compiled C beside onnxruntime, the cache going around."""
    import onnxruntime

    model = exported("rows", "past")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    cache = {n: np.zeros((1, GROUPS, 0, WIDTH), np.float32) for n in ("pk", "pv")}
    with sdk.compile(model, dims={"rows": (1, 8), "past": (0, 16), "total_len": (1, 24)}) as compiled:
        for rows in (5, 1, 1, 3):
            past = cache["pk"].shape[2]
            inputs = {**inputs_of(1, rows, past), **cache, "mask": np.ones((1, past + rows), np.int64)}
            given = {p.name: inputs[p.name] for p in model.graph.input}
            want = dict(zip(("y", "ok", "ov"), session.run(None, given), strict=True))
            got = compiled(**given)
            for name, array in want.items():
                agree(got[name], array)
            cache = {"pk": got["ok"], "pv": got["ov"]}


def test_refused() -> None:
    inputs = inputs_of(1, 1, 4)
    for given, message in (({"sliding_window_cache": 1}, "cache of the window"), ({"kv_num_heads": 3}, "4 heads of")):
        attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, **given}
        model = one_node("GroupQueryAttention", inputs, order=ORDER, domain="com.microsoft", **attributes)
        with pytest.raises(SdkError, match=message):
            import_onnx(model, "m")


def test_weights_in_groups_of_their_own_order() -> None:
    group = RNG.permutation(np.repeat(np.arange(2), 16)).astype(np.int32)
    inputs = {"x": reals(3, 32), "b": RNG.integers(0, 256, (5, 2, 8)).astype(np.uint8), "s": reals(5, 2), "g": group}
    how: dict[str, Any] = {"K": 32, "N": 5, "bits": 4, "block_size": 16}
    fused("MatMulNBits", inputs, order=["x", "b", "s", "", "g"], constants=["b", "s", "g"], **how)
    # with zero points onnxruntime takes 8 in their place: the formula of its documentation counts
    inputs["z"] = RNG.integers(0, 256, (5, 1)).astype(np.uint8)
    model = one_node(
        "MatMulNBits",
        inputs,
        order=["x", "b", "s", "z", "g"],
        constants=["b", "s", "z", "g"],
        domain="com.microsoft",
        **how,
    )
    weights, zeros = (
        np.stack([v & 15, v >> 4], -1).reshape(5, -1).astype(np.float32) for v in (inputs["b"], inputs["z"])
    )
    want = inputs["x"] @ ((weights - zeros[:, group]) * inputs["s"][:, group]).T
    agree(run(model, inputs)[1]["y"], want)
