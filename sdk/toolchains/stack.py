"""The deepest stack a call needs: frame sizes from the compiler, calls from the objects' relocations."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.construct_utils import ULEB128
from elftools.elf.constants import SH_FLAGS

from sdk.errors import BuildError
from sdk.toolchains.base import ObjectFile
from sdk.toolchains.elf import ElfFile, Relocation, Section, Symbol
from sdk.toolchains.wasm import WasmObject, is_wasm

# On x86-64 the innermost function may use this many bytes below the stack pointer without a frame.
_RED_ZONE = {"EM_X86_64": 128}
Function = tuple[str, str]  # (object's name for a local function and "" for a global one, symbol)
_Starts = Mapping[tuple[int, int], Symbol]  # (section, first address) -> function


@dataclass(frozen=True)
class StackReport:
    """Worst-case stack of an entry in bytes, the calls that need it, and called functions not measured."""

    bytes: int
    chain: tuple[str, ...]
    unmeasured: tuple[str, ...]


@dataclass
class _Graph:
    frames: dict[Function, int]
    calls: dict[Function, set[Function]]
    data: set[Function]  # variables, which code of other objects refers to like functions
    red_zone: int = 0


def worst_case_stack(
    objects: Sequence[ObjectFile], entry: str, indirect: Mapping[str, Iterable[str]] | None = None
) -> StackReport:
    """Return the deepest stack below the global function ``entry``, its own frame included.

    Call edges are the references that a function's code makes to other functions, those whose address it
    takes included; calls through tables of pointers are given in ``indirect`` (caller -> callees, global
    names). Functions outside ``objects`` count nothing and are listed. Raises BuildError for recursion, for
    a frame of variable size, and when ``entry`` is not there.
    """
    graph = _Graph({}, {}, set())
    for unit in objects:
        _add_object(graph, unit)
    for caller, callees in (indirect or {}).items():
        graph.calls.setdefault(("", caller), set()).update(("", callee) for callee in callees)
    if ("", entry) not in graph.frames:
        raise BuildError(f"no function {entry!r} to measure the stack of")
    unmeasured: set[str] = set()
    depth, chain = _deepest(graph, ("", entry), {}, (), unmeasured)
    return StackReport(depth + graph.red_zone, tuple(name for _, name in chain), tuple(sorted(unmeasured)))


def _deepest(
    graph: _Graph,
    function: Function,
    known: dict[Function, tuple[int, tuple[Function, ...]]],
    trail: tuple[Function, ...],
    unmeasured: set[str],
) -> tuple[int, tuple[Function, ...]]:
    if function in trail:
        raise BuildError(
            "recursion: the stack has no bound", why=" -> ".join(n for _, n in (*trail, function))
        )
    if function not in known:
        if function not in graph.frames and function not in graph.data:
            unmeasured.add(function[1])
        below: tuple[int, tuple[Function, ...]] = (0, ())
        for callee in sorted(graph.calls.get(function, ())):
            below = max(
                below, _deepest(graph, callee, known, (*trail, function), unmeasured), key=lambda d: d[0]
            )
        known[function] = (graph.frames.get(function, 0) + below[0], (function, *below[1]))
    return known[function]


def _add_object(graph: _Graph, unit: ObjectFile) -> None:
    if is_wasm(unit.path):
        _add_wasm(graph, unit)
    else:
        _add_elf(graph, unit)


def _add_wasm(graph: _Graph, unit: ObjectFile) -> None:
    """The stack that lies in memory; engines keep what has no address in another, which no code can see."""
    module = WasmObject(unit.path)
    graph.data.update(("", name) for name in module.data)
    for function in module.functions:
        caller = (unit.name if function.local else "", function.name)
        graph.frames[caller] = function.frame
        graph.calls.setdefault(caller, set()).update((unit.name if local else "", n) for n, local in function.calls)


def _add_elf(graph: _Graph, unit: ObjectFile) -> None:
    elf = ElfFile(unit.path)
    graph.red_zone = max(graph.red_zone, _RED_ZONE.get(elf.machine, 0))
    # Bit 0 of a Thumb function's value says that it is Thumb.
    starts = {(symbol.section, symbol.value & ~1): symbol for symbol in elf.functions()}
    named = {symbol.name: symbol for symbol in starts.values()}
    defined = (s for s in elf.symbols if s.section != 0 and s.binding != "STB_LOCAL" and s.type != "STT_FUNC")
    graph.data.update(("", symbol.name) for symbol in defined)
    if unit.stack_usage is not None:
        for name, size in _usage_file(unit.stack_usage):
            if name in named:
                graph.frames[_identity(unit, named[name])] = size
    for section in elf.sections:
        if section.name == ".stack_sizes":
            for symbol, size in _size_section(elf, section, starts):
                # clang does not count the return address that an x86 call pushes; gcc does.
                graph.frames[_identity(unit, symbol)] = size + (8 if elf.machine == "EM_X86_64" else 0)
        elif section.flags & SH_FLAGS.SHF_EXECINSTR:
            _add_calls(graph, unit, elf, section, starts)


def _identity(unit: ObjectFile, symbol: Symbol) -> Function:
    return (unit.name if symbol.binding == "STB_LOCAL" else "", symbol.name)


def _add_calls(graph: _Graph, unit: ObjectFile, elf: ElfFile, section: Section, starts: _Starts) -> None:
    inside = sorted(start for index, start in starts if index == section.index)
    for relocation in elf.relocations(section):
        before = [start for start in inside if start <= relocation.offset]
        callee = _callee(relocation, starts)
        if before and callee is not None:
            caller = starts[section.index, before[-1]]
            graph.calls.setdefault(_identity(unit, caller), set()).add(_identity(unit, callee))


def _callee(relocation: Relocation, starts: _Starts) -> Symbol | None:
    """Return the function a relocation refers to, None when it refers to data."""
    symbol = relocation.symbol
    if symbol.section == 0:
        return symbol if symbol.name else None
    if symbol.type != "STT_SECTION":
        return starts.get((symbol.section, symbol.value & ~1))
    # Each function has a section of its own, so a reference to a section of code is one to its function.
    return next((found for (index, _), found in starts.items() if index == symbol.section), None)


def _size_section(elf: ElfFile, section: Section, starts: _Starts) -> Iterable[tuple[Symbol, int]]:
    """Read clang's .stack_sizes: an address (a relocation) and a ULEB128 size for each function."""
    width = 8 if elf.is64 else 4
    targets = {relocation.offset: relocation for relocation in elf.relocations(section)}
    data = io.BytesIO(section.data)
    while (at := data.tell()) < section.size:
        relocation, in_place = targets[at], int.from_bytes(data.read(width), "little")
        address, size = relocation.symbol.value + relocation.addend + in_place, ULEB128("size").parse_stream(data)
        yield starts[relocation.symbol.section, address & ~1], size


def _usage_file(path: Path) -> Iterable[tuple[str, int]]:
    """Read gcc's .su file: place, function, bytes and kind of each frame, tab-separated."""
    for line in path.read_text(encoding="utf-8").splitlines():
        place, size, kind = line.split("\t")
        name = place.rsplit(":", 1)[1]
        if "dynamic" in kind and "bounded" not in kind:
            raise BuildError(
                "a frame has no fixed size", where=name, why="it holds an array of variable length"
            )
        yield name, int(size)
