"""Which of a board's memories a model's arena may use: what the user asked for, checked against the board."""

from __future__ import annotations

from collections.abc import Mapping

from sdk.boards import Board, suggest
from sdk.driver.external import external_of
from sdk.driver.options import BuildOptions
from sdk.errors import UsageError

__all__ = ["linked_memories", "pools_of"]


def pools_of(board: Board, options: BuildOptions) -> str:
    """The pools of ``options.regions`` as the planner reads them: ``name:bytes+name:bytes``.

    Raises:
        UsageError: the board has no such RAM, or less of it, or no external flash, or its programs have no fixed
            memories.
    """
    if board.hosted and (options.regions or options.weights == "ram"):
        raise UsageError(
            f"{board.name} has no memories to choose from",
            why="its programs run under an operating system",
            hint="leave out --region and --weights",
        )
    if not board.hosted and options.weights == "file":
        raise UsageError(
            f"{board.name} has no files to keep weights in",
            why="its programs run without an operating system",
            hint="leave out --weights: they lie in flash",
        )
    if options.weights == "external":
        external_of(board)
    memories = {m.name: m for m in board.regions("ram")}
    for name, size in options.regions:
        if name not in memories:
            hint = suggest(name, memories) or f"it has {', '.join(memories)}"
            raise UsageError(f"{board.name} has no RAM called {name!r}", where="--region", hint=hint)
        if size > memories[name].size:
            have = memories[name].size
            raise UsageError(
                f"{name} of {board.name} has {have:,} bytes, not {size:,}",
                where="--region",
                hint=f"write --region {name}={have} or less: what else lies there needs room too",
            )
    return "+".join(f"{name}:{size}" for name, size in options.regions)


def linked_memories(board: Board, options: BuildOptions) -> Mapping[str, str]:
    """The linker's region of each region of the arena that lies elsewhere than static storage, which goes to the
    board's first RAM; and of the constants that lie elsewhere than in its first flash."""
    usual = board.regions("ram")[0].name if board.regions("ram") else ""
    arenas = ["arena", *(f"arena_{name}" for name, _ in options.regions[1:])]
    pairs = zip(arenas, (name for name, _ in options.regions), strict=False)
    flash = {"const": external_of(board).memory} if options.weights == "external" else {}
    return {arena: name for arena, name in pairs if name != usual} | flash
