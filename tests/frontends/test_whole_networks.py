"""Whole networks of all the usual kinds, as floats, int8 and uint8, against LiteRT and tflite-micro."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from architectures import ARCHITECTURES, WORDS
from nets import Net
from quantised_nets import Kind, quantised
from reference import litert_outputs
from tflite_files import ModelFile
from tflite_micro.python.tflite_micro import runtime

from sdk.boards import load_board
from sdk.compiler.interp.graph import run_graph
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.frontends.tflite.importer import import_tflite

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "passes"))
from as_c import Library

Array = np.ndarray[Any, Any]
RUNS = 3
IN_C = [("mobilenet v3", "int8"), ("ssd", "uint8"), ("transformer", "float"), ("speech lstm", "uint8")]
FORMS = ("float", "int8", "uint8")
# Operators whose uint8 LiteRT does not have stand in these between integers: floats of another order of sums differ.
NO_UINT8 = ("style transfer", "transformer")
FILES = [(name, form) for name in ARCHITECTURES for form in FORMS if form != "uint8" or name not in NO_UINT8]


def _given(net: Net, count: int, seed: int = 1) -> list[list[Array]]:
    rng = np.random.default_rng(seed)
    specs = [net.tensors[k] for k in net.inputs]
    return [
        [
            rng.standard_normal(s.shape).astype(np.float32) if s.dtype == "float32"
            else rng.integers(0, WORDS, s.shape).astype(np.int32)
            for s in specs
        ]
        for _ in range(count)
    ]  # fmt: skip


def _file(name: str, form: str) -> tuple[bytes, list[list[Array]]]:
    """A file, and inputs of it: of integers as a runtime is given them."""
    net = ARCHITECTURES[name]()
    runs = _given(net, RUNS)
    if form == "float":
        return net.build(), runs
    kind: Kind = "int8" if form == "int8" else "uint8"
    data = quantised(net, kind, _given(net, 4, seed=2))
    for param, k in zip(import_tflite(data, "net").graphs["main"].params, range(len(net.inputs)), strict=True):
        if net.tensors[net.inputs[k]].dtype == "float32":
            quant = param.type.quant
            assert quant is not None
            for run in runs:
                steps = np.round(run[k] / quant.scale) + quant.zero_point
                run[k] = np.clip(steps, *param.type.dtype.limits).astype(param.type.dtype.numpy)
    return data, runs


def _micro(data: bytes, runs: list[list[Array]], results: int) -> list[list[Array]]:
    engine, found = runtime.Interpreter.from_bytes(data, arena_size=1 << 20), []
    for given in runs:
        for k, array in enumerate(given):
            engine.set_input(array, k)
        engine.invoke()
        found.append([np.array(engine.get_output(k)) for k in range(results)])
    return found


def _wanted(data: bytes, form: str, runs: list[list[Array]], results: int) -> list[list[Array]]:
    return _micro(data, runs, results) if form == "int8" else litert_outputs(data, runs)


def _agree(found: list[Array], want: list[Array], at: str) -> None:
    for got, expected in zip(found, want, strict=True):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), at
        if got.dtype.kind == "f":
            maximum = max(1.0, float(np.abs(expected).max(initial=0)))
            np.testing.assert_allclose(got, expected, atol=4e-6 * maximum, rtol=0, err_msg=at)
        else:
            np.testing.assert_array_equal(got, expected, err_msg=at)


@pytest.mark.parametrize(("name", "form"), FILES)
def test_as_imported(name: str, form: str) -> None:
    data, runs = _file(name, form)
    module = import_tflite(data, "net")
    graph = module.graphs["main"]
    want = _wanted(data, form, runs, len(graph.results))
    for run, (given, expected) in enumerate(zip(runs, want, strict=True)):
        inputs = {p.name: array for p, array in zip(graph.params, given, strict=True)}
        found = run_graph(module, "main", inputs)
        _agree([found[r.name] for r in graph.results], expected, f"run {run}")
    assert any(a.tobytes() != b.tobytes() for a, b in zip(want[0], want[-1], strict=True)), "nothing differs"


def _as_c(files: list[tuple[str, str]], folder: Path) -> None:
    """Files compiled together, each run as C."""
    board, options = load_board("host"), BuildOptions()
    given = [_file(name, form) for name, form in files]
    imported = {f"m{k}": import_tflite(data, "net") for k, (data, _) in enumerate(given)}
    modules = {prefix: lower_module(m, default_passes(board, options)) for prefix, m in imported.items()}
    library = Library(modules, folder)
    for (prefix, module), (data, runs), (name, form) in zip(modules.items(), given, files, strict=True):
        graph = imported[prefix].graphs["main"]
        want = _wanted(data, form, runs, len(graph.results))
        for run, (arrays, expected) in enumerate(zip(runs, want, strict=True)):
            inputs = {p.name: array for p, array in zip(graph.params, arrays, strict=True)}
            _agree(list(library.run(prefix, module, inputs, {}).values()), expected, f"{name}, {form}, run {run}")


def test_some_as_c(tmp_path: Path) -> None:
    _as_c(IN_C, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_all_as_c(name: str, tmp_path: Path) -> None:
    _as_c([file for file in FILES if file[0] == name], tmp_path)


def test_channels_dealt_out_over_a_large_image() -> None:
    """Places that are remainders in an image of more elements than are tried one by one."""
    m = ModelFile()
    x, y = m.input("x", (1, 540, 960, 12), "int8", 0.1, 3), m.tensor("y", (1, 1080, 1920, 3), "int8", 0.1, 3)
    m.op("DEPTH_TO_SPACE", [x], [y], "DepthToSpaceOptions", BlockSize=2)
    m.op("QUANTIZE", [y], [m.output("z", (1, 1080, 1920, 3), "int8", 0.07, -2)])
    board, options = load_board("host"), BuildOptions()
    lowered = lower_module(import_tflite(m.build(), "net"), default_passes(board, options))
    assert "depth_to_space_rescale" in "".join(lowered.loops)
