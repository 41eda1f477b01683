"""Files that are no files, folders that are not one's own, disks that are full: said at once, nothing lost."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from failures import Fails
from onnx import TensorProto, helper

from sdk import files


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model y = x + w whose w is in ``ext.bin`` beside it."""
    w = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    w.external_data.add(key="location", value="ext.bin")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", values[:1], values[1:], [w])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(made, tmp_path / "net.onnx")
    (tmp_path / "ext.bin").write_bytes(np.ones(4, np.float32).tobytes())
    return tmp_path / "net.onnx"


def test_data_beside_a_model_that_is_a_pipe(fails: Fails, model: Path) -> None:
    (model.parent / "ext.bin").unlink()
    os.mkfifo(model.parent / "ext.bin")
    told = ("the data of constant 'w' cannot be read", "ext.bin", "it is no regular file")
    for verb in ("build", "verify", "memory"):
        fails(1, verb, model, "--board", "host", says=told, hints=("beside the model",))


def test_data_beside_a_model_that_is_elsewhere(fails: Fails, model: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "net.onnx").write_bytes(model.read_bytes().replace(b"ext.bin", b"../big1"))
    with (tmp_path / "big1").open("wb") as file:
        file.truncate(6 << 30)
    says = ("is in '../big1', outside the model's folder",)
    fails(1, "build", inner / "net.onnx", "--board", "host", says=says, hints=("beside the model",))


def test_a_cache_that_others_may_write_to(
    fails: Fails, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    monkeypatch.setenv("CROSSLEVEL_CACHE", str(tmp_path / "cache"))
    for line in (("build", digits, "--board", "host"), ("run", digits, "--board", "host")):
        fails(2, *line, says=("is not safe", "others may write"), hints=("chmod go-w", "mktemp -d"))
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("option", ["--html", "--svg"])
def test_a_full_disk_leaves_an_old_plot(
    fails: Fails, digits: Path, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "replace", full)
    says = ("cannot write", option, "No space left")
    fails(2, "inspect", digits, option, tmp_path / "old", says=says, hints=("name a file",))
    assert (tmp_path / "old").read_text() == "old"
    assert os.listdir(tmp_path) == ["old"]
