"""From a merged board table to a checked Board."""

from __future__ import annotations

import itertools
import string
from collections.abc import Mapping
from typing import Any

from sdk.boards import host
from sdk.boards.model import (
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
from sdk.boards.table import Table, parse_size, suggest
from sdk.errors import UsageError

SCHEMA = 1
_MACHINES = ("real", "emulated", "this")
_FLOAT_ABIS = ("soft", "softfp", "hard")
_PORTS = ("posix", "cortex_m", "riscv")
_PLACEHOLDERS = {"elf", "serial", "shift"}


def board_from_table(name: str, data: Mapping[str, Any], origin: Mapping[str, str], where: str) -> Board:
    """Return the Board that ``data`` describes; raise UsageError naming the key where it is wrong."""
    top = Table(data, where)
    if top.integer("schema") != SCHEMA:
        raise UsageError(
            f"unknown board schema {data['schema']}", where=where, hint=f"this version reads schema {SCHEMA}"
        )
    about = top.need("board")
    provenance = top.table("provenance")
    emulator = top.table("emulator")
    kind = about.text("machine", "real", _MACHINES)
    machine = host.detect(CAPABILITIES) if kind == "this" else None
    board = Board(
        name=name,
        title=about.text("title"),
        vendor=about.text("vendor", ""),
        tier=about.integer("tier", 3),
        aliases=about.strings("aliases"),
        cores=tuple(_core(table, machine) for table in top.tables("core")),
        memory=tuple(_memory(table) for table in top.tables("memory")),
        compilers=_compilers(top.need("compilers"), machine),
        runtime=_runtime(top.need("runtime")),
        emulator=None if emulator is None else _emulator(emulator),
        sources=() if provenance is None else provenance.strings("sources"),
        origin=dict(origin),
        emulated_only=kind == "emulated",
    )
    if provenance is not None:
        provenance.finish()
    about.finish()
    top.finish()
    problems = lint(board)
    if problems:
        raise UsageError(f"board {name!r} is inconsistent", where=where, why="; ".join(problems))
    return board


def _core(table: Table, machine: host.HostMachine | None) -> Core:
    cache = table.table("cache")
    capabilities = frozenset(table.strings("capabilities"))
    for capability in sorted(capabilities - CAPABILITIES):
        raise UsageError(
            f"unknown capability {capability!r}", where=table.where, hint=suggest(capability, CAPABILITIES)
        )
    core = Core(
        name=table.text("name"),
        cpu=table.text("cpu"),
        arch=machine.arch if machine else table.text("arch"),
        capabilities=machine.capabilities if machine else capabilities,
        pointer_bits=machine.pointer_bits if machine else table.integer("pointer_bits", 32),
        fpu=table.text("fpu", "") or None,
        float_abi=table.text("float_abi", "soft", _FLOAT_ABIS),
        clock_hz=table.integer("clock_hz", 0) or None,
        cache=Cache()
        if cache is None
        else Cache(cache.size("i", 0), cache.size("d", 0), cache.integer("line", 0)),
    )
    if cache is not None:
        cache.finish()
    table.finish()
    return core


def _memory(table: Table) -> Memory:
    region = Memory(
        name=table.text("name"),
        base=table.integer("base"),
        size=table.size("size"),
        kind=table.text("kind", choices=("flash", "ram")),
        attrs=frozenset(table.strings("attrs")),
    )
    table.finish()
    return region


def _compilers(table: Table, machine: host.HostMachine | None) -> Compilers:
    zig, gcc = table.need("zig"), table.need("gcc")
    found = Compilers(
        zig_target=machine.zig_target if machine else zig.text("target"),
        zig_cpu=zig.text("cpu"),
        gcc_command=gcc.text("command"),
        gcc_flags=gcc.strings("flags"),
        opt=table.text("opt", "2", ("1", "2", "3", "s", "z")),
    )
    for part in (zig, gcc, table):
        part.finish()
    return found


def _peripheral(table: Table | None) -> Peripheral | None:
    if table is None:
        return None
    found = Peripheral(table.text("kind"), table.integer("base", 0), table.integer("hz", 0))
    table.finish()
    return found


def _runtime(table: Table) -> Runtime:
    found = Runtime(
        port=table.text("port", choices=_PORTS),
        stack_bytes=table.size("stack", 0),
        uart=_peripheral(table.table("uart")),
        timer=_peripheral(table.table("timer")),
        emulated_uart=_peripheral(table.table("emulated_uart")),
        emulated_timer=_peripheral(table.table("emulated_timer")),
    )
    table.finish()
    return found


def _emulator(table: Table) -> Emulator:
    memory = table.table("memory")
    bases = {} if memory is None else {k: parse_size(v, f"{memory.where}.{k}") for k, v in memory.items()}
    argv = table.strings("argv")
    for part in argv:
        for _, placeholder, _, _ in string.Formatter().parse(part):
            if placeholder is not None and placeholder not in _PLACEHOLDERS:
                raise UsageError(
                    f"unknown placeholder {{{placeholder}}}",
                    where=f"{table.where}.argv",
                    hint=f"one of {', '.join(sorted(_PLACEHOLDERS))}",
                )
    found = Emulator(
        argv, _shift(table), bases, table.text("fidelity", "isa", ("isa", "soc"))
    )
    table.finish()
    return found


def _shift(table: Table) -> int | None:
    return table.integer("icount_shift") if "icount_shift" in table.data else None


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
    for core in board.cores:
        problems += _lint_core(core)
    return problems + _lint_emulator(board)


def _lint_memory(regions: tuple[Memory, ...]) -> list[str]:
    problems = [f"{region.name} is empty" for region in regions if region.size == 0]
    for one, other in itertools.combinations(regions, 2):
        problems += [f"two regions are called {one.name}"] if one.name == other.name else []
        problems += [f"{one.name} and {other.name} overlap"] if one.overlaps(other) else []
    return problems


def _lint_core(core: Core) -> list[str]:
    problems = []
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
    return problems + [f"{found} on the emulator" for found in _lint_memory(board.as_emulated().memory)]
