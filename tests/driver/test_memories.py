"""A model whose arena lies in two memories of a board, and weights copied to RAM: the same results, honest sizes."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sdk.cli import run_command

BOARD = "qemu-cortex-m7-tcm"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three convolutions and a sum: 4,096-byte maps, more of them alive than the small memory holds."""
    rng = np.random.default_rng(4)
    names = ["x", "a", "b", "c"]
    nodes, weights = [], []
    for k, (source, out) in enumerate(itertools.pairwise(names)):
        values = rng.standard_normal((8, 1 if k == 0 else 8, 3, 3)).astype(np.float32) / 4
        weights.append(numpy_helper.from_array(values, f"w{k}"))
        nodes.append(helper.make_node("Conv", [source, f"w{k}"], [out], pads=[1, 1, 1, 1]))
    nodes.append(helper.make_node("Add", ["a", "c"], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 12, 12])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 12, 12])
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    path = tmp_path_factory.mktemp("memories") / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def run(capture: Capture, *words: str | Path) -> tuple[int, dict[str, Any]]:
    code = run_command([*map(str, words), "--json"])
    return code, json.loads(capture.readouterr().out)


def test_an_arena_in_two_memories(net: Path, tmp_path: Path, capsys: Capture) -> None:
    choice = ("--board", BOARD, "--region", "dtcm=6K", "--region", "sram=64K")
    code, report = run(capsys, "verify", net, *choice, "--cases", "2")
    assert (code, report["passed"]) == (0, True), report
    code, built = run(capsys, "build", net, *choice, "--out", tmp_path)
    assert code == 0
    header = (tmp_path / "net.h").read_text()
    sizes = {name: int(size) for name, size in re.findall(r"#define (NET_ARENA\w*_BYTES) (\d+)u", header)}
    assert 0 < sizes["NET_ARENA_BYTES"] <= 6 * 1024
    assert sizes["NET_ARENA_SRAM_BYTES"] > 0
    assert built["arena_bytes"] == sizes["NET_ARENA_BYTES"] + sizes["NET_ARENA_SRAM_BYTES"]
    assert "void *arena_sram, size_t arena_sram_bytes" in header
    glue = (tmp_path / "agent" / "net_glue.c").read_text()
    assert 'section(".sdk_region.sram")' in glue
    assert 'section(".sdk_region.dtcm")' not in glue  # where static storage goes anyway


def test_one_memory_that_is_not_the_first(net: Path, tmp_path: Path, capsys: Capture) -> None:
    code, report = run(capsys, "verify", net, "--board", BOARD, "--region", "sram=64K", "--cases", "1")
    assert (code, report["passed"]) == (0, True), report
    assert run_command(["build", str(net), "--board", BOARD, "--region", "sram=64K", "--out", str(tmp_path)]) == 0
    assert 'section(".sdk_region.sram")' in (tmp_path / "agent" / "net_glue.c").read_text()
    assert "ARENA_SRAM" not in (tmp_path / "net.h").read_text()


def test_weights_in_ram_count_as_ram(net: Path, capsys: Capture) -> None:
    _, flash = run(capsys, "build", net, "--board", BOARD)
    code, ram = run(capsys, "build", net, "--board", BOARD, "--weights", "ram")
    assert code == 0
    moved = sum(ram["sections"][s] - flash["sections"][s] for s in ("data", "bss"))  # zeros need no flash
    assert moved >= ram["weights_bytes"] > 4000
    assert ram["ram_bytes"] == flash["ram_bytes"] + moved
    code, report = run(capsys, "verify", net, "--board", BOARD, "--weights", "ram", "--cases", "1")
    assert (code, report["passed"]) == (0, True), report


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--region", "stcm=4K"), 2, "no RAM called 'stcm'"),
        (("--region", "flash=4K"), 2, "no RAM called 'flash'"),
        (("--region", "dtcm=65K"), 2, "dtcm of qemu-cortex-m7-tcm has 65,536 bytes, not 66,560"),
        (("--region", "dtcm=4K", "--region", "dtcm=8K"), 2, "given twice"),
        (("--region", "dtcm"), 2, "not a region"),
        (("--region", "dtcm=4K", "--arena-limit", "4K"), 2, "a limit of its own"),
        (("--region", "dtcm=2K", "--region", "sram=2K"), 1, "fit none of the memories dtcm (2,048 B), sram"),
    ],
)
def test_mistakes(net: Path, words: tuple[str, ...], code: int, message: str, capsys: Capture) -> None:
    got, report = run(capsys, "build", net, "--board", BOARD, *words)
    assert got == code
    assert message in report["error"]["message"], report


def test_a_hosted_board_has_no_memories(net: Path, capsys: Capture) -> None:
    for words in (("--region", "ram=4K"), ("--weights", "ram")):
        code, report = run(capsys, "build", net, "--board", "host", *words)
        assert (code, "has no memories to choose from" in report["error"]["message"]) == (2, True), report


def test_an_arena_that_the_first_memory_does_not_hold(tmp_path: Path, capsys: Capture) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [160, 160])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [160, 160])
    graph = helper.make_graph([helper.make_node("Transpose", ["x"], ["y"])], "net", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), tmp_path / "t.onnx")
    code, report = run(capsys, "build", tmp_path / "t.onnx", "--board", BOARD)
    assert (code, "the first memory of" in report["error"]["message"]) == (1, True), report
    assert "--region dtcm=65536 --region sram=262144" in report["error"]["hint"]
    both = ("--region", "dtcm=64K", "--region", "sram=256K")
    code, report = run(capsys, "build", tmp_path / "t.onnx", "--board", BOARD, *both)
    assert code == 0, report
