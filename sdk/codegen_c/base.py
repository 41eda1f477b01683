"""What a backend is: a record of all that is done for one language of generated code, and what it prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sdk.errors import BuildError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sdk.boards import Board
    from sdk.compiler.analysis.work import Cost
    from sdk.compiler.ir.loops import Loops
    from sdk.compiler.ir.module import Module, Stage
    from sdk.compiler.schedules.validate import Check

__all__ = [
    "Backend", "EmitOptions", "Emitted", "EntryStack", "Files", "GoldenCase", "Kernels", "Runtime", "Variant",
    "hosted_only", "profiling_hooks",
]  # fmt: skip

Files = Mapping[str, str | bytes]
Kernels = Literal["core", "grid", "plain"]


@dataclass(frozen=True, eq=False)
class GoldenCase:
    """One run with known results: arrays by tensor name, dims by name. Cases run in order from reset."""

    inputs: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, NDArray[Any]]
    dims: Mapping[str, int] = field(default_factory=dict)
    entry: str = "main"


@dataclass(frozen=True)
class EntryStack:
    """Worst-case stack of a run in bytes, and the functions it calls that were not there to be counted."""

    bytes: int
    uncounted: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class EmitOptions:
    """What to print beyond the module.

    ``source`` and ``board`` are named in the files; ``model_hash`` is hex; ``golden`` cases are printed as a self-test.
    ``weights_in_ram`` has constants copied there at the start of the program, ``weights_file`` leaves them in a file
    that the program is given. ``memories`` names the linker's region of
    each region of the arena that does not lie where static storage does. With ``small`` kernels that take little of the
    time are compiled for size. ``check`` is how much generated assembly is tried. ``core`` says what the code is made
    for, ``compile_with`` are the commands of compilers for that; capabilities ``beyond`` these are turned on by the
    code itself; ``gpu`` names the interface that kernels are for, except for the operations ``on_processor``, and
    ``gpu_row`` the row of ``machines.gpus`` ("": that of the interface).
    """

    source: str = ""
    model_hash: str = ""
    board: str = ""
    golden: tuple[GoldenCase, ...] = ()
    weights_in_ram: bool = False
    weights_file: bool = False
    memories: Mapping[str, str] = field(default_factory=dict)
    small: bool = False
    check: Check = "sample"
    core: str = ""
    compile_with: tuple[str, ...] = ()
    beyond: frozenset[str] = frozenset()
    gpu: str = ""
    gpu_row: str = ""
    on_processor: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Emitted:
    """What a backend made of a module.

    Attributes:
        files: the sources of the model by name.
        agent: the sources that only an agent needs, which sessions talk to.
        entries: of each entry by name what its functions are called: ``<name>_run`` runs it, and an agent tells of a
            model of this name.
        pointers: how many an instance of the model holds.
        stating: ``stating(stacks)`` are the files that tell the stack of a run by entry, once a compiler has said it.
    """

    files: Files
    agent: Files = field(default_factory=dict)
    entries: Mapping[str, str] = field(default_factory=dict)
    pointers: int = 0
    stating: Callable[[Mapping[str, EntryStack]], Files] = lambda stacks: {}


@dataclass(frozen=True)
class Variant:
    """The sources of a model for cores that can do more: their prefix, and the capabilities ``beyond`` those that every
    core at hand has."""

    prefix: str
    beyond: frozenset[str]
    files: Files


@dataclass(frozen=True)
class Runtime:
    """How what a backend prints is run: a C compiler makes an agent of it and of files of ``c_runtime``, beside those
    of the board's port; sessions talk to that over a link.

    ``parts`` are patterns of such files in order; ``hooks(prefix)`` the macros that have the model's code tell the
    runtime where an operation begins and ends; those of ``feeding(prefix)`` have it feed the watchdog there.
    """

    parts: tuple[str, ...]
    hooks: Callable[[str], tuple[str, ...]]
    feeding: Callable[[str], tuple[str, ...]]


def hosted_only(part: str) -> Callable[[Board], str | None]:
    """Why there is no code for a board without an operating system, for a backend that needs a ``part`` of one."""
    why = f"its programs run without an operating system, which {part} a part of"
    return lambda board: None if board.hosted else why


def profiling_hooks(prefix: str) -> tuple[str, ...]:
    """The macros that have C of a model tell ``c_runtime`` where an operation begins and ends."""
    macro = prefix.upper()
    return (
        f'{macro}_HOOKS="internal/profile.h"',
        f"{macro}_HOOK_BEGIN(self,index)=sdk_rt_op_begin(index)",
        f"{macro}_HOOK_END(self,index)=sdk_rt_op_end(index)",
    )


@dataclass(frozen=True)
class Backend:
    """A language of generated code.

    Records are looked at before anything is compiled, so a package's ``__init__`` holds no more than this: the
    functions import the code that they stand for when they are called.

    Attributes:
        name: that of the package.
        title: what it prints, in words.
        printer: ``printer(module, prefix, isa, options)`` prints a module of ``stage``; ``isa`` are the capabilities
            that the code may use. The same arguments give the same text. What it cannot print is a BuildError.
        stage: what modules it takes have gone through.
        kernels: what a call of a function is: a loop nest scheduled for a "core", its lanes and words, a "grid" of
            work items, one for each iteration of the outer loops, or the "plain" nest, which the backend makes kernels
            of itself.
        rolled: whether it writes the hot loops of cores with these capabilities itself, so that neither passes nor
            compilers need unroll them.
        cost: what a function takes on a core with these capabilities as it is printed; None where compilers make all
            of its instructions, of which loops tell enough.
        choices: the build options, by field, that mean something to it beside the model's name and dims.
        refuses: why there is no such code for a board; None where there is.
        dispatch: ``dispatch(prefix, files, variants)`` adds variants to the files of a model, of which the program
            chooses one when it runs; None where it cannot.
        listing: ``listing(module, gpu)`` are the kernels that a GPU is given of a planned module, as text for people.
        alone: ``alone(functions, prefix, gpu)`` is the C of the kernels of functions, without a model around them.
        runtime: how the code is run; None where it cannot be yet: the sources are written, and neither compiled nor
            measured.
    """

    name: str
    title: str
    printer: Callable[[Module, str, frozenset[str], EmitOptions], Emitted]
    stage: Stage = "planned"
    kernels: Kernels = "core"
    rolled: Callable[[frozenset[str]], bool] = lambda isa: False
    cost: Callable[[Loops, frozenset[str]], Cost] | None = None
    choices: frozenset[str] = frozenset()
    refuses: Callable[[Board], str | None] = lambda board: None
    dispatch: Callable[[str, Files, Sequence[Variant]], Files] | None = None
    runtime: Runtime | None = None
    listing: Callable[[Module, str], str] | None = None
    alone: Callable[[Mapping[str, Loops], str, str], str] | None = None

    def emit(self, module: Module, prefix: str, *, isa: frozenset[str], options: EmitOptions) -> Emitted:
        """Prints a module; ``prefix`` starts every external name.

        Raises:
            UsageError: ``prefix`` is no C identifier.
            BuildError: the module is at another stage, or uses what the backend cannot print.
        """
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix):
            raise UsageError(f"{prefix!r} is not a C identifier", hint="letters, digits and _, a letter first")
        if module.stage != self.stage:
            raise BuildError(
                f"module {module.name} is at stage {module.stage}, {self.title} is written from {self.stage} ones"
            )
        return self.printer(module, prefix, isa, options)
