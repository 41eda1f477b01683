"""A loops function as one WGSL kernel, emitted as for SPIR-V.

Storage buffers are bound from 0 on in group 0, the uniform buffer of numbers after them: for each operand how many
bytes behind the start of its buffer it begins, then the dims, then the row range, then a word that is 0. A loop on a
``global`` or ``group`` axis takes as many steps as it needs with what was launched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sdk.codegen_c.spirv.code import Code
from sdk.codegen_c.spirv.kernel import GROUP, Printer
from sdk.codegen_c.spirv.scalars import Scalars
from sdk.codegen_c.wgsl.bindings import Bindings
from sdk.codegen_c.wgsl.code import Text
from sdk.codegen_c.wgsl.names import Names
from sdk.compiler.ir.loops import Loops
from sdk.compiler.sym import Dim
from sdk.errors import BuildError

__all__ = ["MAX_BINDINGS", "Kernel", "make_kernel"]

MAX_BINDINGS: Final = 8  # storage buffers of a kernel: WebGPU's default limit
MAX_ITEMS: Final = 256  # of a group: likewise
_HINT: Final = "without --backend the model is printed as C, which has everything"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its function's name, the module, the extent of each hardware axis in dims and row range of the
    function, the size of a group, which storage buffers it writes, how many words of numbers there are."""

    name: str
    text: str
    extents: Mapping[str, Dim]
    group: tuple[int, int, int]
    written: tuple[bool, ...]
    words: int
    local_bytes: int


def make_kernel(
    loops: Loops,
    places: Sequence[int] | None = None,
    group: tuple[int, int, int] = (GROUP, 1, 1),
    aligned: frozenset[str] = frozenset(),
) -> Kernel:
    """The kernel of ``loops``. Operand k lies in storage buffer ``places[k]`` (None: each in one of its own). Those
    that are ``aligned`` begin at multiples of 16 bytes: narrow elements that are whole words are accessed together.

    Raises:
        BuildError: a construct without a form, named with the function; more buffers or a larger group than WebGPU
            promises.
    """
    try:
        return _make(loops, range(len(loops.params)) if places is None else places, group, aligned)
    except BuildError as error:
        raise BuildError(
            error.message, where=f"loops @{loops.name}", why=error.why, hint=error.hint or _HINT
        ) from error


def _make(
    loops: Loops, places: Sequence[int], group: tuple[int, int, int], aligned: frozenset[str]
) -> Kernel:
    names = Names()
    text = Text(names)

    def memory(code: Code, scalars: Scalars) -> Bindings:
        return Bindings(code, scalars, text, names, loops, places, aligned)

    printer = Printer(loops, text, memory, group)
    bound = printer.memory
    assert isinstance(bound, Bindings)
    if len(bound.written) > MAX_BINDINGS:
        raise BuildError(f"{len(bound.written)} buffers, WebGPU promises {MAX_BINDINGS} to a kernel")
    size, count = printer.emit()
    if (items := size[0] * size[1] * size[2]) > MAX_ITEMS:
        raise BuildError(f"a group of {items} work items, WebGPU promises {MAX_ITEMS}")
    written = text.text(bound.head, size).replace("numbers[ZERO]", bound.zero)
    return Kernel(loops.name, written, printer.extents, size, tuple(bound.written), count, bound.local_bytes)
