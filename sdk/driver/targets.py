"""What the code of a build may use of its board, and what compilers are told of it."""

from __future__ import annotations

from typing import Final

from sdk.boards import Board, with_implied
from sdk.driver.backends import backend_for
from sdk.driver.options import BuildOptions
from sdk.errors import UsageError
from sdk.toolchains import Target, target_for

__all__ = ["capabilities", "target_of"]

_USUAL: Final = BuildOptions()
# compilers make gathers of lanes of their own accord there, which are slower than loads one by one
GATHERS: Final = frozenset({"mve"})


def capabilities(board: Board, options: BuildOptions) -> frozenset[str]:
    """What generated code may use: the board's capabilities, or those of them that ``isa`` names, with what they imply;
    nothing where its kernels are for no core of the board.

    Raises:
        UsageError: the board lacks one of ``isa``.
    """
    if backend_for(board, options).kernels != "core":
        return frozenset()
    if options.isa is None:
        return board.capabilities
    wanted = frozenset(filter(None, options.isa.split("+")))
    if wanted == {"scalar"}:
        return frozenset()
    if not wanted or "scalar" in wanted:
        why = "it means plain C, with none of the board's capabilities" if wanted else None
        message = "--isa scalar stands alone" if wanted else "--isa names no capability"
        raise UsageError(message, why=why, hint="--isa scalar, or capabilities that sdk boards show NAME lists, with +")
    missing = wanted - board.capabilities
    if missing:
        raise UsageError(
            f"{board.name} has no {', '.join(sorted(missing))}",
            hint=f"it has {', '.join(sorted(board.capabilities)) or 'nothing special'}, or use --isa scalar",
        )
    return with_implied(wanted) & board.capabilities


def target_of(board: Board, options: BuildOptions = _USUAL) -> Target:
    """The target of a board for the code of a build: its loops stay rolled where the backend says so, and lanes are not
    gathered where that is slow on the board's own core, whatever the code uses of it.

    Raises:
        UsageError: as ``capabilities``.
    """
    rolled = backend_for(board, options).rolled(capabilities(board, options))
    return target_for(board, options.opt, rolled=rolled, gathers=board.capabilities >= GATHERS)
