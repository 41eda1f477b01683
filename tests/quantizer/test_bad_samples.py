"""What the quantiser refuses: samples, options and models, each with what to do."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float_nets import DIGITS, net, node

import sdk
from sdk.errors import BuildError, SdkError, UsageError
from sdk.graph import Entry, ModuleBuilder, f32, i32
from sdk.quantizer.data import read_npz
from sdk.quantizer.engine import fixed
from sdk.quantizer.export import exported
from sdk.quantizer.prepare import prepared
from sdk.quantizer.source import model_file

X = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
DENSE = net(
    [node("Gemm", "x w", "y")], [2, 3], ["y"], w=np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "the arrays of the data are not the inputs of the model"),
        ({"x": X, "z": X}, "the arrays of the data are not the inputs of the model"),
        ({"x": X[:, :2]}, "the samples of x have the shape [6, 2], the model wants [2, 3]"),
        ({"x": X[0]}, "the samples of x have the shape"),
        ({"x": X[:0]}, "every input needs as many samples as the others"),
        ({"x": X[:1]}, "there are fewer samples than a run of the model takes"),
        ({"x": np.where(X > 1, np.nan, X)}, "the samples of x hold NaN or infinities"),
        ({"x": X.astype(np.complex64)}, "the samples of x are complex64"),
        ([X], "samples are arrays by name, not a list"),
    ],
)
def test_samples(data: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        sdk.quantize(DENSE, data)
    assert words in caught.value.message
    assert caught.value.hint


def test_integers_must_fit_the_input() -> None:
    ids = onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT8, [1, 2])
    model = net([node("Gather", "t ids", "r"), node("MatMul", "r w", "y")], [1], ["y"], t=X, w=X.T.copy())
    model.graph.input[0].CopyFrom(ids)
    assert sdk.quantize(model, {"ids": np.zeros((3, 2), np.int64)}).report.samples == 3
    with pytest.raises(UsageError, match="samples of ids leave the range of int8"):
        sdk.quantize(model, {"ids": np.full((3, 2), 300)})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"to": "int7"}, "to cannot be 'int7'"),
        ({"range": "all"}, "range cannot be 'all'"),
        ({"percentile": 50}, "a percentile of 50"),
        ({"group": 33}, "groups of 33 weights"),
        ({"keep_above": float("nan")}, "nan is no number of dB"),
        ({"to": "w8", "equalise": True}, "equalise is for activations, w8 quantises weights alone"),
        ({"to": "w4", "range": "mse"}, "range is for activations"),
        ({"keep": "nothing"}, "the model has no layer nothing"),
        ({"labels": "z"}, "the arrays of the data are not"),
        ({"labels": "none"}, "the data has no array none"),
        ({"labels": "few"}, "2 labels for 6 samples"),
        ({"labels": "hot"}, "hot is float64[6, 2]"),
    ],
)
def test_options(given: dict[str, Any], words: str) -> None:
    more = {"few": np.arange(2), "hot": np.zeros((6, 2)), "z": np.zeros(6)}
    data = {"x": X, **({given["labels"]: more[given["labels"]]} if given.get("labels") in ("few", "hot") else {})}
    if given.get("labels") == "z":
        data["more"] = X
    with pytest.raises(UsageError) as caught:
        sdk.quantize(DENSE, data, **given)
    assert words in caught.value.message


def test_a_name_nearly_right_is_suggested() -> None:
    with pytest.raises(UsageError) as caught:
        sdk.quantize(onnx.load(DIGITS / "digits.onnx"), {"image": np.zeros((4, 1, 8, 8))}, keep=["conv"])
    assert "conv1" in (caught.value.hint or "")


def test_files(tmp_path: Path) -> None:
    cases: dict[str, Callable[[Path], object]] = {
        "is no .npz file of arrays": lambda p: p.write_bytes(b"nothing"),
        "is no .npz file": lambda p: np.savez(p, x=np.asarray(["text"])),
        "no .npz file of": lambda p: np.savez(p, x=np.asarray([None, {}]), allow_pickle=True),
        "calib.npz is no .npz file": _short,
        "the file of samples is too large": _bomb,
    }
    for words, write in cases.items():
        path = tmp_path / "calib.npz"
        write(path)
        with pytest.raises(UsageError) as caught:
            read_npz(path)
        assert words in caught.value.message
        path.unlink()
    with pytest.raises(UsageError, match=r"cannot read .*calib\.npz"):
        read_npz(tmp_path / "calib.npz")
    (tmp_path / "file").write_text("")
    made = sdk.quantize(DENSE, {"x": X})
    with pytest.raises(UsageError, match="cannot write"):
        made.save(tmp_path / "file" / "out.onnx")


def _short(path: Path) -> None:
    """An array that says that it has more elements than there are."""
    np.savez(path, x=np.zeros(16, np.uint8))
    with zipfile.ZipFile(path) as archive:
        data = archive.read("x.npy").replace(b"(16,)", b"(99,)")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", data)


def _bomb(path: Path) -> None:
    """An archive that says that it holds 3 GiB."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"12345678")
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02") + 24  # the unpacked size, in the directory at the end
    data[at : at + 4] = (3 << 30).to_bytes(4, "little")
    path.write_bytes(bytes(data))


def test_models() -> None:
    with pytest.raises(UsageError, match="the model is quantised already"):
        sdk.quantize(sdk.quantize(DENSE, {"x": X}).model, {"x": X})
    with pytest.raises(UsageError, match="the model is quantised already"):
        sdk.quantize(DIGITS / "digits_int8.tflite", {"image": np.zeros((1, 8, 8, 1), np.int8)})
    with pytest.raises(UsageError, match="a int is no model"):
        model_file(3)
    softmax = net([node("Softmax", "x", "y")], [2, 3], ["y"])
    with pytest.raises(UsageError, match="no layer of the model has integer kernels"):
        sdk.quantize(softmax, {"x": X})
    with pytest.raises(UsageError, match="no layer of the model has constant weights"):
        sdk.quantize(softmax, {"x": X}, to="w8")
    roots = net([node("Sqrt", "x", "r"), node("Gemm", "r w", "y")], [2, 3], ["y"], w=X.T.copy())
    with pytest.raises(BuildError, match="the tensor r is not finite"):
        sdk.quantize(roots, {"x": X})
    spoilt = np.where(X.T > 1, np.nan, X.T).astype(np.float32)
    for to in ("int8", "w8"):
        with pytest.raises(BuildError, match="the constant w holds NaN or infinities"):
            sdk.quantize(net([node("Gemm", "x w", "y")], [2, 3], ["y"], w=spoilt), {"x": X}, to=to)
    mixed = net([node("Gemm", "x w", "m"), node("ReduceMax", "m", "y")], [2, 3], ["y"], w=X.T.copy())
    with pytest.raises(UsageError, match="the first output has 1 elements for 2 samples"):
        sdk.quantize(mixed, {"x": X, "l": np.arange(6)}, labels="l")
    text = net([node("Identity", "x", "y")], [2], ["y"])
    with pytest.raises(UsageError, match="the model has no inputs"):
        sdk.quantize(net([], [2], ["w"], x=X, w=X), {})
    text.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    with pytest.raises(UsageError, match="the input x has elements of type string"):
        sdk.quantize(text, {"x": np.zeros((4,))})
    strange = net([node("Wobble", "x", "y")], [2, 3], ["y"], 9)
    with pytest.raises(BuildError, match="converting it to opset 13 fails"):
        prepared(strange, 13)
    with pytest.raises(BuildError, match="the input x cannot have the shape"):
        fixed(DENSE, {"x": (2, 4)})


def _module(build: Callable[[ModuleBuilder, Entry], None]) -> Any:
    g = ModuleBuilder("m")
    with g.entry("main") as e:
        build(g, e)
    return g.module()


def _state(g: ModuleBuilder, e: Entry) -> None:
    kept = g.state("kept", f32, (1, 4))
    e.write(kept, e.input("x", f32, (1, 4)))
    e.output("y", e.read(kept))


def _bound(g: ModuleBuilder, e: Entry) -> None:
    n = g.dim("n", 1, 4)
    e.output("y", e.match_cast(e.input("x", f32, (g.dim("m", 1, 4),)), (n,)))


def _open(g: ModuleBuilder, e: Entry) -> None:
    n, m = g.dim("n", 1, 4), g.dim("m", 1, 4)
    e.output("y", e.reshape(e.input("x", f32, (n, m)), shape=(m, n)))


def _size(g: ModuleBuilder, e: Entry) -> None:
    e.output("y", e.relu(e.input("x", f32, (g.dim("n", 1, 4) + 1,))))


def _spread(g: ModuleBuilder, e: Entry) -> None:
    e.output("y", e.broadcast_to(e.input("x", f32, (1,)), shape=(g.dim("n", 1, 4),)))


def _depthwise(g: ModuleBuilder, e: Entry) -> None:
    x, w, b = e.input("x", f32, (1, 4, 4, 2)), e.input("w", f32, (1, 1, 2)), e.input("b", f32, (2,))
    given = {"stride": (1, 1), "dilation": (1, 1), "pad": (0, 0, 0, 0), "multiplier": 1}
    e.output("y", e.depthwise_conv2d(x, w, b, **given))


def _transposed(g: ModuleBuilder, e: Entry) -> None:
    x, w, b = e.input("x", f32, (1, 4, 4, 2)), e.input("w", f32, (2, 1, 1, 2)), e.input("b", f32, (2,))
    given = {"stride": (1, 1), "dilation": (1, 1), "pad": (0, 0, 0, 0), "more": (0, 0)}
    e.output("y", e.conv_transpose2d(x, w, b, **given))


def _resample(g: ModuleBuilder, e: Entry) -> None:
    x, index, weight = e.input("x", f32, (3, 4)), e.input("i", i32, (7, 2)), e.input("w", f32, (7, 2))
    e.output("y", e.resample(x, index, weight, axis=1))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (_state, "a model that keeps state from run to run cannot be quantised"),
        (_bound, "sizes that a run computes cannot be written as ONNX"),
        (_open, "has several open sizes"),
        (_size, "of y cannot be written as ONNX"),
        (_spread, "depends on an open size"),
        (lambda g, e: e.output("y", e.det(e.input("x", f32, (4, 4)))), "1 kinds of operations cannot be written"),
        (lambda g, e: e.output("y", e.cast(e.input("x", f32, (4,)), to="i32")), "floats cut off to i32"),
        (_depthwise, "weights that are no constants cannot be written as ONNX"),
        (_transposed, "weights that are no constants cannot be written as ONNX"),
        (_resample, "this resampling cannot be written as ONNX"),
        (
            lambda g, e: e.output("y", e.depth_to_space(e.input("x", f32, (1, 2, 3, 12)), block=(2, 3))),
            "blocks of (2, 3) cannot be written",
        ),
    ],
)
def test_what_cannot_be_written(build: Callable[[ModuleBuilder, Entry], None], words: str) -> None:
    with pytest.raises(SdkError) as caught:
        exported(_module(build))
    assert words in caught.value.message
    assert caught.value.hint
