"""Where buffers begin: at lines of the cache on hosted boards, at words of vectors elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.ir.module import Module
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.driver.targets import capabilities
from sdk.frontends.onnx.importer import import_onnx


def planned(board: str) -> Module:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Softmax", ["h"], ["s"]),
        helper.make_node("MatMul", ["s", "v"], ["y"]),
    ]
    rng = np.random.default_rng(1)
    weights = [
        numpy_helper.from_array(rng.standard_normal((12, 12)).astype(np.float32), name) for name in ("w", "v")
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [3, 12]) for n in ("x", "y"))
    model = helper.make_model(
        helper.make_graph(nodes, "net", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    module = import_onnx(model.SerializeToString(), "net")
    return lower_module(module, default_passes(load_board(board), BuildOptions()))


@pytest.mark.parametrize(("board", "align"), [("host", 64), ("aarch64-linux", 64), ("nucleo_l4r5zi", 16)])
def test_where_buffers_begin(board: str, align: int, tmp_path: Path) -> None:
    module = planned(board)
    (plan,) = module.plans.values()
    assert {r.align for r in plan.regions if r.kind != "caller"} == {align}
    assert all(b.offset % align == 0 for b in plan.buffers if isinstance(b.offset, int))
    choice = EmitOptions(source="net.onnx", model_hash="0" * 64, board=board)
    isa = capabilities(load_board(board), BuildOptions())
    emitted = get_backend("c99").emit(module, "net", isa=isa, options=choice)
    arrays = re.findall(r"_ALIGN\((\d+)\)(?! __)", str(emitted.files["net_weights.c"]))
    assert arrays
    assert {int(found) for found in arrays} == {align}
    glue = emitted.agent["net_glue.c"]
    storage = re.findall(r"^static uint8_t \w+\[\d+\] __attribute__\(\(aligned\((\d+)\)\)\);", glue, re.MULTILINE)
    assert storage
    assert {int(found) for found in storage} == {align}
