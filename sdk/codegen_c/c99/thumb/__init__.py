"""Hot code of Thumb-2 cores as assembly: what compilers order, address and keep in registers worse than a table can."""

from sdk.codegen_c.c99.thumb.code import Access, Code, Leaf, Read, Step, Write
from sdk.codegen_c.c99.thumb.issue import Emitted, Path, emit
from sdk.codegen_c.c99.thumb.straight import Lifted, Memory, Names, Stream, lift, straight, units

__all__ = [
    "Access",
    "Code",
    "Emitted",
    "Leaf",
    "Lifted",
    "Memory",
    "Names",
    "Path",
    "Read",
    "Step",
    "Stream",
    "Write",
    "emit",
    "lift",
    "straight",
    "units",
]
