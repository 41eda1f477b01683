"""What goes wrong in a first hour: each mistake made on the real command, its exit code, what it says and whether the
hint, done as it stands, works."""

from __future__ import annotations

import ast
import errno
import functools
import gzip
import io
import json
import os
import pickle
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save_model

import sdk
from sdk.cli import run_command
from sdk.errors import UsageError
from sdk.toolchains import cache

Works = Callable[[str], str]


def zipped(**files: bytes) -> bytes:
    """A zip archive; "__" in a name stands for a dot."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "."), data)
    return buffer.getvalue()


def onnx_model(path: Path, node: Any, shape: tuple[Any, ...], out: tuple[Any, ...], **weights: np.ndarray) -> None:
    """A model of one operator on floats."""
    kind, tensors = TensorProto.FLOAT, [numpy_helper.from_array(value, name) for name, value in weights.items()]
    x, y = (helper.make_tensor_value_info(name, kind, dims) for name, dims in (("x", shape), ("y", out)))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.acme", 1)]
    graph = helper.make_graph([node], "net", [x], [y], tensors)
    save_model(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


@pytest.fixture
def open_model(desk: Path) -> str:
    """A float model of any batch: x is f32[batch, 4]."""
    onnx_model(desk / "open.onnx", helper.make_node("Relu", ["x"], ["y"]), ("batch", 4), ("batch", 4))
    for count in (2, 9):
        np.save(f"x{count}.npy", np.zeros((count, 4), np.float32))
    return "open.onnx"


# --- a file that is no model ------------------------------------------------------------------------------

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
KEYS = zipped(config__json=b"{}", metadata__json=b"{}")
NOT_MODELS: dict[str, tuple[bytes, str, str]] = {
    "net.h5": (b"\x89HDF\r\n\x1a\n" + bytes(99), "Keras or HDF5", "from_keras_model"),
    "net.keras": (KEYS, "Keras", "from_keras_model"),
    "net.pt": (zipped(archive_data__pkl=b"", **{"archive/data__pkl": b""}), "PyTorch", "torch.export"),
    "net.pkl": (pickle.dumps({"w": 1}), "pickle", "torch.export"),
    "net.pb": (b"\x0a\x05\x00\x01", "TensorFlow", "SavedModel"),
    "net.safetensors": (b"\x00" * 40, "weights without a network", "torch.export"),
    "net.zip": (zipped(a__tflite=b"..."), "zip", "unzip net.zip, and give a.tflite"),
    "net.tflite.gz": (gzip.compress(b"model"), "gzip", "gunzip net.tflite.gz"),
    "page.tflite": (b"\n<!DOCTYPE html><html><head></head></html>", "web page", "download the file itself"),
    "lfs.onnx": (LFS, "Git LFS pointer", "git lfs pull --include lfs.onnx"),
    "labels.txt": (b"zero\none\ntwo\n", "text", "programs (.ir), TensorFlow Lite models (.tflite)"),
    "net.json": (b'{"layers": []}', "text", "programs (.ir), TensorFlow Lite models (.tflite)"),
    "llama.gguf": (b"GGUF\3\0\0\0" + bytes(40), "llama.cpp", "ONNX"),
}


@pytest.mark.parametrize("name", NOT_MODELS)
def test_a_file_that_is_no_model(mistake: Any, name: str) -> None:
    data, what, hint = NOT_MODELS[name]
    Path(name).write_bytes(data)
    told = mistake(f"sdk build {name} --board host")
    assert told.code == 2
    assert name in told.message
    assert what in told.why
    assert hint in told.hint
    if "python -c" in told.hint:
        ast.parse(shlex.split(told.command)[2])


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_an_empty_file(mistake: Any, suffix: str) -> None:
    Path(f"net{suffix}").touch()
    told = mistake(f"sdk build net{suffix} --board host")
    assert (told.code, told.where, told.why) == (1, f"net{suffix}", "it has only 0 bytes")
    assert "again" in told.hint
    assert "ONNX models (.onnx)" in told.hint


def test_a_file_of_unknown_contents(mistake: Any) -> None:
    for name in ("net", "net.bin"):
        Path(name).write_bytes(bytes(90))
        told = mistake(f"sdk build {name} --board host")
        assert (told.code, told.message) == (2, f"{name} is not a model this version reads")
        assert "TensorFlow Lite models (.tflite)" in told.hint


@pytest.mark.parametrize("name", ["model", "model.onnx", "model.ir", "model.bin", "model.of us", "model.h5"])
def test_a_model_by_another_name(desk: Path, works: Works, name: str) -> None:
    Path("model.tflite").rename(name)
    works(f"sdk build '{name}' --board host")


def test_an_input_in_the_place_of_the_model(mistake: Any) -> None:
    told = mistake("sdk run image.npy --board host")
    assert told.code == 2
    assert "array" in told.why
    assert "--input NAME=image.npy" in told.hint


def test_folders_in_the_place_of_the_model(mistake: Any, works: Works) -> None:
    told = mistake("sdk build . --board host")
    assert (told.code, told.why) == (2, "it is a folder")
    assert "model.tflite" in told.hint
    Path("saved").mkdir()
    Path("saved/saved_model.pb").touch()
    assert 'from_saved_model("saved")' in mistake("sdk memory saved --board host").hint
    works("sdk build model.tflite --board host -o made")
    assert "sdk build made" in mistake("sdk build made --board host").why
    told = mistake("sdk run saved --board host")
    assert "manifest.json" in told.why
    assert "sdk build MODEL --board B -o" in told.hint


# --- a slip of the fingers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "says", "hint"),
    [
        ("sdk biuld model.tflite --board host", "unknown verb 'biuld'", "did you mean build?"),
        ("sdk compile model.tflite", "unknown verb 'compile'", "did you mean sdk build?"),
        ("sdk test model.tflite", "unknown verb 'test'", "did you mean sdk verify?"),
        ("sdk list", "unknown verb 'list'", "did you mean sdk boards?"),
        ("sdk version", "unknown verb 'version'", "did you mean sdk --version?"),
        ("sdk build model.tflite --board microbti", "unknown board 'microbti'", "did you mean microbit?"),
        ("sdk build model.tflite --bord host", "'--board'", "sdk build --help"),
        ("sdk build modle.tflite --board host", "no such file: modle.tflite", "did you mean model.tflite?"),
        ("sdk build model.tflite", "Missing option '--board'", "sdk boards"),
        ("sdk run model.tflite", "no board and no device", "--board host"),
        ("sdk build --board host", "Missing argument 'MODEL'", "sdk build --help"),
        ("sdk build model.tflite --board host --output x", "No such option '--output'", "sdk build --help"),
        ("sdk build model.tflite other.tflite --board host", "not an entry: 'model.tflite'", "prefill=a.onnx"),
        ("sdk run model.tflite --board host --output", "requires an argument", "sdk run --help"),
        ("sdk build model.tflite --board host --emit elf", "'c', 'lib', 'firmware'", "sdk build --help"),
        ("sdk inspect model.tflite --stage shceduled", "no stage 'shceduled'", "did you mean scheduled"),
        ("sdk build model.tflite --board host --toolchain gc", "unknown toolchain 'gc'", "did you mean gcc?"),
        ("sdk build model.tflite --board host --threads four", "'four'", "sdk build --help"),
        ("sdk completion tcsh", "'bash', 'zsh', 'fish'", "sdk completion --help"),
    ],
)
def test_slips(mistake: Any, line: str, says: str, hint: str) -> None:
    told = mistake(line)
    assert told.code == 2
    assert says in told.message
    assert hint in told.hint


@pytest.mark.parametrize("line", ["sdk model.tflite build", "sdk model.tflite", "sdk boards host"])
def test_words_in_another_order(mistake: Any, works: Works, line: str) -> None:
    told = mistake(line)
    assert told.code == 2
    assert "boards" not in line or told.message == "'host' is a board, where a verb is expected"
    works(told.command if "boards" in line else f"{told.command} --board host")


def test_a_name_that_c_does_not_take(mistake: Any, works: Works) -> None:
    told = mistake("sdk build model.tflite --board host --name my-net.v2")
    assert (told.code, told.where) == (2, "--name")
    works(f"sdk build model.tflite --board host {told.hint.split(': ')[1]}")


def test_errors_for_scripts(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["build", "model.tflite", "--board", "hots", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["error"]["hint"] == "did you mean host?"


# --- sizes and inputs -------------------------------------------------------------------------------------


def test_sizes_left_open(mistake: Any, works: Works, open_model: str) -> None:
    line = f"sdk build {open_model} --board host"
    told = mistake(line)
    assert (told.code, "batch" in told.message) == (2, True)
    works(f"{line} {told.hint.split(': ')[1]}")
    told = mistake(f"{line} --dim n=1:4")
    assert "no dim n" in told.message
    assert "batch" in told.hint
    told = mistake(f"{line} --dim batch=4:1")
    assert told.why == "4 is above 1"
    works(f"{line} {told.hint.removeprefix('write ')}")


@pytest.mark.parametrize(
    ("more", "says", "hint"),
    [
        ("--input x=x9.npy", "batch = 9, outside its bounds 1..4", "--dim batch="),
        ("--input x=x2.npy --at batch=9", "batch=9 is outside 1..4", "--at batch=1"),
        ("--input x=x2.npy --at n=2", "no dimension 'n'", "batch"),
        ("--input x=x2.npy --at batch", "not a value of a dimension", "--at n=64"),
    ],
)
def test_sizes_of_a_run(mistake: Any, open_model: str, more: str, says: str, hint: str) -> None:
    told = mistake(f"sdk run {open_model} --board host --dim batch=1:4 {more}")
    assert told.code == 2
    assert says in told.message
    assert hint in told.hint


def test_no_input(mistake: Any, works: Works) -> None:
    Path("image.npy").unlink()
    told = mistake("sdk run model.tflite --board host")
    assert (told.code, told.why) == (2, "the model wants int8[1, 8, 8, 1]")
    exec(shlex.split(told.command)[2], {})  # the line that makes a file to try with
    works(f"sdk run model.tflite --board host {told.hint.split(',')[0]}")


@pytest.mark.parametrize(
    ("given", "says", "hint"),
    [
        ("image=gray.npy", "float32, the model wants int8", "x / 0.00392156886 + -128"),
        ("image=wide.npy", "int64, the model wants int8", "x.astype('int8')"),
        ("image=flat.npy", "shape [64], the model wants [1, 8, 8, 1]", "x.reshape((1, 8, 8, 1))"),
        ("image=two.npy", "shape [2, 8, 8, 1]", "shape [1, 8, 8, 1]"),
        ("picture=image.npy", "no input 'picture'", "it has image"),
        ("image.npy", "not an input: 'image.npy'", "--input NAME=image.npy"),
        ("image=imgae.npy", "cannot read imgae.npy", "did you mean image.npy?"),
        ("image=table.csv", "cannot read table.csv", "np.save('image.npy', array)"),
        ("image=many.npz", "holds several arrays", "np.save"),
    ],
)
def test_inputs(mistake: Any, given: str, says: str, hint: str) -> None:
    x = np.zeros((1, 8, 8, 1), np.float32)
    np.save("gray.npy", x)
    np.save("wide.npy", x.astype(np.int64))
    np.save("flat.npy", x.astype(np.int8).reshape(-1))
    np.save("two.npy", np.zeros((2, 8, 8, 1), np.int8))
    np.savez("many.npz", a=x, b=x)
    Path("table.csv").write_text("0,0,0\n")
    told = mistake(f"sdk run model.tflite --board host --input {given}")
    assert told.code == 2
    assert says in told.message
    assert hint in told.hint
    if "np.round" in told.hint:
        real = eval(told.hint.split(", for")[0], {"np": np, "x": x + 1})
        assert (real.dtype, int(real.max())) == (np.int8, 127)


# --- what the model is ------------------------------------------------------------------------------------


def test_a_float_model_on_a_tiny_board(mistake: Any, desk: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((784, 100)).astype(np.float32)
    onnx_model(desk / "large.onnx", helper.make_node("MatMul", ["x", "w"], ["y"]), (1, 784), (1, 100), w=weights)
    told = mistake("sdk build large.onnx --board microbit")
    assert told.code == 1
    assert "bytes of flash, microbit has 262,144" in told.message
    assert "313,600 bytes" in told.why
    assert "sdk boards" in told.hint


def test_an_operator_that_is_not_supported(mistake: Any, desk: Path) -> None:
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="frob", domain="com.acme")
    onnx_model(desk / "odd.onnx", node, (1, 4), (1, 4))
    told = mistake("sdk build odd.onnx --board host")
    assert told.code == 1
    assert "cannot be imported: Frobnicate" in told.message
    assert "com.acme::Frobnicate" in told.where
    assert "supported operators" in told.hint


def test_an_entry_that_the_model_lacks(mistake: Any) -> None:
    told = mistake("sdk run model.tflite --board host --entry serving_default --input image=image.npy")
    assert (told.code, told.hint) == (2, "it has main")


# --- devices and tools ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "uri", "says"),
    [
        (2, "/dev/ttyACM0", "'/dev/ttyACM0' is not a device address"),
        (2, "serial:ttyACM0@fast", "is not a device address"),
        (3, "serial:///dev/none", "there is no serial port"),
        (2, "telepathy://127.0.0.1:9", "is not a device address"),
        (3, "tcp://127.0.0.1:9", "no agent answers"),
        (2, "qemu://", "no emulator"),
        (3, "local:./none", "cannot start the agent"),
    ],
)
def test_devices(mistake: Any, code: int, uri: str, says: str) -> None:
    told = mistake(f"sdk run model.tflite --board host --device {uri} --input image=image.npy")
    assert told.code == code
    assert says in told.message


def test_a_device_but_no_board(mistake: Any) -> None:
    assert "--board NAME" in mistake("sdk bench model.tflite --device local:").hint


def test_no_emulator(mistake: Any, works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    told = mistake("sdk run model.tflite --board qemu-cortex-m55 --input image=image.npy")
    assert told.code == 10
    assert "qemu-system-arm is not installed" in told.message
    assert "apt-get install qemu-system-arm" in told.hint
    works("sdk build model.tflite --board qemu-cortex-m55")  # which needs no emulator


# --- places that take nothing -----------------------------------------------------------------------------


def test_an_output_folder_that_is_a_file(mistake: Any, works: Works) -> None:
    told = mistake("sdk build model.tflite --board host -o model.tflite")
    assert (told.code, told.message) == (2, "cannot write model.tflite")
    assert "-o FOLDER" in told.hint
    works("sdk build model.tflite --board host -o folder")


def test_a_folder_that_cannot_be_written(mistake: Any, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = desk / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    monkeypatch.chdir("/proc" if os.geteuid() == 0 else locked)  # nothing is locked for root, but for this
    told = mistake(f"sdk build {desk}/model.tflite --board host")
    assert (told.code, told.message) == (2, "cannot write out")
    assert "-o FOLDER" in told.hint


def test_a_cache_that_cannot_be_written(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLEVEL_CACHE", "model.tflite/cache")
    told = mistake("sdk build model.tflite --board host")
    assert (told.code, told.message) == (2, "cannot write the cache folder model.tflite/cache")
    assert "CROSSLEVEL_CACHE=FOLDER" in told.hint


def test_a_full_cache(mistake: Any, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setenv("CROSSLEVEL_CACHE", str(desk / "cache"))
    monkeypatch.setattr(cache.BuildCache, "_keep", staticmethod(full))
    told = mistake("sdk build model.tflite --board host")
    assert (told.code, told.why) == (2, "No space left on device")
    assert "make room" in told.hint
    assert not list((desk / "cache" / "builds").glob(".new-*"))


def start(line: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs a line of bash in which ``sdk`` is the command, in a process of its own."""
    whole = f'sdk() {{ "{sys.executable}" -m sdk "$@"; }}; {line}'
    return subprocess.run(["bash", "-c", whole], capture_output=True, text=True, check=False, timeout=60, **more)


@pytest.mark.parametrize("options", ["", " --json"])
def test_a_full_disk(options: str) -> None:
    done = start(f"sdk boards{options} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[:2] == ["error: cannot write the output", "  why: No space left on device"]


def test_a_reader_that_stops(desk: Path) -> None:
    done = start("sdk boards | head -1; echo ${PIPESTATUS[0]}; sdk boards >&-; echo $?")
    assert (done.stdout.splitlines()[1:], done.stderr) == (["0", "0"], "")


# --- the same in Python -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "says", "hint"),
    [
        ({"model": "modle.tflite"}, "cannot read modle.tflite", "path"),
        ({"model": np.zeros(3)}, "a ndarray is no model", "path"),
        ({"board": "hots"}, "unknown board 'hots'", "did you mean host?"),
        ({"board": None}, "no board's name", 'board="host"'),
        ({"dims": {"n": "1:4"}}, "not bounds of a dim: '1:4'", '{"n": (1, 256)}'),
        ({"dims": {"n": (4, 1)}}, "not bounds of a dim: (4, 1)", '{"n": (1, 256)}'),
        ({"dims": [("n", 1)]}, "not a list", '{"n": (1, 256)}'),
        ({"threads": "2"}, "'2' threads", "1 to 64"),
    ],
)
def test_compile_in_python(desk: Path, given: dict[str, Any], says: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        sdk.compile(**{"model": "model.tflite", **given})
    assert says in caught.value.message
    assert hint in (caught.value.hint or "")


def test_calls_in_python(desk: Path) -> None:
    image = np.zeros((1, 8, 8, 1), np.int8)
    with pytest.raises(TypeError, match="unexpected keyword argument 'target'"):
        sdk.compile("model.tflite", target="host")
    with sdk.compile("model.tflite") as model:
        calls: list[tuple[Callable[[], object], str, str]] = [
            (functools.partial(model, image), "without a name", "model(x=array)"),
            (functools.partial(model, picture=image), "no input 'picture'", "it has image"),
            (functools.partial(model, image=image.tolist()), "is a list", "np.array(x, 'int8')"),
            (functools.partial(model, image="image.npy"), "is a str", "np.load(x)"),
            (functools.partial(model, image=image.astype(np.uint8)), "uint8", "astype('int8')"),
            (functools.partial(model, image=image[0]), "shape [8, 8, 1]", "reshape"),
            (functools.partial(model.run, None, image), "not a ndarray", '{"x": array}'),
            (functools.partial(model.run, "serve", {"image": image}), "no entry 'serve'", "main"),
            (functools.partial(model.bench, repeat=0), "cannot run 0 times", "repeat=10"),
        ]
        for call, says, hint in calls:
            with pytest.raises(UsageError) as caught:
                call()
            assert says in caught.value.message
            assert hint in (caught.value.hint or "")
        assert model(image=image)["digit"].shape == (1, 10)  # and it goes on


@pytest.mark.parametrize("line", ["boards", "memory model.tflite --board host", "inspect model.tflite", "doctor"])
def test_a_reader_that_has_left_before(desk: Path, line: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        command = [sys.executable, "-m", "sdk", *line.split()]
        done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, check=False, timeout=120)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


def test_names_that_the_locale_has_no_characters_for(desk: Path, works: Works) -> None:
    latin = Path(os.fsdecode(b"mod\xe8le.tflite"))  # bytes that are no UTF-8
    Path("model.tflite").rename(latin)
    works(f"sdk build '{latin}' --board host -o out")
    assert "mod\\xe8le.tflite" in Path("out/mod_le.h").read_text(encoding="utf-8")
    json.loads(works("sdk run out --board host --input image=image.npy --json"))
    # what a locale without other characters makes of a name in UTF-8
    utf8 = Path("modèle.tflite")
    latin.rename(utf8)
    code = "import os, sys; from sdk.cli import main; main()"
    bare = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    line = [sys.executable, "-c", code, "run", str(utf8), "--board", "host", "--input", "image=image.npy"]
    done = subprocess.run(line, env=bare, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
