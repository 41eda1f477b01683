"""Many constants: a binary file and an assembler file in the place of C text, for every toolchain."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from c_model import CModel, Net, check, files_of, load
from elftools.elf.constants import SH_FLAGS

from sdk.boards import load_board
from sdk.codegen_c.program.weights_blob import BLOB_ABOVE
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import I8, I16, I32
from sdk.driver.sources import as_files, compile_sources
from sdk.toolchains import Blob, SourceText, get_toolchain, target_for
from sdk.toolchains.elf import ElfFile
from sdk.toolchains.size import section_sizes

ALLOC, WRITE = SH_FLAGS.SHF_ALLOC, SH_FLAGS.SHF_WRITE

ROWS = BLOB_ABOVE // 5


def large() -> Module:
    """Constants of three types and odd sizes, together above the limit."""
    rng = np.random.default_rng(0)
    net = Net()
    x, y = net.input("x", I8, ROWS, 5), net.input("y", I16, 3)
    w = net.const("w", I8, rng.integers(-128, 127, (ROWS, 5), endpoint=True))
    u = net.op("u", "maximum", x, w)
    v = net.op("v", "add", y, net.const("small", I16, np.array([-300, 2, 700])))
    z = net.op("z", "add", net.input("z_in", I32, 7), net.const("wide", I32, rng.integers(-(2**31), 2**31 - 1, (7,))))
    return net.planned(u, v, z, io="caller")


@pytest.mark.parametrize("toolchain", ["zig", "gcc", "clang"])
def test_runs(toolchain: str, tmp_path: Path) -> None:
    module = large()
    files = as_files(files_of(module))
    assert "net_weights.c" not in files
    tool, target = get_toolchain(toolchain), target_for(load_board("host"))
    blob = compile_sources({n: t for n, t in files.items() if "weights" in n}, tool, target)
    assert [o.warnings for o in blob] == [""]
    model = CModel(load(files, tmp_path, toolchain, more=blob), "net")
    rng = np.random.default_rng(1)
    inputs = {
        "x": rng.integers(-128, 127, (ROWS, 5)).astype(np.int8),
        "y": np.array([5, 6, 7], np.int16),
        "z_in": np.zeros(7, np.int32),
    }
    check(model, inputs, run_plan(module, "main", inputs))


@pytest.mark.parametrize(("board", "toolchain"), [("l4r5zi", "arm-none-eabi-gcc"), ("l4r5zi", "zig"), ("host", "zig")])
def test_assembles_for_boards(board: str, toolchain: str) -> None:
    files = {n: t for n, t in as_files(files_of(large())).items() if "weights" in n}
    (unit,) = compile_sources(files, get_toolchain(toolchain), target_for(load_board(board)))
    assert unit.warnings == ""
    elf = ElfFile(unit.path)
    named = {s.name: (elf.sections[s.section].flags & (ALLOC | WRITE), s.size) for s in elf.symbols if s.size}
    assert named == {
        "net_w_w": (ALLOC, ROWS * 5), "net_w_small": (ALLOC, 6), "net_w_wide": (ALLOC, 28)
    }  # fmt: skip
    blob = files["net_weights.bin"]
    assert isinstance(blob, Blob)
    size = len(blob.data)
    assert size % 64 == 0
    assert section_sizes([unit.path]).rodata in range(size - 63, size + 1)


def test_assembles_for_macs() -> None:
    mac = dataclasses.replace(target_for(load_board("host")), zig_target="aarch64-macos", zig_cpu="generic")
    files = {n: t for n, t in as_files(files_of(large())).items() if "weights" in n}
    (unit,) = compile_sources(files, get_toolchain("zig"), mac)
    assert b"_net_w_small\0" in unit.path.read_bytes()


def test_same_module_same_files_and_keys() -> None:
    one, two = (as_files(files_of(large())) for _ in range(2))
    assert one == two
    assert isinstance(one["net_weights.bin"], Blob)
    keys = {SourceText("net_weights.bin", f["net_weights.bin"]).identity for f in (one, two)}
    assert len(keys) == 1
