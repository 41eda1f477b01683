"""Constants of channels: constant channels, requantisation by one product, tables; the results stay as they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.graph import Call, Graph, Value, attrs
from sdk.compiler.ir.loops import Load
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.ops.fixed import multiply_quantized
from sdk.compiler.passes.constant_channels import ConstantChannels
from sdk.compiler.passes.fold_offset import FoldOffset
from sdk.compiler.passes.fuse import Fuse
from sdk.compiler.passes.interleave_constants import InterleaveConstants
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.mulh_requantize import MulhRequantize
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.compiler.verify.module import check

CHANNELS, DEPTH = 16, 32
DEAD = {2: -(1 << 30), 5: 1 << 30}


def layer(zp: int = -128, lo: int = -128, dead: dict[int, int] | None = None, shift_lo: int = -9) -> Module:
    """A pointwise convolution; ``dead`` channels have no weights, this bias and a shift of -28."""
    rng = np.random.default_rng(3)
    x = Value("x", TensorType(I8, (1, 6, 5, DEPTH)))
    w, b = rng.integers(-127, 128, (CHANNELS, 1, 1, DEPTH)), rng.integers(-9000, 9000, CHANNELS)
    mult, shift = rng.integers(1 << 30, (1 << 31) - 1, CHANNELS), rng.integers(shift_lo, -5, CHANNELS)
    for channel, bias in (dead or {}).items():
        w[channel], b[channel], shift[channel] = 0, bias, -28
    data = {"w": (I8, w), "b": (I32, b), "mult": (I32, mult), "shift": (I32, shift)}
    consts = {n: Const(n, TensorType(k, d.shape), d) for n, (k, d) in data.items()}
    value = {n: Value(n, c.type, const=True) for n, c in consts.items()}
    acc, out = (Value(n, TensorType(k, (1, 6, 5, CHANNELS))) for n, k in (("acc", I32), ("out", I8)))
    conv = attrs(stride=(1, 1), dilation=(1, 1), pad=(0, 0, 0, 0), pad_value=3, x_offset=-3)
    given = attrs(
        out="i8", zp=zp, lo=lo, hi=127, acc_bits=31, shift_lo=int(shift.min()), shift_hi=int(shift.max())
    )
    body = (
        Call((acc,), "op", "conv2d", (x, value["w"], value["b"]), conv),
        Call((out,), "op", "requantize", (acc, value["mult"], value["shift"]), given),
    )
    return Module("m", "typed", consts=consts, graphs={"main": Graph("main", (), (x,), body, (out,))})


def outcome(module: Module) -> np.ndarray:
    x = np.random.default_rng(8).integers(-128, 128, (1, 6, 5, DEPTH)).astype(np.int8)
    (out,) = run_graph(module, "main", {"x": x}).values()
    return out


def requantize(module: Module) -> dict[str, object]:
    return dict(next(n for n in module.graphs["main"].body if isinstance(n, Call) and n.callee == "requantize").attrs)


@pytest.mark.parametrize(("zp", "lo"), [(-128, -128), (5, -128), (-7, -7)])
def test_constant_channels_ask_for_no_more_than_others(zp: int, lo: int) -> None:
    before = layer(zp, lo, DEAD)
    after = FoldOffset().run(ConstantChannels().run(before))
    check(after, ops)
    np.testing.assert_array_equal(outcome(before), outcome(after))
    given = requantize(after)
    assert int(str(given["acc_bits"])) <= 20
    assert int(str(given["shift_lo"])) >= -9
    assert ConstantChannels().run(after) is after
    plain = layer(zp, lo)
    assert ConstantChannels().run(plain) is plain


@pytest.mark.parametrize(("zp", "lo"), [(-128, -128), (5, -128), (-7, -7), (127, -128)])
def test_one_product_rounds_as_two_roundings_do(zp: int, lo: int) -> None:
    before = FoldOffset().run(layer(zp, lo))
    after = MulhRequantize().run(before)
    check(after, ops)
    assert requantize(after)["high"] == 8
    np.testing.assert_array_equal(outcome(before), outcome(after))
    assert MulhRequantize().run(after) is after


@pytest.mark.parametrize(("zp", "lo"), [(-128, -128), (0, -128), (17, -128)])
@pytest.mark.parametrize("e", [1, 2, 7, 15, 16])
def test_every_result_and_its_neighbours(e: int, zp: int, lo: int) -> None:
    """Around each accumulator where the result changes, for multipliers at the ends of their range: the operation, and
    the kernel it becomes."""
    mults = np.array([1 << 30, (1 << 30) + 1, 1518500250, (1 << 31) - 1])
    results = np.arange(-128, 128, dtype=np.int64) - zp
    edges = (results[:, None] * (1 << (31 + e)) - (1 << (30 + e))) // mults
    acc = np.clip(edges + np.arange(-3, 4)[:, None, None], 1 - (1 << 23), (1 << 23) - 1).reshape(-1, 4)
    kind = TensorType(I32, acc.shape), TensorType(I32, (4,))
    args = Value("acc", kind[0]), Value("mult", kind[1]), Value("shift", kind[1])
    given = attrs(out="i8", zp=zp, lo=lo, hi=127, acc_bits=23, shift_lo=-e, shift_hi=-e, high=8)
    out = Value("out", TensorType(I8, acc.shape))
    graph = Graph("main", (), args, (Call((out,), "op", "requantize", args, given),), (out,))
    module = Module("m", "typed", graphs={"main": graph})
    want = np.clip(multiply_quantized(acc.astype(np.int32), mults, -e).astype(np.int64) + zp, lo, 127)
    inputs = {"acc": acc.astype(np.int32), "mult": mults.astype(np.int32), "shift": np.full(4, e + 7, np.int32)}
    for stage in (module, Lower().run(module)):
        np.testing.assert_array_equal(run_graph(stage, "main", inputs)["out"], want)


def test_wide_accumulators_and_far_shifts_keep_two_roundings() -> None:
    for module in (layer(), FoldOffset().run(layer(shift_lo=-20))):
        assert MulhRequantize().run(module) is module  # 31 bits, or a zero point that is 2**30 there


def test_vectors_of_a_channel_become_columns() -> None:
    module = Fuse().run(Lower().run(MulhRequantize().run(FoldOffset().run(layer()))))
    scheduled = ScheduleLoops(isa="dsp+thumb+thumb2+unaligned").run(module)
    tabled = InterleaveConstants().run(scheduled)
    check(tabled, ops)
    np.testing.assert_array_equal(outcome(scheduled), outcome(tabled))
    (f,) = tabled.loops.values()
    assert [p.buffer.name for p in f.params] == ["x", "w", "table", "o"]
    assert f.param("table").buffer.shape == (CHANNELS, 4)  # bias, multiplier, what is added, what it is shifted by
    (table,) = (c for c in tabled.consts.values() if c.name.endswith("_table"))
    shift = module.consts["shift_high"].data
    np.testing.assert_array_equal(table.data[:, 0], module.consts["b_at_0"].data)
    np.testing.assert_array_equal(table.data[:, 2], (-255 << (shift - 1)) + 64)
    np.testing.assert_array_equal(table.data[:, 3], shift)
    reads = [n for n in walk(f.body) if isinstance(n, Load) and n.buffer == "table"]
    assert {n.index[1] for n in reads} == {0, 1, 2, 3}
    assert InterleaveConstants().run(tabled) is tabled


def test_a_vector_alone_or_one_known_at_run_time_stays() -> None:
    module = layer()
    graph = module.graphs["main"]
    b = Value("b", TensorType(I32, (CHANNELS,)))
    body = tuple(replace(n, args=(*n.args[:2], b)) if n.callee == "conv2d" else n for n in graph.body)  # type: ignore[union-attr]
    given = replace(graph, params=(*graph.params, b), body=body[:1], results=body[0].outs)
    alone = Lower().run(replace(module, graphs={"main": given}))
    scheduled = ScheduleLoops(isa="dsp+thumb+thumb2+unaligned").run(alone)
    assert InterleaveConstants().run(scheduled) is scheduled
