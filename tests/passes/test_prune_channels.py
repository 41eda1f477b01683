"""Channels that go leave the results as they were, to the bit: random nets with channels of zeros, and real models."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sdk.boards import load_board
from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.graph import Call, Graph, Value, attrs
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.types import F32, I8, I16, I32, I64, DType, TensorType
from sdk.compiler.ops.registry import infer
from sdk.compiler.passes.cleanup import Cleanup
from sdk.compiler.passes.fold_offset import FoldOffset
from sdk.compiler.passes.prune_channels import PruneChannels
from sdk.compiler.sym import Var
from sdk.compiler.verify.module import check

H = Var("h", 4, 7)
ZERO_POINTS = (-128, -128, -3, 0)  # a ReLU is a lower bound at the zero point
KERNELS = ((1, 1), (1, 1), (3, 3), (2, 3))
ROOT = Path(__file__).resolve().parents[2]


class Net:
    """A random net of i8, of i16 with sums in i64, or of floats that are small integers: exact in any order."""

    def __init__(self, seed: int, kind: DType) -> None:
        self.rng = np.random.default_rng(seed)
        self.kind, self.float = kind, kind.is_float
        self.weight_kind, self.sum_kind = (F32, F32) if self.float else (I8, I64 if kind == I16 else I32)
        self.lowest = 0 if self.float else kind.limits[0]
        self.x = Value("x", TensorType(kind, (1, H.expr, 5, int(self.rng.integers(1, 4)))))
        self.body: list[Call] = []
        self.consts: dict[str, Const] = {}
        self.zero = {"x": 0}
        self.cut = False  # whether the image is smaller already than it was

    def const(self, kind: DType, data: np.ndarray) -> Value:
        const = Const(f"c{len(self.consts)}", TensorType(kind, data.shape), data)
        self.consts[const.name] = const
        return Value(const.name, const.type, const=True)

    def call(self, op: str, *args: Value, **given: object) -> Value:
        (type_,) = infer(op, [v.type for v in args], given)
        out = Value(f"v{len(self.body)}", type_)
        self.body.append(Call((out,), "op", op, args, attrs(**given)))
        self.zero[out.name] = self.zero[args[0].name]
        return out

    def weights(self, *shape: int, axes: tuple[int, ...]) -> np.ndarray:
        """Small integers; along each of ``axes`` some channels are zeros."""
        data = self.rng.integers(-3, 4, shape)
        for axis in axes:
            gone = self.rng.random(shape[axis]) < self.rng.choice([0, 0.3, 0.6, 1])
            np.moveaxis(data, axis, 0)[gone] = 0
        return data

    def activated(self, total: Value) -> Value:
        """Sums as activations: requantised, or clipped."""
        channels = total.type.shape[-1]
        if self.float:
            return self.call("relu", total) if self.rng.random() < 0.8 else total
        each = channels if self.rng.random() < 0.7 else 1
        shift = self.rng.integers(-5, 2, each)
        mult = np.where(self.rng.random(each) < 0.1, 0, self.rng.integers(1 << 30, (1 << 31) - 1, each))
        zero = int(self.rng.choice(ZERO_POINTS)) if self.kind == I8 else 0
        out = self.call(
            "requantize", total, self.const(I32, mult), self.const(I32, shift), acc_bits=31, out=str(self.kind),
            zp=zero, lo=zero, hi=127, shift_lo=int(shift.min()), shift_hi=int(shift.max()),
        )  # fmt: skip
        self.zero[out.name] = zero
        return out

    def bias(self, channels: int) -> Value:
        scale = 1 if self.float else 100
        return self.const(self.sum_kind, self.rng.integers(-4, 5, channels) * scale)

    def window(self, x: Value, kernel: tuple[int, int]) -> dict[str, object]:
        zero = self.zero[x.name]
        other = zero if self.float or self.rng.random() < 0.8 else zero + 1
        before = [int(self.rng.integers(0, k)) for k in kernel]
        pad = (*before, *(k - 1 - b for k, b in zip(kernel, before, strict=True)))
        if not self.cut and self.rng.random() < 0.3:
            self.cut, pad = True, (0, 0, 0, 0)
        offset = {} if self.float else {"x_offset": -zero}
        return {"stride": (1, 1), "dilation": (1, 1), "pad": pad, "pad_value": other} | offset

    def conv(self, x: Value) -> Value:
        out, channels = int(self.rng.integers(1, 7)), x.type.shape[-1]
        kernel = KERNELS[int(self.rng.integers(len(KERNELS)))]
        w = self.const(self.weight_kind, self.weights(out, *kernel, channels, axes=(0, 3)))
        return self.activated(self.call("conv2d", x, w, self.bias(out), **self.window(x, kernel)))

    def depthwise(self, x: Value) -> Value:
        m, channels = int(self.rng.integers(1, 3)), x.type.shape[-1]
        w = self.const(self.weight_kind, self.weights(3, 3, channels * m, axes=(2,)))
        given = self.window(x, (3, 3)) | {"multiplier": m}
        return self.activated(self.call("depthwise_conv2d", x, w, self.bias(channels * m), **given))

    def pool(self, x: Value) -> Value:
        op = "max_pool2d" if self.float or self.rng.random() < 0.5 else "avg_pool2d"
        bounds = {} if self.float else {"lo": self.lowest, "hi": 127}
        return self.call(op, x, kernel=(2, 2), stride=(1, 1), pad=(0, 1, 1, 0), **bounds)

    def pad(self, x: Value) -> Value:
        return self.call("pad", x, pads=((0, 0), (1, 0), (0, 2), (0, 0)), value=self.zero[x.name])

    def add(self, x: Value, y: Value) -> Value:
        if self.float:
            return self.call("add", x, y)
        sides = {f"{s}_{k}": v for s in "ab" for k, v in (("mult", 1 << 30), ("shift", 0), ("offset", 1))}
        left = 20 if self.kind == I8 else 15
        given = {**sides, "left_shift": left, "out_mult": 1 << 30, "out_shift": 2 - left, "lo": self.lowest, "hi": 127}
        return self.call("add_q", x, y, out=str(self.kind), zp=-1, **given)

    def table(self, x: Value) -> Value:
        if self.kind != I8:
            return self.call("neg", x)
        return self.call("lookup", x, self.const(I8, self.rng.integers(-128, 128, 256)))

    def part(self, x: Value) -> Value:
        channels = x.type.shape[-1]
        begin = int(self.rng.integers(0, channels))
        return self.call("slice", x, begin=(0, 0, 0, begin), size=(1, -1, -1, channels - begin), strides=(1, 1, 1, 1))

    def final(self, x: Value) -> Value:
        """Pixels as channels of one more sum, at a known size, or one of pixels."""
        channels = x.type.shape[-1]
        if self.float:
            rows = self.call("reshape", x, shape=(-1, channels))
            return self.call("matmul", rows, self.const(F32, self.weights(channels, 3, axes=(0, 1))))
        cut = self.call("slice", x, begin=(0, 0, 0, 0), size=(1, 2, 2, channels), strides=(1, 1, 1, 1))
        flat = self.call("reshape", cut, shape=(1, 4 * channels))
        w = self.const(I8, self.weights(3, 4 * channels, axes=(0,)))
        return self.call("dense", flat, w, self.bias(3), x_offset=5, w_offset=int(self.rng.choice([0, 1, 128])))

    def reader(self, channels: int) -> tuple[Value, Value]:
        """Weights and bias of one pixel's sums of so many channels."""
        return self.const(self.weight_kind, self.weights(2, 1, 1, channels, axes=())), self.bias(2)

    def module(self) -> Module:
        pool = [self.conv(self.x)]
        for _ in range(int(self.rng.integers(2, 7))):
            x = pool[-1] if self.rng.random() < 0.7 else pool[int(self.rng.integers(len(pool)))]
            twins = [v for v in pool if v.type.shape == x.type.shape]
            beside = [v for v in pool if v.type.shape[:-1] == x.type.shape[:-1]]
            match int(self.rng.integers(10)):
                case 0 | 1 | 2:
                    pool.append(self.conv(x))
                case 3 | 4:
                    pool.append(self.depthwise(x))
                case 5:
                    pool.append(self.pool(x))
                case 6:
                    pool.append(self.add(x, twins[int(self.rng.integers(len(twins)))]))
                case 7:
                    pool.append(self.table(x))
                case 8:
                    pool.append(self.call("concat", x, beside[int(self.rng.integers(len(beside)))], axis=3))
                case _:
                    pool.append(self.part(x) if self.rng.random() < 0.5 else self.pad(x))
        result = self.final(self.conv(pool[-1]))
        graph = Graph("main", (H,), (self.x,), tuple(self.body), (result,))
        return Cleanup().run(Module("m", "typed", consts=self.consts, graphs={"main": graph}))


def outcome(module: Module, x: np.ndarray) -> list[tuple[tuple[int, ...], bytes]]:
    return [(a.shape, a.tobytes()) for a in run_graph(module, "main", {"x": x}).values()]


def inputs(net: Net, h: int) -> np.ndarray:
    shape = (1, h, 5, net.x.type.shape[-1])
    lo, hi = (-4, 5) if net.float else (net.lowest, -net.lowest)
    return net.rng.integers(lo, hi, shape).astype(net.kind.numpy)


def columns(module: Module) -> int:
    return sum(v.type.shape[-1] for v in module.graphs["main"].values())


@pytest.mark.parametrize("kind", [I8, I16, F32], ids=str)
def test_random_nets_keep_every_bit(kind: DType) -> None:
    smaller = 0
    for seed in range(60):
        net = Net(seed, kind)
        before = net.module()
        after = PruneChannels().run(before)
        rounded = PruneChannels(multiple=4).run(before)
        for module in (before, after, rounded):
            check(module, ops)
        smaller += columns(after) < columns(before)
        assert columns(after) <= columns(rounded) <= columns(before)
        for h in (4, 7):
            x = inputs(net, h)
            wanted = outcome(before, x)
            assert outcome(after, x) == wanted, seed
            assert outcome(rounded, x) == wanted, seed
            assert outcome(FoldOffset().run(after), x) == wanted, seed
    assert smaller > 30


def test_nothing_is_left_to_take_out_the_second_time() -> None:
    for seed in range(40):
        once = Cleanup().run(PruneChannels().run(Net(seed, I8).module()))
        assert columns(PruneChannels().run(once)) == columns(once), seed


def test_a_table_as_long_as_there_are_channels_stays_whole() -> None:
    net = Net(0, I8)
    rows = net.rng.integers(-9, 10, (256, 1, 1, net.x.type.shape[-1]))
    rows[::2] = 0
    window = {"stride": (1, 1), "dilation": (1, 1), "pad": (0, 0, 0, 0), "x_offset": 0}
    total = net.call("conv2d", net.x, net.const(I8, rows), net.bias(256), **window)
    table = net.const(I8, net.rng.integers(-128, 128, 256))
    result = net.call("conv2d", net.call("lookup", net.activated(total), table), *net.reader(256), **window)
    graph = Graph("main", (H,), (net.x,), tuple(net.body), (result,))
    before = Module("m", "typed", consts=net.consts, graphs={"main": graph})
    after = PruneChannels().run(before)
    check(after, ops)
    assert columns(after) < columns(before) - 300
    x = inputs(net, 5)
    assert outcome(after, x) == outcome(before, x)


@pytest.fixture(scope="module")
def counting() -> ModuleType:
    spec = importlib.util.spec_from_file_location("work", ROOT / "benchmarks" / "work.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["work"] = module  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    return module


@pytest.mark.models
def test_visual_wake_words_is_half_of_itself(models: Path, counting: ModuleType) -> None:
    before, after = counting.graphs(models / "vww_96_int8.tflite", load_board("nucleo_l4r5zi"))
    assert counting.work_of(before).conv_macs > 7_400_000
    found = counting.work_of(after)
    assert found.conv_macs <= 3_770_000  # some channels stay to fill words
    assert found.weights_bytes + found.bias_bytes <= 34_816
    assert found.table_bytes <= 8_328
    image = np.random.default_rng(0).integers(-128, 128, (1, 96, 96, 3)).astype(np.int8)
    wanted, got = (run_graph(m, "main", {m.graphs["main"].params[0].name: image}) for m in (before, after))
    for name, want in wanted.items():
        np.testing.assert_array_equal(got[name], want)
