"""Weights in a flash chip beside the microcontroller: whether a board has one, and what its driver is told of it."""

from __future__ import annotations

from sdk.boards import Board
from sdk.boards.external import Command, External
from sdk.errors import UsageError

__all__ = ["chip_c", "external_of"]

_MAX_RESETS = 8  # sdk_rt_flash_t of c_runtime/include/internal/external.h


def external_of(board: Board) -> External:
    """The board's flash chip for weights. Raises UsageError where it has none, or none where it is emulated."""
    if board.runtime.external is None:
        raise UsageError(
            f"{board.name} has no external flash for weights",
            why="programs of an operating system keep them in a file" if board.hosted else "its file names none there",
            hint="leave out --weights external; sdk boards show NAME prints runtime.external of those that have one",
        )
    return board.runtime.external


def chip_c(board: Board) -> str:
    """The C that tells the driver of the board's flash chip. Raises UsageError where it has too many resets."""
    chip, memory = external_of(board), board.external
    if memory is None or len(chip.reset) > _MAX_RESETS:
        raise UsageError(
            f"the driver of {board.name}'s external flash sends at most {_MAX_RESETS} commands",
            hint="leave out some of runtime.external.reset in the board's file",
        )
    read = chip.read
    lines = [
        "",
        f"const sdk_rt_flash_t sdk_rt_flash = {{ /* {memory.name}, {memory.size} bytes */",
        f"    .divider = {chip.divider}u, .size_log2 = {memory.size.bit_length() - 1}u,",
        f"    .rest_cycles = {chip.rest_cycles}u, .status = {chip.status:#04x}u, .busy = {chip.busy:#04x}u,",
        f"    .read = {read.instruction:#04x}u, .instruction_lines = {read.lines[0]}u,",
        f"    .address_lines = {read.lines[1]}u, .data_lines = {read.lines[2]}u,",
        f"    .address_bytes = {read.address_bytes}u, .dummy_cycles = {read.dummy}u,",
        f"    .recovers_us = {chip.recovers}u,",
        f"    .resets = {len(chip.reset)}u, .reset = {{{', '.join(map(_command, chip.reset)) or '{0}'}}},",
        "};",
        "",
    ]
    return "\n".join(lines)


def _command(one: Command) -> str:
    return f"{{{one.instruction:#x}u, {one.lines}u, {one.bytes}u, {int(one.dtr)}u}}"
