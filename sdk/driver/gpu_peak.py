"""What a GPU of this machine does at most: two kernels, made as those of models are, and a program that times them."""

from __future__ import annotations

import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Final

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Imm, Load, Loops, Op, Param, Store
from sdk.compiler.ir.types import dtype
from sdk.compiler.sym import Dim, Var
from sdk.errors import SdkError
from sdk.profile import Peak
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, SourceText, target_for, toolchain_for
from sdk.toolchains.cache import digest

__all__ = ["gpu_peak"]

SUMS: Final = 16  # of an item, which wait for none of the others
STEPS: Final = 1024
FEWEST: Final = 1 << 12  # work items of the first try
MAX_ITEMS: Final = 1 << 20
READ_BYTES: Final = 64 << 20  # more than most caches hold
READERS: Final = 1 << 18
TIMEOUT_S: Final = 60
_F32: Final = dtype("f32")


@lru_cache(maxsize=4)
def gpu_peak(interface: str) -> Peak | None:
    """The most that the device of "opencl" or "vulkan" does which agents here would take; None where there is none, or
    it fails."""
    try:
        done = subprocess.run([_program(interface)], capture_output=True, timeout=TIMEOUT_S, check=False)
    except (subprocess.TimeoutExpired, SdkError):
        return None
    products, _, rest = done.stdout.decode("utf-8", "replace").strip().partition(" ")
    read, _, name = rest.partition(" ")
    try:
        return Peak("us", float(products), float(read), f"measured here on {name}: floats in registers")
    except ValueError:
        return None


def _products() -> Loops:
    """SUMS sums of each item, STEPS products to each."""
    n, i, k, j = Var("n", 0, MAX_ITEMS), Var("i", 0, MAX_ITEMS - 1), Var("k", 0, STEPS - 1), Var("j", 0, SUMS - 1)
    sums = Buffer("sums", _F32, (SUMS,), "register")
    start = For(j, 0, SUMS, Block((Store("sums", (j.expr,), Load("in", (0,), _F32)),)), "unroll")
    grown = Op("add", (Op("mul", (_sum(j.expr), Imm(0.999, _F32)), _F32), Imm(0.001, _F32)), _F32)
    more = For(k, 0, STEPS, Block((For(j, 0, SUMS, Block((Store("sums", (j.expr,), grown),)), "unroll"),)))
    whole = _sum(0)
    for number in range(1, SUMS):
        whole = Op("add", (whole, _sum(number)), _F32)
    item = Block((Alloc(sums), start, more, Store("out", (i.expr,), whole)))
    params = (Param(Buffer("out", _F32, (n.expr,)), "write"), Param(Buffer("in", _F32, (READ_BYTES // 4,)), "read"))
    return Loops("products", (n,), params, Block((For(i, 0, n.expr, item),)))


def _sum(at: Dim) -> Load | Op:
    return Load("sums", (at,), _F32)


def _reading() -> Loops:
    """Each item reads its part of the memory, neighbours next to each other."""
    n, i, k = Var("n", 0, MAX_ITEMS), Var("i", 0, MAX_ITEMS - 1), Var("k", 0, READ_BYTES // 4 // READERS - 1)
    total = Buffer("total", _F32, (), "register")
    each = Op("add", (Load("total", (), _F32), Load("in", (k.expr * READERS + i.expr,), _F32)), _F32)
    more = For(k, 0, READ_BYTES // 4 // READERS, Block((Store("total", (), each),)))
    start, end = Store("total", (), Imm(0.0, _F32)), Store("out", (i.expr,), Load("total", (), _F32))
    item = Block((Alloc(total), start, more, end))
    params = (Param(Buffer("in", _F32, (READ_BYTES // 4,)), "read"), Param(Buffer("out", _F32, (n.expr,)), "write"))
    return Loops("reading", (n,), params, Block((For(i, 0, n.expr, item),)))


def _program(interface: str) -> Path:
    """The program that measures, from the cache or made of the runtime's driver."""
    root = data_dir("c_runtime") / "gpu"
    target = target_for(load_board("host"))
    tool = toolchain_for(target)
    alone = get_backend("gpu").alone
    assert alone is not None
    made = alone({"products": _products(), "reading": _reading()}, "peak", interface)
    texts = [
        SourceText("peak_codes.c", made),
        SourceText.read(Path(__file__).with_suffix(".c")),
        *map(SourceText.read, [root / "src" / "gpu.c", *sorted((root / "src").glob(f"gpu_{interface}*.c"))]),
    ]
    defines = (
        f"PEAK_OPEN=sdk_gpu_open_{interface}", f"PEAK_MACS={SUMS * STEPS}", f"PEAK_BYTES={READ_BYTES}u",
        f"PEAK_READERS={READERS}u", f"PEAK_FEWEST={FEWEST}u", f"PEAK_MAX={MAX_ITEMS}u",
    )  # fmt: skip
    folders = (root / "include", root / "src")
    jobs = [CompileJob(text, target, include_dirs=folders, defines=defines) for text in texts]
    objects = tuple(tool.compile_all(jobs))
    key = digest("gpu peak", interface, tool.version(), [unit.key for unit in objects])

    def make(folder: Path) -> None:
        tool.link(LinkJob("executable", objects, target, libs=("dl",)), folder / "peak")

    return tool.cache.entry(key, make) / "peak"
