"""What compilers are told for generated code: the board's target, and what its machine says of loops and lanes."""

from __future__ import annotations

from sdk.boards import Board
from sdk.compiler.machines.lookup import machine_for
from sdk.toolchains import Target, target_for

__all__ = ["target_of"]


def target_of(board: Board, opt: str = "time") -> Target:
    """The target of a board for code that is generated for "time" or "size"."""
    machine = machine_for(board.capabilities)
    return target_for(board, opt, rolled=machine.assembly is not None, gathers=machine.gathers)
