"""The cores that networks are compared on: a board for each, the machine that executes its code, what may be chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

from msgspec import structs

from sdk.boards import Board, load_board

__all__ = ["CORES", "Core", "board_of", "missing"]

Machine = Literal["unicorn", "qemu", "qemu-user", "node", "native"]
_ARM = ("thumb", "thumb2", "div", "unaligned")
_AVX2 = ("sse2", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c", "unaligned", "div", "fpu-sp", "fpu-dp")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni")


@dataclass(frozen=True)
class Core:
    """``board`` is the description that is built for, cut to ``keeps`` where given; ``compilers`` can build for it;
    ``subsets`` are choices of ``--isa`` besides all that the core has."""

    board: str
    machine: Machine
    compilers: tuple[str, ...]
    subsets: tuple[str, ...] = ("scalar",)
    keeps: tuple[str, ...] = ()


_ARM_COMPILERS: Final = ("zig", "arm-none-eabi-gcc")
CORES: Final[Mapping[str, Core]] = {
    "m0plus": Core("rpi_pico", "unicorn", _ARM_COMPILERS),
    "m3": Core("qemu-cortex-m3", "unicorn", _ARM_COMPILERS, ("scalar", "thumb+thumb2")),
    "m4": Core(
        "qemu-cortex-m4", "unicorn", _ARM_COMPILERS, ("scalar", "dsp", "+".join(_ARM), "+".join((*_ARM, "dsp")))
    ),
    "m7": Core("qemu-cortex-m7", "unicorn", _ARM_COMPILERS, ("scalar", "+".join((*_ARM, "dsp", "fpu-sp")))),
    "m33": Core("qemu-cortex-m33", "unicorn", _ARM_COMPILERS, ("scalar", "+".join((*_ARM, "dsp")))),
    "m55": Core(
        "qemu-cortex-m55", "qemu", _ARM_COMPILERS, ("scalar", "+".join((*_ARM, "dsp")), "+".join((*_ARM, "dsp", "mve")))
    ),
    "rv32": Core("qemu-riscv32", "unicorn", ("zig", "riscv64-unknown-elf-gcc")),
    "aarch64": Core("aarch64-linux", "unicorn", ("zig",), ("scalar", "neon+unaligned", "neon+dotprod+unaligned")),
    "i8mm": Core("aarch64-linux-i8mm", "qemu-user", ("zig",), ("neon+dotprod+i8mm+unaligned",)),
    "wasm32": Core("wasm32", "node", ("zig",), ("scalar", "simd128")),
    "avx2": Core("host", "native", ("zig", "gcc"), ("scalar", "sse2", "sse2+avx+avx2"), _AVX2),
    "avx512": Core("host", "native", ("zig", "gcc"), ("avx512f",), _AVX512),
}


@cache
def board_of(name: str) -> Board:
    """The board of a core; what the machine we run on lacks of ``keeps`` is claimed all the same, see ``missing``."""
    core = CORES[name]
    board = load_board(core.board)
    if not core.keeps:
        return board
    return replace(board, cores=(structs.replace(board.core, capabilities=frozenset(core.keeps)),))


def missing(name: str) -> frozenset[str]:
    """What the core has and the machine we run on lacks; empty for machines that are emulated."""
    core = CORES[name]
    if core.machine != "native":
        return frozenset()
    return board_of(name).capabilities - load_board(core.board).capabilities
