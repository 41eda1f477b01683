"""Pages of ``sdk new web`` in Firefox: golden cases in a worker, in two threads, and without a network."""

from __future__ import annotations

from pathlib import Path

import pytest
from firefox import firefox
from test_web import layers
from web_pages import golden, press, served, until

from sdk.cli import run_command

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"


@pytest.mark.slow
def test_pages_in_firefox(tmp_path: Path, need_tool) -> None:
    need_tool("node")
    layers(tmp_path / "layers.onnx")
    threads = [str(tmp_path / "layers.onnx"), "--dim", "n=1:64", "--threads", "2"]
    assert run_command(["new", "web", str(DIGITS), "--name", "digits", "-o", str(tmp_path / "whole")]) == 0
    assert run_command(["new", "web", *threads, "-o", str(tmp_path / "threads")]) == 0
    with firefox(tmp_path / "profile") as browser:
        for name, engine in (("whole", "one thread"), ("threads", "2 threads")):
            with served(tmp_path / name) as address:
                browser.get(address)
                assert "from the network" in until(browser, "status", "Ready")
                until(browser, "engine", engine)
                until(browser, "offline", "works without a network")
                golden(browser)
                press(browser, "run")
                until(browser, "outputs", " ms")
        browser.get(address)  # the server is gone
        until(browser, "status", "from this device")
        golden(browser)
