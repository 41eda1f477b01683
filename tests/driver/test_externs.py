"""A model compiled with a user's library: patterns from an .ir file, their C beside the model, run by an agent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import sdk
from sdk.errors import UsageError

PATTERNS = """
module library typed
const @two: f32[] = [2.0]
graph @fast_gate<r in 1..4096, d in 1..64>(%x: f32[r, d]) {
  %a = sigmoid(%x) : f32[r, d]
  %b = mul(%x, %a) : f32[r, d]
  return %b
}
"""
# not what the pattern says, so that a test can tell which one ran
LIBRARY = """
#include "fast.h"
void fast_gate(const float *x, float *o, int32_t r, int32_t d) {
    for (int32_t i = 0; i < r * d; ++i) {
        o[i] = FAST_MARK + x[i];
    }
}
"""
HEADER = """
#include <stdint.h>
#define FAST_MARK 100.0f
void fast_gate(const float *x, float *o, int32_t r, int32_t d);
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, list[Path]]:
    nodes = [
        helper.make_node("Abs", ["x"], ["p"]),
        helper.make_node("Sigmoid", ["p"], ["s"]),
        helper.make_node("Mul", ["p", "s"], ["g"]),
        helper.make_node("Neg", ["g"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, tmp_path / "net.onnx")
    library = []
    for name, text in (("lib.ir", PATTERNS), ("fast.c", LIBRARY), ("fast.h", HEADER)):
        library.append(tmp_path / name)
        library[-1].write_text(text)
    return tmp_path / "net.onnx", library


def test_the_library_computes_its_part(files: tuple[Path, list[Path]]) -> None:
    model, library = files
    x = np.arange(-6, 6, dtype=np.float32).reshape(4, 3)
    with sdk.compile(model, dims={"n": (1, 8)}, externs=library) as compiled:
        np.testing.assert_allclose(compiled(x=x)["y"], -(100 + np.abs(x)), rtol=1e-6)
    with sdk.compile(model, dims={"n": (1, 8)}) as compiled:
        np.testing.assert_allclose(compiled(x=x)["y"], -np.abs(x) / (1 + np.exp(-np.abs(x))), rtol=1e-5)


def test_files_that_are_no_library_are_refused(files: tuple[Path, list[Path]], tmp_path: Path) -> None:
    model, library = files
    (tmp_path / "notes.txt").write_text("no")
    for given, words in (
        ([tmp_path / "notes.txt"], "notes.txt is no library file"),
        ([tmp_path / "missing.ir"], "cannot read"),
        ([library[0], library[0]], "there is a graph or pattern @fast_gate already"),
    ):
        with pytest.raises(UsageError, match=words):
            sdk.compile(model, dims={"n": (1, 8)}, externs=given)
