"""Kernels whose work items want more memory than an item has, and functions of more operands than a kernel is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sdk.codegen_c.gpu import scratch
from sdk.codegen_c.gpu.grid import parts_of, work_items
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Alloc, For
from sdk.compiler.ir.walk import walk
from tests.gpu.kernels import SAMPLES, given, plain
from tests.gpu.work import compare, model
from tests.ops.op_samples import concrete, environments

# rows of a size that a run chooses, and such that are too large for an item
ROWS = """module net imported

graph @main<n in 1..5000>(%x: f32[3, n], %y: f32[2, 1500]) {
  %s = softmax(%x) : f32[3, n]
  %t = softmax(%y) : f32[2, 1500]
  return %s, %t
}
"""
WIDE = 18  # operands of a function, each of which is a kernel of two
LONG = """module net imported

graph @main<n in 1..50>(%x: f32[3, n]) {
  %s = relu(%x) : f32[3, n]
  %c = concat(PARTS) {axis = 0} : f32[ROWS, n]
  return %c
}
""".replace("PARTS", ", ".join(["%s", "%x"] * (WIDE // 2))).replace("ROWS", str(3 * WIDE))


@pytest.mark.parametrize(("text", "gpu"), [(ROWS, "opencl"), (ROWS, "vulkan"), (LONG, "vulkan")])
def test_every_step_runs_on_the_device(pocl, text: str, gpu: str, tmp_path: Path) -> None:
    dims = [{"n": n} for n in (1, 7, 50)]
    status, told, apart, recorded = pocl(compare, model(text, tmp_path), tmp_path, dims, {"gpu": gpu})
    assert (status, told) == (0, "")
    assert max(max(one) for one in apart) <= 1e-5
    assert min(min(one) for one in apart) >= 0
    assert recorded == (3, 3)


def test_fewer_items_do_all_rows_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples with arrays of an item's own, with memory for three items at a time: as the function itself says."""
    monkeypatch.setattr(scratch, "PRIVATE_BYTES", 4)
    monkeypatch.setattr(scratch, "MAX_BYTES", 16)
    monkeypatch.setattr(scratch, "MIN_ITEMS", 3)
    turned = set()
    for o, sample, number in SAMPLES[::3]:
        loops = plain(o.name, sample)
        if not any(isinstance(n, Alloc) and n.buffer.shape for n in walk(loops.body)):
            continue
        dims = environments(sample)[-1]
        by_name = {v.name: n for v, n in dims.items()}
        want = given(o.name, sample, loops, dims)
        got = {name: array.copy() for name, array in want.items()}
        run_loops(loops, want, by_name)
        for grid in map(work_items, parts_of(loops)):
            own = [p.buffer for p in grid.loops.params[len(grid.operands) :]]
            held = {b.name: np.ones(concrete(b.type, dims).static_shape, b.dtype.numpy) for b in own}
            names = [loops.params[k].buffer.name for k in grid.operands]
            run_loops(grid.loops, {**{name: got[name] for name in names}, **held}, by_name)
            turned |= {o.name for n in walk(grid.loops.body) if isinstance(n, For) and n.var.name.endswith("_turn")}
        for name, array in want.items():
            assert np.array_equal(array, got[name], equal_nan=array.dtype.kind == "f"), (o.name, number, name)
    assert len(turned) > 3, turned
