"""Nests scheduled for each kind of core, as C, equal the reference: lanes, dots, tiles, scratch, packing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import HOST_ISA, WARNINGS, build, source_of

from sdk.boards import load_board
from sdk.compiler.ir.layout import Join
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.machines.lookup import MACHINES, machine_for
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops.registry import get_op, infer
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.sym import evaluate
from sdk.driver.targets import target_of
from sdk.toolchains import CompileJob, SourceText, get_toolchain

CONV = {"stride": (1, 1), "dilation": (1, 1), "pad": (1, 1, 1, 1), "x_offset": 128, "pad_value": -128}
T = TensorType
SHAPES = {
    "conv": ("conv2d", (T(I8, (1, 7, 6, 5)), T(I8, (19, 3, 3, 5)), T(I32, (19,))), CONV),
    "pointwise": (
        "conv2d",
        (T(I8, (1, 6, 7, 24)), T(I8, (32, 1, 1, 24)), T(I32, (32,))),
        {**CONV, "pad": (0, 0, 0, 0)},
    ),
    "strided": (
        "conv2d",
        (T(I8, (1, 9, 9, 4)), T(I8, (16, 3, 3, 4)), T(I32, (16,))),
        {**CONV, "stride": (2, 2)},
    ),
    "depthwise": (
        "depthwise_conv2d",
        (T(I8, (1, 8, 7, 20)), T(I8, (3, 3, 20)), T(I32, (20,))),
        {**CONV, "multiplier": 1},
    ),
    "requantize": (
        "requantize",
        (T(I32, (5, 37)), T(I32, (37,)), T(I32, (37,))),
        {"out": "i8", "zp": -4, "lo": -128, "hi": 127, "shift_lo": -12, "shift_hi": -1, "acc_bits": 20},
    ),
    "requantize16": (
        "requantize",
        (T(I32, (5, 37)), T(I32, (1,)), T(I32, (1,))),
        {"out": "i16", "zp": 0, "lo": -32768, "hi": 32767, "shift_lo": -8, "shift_hi": 0, "acc_bits": 31},
    ),
}
# A core's code without the instructions of its own runs on any machine: the same lanes, spelled out.
# but on cores whose products have a shape of their own; generated networks run those (tests/differential).
PORTABLE = {1: frozenset[str](), 4: frozenset({"sse2"}), 8: frozenset({"sse2"}), 16: frozenset({"sse2"})}
BUILDS = [
    pytest.param(core, isa, tool, id=f"{core.name}-{kind}-{tool}")
    for core in MACHINES
    if not core.needs & {"neon", "simd128"}
    for kind, isa in (("own", HOST_ISA), ("portable", PORTABLE[core.integer_lanes]))
    for tool in ("zig", "gcc")
    if kind == "portable" or (core.needs <= HOST_ISA and core.vector_bytes)
]


def attributes(name: str, core: Machine) -> dict[str, Any]:
    """Those of the shape, with the input offset that passes leave for a core: what its dot takes."""
    attrs = SHAPES[name][2]
    if "x_offset" not in attrs:
        return attrs
    return {**attrs, "x_offset": 0 if core.name == "thumb" else 7 if core.dot is None else 128 if core.unsigned else 0}


def scheduled(core: Machine, even: Iterable[str] = ()) -> list[Loops]:
    out = []
    for name, (op, types, _) in SHAPES.items():
        attrs = attributes(name, core)
        plain = get_op(op).loops(name, types, infer(op, types, tuple(sorted(attrs.items()))), attrs)
        out.append(schedule_nest(Nest(plain, even=frozenset(even)), core))
    return out


@pytest.mark.some(5)
@pytest.mark.parametrize("compiler", ["zig", "gcc"])
@pytest.mark.parametrize("board", ["nucleo_l4r5zi", "qemu-cortex-m55", "qemu-cortex-m3", "microbit", "qemu-riscv32"])
def test_microcontroller_code_has_no_warnings(board: str, compiler: str) -> None:
    found = load_board(board)
    core = machine_for(found.capabilities)
    text = source_of(scheduled(core, even={"w"}), found.capabilities)
    assert ("smlad" in text) == (core.assembly is not None)
    assert ("adcs" in text) == (core.name == "thumb")
    job = CompileJob(SourceText("kernels.c", text), target_of(found), flags=(*WARNINGS, "-ffreestanding"))
    toolchain = get_toolchain(compiler if compiler == "zig" else found.compilers.gcc.command)
    assert toolchain.compile(job).warnings == ""


def values(name: str, k: int, type: TensorType, rng: np.random.Generator) -> np.ndarray:
    shape = type.static_shape
    if name.startswith("requantize"):
        bits = 31 if name.endswith("16") else 20
        lo, hi = [(-(1 << bits) + 1, 1 << bits), (1 << 30, (1 << 31) - 1), (-8, 0)][k]
        return rng.integers(lo, hi, shape).astype(np.int32)
    return rng.integers(-128, 128, shape).astype(type.dtype.numpy)


@pytest.mark.some(16)
@pytest.mark.parametrize(("core", "isa", "toolchain"), BUILDS)
def test_scheduled_equals_reference(core: Machine, isa: frozenset[str], toolchain: str, tmp_path: Path) -> None:
    functions = scheduled(core)
    kernels = build(functions, tmp_path, isa, toolchain)
    rng = np.random.default_rng(5)
    for loops in functions:
        op, types, _ = SHAPES[loops.name]
        attrs = attributes(loops.name, core)
        args = [values(loops.name, k, t, rng) for k, t in enumerate(types)]
        want = get_op(op).reference(*args, **attrs)
        given = [pack_array(a, p.layout) for a, p in zip(args, loops.params, strict=False)]
        got = np.full_like(want, 85)
        extent = evaluate(loops.rows.extent, {})
        for rows in ((0, 3), (3, extent)):
            kernels.call(loops.name, [*given, got], (), rows)
        np.testing.assert_array_equal(got, want, err_msg=f"{loops.name} for {core.name}")


def test_halves_of_words_equal_the_reference(tmp_path: Path) -> None:
    core = machine_for({"thumb"})
    pairs = Join(0, 2, I32)
    functions = [f for f in scheduled(core, even={"w"}) if any(pairs in of.steps for of in f.layouts.values())]
    assert {f.name for f in functions} == {"pointwise", "strided"}
    kernels = build(functions, tmp_path, PORTABLE[1], "gcc")
    rng = np.random.default_rng(5)
    for loops in functions:
        op, types, _ = SHAPES[loops.name]
        args = [values(loops.name, k, t, rng) for k, t in enumerate(types)]
        args[1] = np.maximum(args[1], -127)
        want = get_op(op).reference(*args, **attributes(loops.name, core))
        got = np.full_like(want, 85)
        weights = pack_array(args[1], loops.param("w").layout)
        kernels.call(loops.name, [args[0], weights, args[2], got], (), (0, want.shape[1]))
        np.testing.assert_array_equal(got, want)


def test_products_by_halves_equal_long_ones(tmp_path: Path) -> None:
    """What a core without long multiplication computes them with."""
    types, attrs = SHAPES["requantize"][1], {**SHAPES["requantize"][2], "acc_bits": 30, "shift_hi": -1}
    loops = get_op("requantize").loops("requantize", types, infer("requantize", types, tuple(attrs.items())), attrs)
    assert "srdhm30_thumb" in source_of([loops], frozenset({"thumb"}))
    kernels = build([loops], tmp_path, frozenset({"thumb"}), "gcc")
    rng = np.random.default_rng(6)
    sums = rng.integers(-(1 << 30) + 1, 1 << 30, (5, 37)).astype(np.int32)
    sums[0, :4] = (1 << 30) - 1, -(1 << 30) + 1, 65535, -65536
    mult = rng.integers(1 << 30, (1 << 31) - 1, 37).astype(np.int32)
    mult[:2] = (1 << 31) - 1, 1 << 30
    for shift in (-12, -5, -1):
        args = [sums, mult, np.full(37, shift, np.int32)]
        want = get_op("requantize").reference(*args, **attrs)
        got = np.full_like(want, 85)
        kernels.call("requantize", [*args, got], (), (0, 5))
        np.testing.assert_array_equal(got, want)
