"""Layers in vectors on the emulated Cortex-M55 and AArch64, in registers of an FPU on the M7: as the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdk.boards import load_board
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import F32, I8, I32
from sdk.compiler.ops.registry import get_op
from sdk.driver import BuildOptions, run
from sdk.driver.measuring import count
from sdk.driver.program import save_program
from sdk.graph import ModuleBuilder

RNG = np.random.default_rng(11)
I32_MIN, I32_MAX = -(2**31), 2**31 - 1
BOARDS = ("qemu-cortex-m55", "aarch64-linux-neon", "aarch64-linux", "aarch64-linux-i8mm")
pytestmark = pytest.mark.emulator


def window(kernel: int, stride: int = 1) -> dict[str, Any]:
    return {"stride": (stride, stride), "dilation": (1, 1), "pad": (kernel // 2,) * 4}


# name: op, shape of the input, shape of the weights, attributes
LAYERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "pointwise": ("conv2d", (1, 5, 7, 27), (19, 1, 1, 27), window(1)),
    "image": ("conv2d", (1, 9, 9, 3), (16, 3, 3, 3), window(3, 2)),
    "wide": ("conv2d", (1, 6, 5, 16), (10, 3, 3, 16), window(3)),
    "row": ("conv2d", (1, 1, 1, 130), (33, 1, 1, 130), window(1)),
    "depthwise": ("depthwise_conv2d", (1, 8, 7, 20), (3, 3, 20), {**window(3), "multiplier": 1}),
    "words": ("conv2d", (1, 5, 5, 40), (24, 1, 1, 40), window(1)),
    "nine": ("depthwise_conv2d", (1, 9, 7, 9), (5, 5, 9), {**window(5, 2), "multiplier": 1}),
    "few": ("depthwise_conv2d", (1, 30, 40, 5), (3, 3, 5), {**window(3), "multiplier": 1}),
}


def answers(module: Module, board: str, inputs: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
    path = folder / "layers.ir"
    save_program(module, path)
    return dict(run(path, load_board(board), None, BuildOptions(), {}, inputs).outputs)


@pytest.mark.some(2)
@pytest.mark.parametrize("board", BOARDS)
def test_integer_layers_in_vectors(board: str, tmp_path: Path) -> None:
    builder = ModuleBuilder("layers")
    entry = builder.entry("main")
    inputs, wanted = {}, {}
    for name, (op, shape, taps, attrs) in LAYERS.items():
        x = RNG.integers(-128, 128, shape).astype(np.int8)
        w = RNG.integers(-128, 128, taps).astype(np.int8)
        channels = taps[-1] if op == "depthwise_conv2d" else taps[0]
        b = RNG.integers(-9999, 9999, channels).astype(np.int32)
        mult = RNG.integers(1 << 30, I32_MAX, channels).astype(np.int32)
        shift = RNG.integers(-9, -6, channels).astype(np.int32)
        given: dict[str, Any] = {**attrs, "pad_value": -7, "x_offset": 7}
        groups = {} if op == "depthwise_conv2d" else {"groups": 1}
        value = entry.input(name, I8, shape)
        acc = getattr(entry, op)(value, builder.const(f"{name}_w", w), builder.const(f"{name}_b", b), **given, **groups)
        scale = {"out": "i8", "zp": 3, "lo": -100, "hi": 127, "shift_lo": -9, "shift_hi": -7, "acc_bits": 31}
        made = entry.requantize(acc, builder.const(f"{name}_m", mult), builder.const(f"{name}_s", shift), **scale)
        entry.output(f"{name}_y", made)
        inputs[name] = x
        total = get_op(op).reference(x, w, b, **given, **groups)
        wanted[f"{name}_y"] = get_op("requantize").reference(total, mult, shift, **scale)
    got = answers(builder.module(), board, inputs, tmp_path)
    for name, want in wanted.items():
        np.testing.assert_array_equal(got[name], want, err_msg=name)


@pytest.mark.parametrize("board", BOARDS)
def test_requantising_extremes_in_lanes(board: str, tmp_path: Path) -> None:
    """Shifts by 0 to 31, products that saturate, ties away from zero."""
    shift = -np.arange(32, dtype=np.int32)
    mult = np.where(np.arange(32) % 2, I32_MAX, 1 << 30).astype(np.int32)
    edges = [I32_MIN, I32_MIN + 1, -(1 << 30), -3, -2, -1, 0, 1, 2, 3, 1 << 30, I32_MAX]
    rows = [np.full(32, e, np.int64) for e in edges] + [(1 << np.arange(32)) * s for s in (-1, 1)]
    x = np.clip(np.stack([*rows, *RNG.integers(I32_MIN, I32_MAX, (8, 32))]), I32_MIN, I32_MAX).astype(np.int32)
    scale = {"out": "i16", "zp": -4, "lo": -32768, "hi": 32767, "shift_lo": -31, "shift_hi": 0, "acc_bits": 32}
    builder = ModuleBuilder("layers")
    entry = builder.entry("main")
    value, by, to = entry.input("x", I32, x.shape), builder.const("m", mult), builder.const("s", shift)
    entry.output("y", entry.requantize(value, by, to, **scale))
    want = get_op("requantize").reference(x, mult, shift, **scale)
    assert len(np.unique(want)) > 30
    np.testing.assert_array_equal(answers(builder.module(), board, {"x": x}, tmp_path)["y"], want)


@pytest.mark.parametrize(
    "board", ["qemu-cortex-m7", "qemu-cortex-m55", pytest.param("qemu-cortex-m4", marks=pytest.mark.slow)]
)
def test_float_layers(board: str, tmp_path: Path) -> None:
    builder = ModuleBuilder("layers")
    entry = builder.entry("main")
    inputs, wanted = {}, {}
    shapes = {
        "pointwise": ((1, 5, 7, 27), (24, 1, 1, 27), 1),
        "tails": ((1, 7, 5, 16), (12, 3, 3, 16), 3),
        "row": ((1, 1, 1, 130), (40, 1, 1, 130), 1),
        "depthwise": ((1, 9, 11, 12), (3, 3, 12), 3),
    }
    for name, (shape, taps, kernel) in shapes.items():
        op = "depthwise_conv2d" if len(taps) == 3 else "conv2d"
        rest: dict[str, Any] = {"multiplier": 1} if len(taps) == 3 else {"groups": 1}
        x, w = (RNG.standard_normal(s).astype(np.float32) for s in (shape, taps))
        b = RNG.standard_normal(taps[-1] if len(taps) == 3 else taps[0]).astype(np.float32)
        value = entry.input(name, F32, shape)
        given = {**window(kernel), **rest}
        made = getattr(entry, op)(value, builder.const(f"{name}_w", w), builder.const(f"{name}_b", b), **given)
        entry.output(f"{name}_y", made)
        inputs[name], wanted[f"{name}_y"] = x, get_op(op).reference(x, w, b, **given)
    got = answers(builder.module(), board, inputs, tmp_path)
    for name, want in wanted.items():
        np.testing.assert_allclose(got[name], want, rtol=0, atol=1e-4 * np.abs(want).max(), err_msg=name)


# SMULL and SADALP add 4 products an instruction, SDOT 16, SMMLA 32
@pytest.mark.parametrize(
    ("board", "pointwise", "depthwise"),
    [("aarch64-linux-neon", 0.38, 0.8), ("aarch64-linux", 0.14, 0.8), ("aarch64-linux-i8mm", 0.11, 0.8)],
)
def test_instructions_for_a_product(board: str, pointwise: float, depthwise: float, tmp_path: Path) -> None:
    """What a whole run executes for each multiply-accumulate, requantisation included."""
    assert executed("conv2d", (1, 12, 12, 64), (64, 1, 1, 64), board, tmp_path) <= pointwise * 144 * 64 * 64
    assert executed("depthwise_conv2d", (1, 12, 12, 64), (3, 3, 64), board, tmp_path) <= depthwise * 144 * 9 * 64


def executed(op: str, shape: tuple[int, ...], taps: tuple[int, ...], board: str, folder: Path) -> int:
    builder = ModuleBuilder("layer")
    entry = builder.entry("main")
    outputs = taps[-1] if op == "depthwise_conv2d" else taps[0]
    w = builder.const("w", RNG.integers(-127, 128, taps).astype(np.int8))
    b = builder.const("b", RNG.integers(-999, 999, outputs).astype(np.int32))
    mult = builder.const("mult", RNG.integers(1 << 30, I32_MAX, outputs).astype(np.int32))
    shift = builder.const("shift", RNG.integers(-9, -6, outputs).astype(np.int32))
    rest: dict[str, Any] = {"multiplier": 1} if op == "depthwise_conv2d" else {"groups": 1}
    given = {**window(taps[1] if op == "conv2d" else taps[0]), "pad_value": -128, "x_offset": 128, **rest}
    acc = getattr(entry, op)(entry.input("x", I8, shape), w, b, **given)
    scale = {"out": "i8", "zp": -128, "lo": -128, "hi": 127, "shift_lo": -9, "shift_hi": -7, "acc_bits": 31}
    entry.output("y", entry.requantize(acc, mult, shift, **scale))
    path = folder / f"{op}.ir"
    save_program(builder.module(), path)
    return count(path, load_board(board), BuildOptions()).instructions
