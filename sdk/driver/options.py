"""What a user may choose about a build, apart from the model and the board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sdk.errors import UsageError

__all__ = ["BuildOptions"]

MOST_THREADS = 64  # of the runtime's pool


@dataclass(frozen=True)
class BuildOptions:
    """Build choices.

    ``name`` is the C prefix (from the file name by default); ``dims`` gives each symbol its inclusive bounds (lo, hi),
    or (lo, hi, what it is a multiple of); ``threads`` may share a run; ``memory`` is the plan's aim; ``arena_limit`` in
    bytes fails the build when the plan needs more; ``isa`` keeps only these capabilities of the board (joined by
    ``+``); ``toolchain`` is the C compiler; ``externs`` are files of the user's libraries: ``.ir`` files say which ops
    a symbol computes, ``.c`` and ``.h`` files are compiled with the model.

    Raises:
        UsageError: a choice this version does not offer.
    """

    name: str | None = None
    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    threads: int = 1
    memory: str = "time"
    arena_limit: int | None = None
    isa: str | None = None
    toolchain: str = "zig"
    externs: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.threads <= MOST_THREADS:
            raise UsageError(f"{self.threads} threads asked for", hint=f"--threads 1 to {MOST_THREADS}")
        if self.memory != "time":
            raise UsageError(
                f"the memory aim {self.memory!r} is not available",
                hint="use --memory time, or --arena-limit BYTES",
            )
