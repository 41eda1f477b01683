"""Folders of models: every file gets a row on every core, and the real models are exact on all of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from differential.cores import CORES
from generate import generate

from wild.command import files_in, main, table
from wild.survey import Row, survey

ON_TWO = [("m4", "zig"), ("avx2", "gcc")]
ALL = [(name, compiler) for name, core in CORES.items() for compiler in core.compilers]
CASES = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wild")
    (place / "deeper").mkdir()
    good = generate(3, "int8").data()
    (place / "good.tflite").write_bytes(good)
    (place / "deeper" / "reals.onnx").write_bytes(generate(3, "onnx-float").data())
    (place / "cut.tflite").write_bytes(good[: len(good) // 2])
    (place / "noise.onnx").write_bytes(bytes(range(256)))
    (place / "notes.txt").write_text("no model")
    return place


@pytest.mark.emulator
def test_every_file_of_a_folder_gets_its_verdict(folder: Path) -> None:
    found = {p.name: [(r.core, r.verdict) for r in survey(p, ON_TWO, 6, 1, 120.0)] for p in files_in(folder)}
    assert found.keys() == {"good.tflite", "reals.onnx", "cut.tflite", "noise.onnx"}
    assert found["good.tflite"] == [("m4", "exact"), ("avx2", "exact")]
    assert {v for _, v in found["reals.onnx"]} <= {"exact", "within bound"}
    assert found["cut.tflite"] == found["noise.onnx"] == [("m4", "refused"), ("avx2", "refused")]


@pytest.mark.emulator
def test_the_command_and_its_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder), "--core", "m3", "--compiler", "gcc", "--cases", "4", "--jobs", "1", "--each"]) == 0
    out = capsys.readouterr().out
    assert "good.tflite" in out
    for name in ("cut.tflite", "noise.onnx"):
        assert any(line.startswith(name) and " refused: " in line for line in out.splitlines()), out
    with pytest.raises(SystemExit):
        main([str(folder / "good.tflite")])


def test_a_wrong_file_is_named_below_the_table() -> None:
    rows = [Row("a.tflite", "m4", "zig", "wrong", "3 differ"), Row("b.tflite", "m4", "zig", "exact", "engine")]
    assert table(rows).splitlines()[-1] == "a.tflite on m4, zig: wrong: 3 differ"


def test_a_file_that_ends_its_process_is_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wild.survey._expected", lambda *_: os.abort())
    rows = survey(tmp_path / "x.tflite", ON_TWO, 1, 0, 30.0)
    assert [r.verdict for r in rows] == ["crash", "crash"]
    assert rows[0].detail == "SIGABRT"


REAL = (
    "kws_ref_model", "vww_96_int8", "pretrainedResnet_quant", "ad01_int8", "str_ww_ref_model", "person_detect",
    "micro_speech_quantized", "hello_world_int8", "okay_nabu", "wake_vad",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.emulator
@pytest.mark.parametrize("name", REAL)
def test_real_models_are_exact_wherever_they_fit(models: Path, name: str) -> None:
    rows = survey(models / f"{name}.tflite", ALL, CASES, 0, 3600.0)
    assert len(rows) == len(ALL)
    assert [r for r in rows if r.verdict not in ("exact", "too large")] == []
    assert sum(r.verdict == "exact" for r in rows) > len(ALL) // 2
    assert {r.detail for r in rows if r.verdict == "exact"} == {"engine"}
