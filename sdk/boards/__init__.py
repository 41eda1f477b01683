"""Boards as data: each is one TOML file, and code asks a board for its capabilities, never for its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from sdk.boards.board import (
    CAPABILITIES,
    Board,
    Cache,
    Compilers,
    Core,
    Emulator,
    Fastest,
    Memory,
    Peripheral,
    Runtime,
    Setting,
    Usb,
)
from sdk.boards.files import board_files, read_merged
from sdk.boards.implied import with_implied
from sdk.boards.read import board_from_table, lint
from sdk.boards.runners import Runner, load_runners
from sdk.boards.table import parse_size, suggest
from sdk.errors import UsageError

__all__ = [
    "CAPABILITIES",
    "Board",
    "Cache",
    "Compilers",
    "Core",
    "Emulator",
    "Fastest",
    "Memory",
    "Peripheral",
    "Runner",
    "Runtime",
    "Setting",
    "Usb",
    "board_names",
    "describe",
    "evidence_of",
    "lint",
    "load_board",
    "load_runners",
    "parse_size",
    "suggest",
    "with_implied",
]


_EVIDENCE: Final = {
    "emulator": "images for it have run in an emulator of it by others",
    "model": "untested: never ran on the board, only under Unicorn on a model of its registers made from the same file",
    "core": "untested: never ran on the board, for which there is no start-up code, only on a machine with its core",
}
_WORD: Final = 3  # letters of a name to look for in what is known of boards: fewer are everywhere
_SHOWN: Final = 8  # boards in a hint


def board_names() -> list[str]:
    """Names of all boards that can be loaded, sorted."""
    return sorted(board_files())


def load_board(name: str) -> Board:
    """Return the board called ``name`` or known by that alias; raise UsageError with suggestions if none."""
    files = board_files()
    if name in files:
        return _load(name, files)
    aliases = {alias: board for board in files for alias in _load(board, files).aliases}
    if name in aliases:
        return _load(aliases[name], files)
    raise UsageError(
        f"unknown board {name!r}",
        hint=_meant(name, aliases) or f"sdk boards lists them: {', '.join(sorted(files))}",
    )


def _meant(name: str, aliases: Iterable[str]) -> str | None:
    """What a name that no board has may stand for: a chip, a core or a maker of boards; or a slip of the fingers."""
    files = board_files()
    boards = [_load(one, files) for one in sorted(files)]
    told = _told(name.lower(), boards)
    if told is not None:
        return told
    near = suggest(name, {*files, *aliases})
    if near is not None and any(word[:2] == name[:2] for word in re.findall(r"[a-z0-9]+", near)[3:]):
        return near
    parts = (name.lower()[:end] for end in range(len(name) - 1, _WORD, -1))
    return next(filter(None, (_told(part, boards) for part in parts)), None)


def _told(word: str, boards: Iterable[Board]) -> str | None:
    """The boards with something that begins with ``word`` in what is known of them: the part of a chip's number that
    people know is not in the names of boards."""
    found = []
    for board in boards if len(word) >= _WORD else ():
        texts = (board.title, board.vendor, board.core.cpu, *board.sources, *board.origin.values())
        if any(re.search(rf"(?<![a-z0-9]){re.escape(word)}", text.lower()) for text in texts):
            found.append(board.name)
    return f"boards with {word}: {', '.join(found)}" if 0 < len(found) <= _SHOWN else None


def _load(name: str, files: Mapping[str, Path]) -> Board:
    path = files[name]
    try:
        data, origin = read_merged(path)
        return board_from_table(name, data, origin, str(path))
    except UsageError as error:
        error.hint = error.hint or f"mend {path.name}: sdk help adding has the keys, CROSSLEVEL_BOARDS names its folder"
        raise


def evidence_of(board: Board) -> str:
    """Where images for a board have run, in words."""
    if board.hosted:
        return "programs for it have run under emulation, as processes" if board.emulator else "it is this machine"
    return f"images for it have run on it: {board.silicon}" if board.silicon else _EVIDENCE[board.evidence]


def describe(board: Board) -> dict[str, Any]:
    """Return a board as JSON-ready values: sizes in bytes, addresses as numbers, sets as sorted lists."""
    core, emulator, gcc = board.core, board.emulator, board.compilers.gcc
    return {
        "name": board.name,
        "title": board.title,
        "vendor": board.vendor,
        "tier": board.tier,
        "emulated_only": board.emulated_only,
        "evidence": board.evidence,
        "untested": board.untested,
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
        "usb": [structs.asdict(one) for one in board.usb],
        "flash": _settings(board.flash),
        "projects": _settings(board.projects),
        "sources": list(board.sources),
        "origin": dict(sorted(board.origin.items())),
    }


def _settings(found: Mapping[str, Mapping[str, Setting]]) -> dict[str, dict[str, Any]]:
    """Settings by name, JSON-ready."""
    return {
        name: {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}
        for name, settings in found.items()
    }
