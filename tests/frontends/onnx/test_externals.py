"""Data in files beside an ONNX model: regular files of its folder only, looked at before they are opened or read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import model_of
from onnx import TensorProto, helper

from sdk.errors import SdkError
from sdk.frontends.onnx import externals
from sdk.frontends.onnx.externals import Place, read_places
from sdk.frontends.onnx.importer import import_onnx
from sdk.frontends.onnx.reader import embedded, read_externals

SIZE = 48


def lying(location: str, offset: object = 0, length: object = SIZE, dims: tuple[int, ...] = (3, 4)) -> onnx.ModelProto:
    """y = x @ w whose w lies at a place beside it."""
    weights = {"x": np.ones((2, 3), np.float32), "w": np.ones((3, 4), np.float32)}
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], weights, ["y"], constants=["w"])
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.dims[:] = dims
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": offset, "length": length}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model


def refused(model: onnx.ModelProto, folder: Path) -> str:
    with pytest.raises(SdkError) as error:
        import_onnx(model, "m", folder=folder)
    return str(error.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a model, with a file of ones in a folder of its own; a secret is outside."""
    (tmp_path / "secret").write_bytes(bytes(64))
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "data").write_bytes(bytes(64))
    inner = tmp_path / "model"
    (inner / "deep").mkdir(parents=True)
    (inner / "deep" / "data").write_bytes(np.ones(12, np.float32).tobytes())
    return inner


@pytest.mark.parametrize("location", ["deep/data", "./deep/../deep/data", "deep//data", "link", "around/data"])
def test_what_is_in_the_folder_is_read(folder: Path, location: str) -> None:
    (folder / "link").symlink_to("deep/data")
    (folder / "around").symlink_to(folder / "deep")
    module = import_onnx(lying(location), "m", folder=folder)
    assert [c.data.tolist() for c in module.consts.values()] == [np.ones((3, 4)).tolist()]


@pytest.mark.parametrize(
    "location", ["../secret", "deep/../../secret", "/etc/passwd", "out", "outer/data", "", ".", "/", "deep/.."]
)
def test_what_is_outside_is_not(folder: Path, location: str) -> None:
    (folder / "out").symlink_to("../secret")
    (folder / "outer").symlink_to("../outer")
    assert "outside the model's folder" in refused(lying(location), folder)


def test_a_pipe_a_folder_a_device_and_no_file(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "loop").symlink_to("loop")
    assert "it is no regular file" in refused(lying("pipe"), folder)
    assert "it is no regular file" in refused(lying("deep"), folder)
    assert "outside the model's folder" in refused(lying("zero"), folder)
    for location in ("loop", "none", "deep/data/more", "n" * 5000, "a\0b"):
        assert "cannot be read" in refused(lying(location), folder), location


def test_a_device_in_the_folder(folder: Path) -> None:
    try:
        os.mknod(folder / "zero", 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        os.mkfifo(folder / "zero")  # only root makes devices
    assert "it is no regular file" in refused(lying("zero"), folder)


@pytest.mark.parametrize("what", ["deep", "deep/data"])
def test_exchanged_for_a_link_after_it_was_checked(folder: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.path.realpath

    def exchanging(path: object) -> str:
        found = real(path)
        if str(path).endswith("deep/data"):
            (folder / what).rename(folder / "before")
            (folder / what).symlink_to(folder.parent / "outer" / what.removeprefix("deep").strip("/"))
        return found

    monkeypatch.setattr(os.path, "realpath", exchanging)
    assert "cannot be read" in refused(lying("deep/data"), folder)


@pytest.mark.parametrize(
    ("offset", "length", "says"),
    [
        (4, SIZE, "ends 4 bytes early in 'deep/data'"),
        (1 << 40, SIZE, "bytes early"),
        ((1 << 63) - 1, SIZE, "bytes early"),
        (1 << 64, SIZE, "its shape needs 48"),
        (-1, SIZE, "its shape needs 48"),
        (0, 47, "its shape needs 48"),
        (0, -48, "its shape needs 48"),
        (0, 1 << 62, "its shape needs 48"),
        ("0x10", SIZE, "no proper place"),
        ("9" * 5000, SIZE, "no proper place"),
        (0, "", "no proper place"),
    ],
)
def test_places_that_no_file_has(folder: Path, offset: object, length: object, says: str) -> None:
    assert says in refused(lying("deep/data", offset, length), folder)


def test_nothing_of_a_file_too_large_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "big.bin").open("wb") as file:
        file.truncate(6 << 30)
    monkeypatch.setattr(os, "pread", lambda *_: pytest.fail("it is read"))
    assert "more than 2147483647 bytes" in refused(lying("big.bin", 0, 1 << 32, (1 << 15, 1 << 15)), folder)
    half = Place("big.bin", 0, 1 << 30)
    found = read_places([half, half._replace(offset=1 << 31), half._replace(offset=5 << 30)], folder)
    assert not found.stretches
    with pytest.raises(SdkError, match=r"it is in 'big\.bin', with which the model has more than 2147483647 bytes"):
        found.at(half, "it")


def test_only_what_is_declared_is_read_and_that_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "data").write_bytes(bytes(range(256)))
    seen: list[tuple[int, int]] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: seen.append((at, size)) or pread(file, size, at))
    places = [Place("data", 10, 20), Place("data", 20, 20), Place("data", 40, 1), Place("data", 100, 0)]
    found = read_places([*places, Place("data", 12, 4), Place("data", 200, 56)], folder)
    assert seen == [(10, 31), (200, 56)]
    for place in places:
        assert bytes(found.at(place, "it")) == bytes(range(place.offset, place.end))
    with pytest.raises(SdkError, match="it is in the file 'data'"):
        found.at(Place("data", 0, 4), "it")


def test_a_file_cut_while_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(externals, "size_of", lambda _: 1000)
    found = read_places([Place("deep/data", 0, 1000)], folder)
    with pytest.raises(SdkError, match="it cannot be read") as caught:
        found.at(Place("deep/data", 0, 1000), "it")
    assert caught.value.why == "it was cut while it was read"


def test_long_reads_come_in_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(externals, "ONE_READ", 7)
    place = Place("deep/data", 1, 40)
    assert bytes(read_places([place], folder).at(place, "it")) == np.ones(12, np.float32).tobytes()[1:41]


def test_the_digest_is_of_all_that_was_read_and_of_what_was_not(folder: Path) -> None:
    def digest(*places: Place) -> str:
        return read_places(places, folder).digest

    known = {digest(Place("deep/data", 0, 8)), digest(Place("deep/data", 0, 9)), digest(Place("deep/data", 1, 8))}
    known |= {digest(Place("none", 0, 8)), digest(Place("none", 0, 9)), digest()}
    assert len(known) == 6
    before = digest(Place("deep/data", 0, 8))
    (folder / "deep" / "data").write_bytes(bytes(48))
    assert digest(Place("deep/data", 0, 8)) != before


def test_a_model_with_its_data_inside(folder: Path) -> None:
    model = lying("deep/data")
    whole = embedded(model.SerializeToString(), read_externals(model, folder))
    assert import_onnx(whole, "m") == import_onnx(model, "m", folder=folder)
    with pytest.raises(SdkError, match="cannot be read"):
        embedded(lying("none").SerializeToString(), read_externals(lying("none"), folder))
