"""From a merged board table to a checked Board."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from sdk.boards import host
from sdk.boards.board import CAPABILITIES, Board, BoardFile, Core, Memory, Peripheral, Runtime
from sdk.boards.chip import Block, RegisterFile, clock_hz, factor, find_field, resolved, steps_of
from sdk.boards.external import External
from sdk.boards.files import read_registers
from sdk.boards.implied import with_implied
from sdk.boards.runners import lint_settings
from sdk.boards.table import read_table
from sdk.errors import UsageError

SCHEMA = 1
PAGE = 4096  # what memory is mapped in


def board_from_table(name: str, data: Mapping[str, Any], origin: Mapping[str, str], where: str) -> Board:
    """Return the Board that ``data`` describes; raise UsageError naming the key where it is wrong."""
    if data.get("schema", SCHEMA) != SCHEMA:
        raise UsageError(
            f"unknown board schema {data['schema']}", where=where, hint=f"this version reads schema {SCHEMA}"
        )
    file = read_table(BoardFile, data, where)
    blocks = _blocks(file.runtime)
    dog = file.runtime.watchdog
    try:
        steps = steps_of(blocks, file.runtime.setup)
    except KeyError as error:
        raise UsageError(error.args[0], where=f"{where}.runtime.setup") from None
    try:
        watchdog_steps = () if dog is None else steps_of(blocks, dog.setup)
        for path in () if dog is None else filter(None, (dog.caused, dog.forget)):
            find_field(blocks, path)
    except KeyError as error:
        raise UsageError(error.args[0], where=f"{where}.runtime.watchdog") from None
    external = file.runtime.external
    try:
        external_steps = () if external is None else steps_of(blocks, external.setup)
    except KeyError as error:
        raise UsageError(error.args[0], where=f"{where}.runtime.external") from None
    board = Board(
        name=name,
        title=file.board.title,
        vendor=file.board.vendor,
        tier=file.board.tier,
        aliases=file.board.aliases,
        cores=file.core,
        memory=file.memory,
        compilers=file.compilers,
        runtime=file.runtime,
        emulator=file.emulator,
        flash=file.flash,
        projects=file.projects,
        sources=file.provenance.sources,
        origin=dict(origin),
        emulated_only=file.board.machine == "emulated",
        usb=file.usb,
        silicon=file.board.silicon,
        blocks=blocks,
        steps=steps,
        watchdog_steps=watchdog_steps,
        external_steps=external_steps,
        fastest=file.fastest,
        gpu=file.gpu,
    )
    if file.board.machine == "this":
        board = _as_this_machine(board)
    problems = lint(board)
    if problems:
        raise UsageError(f"board {name!r} is inconsistent", where=where, why="; ".join(problems))
    return board


def _blocks(runtime: Runtime) -> dict[str, Block]:
    """The registers of the chip's file; none where the board names no file."""
    if runtime.registers is None:
        return {}
    path, data = read_registers(runtime.registers)
    file = read_table(RegisterFile, data, str(path))
    try:
        return resolved(file.blocks)
    except KeyError as error:
        raise UsageError(f"no block {error.args[0]!r} to be like", where=str(path)) from None


def _as_this_machine(board: Board) -> Board:
    """The board with what is known of this machine at run time only."""
    found = host.detect(CAPABILITIES)
    known = {"arch": found.arch, "capabilities": found.capabilities, "pointer_bits": found.pointer_bits}
    zig = structs.replace(board.compilers.zig, target=found.zig_target)
    return replace(
        board,
        cores=tuple(structs.replace(core, **known) for core in board.cores),
        compilers=structs.replace(board.compilers, zig=zig),
    )


def lint(board: Board) -> list[str]:
    """Return every contradiction inside a board, empty when it is sound."""
    problems = [] if board.cores else ["it has no [[core]]"]
    problems += _lint_memory(board.memory)
    if not board.hosted:
        problems += [f"it has no {kind} region" for kind in ("flash", "ram") if not board.regions(kind)]
        problems += ["it has no stack"] if board.runtime.stack_bytes == 0 else []
        if board.runtime.stack_bytes >= (board.ram_bytes or 0):
            problems.append("its stack is larger than its RAM")
    if board.hosted != (board.runtime.port == "posix"):
        problems.append(f"port {board.runtime.port} contradicts its {len(board.memory)} memory regions")
    problems += [] if board.compilers.zig.target else ["compilers.zig has no target"]
    for core in board.cores:
        problems += _lint_core(core)
        problems += _lint_addresses(board.memory, core.pointer_bits)
    problems += _lint_external(board)
    if board.flash and board.hosted:
        problems.append("flash belongs to boards with memory regions of their own")
    return problems + _lint_emulator(board) + _lint_clock(board) + lint_settings(board.flash)


def _lint_external(board: Board) -> list[str]:
    """What is wrong with the flash chip beside the microcontroller."""
    external, memory = board.runtime.external, board.external
    if external is None:
        return []
    problems = external.problems()
    if memory is None or memory not in board.regions("flash")[1:]:
        problems.append(f"runtime.external.memory names no flash region but the first: {external.memory}")
    elif memory.size & (memory.size - 1) or memory.size < PAGE:
        problems.append(f"{memory.name}, an external flash, has no power of two of bytes, at least {PAGE}")
    return problems


def _lint_clock(board: Board) -> list[str]:
    """What the registers make of the clocks, held against what the timer and the UART are said to get."""
    clock, uart, timer, external = (
        board.runtime.clock, board.runtime.uart, board.runtime.timer, board.runtime.external,
    )  # fmt: skip
    if clock is None:
        return []
    try:
        hz = clock_hz(board.blocks, board.steps, clock)
        return [
            f"its registers make {made:g} Hz of the clock of {role}, whose hz is {one.hz}"
            for role, one in (("timer", timer), ("uart", uart), ("external", external))
            if one is not None
            and (role == "timer" or one.over is not None)
            and round(made := _divided(board, hz, one)) != one.hz
        ]
    except KeyError as error:
        return [str(error.args[0])]


def _divided(board: Board, hz: float, one: Peripheral | External) -> float:
    for by in one.over or ():
        hz /= factor(board.blocks, board.steps, by)
    return hz


def _lint_memory(regions: tuple[Memory, ...]) -> list[str]:
    problems = [f"{region.name} is empty" for region in regions if region.size == 0]
    for one, other in itertools.combinations(regions, 2):
        problems += [f"two regions are called {one.name}"] if one.name == other.name else []
        problems += [f"{one.name} and {other.name} overlap"] if one.overlaps(other) else []
    return problems


def _lint_addresses(regions: tuple[Memory, ...], bits: int) -> list[str]:
    """What neither a linker nor the core can address."""
    problems = []
    for one in regions:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", one.name):
            problems.append(f"region {one.name!r} is not named like a variable of C")
        step = 4 if one.data_base is None else PAGE
        problems += [f"{one.name} begins at no multiple of {step}" for base in one.bases if base % step]
        if one.data_base is not None and one.size % PAGE:
            problems.append(f"{one.name} has a data_base, and a size that is no multiple of {PAGE}")
        for base in one.bases:
            if not 0 <= base <= base + one.size <= 1 << bits:
                problems.append(f"{one.name} is not within the {bits} bits of an address")
    return problems


def _lint_core(core: Core) -> list[str]:
    problems = [] if core.arch else [f"core {core.name} has no arch"]
    if core.cpu != "native":  # a virtual machine may hide some
        without = sorted(with_implied(core.capabilities) - core.capabilities)
        problems += [f"core {core.name}: its capabilities imply {name}" for name in without]
    if core.arch.startswith("arm"):
        if (core.fpu is not None) != ("fpu-sp" in core.capabilities):
            problems.append(f"core {core.name}: fpu and capability fpu-sp contradict each other")
        if core.float_abi == "hard" and core.fpu is None:
            problems.append(f"core {core.name}: float_abi hard without an fpu")
    if core.pointer_bits not in (32, 64):
        problems.append(f"core {core.name}: pointer_bits {core.pointer_bits}")
    return problems


def _lint_emulator(board: Board) -> list[str]:
    if board.emulator is None:
        return []
    names = {region.name for region in board.memory}
    problems = [
        f"emulator.memory names no region: {name}" for name in board.emulator.memory if name not in names
    ]
    if (board.emulator.icount_shift is None) != board.hosted:
        problems.append("emulator.icount_shift belongs to machines with memory regions of their own")
    problems += [] if board.emulator.argv else ["emulator.argv is empty"]
    if board.emulator.timed and not board.hosted:
        problems.append("emulator.timed belongs to boards without memory regions of their own")
    return problems + [f"{found} on the emulator" for found in _lint_memory(board.as_emulated().memory)]
