"""Compiles loops functions into one shared library and calls them through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdk.boards import load_board
from sdk.codegen_c.functions.function import CFunction
from sdk.codegen_c.functions.stmt import emit_loops
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.ir.loops import Loops
from sdk.compiler.memory.scratch import scratch_layout
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

WARNINGS = (
    "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wundef", "-Wvla", "-Wdouble-promotion",
    "-Wstrict-prototypes", "-Wmissing-prototypes", "-pedantic", "-Werror",
)  # fmt: skip
HOST_ISA = load_board("host").capabilities
# What a compiler optimises is for one of the two: as zig takes it, every level above 0 is 3, twenty times as long.
OPT = {"zig": "0", "gcc": "1", "clang": "1"}
HEAD = "#include <stdbool.h>\n#include <stdint.h>\n#define M_NOINLINE __attribute__((noinline))\n"
RED_ZONE = 64


@dataclass(frozen=True)
class Kernels:
    """A loaded library of loops functions, by name."""

    library: ctypes.CDLL
    loops: Mapping[str, Loops]

    def call(
        self,
        name: str,
        arrays: Sequence[np.ndarray],
        dims: Sequence[int] = (),
        rows: tuple[int, int] | None = None,
    ) -> None:
        """Runs ``name`` on arrays in parameter order; checks that it wrote nothing past its scratch space."""
        loops = self.loops[name]
        size = scratch_layout(loops).bytes
        scratch = np.full(size + 16 + RED_ZONE, 0xA5, dtype=np.uint8)
        start = -scratch.ctypes.data % 16
        pointers = (ctypes.c_void_p * (len(arrays) + 1))(*(a.ctypes.data for a in arrays), scratch.ctypes.data + start)
        numbers = [*dims, *(rows or ())]
        getattr(self.library, f"call_{name}")(pointers, (ctypes.c_int32 * max(len(numbers), 1))(*numbers))
        assert (scratch[start + size :] == 0xA5).all(), f"{name} wrote past its scratch space"


def source_of(functions: Sequence[Loops], isa: frozenset[str] = HOST_ISA) -> str:
    """One C file with all functions and for each a wrapper ``call_<name>(buffers, numbers)``."""
    unit = Unit("m", isa)
    printed = [(loops, emit_loops(unit, loops, scratch_layout(loops).offsets)) for loops in functions]
    blocks = [
        HEAD,
        unit.preamble(),
        *(f.text for _, f in printed),
        *(_wrapper(loops, f) for loops, f in printed),
    ]
    return "\n\n".join(blocks) + "\n"


def _wrapper(loops: Loops, function: CFunction) -> str:
    count = len(loops.params) + (1 if function.scratch else 0)
    numbers = len(loops.dims) + (2 if loops.rows else 0)
    args = [*(f"buffers[{k}]" for k in range(count)), *(f"numbers[{k}]" for k in range(numbers))]
    name = f"call_{loops.name}"
    signature = f"void {name}(void *const *buffers, const int32_t *numbers)"
    return f"{signature};\n{signature} {{\n    (void)numbers;\n    {function.name}({', '.join(args)});\n}}"


def build(
    functions: Sequence[Loops],
    folder: Path,
    isa: frozenset[str] = HOST_ISA,
    toolchain: str = "zig",
    opt: str | None = None,
) -> Kernels:
    """Compiles and loads ``functions``, with every warning an error."""
    tool, target = get_toolchain(toolchain), target_for(load_board("host"))
    text, opt = source_of(functions, isa), opt or OPT[toolchain]
    job = CompileJob(SourceText("kernels.c", text), target, flags=WARNINGS, pic=True, opt=opt)
    out = tool.link(LinkJob("shared", (tool.compile(job),), target), folder / f"kernels_{toolchain}.so")
    return Kernels(ctypes.CDLL(str(out)), {f.name: f for f in functions})
