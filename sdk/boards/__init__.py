"""Boards as data: each is one TOML file, and code asks a board for its capabilities, never for its name."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from sdk.boards.board import (
    CAPABILITIES,
    Board,
    Cache,
    Compilers,
    Core,
    Emulator,
    Memory,
    Peripheral,
    Runtime,
)
from sdk.boards.files import board_files, read_merged
from sdk.boards.implied import with_implied
from sdk.boards.read import board_from_table, lint
from sdk.boards.table import parse_size, suggest
from sdk.errors import UsageError

__all__ = [
    "CAPABILITIES",
    "Board",
    "Cache",
    "Compilers",
    "Core",
    "Emulator",
    "Memory",
    "Peripheral",
    "Runtime",
    "board_names",
    "describe",
    "lint",
    "load_board",
    "parse_size",
    "suggest",
    "with_implied",
]


def board_names() -> list[str]:
    """Names of all boards that can be loaded, sorted."""
    return sorted(board_files())


def load_board(name: str) -> Board:
    """Return the board called ``name`` or known by that alias; raise UsageError with suggestions if none."""
    files = board_files()
    if name in files:
        return _load(name)
    aliases = {alias: board for board in files for alias in _load(board).aliases}
    if name in aliases:
        return _load(aliases[name])
    raise UsageError(
        f"unknown board {name!r}",
        hint=suggest(name, {*files, *aliases}) or f"sdk boards lists them: {', '.join(sorted(files))}",
    )


def _load(name: str) -> Board:
    path = board_files()[name]
    try:
        data, origin = read_merged(path)
        return board_from_table(name, data, origin, str(path))
    except UsageError as error:
        error.hint = error.hint or f"mend {path.name}: sdk help adding has the keys, CROSSLEVEL_BOARDS names its folder"
        raise


def describe(board: Board) -> dict[str, Any]:
    """Return a board as JSON-ready values: sizes in bytes, addresses as numbers, sets as sorted lists."""
    core, emulator, gcc = board.core, board.emulator, board.compilers.gcc
    return {
        "name": board.name,
        "title": board.title,
        "vendor": board.vendor,
        "tier": board.tier,
        "emulated_only": board.emulated_only,
        "aliases": list(board.aliases),
        "core": {
            "cpu": core.cpu,
            "arch": core.arch,
            "capabilities": sorted(core.capabilities),
            "pointer_bits": core.pointer_bits,
            "fpu": core.fpu,
            "float_abi": core.float_abi,
            "clock_hz": core.clock_hz,
        },
        "flash_bytes": board.flash_bytes,
        "ram_bytes": board.ram_bytes,
        "memory": [{**structs.asdict(region), "attrs": sorted(region.attrs)} for region in board.memory],
        "stack_bytes": board.runtime.stack_bytes,
        "compilers": {
            "zig": structs.asdict(board.compilers.zig),
            "gcc": None if gcc is None else {"command": gcc.command, "flags": list(gcc.flags)},
            "opt": board.compilers.opt,
        },
        "emulator": None
        if emulator is None
        else {
            "program": emulator.program,
            "fidelity": emulator.fidelity,
            "icount_shift": emulator.icount_shift,
            "memory": dict(emulator.memory),
            "timed": emulator.timed,
        },
        "sources": list(board.sources),
        "origin": dict(sorted(board.origin.items())),
    }
