"""Pages of ``sdk new web`` by Lighthouse: accessibility, practices of the web, search engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper
from test_web_page import saved
from web_pages import lighthouse, served

from sdk.cli import run_command

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
SHAPE = [1, 49, 10, 1]  # which keyword models have
KINDS = {
    "picture": [str(DIGITS)],
    "gpu": [str(DIGITS.with_name("digits.onnx")), "--dim", "batch=1:4", "--gpu", "webgpu"],
    "sound": ["heard=heard.onnx", "loud=loud.onnx"],
    "numbers": ["numbers.onnx", "--dim", "n=1:64"],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_pages(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, need_tool) -> None:
    need_tool("node")
    monkeypatch.chdir(tmp_path)
    nodes = [helper.make_node("Abs", ["audio"], ["m"]), helper.make_node("ReduceMax", ["m"], ["loud"], keepdims=0)]
    saved(Path("loud.onnx"), nodes, ("audio", [1, 8000]), ("loud", []))
    saved(Path("heard.onnx"), [helper.make_node("Neg", ["x"], ["y"])], ("x", SHAPE), ("y", SHAPE))
    saved(Path("numbers.onnx"), [helper.make_node("Neg", ["x"], ["y"])], ("x", ["n", 7]), ("y", ["n", 7]))
    assert run_command(["new", "web", *KINDS[kind], "--name", "m", "-o", "p"]) == 0
    with served(Path("p")) as address:
        for screen in ("mobile", "desktop"):
            for webgpu in {False, kind == "gpu"}:
                scores, failed = lighthouse(address, tmp_path, screen, webgpu)
                assert (min(scores.values()), failed) == (1, []), (scores, failed)
