"""What a user may choose about a build, apart from the model and the board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sdk.errors import UsageError

__all__ = ["BuildOptions"]


@dataclass(frozen=True)
class BuildOptions:
    """Build choices.

    ``name`` is the C prefix (from the file name by default); ``dims`` bounds each symbol (inclusive); ``memory``
    is the plan's aim; ``arena_limit`` in bytes fails the build when the plan needs more; ``isa`` keeps only these
    capabilities of the board (joined by ``+``); ``toolchain`` is the C compiler.

    Raises:
        UsageError: a choice this version does not offer.
    """

    name: str | None = None
    dims: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    threads: int = 1
    memory: str = "time"
    arena_limit: int | None = None
    isa: str | None = None
    toolchain: str = "zig"

    def __post_init__(self) -> None:
        if self.threads != 1:
            raise UsageError(
                f"{self.threads} threads asked for, generated code runs on one", hint="leave --threads at 1"
            )
        if self.memory != "time":
            raise UsageError(
                f"the memory aim {self.memory!r} is not available",
                hint="use --memory time, or --arena-limit BYTES",
            )
