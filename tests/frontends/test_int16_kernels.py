"""Layers of 16-bit activations on emulated cores, large enough for their kernels, against tflite-micro."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tflite_files import ModelFile

from sdk.cli import run_command

pytestmark = pytest.mark.emulator
Capture = pytest.CaptureFixture[str]
IN, SAME = 0.0004, 0
Layer = Callable[[ModelFile, str], None]  # adds itself, its output of the name given


def layer(
    op: str, options: str, shape: tuple[int, ...], weights: tuple[int, ...], out: tuple[int, ...], axis: int = 0,
    bias: str = "int64", largest: int = 100_000, scale: float = 0.001, **given: int,
) -> Layer:  # fmt: skip
    def add(m: ModelFile, name: str) -> None:
        rng = np.random.default_rng(5)
        x = m.input(f"x {name}", shape, "int16", IN, 0)
        count = weights[axis]
        scales = [0.0071] if op == "FULLY_CONNECTED" else [float(s) for s in rng.uniform(0.001, 0.02, count)]
        ins = [x, m.const("w", rng.integers(-127, 128, weights), "int8", scale=scales, axis=axis)]
        if bias:
            ins.append(m.const("b", rng.integers(-largest, largest, count), bias, scale=[IN * s for s in scales]))
        m.op(op, ins, [m.output(name, out, "int16", scale, 0)], options, FusedActivationFunction=0, **given)

    return add


def conv(
    side: int, depth: int, outs: int, kernel: int, stride: int = 1, bias: str = "int64", largest: int = 100_000,
    scale: float = 0.001,
) -> Layer:  # fmt: skip
    size = -(-side // stride)
    given = {"Padding": SAME, "StrideH": stride, "StrideW": stride, "DilationHFactor": 1, "DilationWFactor": 1}
    return layer(
        "CONV_2D", "Conv2DOptions", (1, side, side, depth), (outs, kernel, kernel, depth), (1, size, size, outs),
        bias=bias, largest=largest, scale=scale, **given,
    )  # fmt: skip


def depthwise(side: int, channels: int, kernel: int, stride: int = 1, multiplier: int = 1) -> Layer:
    size, outs = -(-side // stride), channels * multiplier
    given = {"Padding": SAME, "StrideH": stride, "StrideW": stride, "DilationHFactor": 1, "DilationWFactor": 1}
    return layer(
        "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", (1, side, side, channels), (1, kernel, kernel, outs),
        (1, size, size, outs), axis=3, DepthMultiplier=multiplier, **given,
    )  # fmt: skip


def dense(rows: int, inner: int, outs: int, bias: str = "int64") -> Layer:
    given = {"KeepNumDims": False, "WeightsFormat": 0}
    return layer(
        "FULLY_CONNECTED", "FullyConnectedOptions", (rows, inner), (outs, inner), (rows, outs), bias=bias, scale=0.01,
        **given,
    )  # fmt: skip


def joined(m: ModelFile, name: str) -> None:
    """A sum of two tensors, pools of it, the larger of them."""
    a, b = m.input("a", (1, 9, 9, 4), "int16", 0.0004, 0), m.input("b", (1, 9, 9, 4), "int16", 0.0007, 0)
    total = m.tensor("total", (1, 9, 9, 4), "int16", 0.0009, 0)
    m.op("ADD", [a, b], [total], "AddOptions", FusedActivationFunction=1)
    pool = {"Padding": SAME, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 3}
    for pool_op in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        out = m.output(f"{name} {pool_op}", (1, 5, 5, 4), "int16", 0.0009, 0)
        m.op(pool_op, [total], [out], "Pool2DOptions", FusedActivationFunction=0, **pool)


LAYERS: dict[str, Layer] = {
    "pointwise": conv(8, 64, 32, 1),
    "odd depth": conv(7, 17, 10, 1),
    "odd channels": conv(6, 16, 15, 1),
    "image": conv(9, 3, 8, 3),
    "stride 2": conv(9, 16, 10, 3, 2),
    "no bias": conv(6, 8, 8, 3, bias=""),
    "bias of 32 bits": conv(6, 16, 16, 1, bias="int32"),
    "large scale": conv(6, 8, 16, 1, scale=0.00001),
    "large bias": conv(6, 16, 16, 1, largest=1 << 33),
    "wide sums": conv(4, 256, 8, 3),
    "depthwise": depthwise(9, 8, 3),
    "depthwise stride 2": depthwise(12, 5, 3, 2),
    "depthwise 5x5": depthwise(7, 4, 5),
    "depthwise multiplier": depthwise(9, 3, 3, 1, 2),
    "dense": dense(1, 640, 16),
    "dense, wide sums": dense(1, 2048, 8),
    "dense, wide sums without parts": dense(1, 1042, 8),
    "dense rows": dense(5, 70, 12),
    "joined": joined,
}

PARTS = 4  # models that hold all layers


def verify(names: list[str], board: str, folder: Path, capture: Capture, *more: str) -> None:
    """Layers beside each other in one model; what differs is reported by the output's name, which is the layer's."""
    path, m = folder / "layer.tflite", ModelFile()
    for name in names:
        LAYERS[name](m, name)
    path.write_bytes(m.build())
    code = run_command(["verify", str(path), "--board", board, "--cases", "4", "--json", *more])
    report = json.loads(capture.readouterr().out)
    assert (code, report.get("reference"), report.get("exact_cases")) == (0, "tflite-micro", 4), report


@pytest.mark.some(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_products_of_halves(part: int, tmp_path: Path, capsys: Capture) -> None:
    verify([*LAYERS][part::PARTS], "nucleo_l4r5zi", tmp_path, capsys)


@pytest.mark.some(2)
@pytest.mark.parametrize("board", ["qemu-cortex-m3", "rpi_pico", "qemu-riscv32", "qemu-cortex-m55", "host"])
def test_other_cores(board: str, tmp_path: Path, capsys: Capture) -> None:
    verify(["pointwise", "wide sums", "depthwise"], board, tmp_path, capsys)


@pytest.mark.some(2)
@pytest.mark.parametrize("more", [("--toolchain", "arm-none-eabi-gcc"), ("--opt", "size"), ("--memory", "min")])
def test_other_ways_to_build(more: tuple[str, str], tmp_path: Path, capsys: Capture) -> None:
    names = ["pointwise", "dense, wide sums", "dense, wide sums without parts", "depthwise"]
    verify(names, "nucleo_l4r5zi", tmp_path, capsys, *more)
