"""Whole ONNX networks, compiled once: equal to onnxruntime at every size, safe outside their bounds, no allocation."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
pytest.importorskip("torch")

import onnxruntime
from zoo.export import path_of

import sdk
from sdk.boards import load_board
from sdk.driver import BuildOptions, build
from sdk.driver.artifact import build_sources
from sdk.driver.sources import compile_sources
from sdk.errors import UsageError
from sdk.toolchains import BuildCache, get_toolchain, target_for
from sdk.toolchains.elf import ElfFile

SEQ = {"seq": (1, 256)}
BOTH = {"batch": (1, 4), "seq": (1, 256)}
SIZE = {"height": (64, 256, 32), "width": (64, 256, 32)}
Arrays = dict[str, np.ndarray]


@lru_cache(maxsize=1)
def reference(name: str) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path_of(name)), providers=["CPUExecutionProvider"])


def inputs_of(name: str, *shape: int) -> Arrays:
    """Random inputs; texts of which the last third is masked, as after padding."""
    rng = np.random.default_rng(sum(shape))
    if not name.startswith("encoder"):
        return {"x": rng.standard_normal(shape).astype(np.float32)}
    mask = np.ones(shape, np.int64)
    mask[:, shape[1] - shape[1] // 3 :] = 0
    return {"input_ids": rng.integers(0, 1000, shape), "attention_mask": mask}


def near(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape
    assert np.isfinite(want).all()
    assert np.abs(got - want).max() <= 1e-4 * max(1.0, float(np.abs(want).max()))


def agrees(model: sdk.Model, name: str, *shape: int) -> None:
    inputs = inputs_of(name, *shape)
    session = reference(name)
    want = session.run(None, inputs)
    got = model(**inputs)
    assert list(got) == [o.name for o in session.get_outputs()]
    for found, value in zip(got.values(), want, strict=True):
        near(found, value)


def forbid_builds_and_agents(patch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("something was built or started")

    patch.setattr(BuildCache, "entry", fail)
    patch.setattr(subprocess, "Popen", fail)


def test_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    with sdk.compile(path_of("encoder"), dims=SEQ) as model:
        agrees(model, "encoder", 1, 1)
        forbid_builds_and_agents(monkeypatch)
        for seq in (7, 64, 128, 255, 256, 1):
            agrees(model, "encoder", 1, seq)
        for seq in (257, 0):
            ids = np.zeros((1, seq), np.int64)
            with pytest.raises(UsageError) as error:
                model(input_ids=ids, attention_mask=ids)
            assert f"input_ids axis 1 makes seq = {seq}, outside its bounds 1..256" in str(error.value)
        agrees(model, "encoder", 1, 100)


def test_encoder_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    with sdk.compile(path_of("encoder_batch"), dims=BOTH) as model:
        agrees(model, "encoder_batch", 1, 1)
        forbid_builds_and_agents(monkeypatch)
        for batch, seq in ((1, 64), (2, 7), (3, 255), (4, 256)):
            agrees(model, "encoder_batch", batch, seq)
        with pytest.raises(UsageError, match=r"input_ids axis 0 makes batch = 5, outside its bounds 1\.\.4"):
            model(**inputs_of("encoder_batch", 5, 7))


@pytest.mark.parametrize("name", ["mobilenetv2", pytest.param("resnet50", marks=pytest.mark.slow)])
def test_image_net(name: str) -> None:
    with sdk.compile(path_of(name)) as model:
        agrees(model, name, 1, 3, 224, 224)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["mobilenetv2_size", "resnet50_size", "unet_size"])
def test_image_net_of_any_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with sdk.compile(path_of(name), dims=SIZE) as model:
        agrees(model, name, 1, 3, 64, 64)
        forbid_builds_and_agents(monkeypatch)
        for height, width in ((96, 224), (224, 160), (256, 256)):
            agrees(model, name, 1, 3, height, width)
        with pytest.raises(UsageError, match="height"):
            model(**inputs_of(name, 1, 3, 65, 64))


def test_unet() -> None:
    with sdk.compile(path_of("unet")) as model:
        agrees(model, "unet", 1, 3, 64, 64)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_recurrent_net(name: str) -> None:
    with sdk.compile(path_of(name), dims={"steps": (1, 20)}) as model:
        for steps in (1, 2, 13, 20):
            agrees(model, name, 2, steps, 12)


class Dims(ctypes.Structure):
    _fields_ = (("seq", ctypes.c_int32),)


class Library:
    """The encoder's shared library with one instance in guarded memory."""

    def __init__(self, folder: Path) -> None:
        board, options = load_board("host"), BuildOptions(dims=SEQ, name="enc")
        report = build(path_of("encoder"), board, options, emit="lib", out=folder)
        self.c = ctypes.CDLL(str(folder / "libenc.so"))
        self.c.enc_arena_bytes.restype = ctypes.c_size_t
        self.memory = {
            "arena": self._bytes(report.arena_bytes), "state": self._bytes(64), "self": self._bytes(64),
            "ids": self._bytes(8 * 256), "mask": self._bytes(8 * 256), "hidden": self._bytes(4 * 256 * 384),
        }  # fmt: skip
        sizes = ctypes.c_size_t(report.arena_bytes), ctypes.c_size_t(64)
        assert self.c.enc_init(self.at("self"), self.at("arena"), sizes[0], self.at("state"), sizes[1]) == 0

    @staticmethod
    def _bytes(size: int) -> np.ndarray:
        """So many bytes at a multiple of 64, of no particular value."""
        room = np.random.default_rng(size).integers(0, 256, size + 64, dtype=np.uint8)
        start = -room.ctypes.data % 64
        return room[start : start + size]

    def at(self, name: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.memory[name].ctypes.data)

    def run(self, seq: int) -> int:
        given = (ctypes.c_void_p * 2)(self.at("ids"), self.at("mask"))
        wanted = (ctypes.c_void_p * 1)(self.at("hidden"))
        return int(self.c.enc_run(self.at("self"), given, wanted, ctypes.byref(Dims(seq))))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(tmp_path_factory.mktemp("lib"))


def test_lengths_out_of_bounds_leave_memory_untouched(library: Library) -> None:
    dim_seq = -16  # ENC_E_DIM_SEQ, as the header says
    before = {name: value.tobytes() for name, value in library.memory.items()}
    for seq in (257, 0, -1, 1 << 30, -(1 << 31)):
        assert library.run(seq) == dim_seq
        assert {name: value.tobytes() for name, value in library.memory.items()} == before
    inputs = inputs_of("encoder", 1, 9)
    library.memory["ids"][: 8 * 9] = inputs["input_ids"].view(np.uint8).reshape(-1)
    library.memory["mask"][: 8 * 9] = inputs["attention_mask"].view(np.uint8).reshape(-1)
    assert library.run(9) == 0
    (want,) = reference("encoder").run(None, inputs)
    near(library.memory["hidden"][: want.nbytes].view(np.float32).reshape(want.shape), want)
    assert library.memory["hidden"][want.nbytes :].tobytes() == before["hidden"][want.nbytes :]


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["encoder", "mobilenetv2"])
def test_objects_call_no_library(name: str) -> None:
    board, options = load_board("host"), BuildOptions(dims=SEQ if name == "encoder" else {}, name="net")
    sources = build_sources(path_of(name), board, options).sources.model
    files = [ElfFile(o.path) for o in compile_sources(sources, get_toolchain("zig"), target_for(board), pic=True)]
    symbols = [s for f in files for s in f.symbols if s.name]
    undefined = {s.name for s in symbols if s.section == 0} - {s.name for s in symbols if s.section}
    assert "net_run" in {s.name for s in symbols}
    assert undefined <= {"memcpy", "memmove", "memset", "_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("board", "name"),
    [
        ("wasm32", "encoder"),
        pytest.param("aarch64-linux", "mobilenetv2_size", marks=pytest.mark.slow),
        pytest.param("aarch64-linux", "encoder", marks=pytest.mark.slow),
        pytest.param("wasm32", "mobilenetv2_size", marks=pytest.mark.slow),
    ],
)
def test_other_processors_equal_the_host(board: str, name: str) -> None:
    dims, shapes = {
        "encoder": (SEQ, [(1, 1), (1, 7), (1, 64)]),
        "mobilenetv2_size": (SIZE, [(1, 3, 64, 64), (1, 3, 96, 64)]),
    }[name]
    with (
        sdk.compile(path_of(name), dims=dims) as host,
        sdk.compile(path_of(name), board=board, dims=dims) as other,
    ):
        for shape in shapes:
            inputs = inputs_of(name, *shape)
            for found, value in zip(other(**inputs).values(), host(**inputs).values(), strict=True):
                near(found, value)
