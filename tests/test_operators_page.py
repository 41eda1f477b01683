"""The page of operators is that of the importers' tables."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from sdk.frontends.tflite.operators import OPERATORS

SCRIPT = Path(__file__).resolve().parent.parent / "docs" / "operators.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("operators_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_not_stale(script: ModuleType) -> None:
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run: python docs/operators.py"


def test_it_follows_the_tables(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATORS, "WOBBLE", OPERATORS["ADD"])
    monkeypatch.delitem(script.ONNX, "Relu")
    page = script.page()
    assert "| `WOBBLE` | 2 | yes | yes |" in page
    assert "| `Relu` | 6, 13, 14 |" in script.PAGE.read_text(encoding="utf-8")
    before, after = page.split("These are defined by other operators")
    assert "| `Relu` |" not in before
    assert "| `Relu` |" in after  # ONNX defines it by Max
