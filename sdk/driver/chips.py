"""A board's registers as its emulated machine is told of them."""

from __future__ import annotations

from sdk.boards import Board
from sdk.boards.chip import Block, Register, find_field, span
from sdk.devices.emulated import spec

__all__ = ["blocks_of", "reason_of"]


def blocks_of(board: Board) -> tuple[spec.Block, ...]:
    """The blocks that the board's set-ups, its UART, timer, watchdog and external flash touch, and those that gate
    these."""
    dog = board.runtime.watchdog
    parts = (board.runtime.uart, board.runtime.timer, dog, board.runtime.external)
    bases = {part.base for part in parts if part is not None}
    paths = [one.register for one in (*board.steps, *board.watchdog_steps, *board.external_steps)]
    paths += [] if dog is None else filter(None, (dog.caused, dog.forget))
    used = {path.partition(".")[0] for path in paths}
    used |= {name for name, block in board.blocks.items() if block.base in bases}
    gates = {board.blocks[name].gate.partition(".")[0] for name in used} - {""}
    return tuple(_block(board, name, board.blocks[name]) for name in sorted(used | gates))


def reason_of(board: Board) -> spec.Reason | None:
    """Which bits tell of a reset by the board's watchdog; None where none do."""
    dog = board.runtime.watchdog
    if dog is None or not dog.caused:
        return None
    at, low, mask = find_field(board.blocks, dog.caused)
    forget, _, bits = find_field(board.blocks, dog.forget) if dog.forget else (0, 0, 0)
    return spec.Reason(at, mask, dog.caused_value << low, forget, bits)


def _block(board: Board, name: str, block: Block) -> spec.Block:
    registers = tuple(
        spec.Register(one, it.at, it.reset, it.bits, _ready(board, name, f"{name}.{one}", it))
        for one, it in block.registers.items()
    )
    if not block.gate:
        return spec.Block(name, block.base, registers)
    at, _, mask = find_field(board.blocks, block.gate)
    return spec.Block(name, block.base, registers, block.gate, at, mask, mask if block.gate_at else 0)


def _ready(board: Board, block: str, register: str, it: Register) -> tuple[spec.Ready, ...]:
    """Which of a register's fields follow others."""
    found = []
    for name, follows in it.ready.items():
        low, mask = span(it.fields[name])
        if isinstance(follows, int):
            found.append(spec.Ready(mask, low, -1, follows))
        else:
            of = follows.removeprefix("!")
            at, source, _ = find_field(board.blocks, f"{block}.{of}" if "." in of else f"{register}.{of}")
            found.append(spec.Ready(mask, low, at, source, 0 if of == follows else mask))
    return tuple(found)
