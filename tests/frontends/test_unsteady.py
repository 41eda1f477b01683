"""How much of LiteRT's results, and of our interpreter's, is chance, and that a difference counts unless it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from tflite_files import VERSIONS, ModelFile

from sdk.boards import load_board
from sdk.driver import verify
from sdk.driver.execute import ROOM, _within
from sdk.driver.options import BuildOptions
from sdk.driver.reference import Interp
from sdk.frontends.base import ModelFile as File
from sdk.frontends.tflite import FRONTEND
from sdk.frontends.tflite.engine import LiteRt
from sdk.frontends.tflite.importer import import_tflite


def scaled(by: float) -> bytes:
    """What is left of numbers near 1, times ``by``."""
    m = ModelFile()
    left = m.tensor("left", (2, 3), "float32")
    m.op("SUB", [m.input("x", (2, 3), "float32"), m.const("one", np.float32(1), "float32")], [left], "SubOptions")
    m.op("MUL", [left, m.const("by", np.float32(by), "float32")], [m.output("y", (2, 3), "float32")], "MulOptions")
    return m.build()


def moved(data: bytes, x: np.ndarray[Any, Any], ours: bool = False) -> dict[str, float] | None:
    module = import_tflite(data, "m")
    graph = module.graphs["main"]
    if ours:
        return Interp(module, "main").moved({graph.params[0].name: x}, {})
    return LiteRt(File(Path("m.tflite"), data, FRONTEND), graph).moved({graph.params[0].name: x}, {})


def test_what_last_bits_make() -> None:
    x = np.full((2, 3), 1.25, np.float32)
    step = float(np.spacing(np.float32(1.25)))
    for by, ours in ((1.0, False), (1e6, False), (1e6, True)):
        found = moved(scaled(by), x, ours)
        assert found is not None
        assert 0.5 * by * step <= found["y"] <= 2 * by * step


def test_integers_and_models_with_state_are_not_asked() -> None:
    m = ModelFile()
    m.op("ABS", [m.input("x", (2,), "int32")], [m.output("y", (2,), "int32")])
    assert moved(m.build(), np.zeros(2, np.int32)) is None
    m = ModelFile()
    state = m.tensor("state", (1, 4), "float32", variable=True)
    weights = [m.const(name, np.ones(shape), "float32") for name, shape in (("f", (2, 3)), ("t", (2, 2)))]
    ins = [m.input("x", (1, 3), "float32"), *weights, -1, state]
    m.op("SVDF", ins, [m.output("y", (1, 2), "float32")], "SVDFOptions", Rank=1)
    for ours in (False, True):
        assert moved(m.build(), np.zeros((1, 3), np.float32), ours) is None


def test_what_is_taken_for_the_same() -> None:
    found = {"a": (0.5, 0.4, False), "b": (0.0, 0.0, True), "c": (float("inf"), float("inf"), False)}
    assert [ok for _, _, ok in _within(found, {}).values()] == [False, True, False]
    assert [ok for _, _, ok in _within(found, {"a": 0.5 / ROOM, "c": 9.0}).values()] == [True, True, False]
    assert not _within(found, {"a": 0.4 / ROOM})["a"][2]


def orders(by: float) -> bytes:
    """The difference of two sums of the same products in different orders, times ``by``: rounding, and nothing else."""
    m, rng, size = ModelFile(), np.random.default_rng(0), 512
    weights, order = rng.standard_normal((8, size)), rng.permutation(size)
    x, turned = m.input("x", (2, size), "float32"), m.tensor("turned", (2, size), "float32")
    m.op("GATHER", [x, m.const("order", order)], [turned], "GatherOptions", Axis=1)
    sums = [m.tensor(name, (2, 8), "float32") for name in "ab"]
    for source, taps, out in zip((x, turned), (weights, weights[:, order]), sums, strict=True):
        taps = m.const(f"w{out}", taps, "float32")
        m.op("FULLY_CONNECTED", [source, taps, -1], [out], "FullyConnectedOptions")
    left = m.tensor("left", (2, 8), "float32")
    m.op("SUB", sums, [left], "SubOptions")
    m.op("MUL", [left, m.const("by", np.float32(by), "float32")], [m.output("y", (2, 8), "float32")], "MulOptions")
    return m.build()


def test_verify(tmp_path: Path) -> None:
    """Rounding that is scaled up is told as such; what last bits make nothing of has to agree as ever."""
    path = tmp_path / "m.tflite"
    for data, unsteady in ((orders(1e4), 1), (scaled(1e3), 0)):
        path.write_bytes(data)
        report = verify(path, load_board("host"), None, BuildOptions(), "litert", 1)
        assert (report.passed, report.unsteady_cases) == (True, unsteady)
        assert report.to_json()["unsteady_cases"] == unsteady


def test_versions_that_reference_kernels_are_not_listed_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """They compute the operator all the same: the usual kernels may round otherwise, and are asked only for others."""
    for name, kernels in (("DEPTH_TO_SPACE", "reference"), ("ELU", "builtin")):
        monkeypatch.setitem(VERSIONS, getattr(tflite.BuiltinOperator, name), 2 if kernels == "reference" else 1)
        m, deep = ModelFile(), name == "DEPTH_TO_SPACE"
        y = m.output("y", (1, 4, 4, 2) if deep else (1, 2, 2, 8), "float32")
        options = {"options": "DepthToSpaceOptions", "BlockSize": 2} if deep else {}
        m.op(name, [m.input("x", (1, 2, 2, 8), "float32")], [y], **options)
        graph = import_tflite(m.build(), "m").graphs["main"]
        engine = LiteRt(File(Path("m.tflite"), m.build(), FRONTEND), graph)
        assert engine.options["kernels"] == kernels
        found = engine.step({"x": np.ones((1, 2, 2, 8), np.float32)}, {})["y"]
        np.testing.assert_array_equal(found, 1)
