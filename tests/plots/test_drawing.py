"""The drawn graph: every operator of a model with its cost, what is not supported with the reason."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from zoo.export import path_of

from sdk import driver
from sdk.cli import run_command
from sdk.compiler.ir.graph import Call, Graph, Value
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import F32, TensorType
from sdk.driver.options import BuildOptions
from sdk.driver.plots.drawing import Drawing, DrawnGraph, DrawnNode, Tensor, draw_module
from sdk.driver.plots.graph import graph_plot
from sdk.errors import BuildError

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
SVG = "{http://www.w3.org/2000/svg}"
MACS = {"kws_ref_model.tflite": 2_656_768, "vww_96_int8.tflite": 7_489_664, "pretrainedResnet_quant.tflite": 12_501_632}
ZOO = [("mobilenetv2", {}), ("encoder_small", {"batch": (1, 4), "seq": (1, 64)}), ("lstm", {"steps": (1, 20)})]


def well_formed(text: str) -> ElementTree.Element:
    """The parsed document, which names nothing elsewhere."""
    assert not re.search(r"(?:src|href)\s*=|@import|url\((?!#)", text)
    return ElementTree.fromstring(text)


def check(drawing: Drawing) -> None:
    """Every node is drawn once, inside of its column and over no other; page and plot are well formed."""
    for graph in drawing.graphs:
        columns = graph_plot(graph).columns
        drawn = [b.node for c in columns for b in c.boxes]
        assert sorted(drawn) == list(range(len(graph.nodes)))
        for column in columns:
            for k, a in enumerate(column.boxes):
                assert min(a.x, a.y) >= 0
                assert a.x + a.width <= column.width + 0.1
                assert a.y + a.height <= column.height
                for b in column.boxes[:k]:
                    apart = a.x >= b.x + b.width or b.x >= a.x + a.width
                    assert apart or a.y >= b.y + b.height or b.y >= a.y + a.height
    root = well_formed(driver.graph_page(drawing))
    assert len([e for e in root.iter(f"{SVG}svg") if e.get("viewBox")]) >= len(drawing.graphs)
    well_formed(driver.graph_svg(drawing))
    json.dumps(drawing.to_json(), allow_nan=False)


def test_the_bundled_model() -> None:
    drawing, error = driver.draw(DIGITS, BuildOptions())
    assert error is None
    check(drawing)
    graph = drawing.graphs[0]
    assert [n.kind for n in graph.nodes] == [
        "input", "CONV_2D", "CONV_2D", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX", "output"
    ]  # fmt: skip
    assert [(a, b) for a, b, _ in graph.edges] == [(k, k + 1) for k in range(6)]
    conv = graph.nodes[1]
    assert (conv.name, conv.macs, str(conv.outputs[0])) == ("conv1", 8 * 8 * 8 * 9, "i8[1, 8, 8, 8]")
    assert "CONV_2D conv1" in driver.graph_page(drawing)


def test_names_that_xml_cannot_spell() -> None:
    """A model file may hold any bytes where a name is."""
    tensor = Tensor("t\x01<&\x1b\ud800", "i8", (1,))
    node = DrawnNode("CONV_2D\x00", "<script>\x08", "convolution", (tensor,))
    drawing = Drawing("m\x02.tflite", (DrawnGraph("main", (node,), (), {}, {}),))
    check(drawing)
    assert "<script>\\x08" in "".join(well_formed(driver.graph_page(drawing)).itertext())


@pytest.mark.models
def test_all_real_models(models: Path) -> None:
    for path in sorted([*models.glob("*.tflite"), *models.glob("*.onnx")]):
        drawing, error = driver.draw(path, BuildOptions())
        check(drawing)
        refused = [n for g in drawing.graphs for n in g.nodes if n.why]
        assert bool(refused) == (error is not None), path.name
        assert (path.name not in MACS) or MACS[path.name] == sum(n.macs or 0 for n in drawing.graphs[0].nodes)


@pytest.mark.parametrize(("name", "dims"), ZOO)
def test_networks_of_torch(name: str, dims: dict[str, tuple[int, int]]) -> None:
    drawing, error = driver.draw(path_of(name), BuildOptions(dims=dims))
    assert error is None
    check(drawing)
    assert {n: b[:2] for n, b in drawing.graphs[0].dims.items() if b} == dims
    symbolic = [n for n in drawing.graphs[0].nodes if n.macs_text]
    assert bool(symbolic) == bool(dims)


def strange(path: Path, size: object = 8) -> Path:
    """A model of which the second of four nodes is nobody's, and a third that reads what that makes."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [8, 8], np.eye(8, dtype=np.float32).ravel())
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Wobble", ["a"], ["b"], "strange", domain="acme"),
        helper.make_node("Relu", ["b"], ["c"], "after"),
        helper.make_node("Add", ["a", "c"], ["y"], "last"),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [size, 8]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [weights])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_what_is_not_supported_is_drawn_with_the_reason(tmp_path: Path) -> None:
    drawing, error = driver.draw(strange(tmp_path / "m.onnx"), BuildOptions())
    assert isinstance(error, BuildError)
    check(drawing)
    nodes = {n.name: n for n in drawing.graphs[0].nodes}
    assert nodes["strange"].why == "unsupported operator acme::Wobble"
    assert [nodes[n].checked for n in ("first", "strange", "after", "last")] == [True, True, False, False]
    assert nodes["first"].weights == 8 * 8 * 4
    for text in (driver.graph_page(drawing), driver.graph_svg(drawing)):
        assert "unsupported operator acme::Wobble" in " ".join(well_formed(text).itertext())
    assert "--custom" in drawing.hint


def test_sizes_without_bounds_are_drawn_by_name(tmp_path: Path) -> None:
    drawing, error = driver.draw(strange(tmp_path / "m.onnx", "batch"), BuildOptions())
    assert isinstance(error, BuildError)  # about the operator: sizes are no reason
    check(drawing)
    assert drawing.graphs[0].sizes == ["batch without bounds"]
    assert "--custom" in drawing.hint


def test_nothing_comes_of_it_so_it_is_not_drawn() -> None:
    x = Value("x", TensorType(F32, (4,)))
    calls = [Call((Value(n, x.type),), "op", "neg", (x,), source=f"Neg {n}") for n in ("dead", "y")]
    module = Module("m", graphs={"main": Graph("main", (), (x,), tuple(calls), (calls[1].out,))})
    assert [n.name for n in draw_module(module, "m").graphs[0].nodes] == ["x", "y", "y"]


def test_plots_in_the_documents_are_small(root: Path) -> None:
    assert sum(path.stat().st_size for path in (root / "docs" / "images").iterdir()) < 600_000


def test_a_damaged_file_is_not_drawn(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(b"nothing of the kind")
    with pytest.raises(BuildError):
        driver.draw(tmp_path / "m.tflite", BuildOptions())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html, svg = tmp_path / "g.html", tmp_path / "g.svg"
    assert run_command(["inspect", str(DIGITS), "--html", str(html), "--svg", str(svg)]) == 0
    assert capsys.readouterr().out.split() == ["wrote", str(html), "wrote", str(svg)]
    assert html.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert run_command(["inspect", str(DIGITS), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["supported"], data["error"], data["entries"][0]["macs"]) == (True, None, 25_600)


def test_the_command_on_what_is_not_supported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, svg = strange(tmp_path / "m.onnx"), tmp_path / "g.svg"
    assert run_command(["inspect", str(model), "--svg", str(svg), "--json"]) == 1
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert svg.exists()
    assert (data["supported"], data["error"]["exit_code"]) == (False, 1)
    assert [n["supported"] for n in data["entries"][0]["nodes"]] == [True, True, False, None, None, True]
    assert "acme::Wobble" in err
    assert run_command(["inspect", str(model), "--svg", str(svg)]) == 1
    assert "unsupported operator" in capsys.readouterr().err
