"""What a compiler must be told about a board, spelled for each family of compilers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sdk.boards import Board
from sdk.boards.board import Gcc

# Capability -> (feature in clang's and zig's -mcpu, flag or -march extension of gcc).
_X86 = {
    "ssse3": ("ssse3", "-mssse3"),
    "sse4.1": ("sse4_1", "-msse4.1"),
    "sse4.2": ("sse4_2", "-msse4.2"),
    "avx": ("avx", "-mavx"),
    "avx2": ("avx2", "-mavx2"),
    "fma": ("fma", "-mfma"),
    "f16c": ("f16c", "-mf16c"),
    "avxvnni": ("avxvnni", "-mavxvnni"),
    "avx512f": ("avx512f", "-mavx512f"),
    "avx512bw": ("avx512bw", "-mavx512bw"),
    "avx512dq": ("avx512dq", "-mavx512dq"),
    "avx512vl": ("avx512vl", "-mavx512vl"),
    "avx512vnni": ("avx512vnni", "-mavx512vnni"),
    "avx512bf16": ("avx512bf16", "-mavx512bf16"),
    "avx512fp16": ("avx512fp16", "-mavx512fp16"),
}
_BASE = {"x86_64": "x86_64", "aarch64": "generic", "arm": "generic+v7a+vfp3d16", "riscv64": "baseline_rv64"}
# What engines may have, and the C library for them need not use: it is built once for all of them.
_LIBRARY = re.compile(r"\+(simd128|relaxed_simd|atomics|bulk_memory)\b")
# Cores whose instructions are all those of another one and more: zig's libraries are built once for both.
_LIKE = {
    "cortex_m0plus": "cortex_m0",
    "cortex_m33+dsp+fp_armv8d16sp": "cortex_m4+vfp4d16sp",
    "cortex_m7+fp_armv8d16sp": "cortex_m4+vfp4d16sp",
    "cortex_m55+dsp+mve_fp+fp_armv8d16+fullfp16": "cortex_m7+fp_armv8d16",
}
_AARCH64 = {
    "dotprod": ("dotprod", "dotprod"),
    "fp16": ("fullfp16", "fp16"),
    "i8mm": ("i8mm", "i8mm"),
    "bf16": ("bf16", "bf16"),
    "sve": ("sve", "sve"),
    "sve2": ("sve2", "sve2"),
}


@dataclass(frozen=True)
class Target:
    """One machine to compile for: zig's triple and CPU, gcc's command ("" for none) and flags, the optimisation level.

    ``link_cpu`` is the CPU that the compiler's own libraries are built for when linking; with ``small`` code is
    made for size, whatever the level says. With ``rolled`` loops stay as they are written: those that are hot are
    assembly there, or code is for size. With ``gathers`` it has vectors whose lanes can be loaded from addresses of
    their own (Arm's M-profile vectors). ``stack_bytes`` is what a program gets for its stack, 0: what the system gives.
    ``library`` is zig's triple for libraries, where it is another. With ``softfp`` it computes with a unit for floats,
    and passes them in registers of integers.
    """

    zig_target: str
    zig_cpu: str
    link_cpu: str
    gcc_command: str
    gcc_flags: tuple[str, ...]
    opt: str
    hosted: bool
    pointer_bits: int
    small: bool = False
    rolled: bool = False
    gathers: bool = False
    stack_bytes: int = 0
    library: str = ""
    softfp: bool = False

    @property
    def for_libraries(self) -> Target:
        """The same machine under the system that libraries are for."""
        return replace(self, zig_target=self.library, gcc_command="", library="") if self.library else self

    @property
    def android(self) -> bool:
        """Whether the system is Android."""
        return self.zig_target.endswith(("-android", "-androideabi"))

    @property
    def apple(self) -> bool:
        """Whether the system is one of Apple's."""
        return any(name in self.zig_target for name in ("-ios", "-macos"))

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """Commands by which users compile generated files as builds do, each but for the file."""
        level = (f"-O{self.opt}", "-std=c99", *(["-fno-unroll-loops"] if self.rolled else []), "-c")
        gathers = ("-mllvm", "-enable-arm-maskedgatscat=false") if self.gathers else ()
        zig = ("zig", "cc", "-target", self.zig_target, f"-mcpu={self.zig_cpu}", *self.zig_floats, *gathers, *level)
        return (zig, (self.gcc_command, *self.gcc_flags, *level)) if self.gcc_command else (zig,)

    @property
    def zig_floats(self) -> tuple[str, ...]:
        """What zig is told beside a triple without ``hf``, by which it leaves a unit for floats alone."""
        return ("-mfloat-abi=softfp",) if self.softfp else ()

    @property
    def wasm(self) -> bool:
        """Whether it is a WebAssembly engine: programs are modules, which are linked as a whole."""
        return self.zig_target.startswith("wasm")


def target_for(board: Board, objective: str = "time", *, rolled: bool = False, gathers: bool = False) -> Target:
    """Return the target of a board, of which code is made for "time" or "size"; a "native" CPU is spelled out from the
    board's capabilities. ``rolled`` and ``gathers`` are those of ``Target``."""
    compilers = board.compilers
    gcc = compilers.gcc or Gcc(command="")
    zig_cpu, gcc_flags = compilers.zig.cpu, gcc.flags
    if zig_cpu == "native":
        zig_cpu, native_flags = _compiler_names(board.core.arch, board.capabilities)
        gcc_flags = (*gcc_flags, *native_flags)
    # on Linux one C library for all processors of an architecture: zig takes most of a minute to build it
    shared = compilers.zig.cpu == "native" or "linux" in compilers.zig.target
    link_cpu = _BASE.get(board.core.arch, "baseline") if shared else _LIKE.get(zig_cpu, _LIBRARY.sub("", zig_cpu))
    return Target(
        zig_target=compilers.zig.target,
        zig_cpu=zig_cpu,
        link_cpu=link_cpu,
        gcc_command=gcc.command,
        gcc_flags=gcc_flags,
        opt=compilers.opt,
        small=objective == "size",
        rolled=rolled or objective == "size",
        gathers=gathers,
        hosted=board.hosted,
        pointer_bits=board.pointer_bits,
        stack_bytes=board.runtime.stack_bytes,
        library=compilers.zig.library,
        softfp=board.core.float_abi == "softfp",
    )


def _compiler_names(arch: str, capabilities: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """Return zig's -mcpu and gcc's flags for exactly ``capabilities``."""
    table = {"x86_64": _X86, "aarch64": _AARCH64}.get(arch, {})
    present = [names for capability, names in table.items() if capability in capabilities]
    zig_cpu = "+".join([_BASE.get(arch, "baseline"), *[zig for zig, _ in present]])
    extensions = [gcc for _, gcc in present]
    if arch == "aarch64":
        return zig_cpu, ("+".join(["-march=armv8.2-a" if extensions else "-march=armv8-a", *extensions]),)
    return zig_cpu, tuple(extensions)
