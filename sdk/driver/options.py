"""What a user may choose about a build, apart from the model and the board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from sdk.driver.custom import load_custom
from sdk.driver.files import Library, read_libraries
from sdk.driver.safetensors import load_safetensors
from sdk.errors import UsageError
from sdk.frontends.base import Custom
from sdk.frontends.tensors import Tensors

__all__ = ["OBJECTIVES", "BuildOptions"]

MAX_THREADS = 64  # of the runtime's pool
MIN_WATCHDOG: Final = 100  # ms: the agent itself needs some to answer
OPTS: Final = ("time", "size")
GPUS: Final = ("opencl", "vulkan")  # interfaces that a program drives; a page has one of its own
PAGES: Final = "webgpu"
OBJECTIVES: Final = ("time", "min")
IOS: Final = ("arena", "caller")
CHECKS: Final = ("sample", "full")
PLACES: Final = ("flash", "ram", "file", "external")


@dataclass(frozen=True)
class BuildOptions:
    """Build choices.

    ``name`` is the C prefix (from the file name by default); ``dims`` gives each symbol its inclusive bounds (lo, hi),
    or (lo, hi, what it is a multiple of); ``threads`` may share a run; ``memory`` is the plan's objective,
    "time" or "min"; ``arena_limit`` in bytes has as much of the net streamed as it takes, and fails the build where
    that is not enough; ``isa`` keeps only these capabilities of the board (joined by
    ``+``) and what they imply; ``toolchain`` is the C compiler ("auto": zig where
    it is installed, else the system's for the board); ``externs`` are files of the user's libraries: ``.ir``
    files say which ops a symbol computes, ``.c`` and ``.h`` files are compiled with the model; ``regions`` are the
    board's memories that the arena may lie in, the preferred first, with the most bytes of each (none: the arena is
    one); ``weights`` stay in "flash", are copied to "ram" by the program's start, or lie in a "file" that a program
    under an operating system maps, or in the "external" flash chip beside a microcontroller; ``opt`` is what code is
    made for, "time" or "size";
    ``io``: inputs and outputs lie in the "arena" or in buffers of the "caller" (None: as boards of that kind do);
    ``check`` is how much of the generated code the build tries beside the loops it stands for, a "sample" or in "full";
    ``backend`` prints the code (None: the one whose code runs on the board); ``custom`` are files of Python that
    say how custom operators are imported, or what these say: they are run; ``safetensors`` are files of tensors that
    take the place of those of the model by their names, or what is in these; ``watchdog`` are the ms after which the
    board's watchdog restarts it where an operation or the agent hangs (None: it is not started); ``gpu`` is the
    interface of GPUs that kernels are made for, "opencl", "vulkan" or "webgpu" (None: the processor runs all), and
    the operations ``on_processor``, by the numbers that a profile has, run there all the same.

    Raises:
        UsageError: a choice this version does not offer.
    """

    name: str | None = None
    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    threads: int = 1
    memory: str = "time"
    arena_limit: int | None = None
    isa: str | None = None
    toolchain: str = "auto"
    externs: tuple[Path | Library, ...] = ()
    regions: tuple[tuple[str, int], ...] = ()
    weights: str = "flash"
    opt: Literal["time", "size"] = "time"
    check: Literal["sample", "full"] = "sample"
    backend: str | None = None
    custom: tuple[Path, ...] | Custom = ()
    safetensors: tuple[Path, ...] | Tensors = ()
    io: Literal["arena", "caller"] | None = None
    watchdog: int | None = None
    gpu: str | None = None
    on_processor: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        threads: object = self.threads  # which a caller in Python may have spelled as text
        if not isinstance(threads, int) or not 1 <= threads <= MAX_THREADS:
            raise UsageError(f"{self.threads!r} threads asked for", hint=f"--threads 1 to {MAX_THREADS}")
        if self.memory not in OBJECTIVES:
            raise UsageError(f"no memory objective is called {self.memory!r}", hint=f"use {' or '.join(OBJECTIVES)}")
        if self.io not in (None, *IOS):
            raise UsageError(f"inputs and outputs cannot lie in {self.io!r}", hint=f"use {' or '.join(IOS)}")
        if self.check not in CHECKS:
            raise UsageError(f"no check is called {self.check!r}", hint=f"use {' or '.join(CHECKS)}")
        if self.gpu is not None and self.gpu not in (*GPUS, PAGES):
            raise UsageError(f"no interface of GPUs is called {self.gpu!r}", hint=f"use {', '.join(GPUS)} or {PAGES}")
        if self.opt not in OPTS:
            raise UsageError(f"code is not made for {self.opt!r}", hint=f"use {' or '.join(OPTS)}")
        if self.weights not in PLACES:
            raise UsageError(f"weights go to no {self.weights!r}", hint=f"use {' or '.join(PLACES)}")
        if self.watchdog is not None and self.watchdog < MIN_WATCHDOG:
            raise UsageError(f"a watchdog of {self.watchdog} ms", hint=f"--watchdog {MIN_WATCHDOG} is the least")
        if self.regions and self.arena_limit is not None:
            raise UsageError("each region has a limit of its own", hint="use --region or --arena-limit, not both")
        if self.memory == "min" and self.arena_limit is not None:
            raise UsageError("a limit of the arena is an objective", hint="use --memory min or --arena-limit, not both")

    @property
    def libraries(self) -> tuple[Library, ...]:
        """The files of libraries.

        Raises:
            UsageError: one cannot be read.
        """
        return read_libraries(self.externs)

    def read(self) -> BuildOptions:
        """The same choices with the files of libraries, importers and tensors read, as all steps of one command get
        them.

        Raises:
            UsageError: one cannot be read.
        """
        return replace(self, externs=self.libraries, custom=self.importers or (), safetensors=self.tensors or ())

    @property
    def importers(self) -> Custom | None:
        """What the files of ``custom`` say, which are run; None without files.

        Raises:
            UsageError: one cannot be read or run.
        """
        if isinstance(self.custom, Custom):
            return self.custom
        return load_custom(self.custom) if self.custom else None

    @property
    def tensors(self) -> Tensors | None:
        """The tensors of the files of ``safetensors``; None without files.

        Raises:
            UsageError: one cannot be read or is damaged.
        """
        if isinstance(self.safetensors, Tensors):
            return self.safetensors
        return load_safetensors(self.safetensors) if self.safetensors else None
