"""Lowering, fusion and scheduling of small graphs: results unchanged, kernels merged and shared as stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.graph import Call, Graph, Value, attrs
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.ops import infer
from sdk.compiler.passes.fuse import Fuse
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.schedule import ScheduleLoops

RNG = np.random.default_rng(5)
REQUANT = attrs(out="i8", zp=-3, lo=-128, hi=127, shift_lo=-9, shift_hi=-5, acc_bits=24)
CONV = attrs(stride=(1, 1), dilation=(1, 1), pad=(1, 1, 1, 1), x_offset=0, pad_value=4)


class Builder:
    """Builds a graph call by call, types by inference."""

    def __init__(self, x: TensorType) -> None:
        self.x = Value("x", x)
        self.nodes: list[Call] = []
        self.consts: dict[str, Const] = {}

    def const(self, name: str, data: np.ndarray) -> Value:
        kind = I8 if data.dtype == np.int8 else I32
        self.consts[name] = Const(name, TensorType(kind, data.shape), data)
        return Value(name, self.consts[name].type, const=True)

    def call(self, op: str, *args: Value, given: tuple = ()) -> Value:
        (type,) = infer(op, [a.type for a in args], given)
        out = Value(f"v{len(self.nodes)}", type)
        self.nodes.append(Call((out,), "op", op, args, given, source=f"{op.upper()} {out.name}"))
        return out

    def conv(self, x: Value, name: str, channels: int) -> Value:
        c = x.type.static_shape[3]
        w = self.const(f"{name}_w", RNG.integers(-128, 128, (channels, 3, 3, c)).astype(np.int8))
        b = self.const(f"{name}_b", RNG.integers(-999, 999, channels).astype(np.int32))
        acc = self.call("conv2d", x, w, b, given=CONV)
        mult = self.const(f"{name}_m", RNG.integers(1 << 30, (1 << 31) - 1, channels).astype(np.int32))
        shift = self.const(f"{name}_s", RNG.integers(-9, -4, channels).astype(np.int32))
        return self.call("requantize", acc, mult, shift, given=REQUANT)

    def module(self, result: Value) -> Module:
        graph = Graph("main", (), (self.x,), tuple(self.nodes), (result,))
        return Module("m", "typed", consts=self.consts, graphs={"main": graph})


def two_layers() -> Module:
    b = Builder(TensorType(I8, (1, 6, 5, 16)))
    return b.module(b.conv(b.conv(b.x, "one", 16), "two", 16))


def outputs(module: Module) -> np.ndarray:
    x = np.random.default_rng(1).integers(-128, 128, (1, 6, 5, 16)).astype(np.int8)
    (out,) = run_graph(module, "main", {"x": x}, {}).values()
    return out


@pytest.mark.parametrize("isa", ["", "dsp", "avx2", "avxvnni.avx2", "avx512vnni.avx512bw.avx512vl"])
def test_every_step_keeps_the_result(isa: str) -> None:
    module = two_layers()
    want = outputs(module)
    for step in (Lower(), Fuse(), ScheduleLoops(isa=isa)):
        if isinstance(step, ScheduleLoops) and "vnni" in isa:
            continue  # these cores want x_offset 128, which the driver's fold-offset gives
        module = step.run(module)
        np.testing.assert_array_equal(outputs(module), want)


def test_epilogues_merge_and_equal_layers_share_a_kernel() -> None:
    module = Fuse().run(Lower().run(two_layers()))
    calls = [n for n in module.graphs["main"].body if isinstance(n, Call)]
    assert len(calls) == 2
    done = ScheduleLoops(isa="dsp").run(module)
    assert len({n.callee for n in done.graphs["main"].body if isinstance(n, Call)}) == 1
    assert len(done.loops) == 1


def test_a_result_used_twice_is_not_recomputed() -> None:
    b = Builder(TensorType(I8, (1, 6, 5, 16)))
    one = b.conv(b.x, "one", 16)
    acc = b.nodes[0].out
    module = b.module(one)
    graph = replace(module.graphs["main"], results=(one, acc))
    fused = Fuse().run(Lower().run(replace(module, graphs={"main": graph})))
    assert len(fused.graphs["main"].body) == 2


def test_max_ops_bounds_a_kernel() -> None:
    fused = Fuse(max_ops=1).run(Lower().run(two_layers()))
    assert len(fused.graphs["main"].body) == 4


def test_nothing_to_do_returns_the_same_module() -> None:
    done = Fuse().run(Lower().run(two_layers()))
    assert Fuse().run(done) is done
    assert Lower().run(done) is done


def test_weights_known_only_at_run_time_keep_the_plain_nest() -> None:
    b = Builder(TensorType(I8, (1, 6, 5, 16)))
    w = Value("w", TensorType(I8, (16, 3, 3, 16)))
    out = b.call("conv2d", b.x, w, b.const("b", np.zeros(16, np.int32)), given=CONV)
    graph = Graph("main", (), (b.x, w), tuple(b.nodes), (out,))
    module = Module("m", "typed", consts=b.consts, graphs={"main": graph})
    done = ScheduleLoops(isa="dsp").run(Lower().run(module))
    (loops,) = done.loops.values()
    assert not loops.layouts
    assert not loops.trace
