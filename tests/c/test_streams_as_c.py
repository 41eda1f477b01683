"""Streams as C: nested repeats over rings, in whole and part, equal the graph for int8 and float nets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_harness import HOST_ISA
from c_model import CModel, Net, check, files_of, load

from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Repeat, walk_plan
from sdk.compiler.ir.types import F32, I8, I32, DType
from sdk.compiler.passes.accumulate import Accumulate
from sdk.compiler.passes.fuse import Fuse
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.pipeline import run_pipeline
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.compiler.verify.plan import check_plan

SAME = {"dilation": (1, 1), "pad": (1, 1, 1, 1)}
POINT = {"dilation": (1, 1), "pad": (0, 0, 0, 0), "stride": (1, 1)}
CORTEX_M4 = "div+dsp+fpu-sp+thumb+thumb2+unaligned"


class Layers(Net):
    """Convolutions of int8 with their rescaling, or of floats."""

    def __init__(self, kind: DType) -> None:
        super().__init__()
        self.kind, self.rng = kind, np.random.default_rng(7)

    def random(self, name: str, type: DType, *shape: int) -> Value:
        return self.const(name, type, self.rng.integers(-9, 10, shape) / (1 if type != F32 else 16))

    def conv(
        self, name: str, x: Value, channels: int, kernel: int = 3, stride: int = 1, depthwise: bool = False
    ) -> Value:
        depth = x.type.static_shape[3]
        shape = (kernel, kernel, depth) if depthwise else (channels, kernel, kernel, depth)
        given = {**(SAME if kernel == 3 else POINT), "stride": (stride, stride)}
        given |= {"multiplier": 1} if depthwise else {}
        bias = F32 if self.kind == F32 else I32
        args = x, self.random(f"{name}_w", self.kind, *shape), self.random(f"{name}_b", bias, channels)
        op = "depthwise_conv2d" if depthwise else "conv2d"
        if self.kind == F32:
            return self.op(name, "relu", self.op(f"{name}_acc", op, *args, **given))
        acc = self.op(f"{name}_acc", op, *args, **given, pad_value=-7, x_offset=7)
        mult, shift = self.const(f"{name}_m", I32, np.array([1 << 30])), self.const(f"{name}_s", I32, np.array([-4]))
        limits = {"hi": 127, "lo": -128, "out": "i8", "shift_hi": -1, "shift_lo": -12, "zp": -7, "acc_bits": 20}
        return self.op(name, "requantize", acc, mult, shift, **limits)


def net(kind: DType) -> Module:
    """Two rates, a residual of the slower, and a pool over the image."""
    layers = Layers(kind)
    x = layers.input("x", kind, 1, 11, 5, 3)
    a = layers.conv("a", x, 8)
    b = layers.conv("b", a, 8, stride=2, depthwise=True)
    c = layers.conv("c", b, 8, kernel=1)
    d = layers.conv("d", c, 8)
    total = layers.op("total", "maximum", d, c)
    window = {"kernel": (6, 3), "stride": (6, 3), "pad": (0, 0, 0, 0)}
    return layers.typed(layers.op("y", "max_pool2d", total, **window))


@pytest.mark.parametrize(("kind", "isa"), [(I8, CORTEX_M4), (I8, ""), (F32, "+".join(sorted(HOST_ISA)))])
def test_streams(kind: DType, isa: str, tmp_path: Path) -> None:
    typed = net(kind)
    scheduled = run_pipeline(typed, (Accumulate(), Lower(), Fuse(), ScheduleLoops(isa=isa)))
    module = replace(PlanMemory(memory="min").run(scheduled), name="net")
    plan = module.plans["main"]
    check_plan(module, plan)
    whole = replace(PlanMemory().run(scheduled), name="net")
    assert plan.region("arena").bytes < whole.plans["main"].region("arena").bytes
    repeats = [s for s in walk_plan(plan.body) if isinstance(s, Repeat)]
    assert any(isinstance(inner, Repeat) for r in repeats for inner in r.body)
    assert any(b.ring for b in plan.buffers)
    files = files_of(module)
    assert "if (row_lo < row_hi) {" in files["net.c"]
    (tmp_path / "whole").mkdir()
    model, same = CModel(load(files, tmp_path), "net"), CModel(load(files_of(whole), tmp_path / "whole"), "net")
    shape = plan.buffer("x").type.static_shape
    for seed in range(3):
        data = np.random.default_rng(seed).integers(-128, 128, shape)
        inputs = {"x": (data / (1 if kind != F32 else 32)).astype(kind.numpy)}
        assert same.run(inputs) == 0
        check(model, inputs, same.outputs())
        if kind != F32:  # whose reference rounds once
            check(model, inputs, run_graph(typed, "main", inputs))
