"""Hot code of Thumb-2 cores as assembly: what compilers order, address and keep in registers worse than a table can."""

from sdk.codegen_c.functions.thumb.basic_block import Access, BasicBlock, LiveIn, Read, Step, Write
from sdk.codegen_c.functions.thumb.constants import ConstantReads, constant_reads
from sdk.codegen_c.functions.thumb.instruction_selection import (
    InductionPointer,
    Memory,
    Names,
    Selected,
    select,
    selectable,
    units,
)
from sdk.codegen_c.functions.thumb.list_scheduling import Emitted, Path, emit

__all__ = [
    "Access",
    "BasicBlock",
    "ConstantReads",
    "Emitted",
    "InductionPointer",
    "LiveIn",
    "Memory",
    "Names",
    "Path",
    "Read",
    "Selected",
    "Step",
    "Write",
    "constant_reads",
    "emit",
    "select",
    "selectable",
    "units",
]
