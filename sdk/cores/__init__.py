"""What processor cores take for machine code: the kinds of its instructions, and cycles for them by public tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sdk.cores.kinds import Instruction, Kind
from sdk.cores.riscv import decode_riscv
from sdk.cores.thumb import decode_thumb
from sdk.cores.timing import Timing, timing_for

__all__ = ["Instruction", "Kind", "Timing", "decoder_for", "timing_for"]

Decoder = Callable[[bytes, int], Instruction]
# by the machine that an ELF file names
_DECODERS: Final[dict[str, Decoder]] = {"EM_ARM": decode_thumb, "EM_RISCV": decode_riscv}


def decoder_for(machine: str) -> Decoder | None:
    """What tells the kind of the instruction at an offset of some code, by the machine as ELF files call it; None
    where no table of cycles needs it."""
    return _DECODERS.get(machine)
