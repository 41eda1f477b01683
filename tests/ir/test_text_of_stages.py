"""After every pass, for every kind of board and objective, a module is well formed and reads back from its text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdk.boards import load_board
from sdk.compiler import ops
from sdk.compiler.ir.module import Module
from sdk.compiler.passes.base import Pass
from sdk.compiler.verify.module import verify
from sdk.compiler.verify.plan import verify_plan
from sdk.driver import BuildOptions
from sdk.driver.pipeline import default_passes, import_model, lower_module
from sdk.graph import Entry, ModuleBuilder, Tensor, f32, i8, i16
from tests.ir.round_trip import check_round_trip
from tests.models.real import LARGE, NAMES, soaked

THREE = {"stride": (1, 1), "dilation": (1, 1), "pad": (1, 1, 1, 1), "pad_value": -3, "x_offset": 3}
POINT = {**THREE, "pad": (0, 0, 0, 0)}
ZEROS = {**THREE, "pad_value": 0, "x_offset": 0}
REQUANT = {"zp": -3, "lo": -128, "hi": 127, "shift_lo": -9, "shift_hi": -5, "acc_bits": 24}


class Layers:
    """Quantised layers of an entry; ``out`` is the type of what they give."""

    def __init__(self, g: ModuleBuilder, e: Entry, out: str) -> None:
        self.g, self.e, self.out, self.count = g, e, out, 0
        self.rng = np.random.default_rng(5)

    def const(self, lo: int, hi: int, shape: tuple[int, ...], kind: type) -> Tensor:
        self.count += 1
        return self.g.const(f"c{self.count}", self.rng.integers(lo, hi, shape).astype(kind))

    def layer(self, op: str, x: Tensor, shape: tuple[int, ...], channels: int, **given: Any) -> Tensor:
        """Sums of products with weights of a shape, rescaled."""
        w = self.const(-60, 60, shape, np.int8)
        acc = getattr(self.e, op)(x, w, self.const(-999, 999, (channels,), np.int32), **given)
        mult = self.const(1 << 30, (1 << 31) - 1, (channels,), np.int32)
        shift = self.const(-9, -4, (channels,), np.int32)
        return self.e.requantize(acc, mult, shift, out=self.out, **REQUANT)


def bytes_() -> Module:
    """A convolution, two separable ones of one shape, a vector: layers of every rule for bytes."""
    g = ModuleBuilder("bytes")
    with g.entry("main") as e:
        net = Layers(g, e, "i8")
        x = e.input("x", i8, (1, 16, 12, 3))
        x = net.layer("conv2d", x, (16, 3, 3, 3), 16, **THREE)
        for channels in (16, 24, 32):
            depth = x.shape[3]
            x = net.layer("depthwise_conv2d", x, (3, 3, depth), depth, multiplier=1, **THREE)
            x = net.layer("conv2d", x, (channels, 1, 1, depth), channels, **POINT)
        x = e.max_pool2d(x, kernel=(2, 2), stride=(2, 2), pad=(0, 0, 0, 0))
        x = e.reshape(x, shape=(1, 8 * 6 * 32))
        e.output("y", net.layer("dense", x, (10, 8 * 6 * 32), 10, x_offset=3, w_offset=0))
    return g.module()


def shorts() -> Module:
    """Activations of 16 bits."""
    g = ModuleBuilder("shorts")
    with g.entry("main") as e:
        net = Layers(g, e, "i16")
        x = e.input("x", i16, (1, 9, 9, 8))
        x = net.layer("conv2d", x, (12, 3, 3, 8), 12, **ZEROS)
        x = net.layer("depthwise_conv2d", x, (3, 3, 12), 12, multiplier=1, **ZEROS)
        x = e.reshape(x, shape=(1, 9 * 9 * 12))
        e.output("y", net.layer("dense", x, (6, 9 * 9 * 12), 6, x_offset=0, w_offset=0))
    return g.module()


def floats() -> Module:
    """A convolution; products and a softmax of open sizes."""
    g, rng = ModuleBuilder("floats"), np.random.default_rng(5)
    n = g.dim("n", 1, 64, 4)

    def some(name: str, *shape: int) -> Tensor:
        return g.const(name, rng.standard_normal(shape).astype(np.float32))

    with g.entry("main") as e:
        image = e.input("image", f32, (1, 12, 12, 8))
        image = e.relu(e.conv2d(image, some("w", 16, 3, 3, 8), some("b", 16), **ZEROS))
        x = e.input("x", f32, (n, 48))
        q, k = x @ some("wq", 48, 40), x @ some("wk", 48, 40)
        scores = e.softmax(e.matmul(q, k, trans_b=True) * 0.125)
        e.output("y", scores @ x)
        e.output("picture", e.transpose(image, perm=(0, 3, 1, 2)))
    return g.module()


def states() -> Module:
    """Two entries that share a ring of rows and a state that is replaced."""
    g = ModuleBuilder("states")
    at = g.dim("at", 0, 1000)
    rows = g.state("rows", f32, (16, 4), layout="ring")
    total = g.state("total", f32, (1, 4), init=1)
    with g.entry("learn") as e:
        x = e.input("x", f32, (1, 4))
        e.write(rows, x, at=at)
        e.write(total, e.read(total) + x)
        e.output("y", e.softmax(e.read(rows)))
    with g.entry("recall") as e:
        e.output("y", e.read(total) * 2.0)
    return g.module()


MODELS: dict[str, Callable[[], Module]] = {"bytes": bytes_, "shorts": shorts, "floats": floats, "states": states}
OBJECTIVES: dict[str, tuple[str, BuildOptions]] = {
    "host": ("host", BuildOptions(threads=4)),
    "aarch64": ("aarch64-linux", BuildOptions()),
    "dsp": ("qemu-cortex-m4", BuildOptions()),
    "size": ("qemu-cortex-m4", BuildOptions(opt="size")),
    "streams": ("qemu-cortex-m4", BuildOptions(memory="min")),
    "no dsp": ("qemu-cortex-m3", BuildOptions()),
    "thumb": ("microbit", BuildOptions(memory="min")),
    "mve": ("qemu-cortex-m55", BuildOptions()),
    "riscv": ("qemu-riscv32", BuildOptions(opt="size")),
}


def check(module: Module, where: str) -> str:
    """The text of the module."""
    assert verify(module, ops) == [], where
    assert [d for plan in module.plans.values() for d in verify_plan(module, plan)] == [], where
    return check_round_trip(module, where)


def check_stages(module: Module, board: str, options: BuildOptions) -> list[str]:
    """The texts after each pass."""
    texts = [check(module, "imported")]

    def observe(step: Pass, after: Module) -> None:
        texts.append(check(after, step.name))

    lower_module(module, default_passes(load_board(board), options), observe)
    return texts


@pytest.mark.some(18)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", MODELS)
def test_every_stage(name: str, objective: str) -> None:
    assert "planned" in check_stages(MODELS[name](), *OBJECTIVES[objective])[-1]


def test_streams_and_shared_kernels_are_among_them() -> None:
    texts = check_stages(bytes_(), "qemu-cortex-m4", BuildOptions(memory="min", opt="size"))
    assert "repeat" in texts[-1]
    assert "instances" in texts[-1]
    assert any("interleave(2, 2)" in text for text in texts)


BIG = (*(NAMES[name] for name in LARGE), "resnet_qdq.onnx")
FILES = (*NAMES.values(), "kws_qdq.onnx", "resnet_qdq.onnx")


@pytest.mark.some(10)
@pytest.mark.models
@pytest.mark.parametrize("objective", ["host", "dsp", "streams", "size", "mve"])
@pytest.mark.parametrize("name", [soaked(file, quick=file not in BIG) for file in FILES])
def test_every_stage_of_real_models(name: str, objective: str, models: Path) -> None:
    check_stages(import_model(models / name, BuildOptions(), "m"), *OBJECTIVES[objective])
