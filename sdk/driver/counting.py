"""Counting what an emulated board executes: instructions exactly, and cycles as the core's public table has them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from sdk.boards import Board
from sdk.cores import Instruction, Timing, decoder_for, timing_for
from sdk.devices.client import Session
from sdk.driver.host_c import shared_library
from sdk.driver.machines import emulator_of, engine_of, fits_unicorn, marks_of
from sdk.driver.session import emulator_spec, open_session
from sdk.errors import LinkError, MissingToolError, SdkError
from sdk.resources import data_dir
from sdk.toolchains.elf import ElfFile

__all__ = ["PHASE_OP", "PHASE_RUN", "Counts", "NoPluginsError", "can_count", "counted", "total"]

T = TypeVar("T")
PHASE_RUN, PHASE_OP = 1, 2  # c_runtime/include/internal/profile.h
_FIRST_API = 1
LONGEST: Final = 4  # bytes of an instruction, on machines with tables
_OTHER_API = re.compile(r"API version.*?minimum version of (\d+)", re.DOTALL)


class NoPluginsError(MissingToolError):
    """The emulator at hand takes no plugins."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What was executed: instructions, and estimated cycles (None: the core has no table)."""

    instructions: int
    est_cycles: float | None

    def __add__(self, other: Counts) -> Counts:
        cycles = None if self.est_cycles is None or other.est_cycles is None else self.est_cycles + other.est_cycles
        return Counts(self.instructions + other.instructions, cycles)


@dataclass(frozen=True, slots=True)
class _Block:
    """A line of the plugin: in ``phase`` so many instructions from address ``first`` ran ``runs`` times; ``then`` has
    how often the code at some addresses ran next."""

    phase: int
    first: int
    instructions: int
    runs: int
    then: Mapping[int, int]


def can_count(board: Board, threads: int = 1, device: str | None = None) -> bool:
    """Whether instructions can be counted where a session with ``device`` runs: on an emulated target of the board's
    (None: the usual one), those of one thread."""
    engine = engine_of(board) if device is None else device.rstrip("/").removesuffix(":")
    if engine == "unicorn":
        return fits_unicorn(board)
    emulator = board.emulator
    if emulator is None or emulator.timed or engine not in ("qemu", "program"):
        return False
    return threads == 1 or emulator.icount_shift is not None


def counted(
    board: Board, agent: Path, ops: int, work: Callable[[Session], T], device: str | None = None
) -> tuple[T, dict[int, Counts]]:
    """What ``work`` returns of a session with the agent on the board's emulated target, and what its runs executed by
    phase: ``PHASE_RUN`` outside of operations, ``PHASE_OP`` + k in operation k of ``ops``.

    Raises:
        NoPluginsError: the emulator takes no plugins.
        MissingToolError: the emulator or the bundled compiler is not installed.
        SdkError: the session fails.
    """
    with tempfile.TemporaryDirectory(prefix="sdk-") as name:
        out = Path(name) / "counts.txt"
        if (device or engine_of(board) or "").startswith("unicorn"):
            spec = emulator_of(board, agent, (PHASE_OP + ops, out))
            with open_session("unicorn://", board, agent, spec) as session:
                result = work(session)
        else:
            result = _with_plugin(board, agent, PHASE_OP + ops, work, out)
        return result, _sums(ElfFile(agent), list(_read(out)), timing_for(board.core.cpu))


def _with_plugin(board: Board, agent: Path, phases: int, work: Callable[[Session], T], out: Path) -> T:
    """What ``work`` returns of a session under QEMU with our plugin, which speaks the version of its interface."""
    image, api = ElfFile(agent), _FIRST_API
    uri = "program://" if board.hosted else "qemu://"
    while True:
        library = shared_library(
            data_dir("c_runtime") / "plugin" / "count.c", out.with_name(f"count{api}.so"), (f"QEMU_PLUGIN_API={api}",)
        )
        try:
            spec = emulator_spec(board, _plugin(library, image, phases, out))
            with open_session(uri, board, agent, spec) as session:
                return work(session)
        except SdkError as error:
            wanted = _OTHER_API.search(error.why or "")
            if wanted is not None and int(wanted[1]) != api:
                api = int(wanted[1])
            elif "-plugin" in (error.why or ""):
                raise NoPluginsError(
                    "this emulator takes no plugins", why=error.why, hint="install QEMU 4.2 or later from a package"
                ) from None
            else:
                raise


def _plugin(library: Path, image: ElfFile, phases: int, out: Path) -> tuple[str, ...]:
    """The emulator's arguments that load the plugin."""
    marks, _, marking = marks_of(image, phases)
    ranges = [f"watch={first:#x}:{end:#x}" for first, end in marking]
    words = [f"file={library}", f"marks={marks:#x}", f"phases={phases}", f"out={out}", *ranges]
    return "-plugin", ",".join(word.replace(",", ",,") for word in words)  # the emulator reads ",," as a comma


def _read(path: Path) -> Iterator[_Block]:
    lines = path.read_text(encoding="ascii").splitlines() if path.is_file() else []
    if not lines or lines[-1] != "end":
        raise LinkError("the emulator ended without its counts", hint="run it again; sdk doctor checks its plugins")
    for line in lines[:-1]:
        phase, first, instructions, runs, *then = map(int, line.split())
        yield _Block(phase, first, instructions, runs, dict(zip(then[::2], then[1::2], strict=True)))


def _sums(image: ElfFile, blocks: list[_Block], timing: Timing | None) -> dict[int, Counts]:
    decode = decoder_for(image.machine)
    code: dict[tuple[int, int], list[Instruction]] = {}
    found: dict[int, Counts] = {}
    for b in blocks:
        cycles: float | None = None
        if timing is not None and decode is not None:
            span = (b.first, b.instructions)
            if span not in code:
                code[span] = _decoded(image, b, decode)
            behind = b.first + sum(one.size for one in code[span])
            jumps = b.runs - b.then.get(behind, 0)
            cycles = timing.block(code[span]) * b.runs + timing.taken * jumps
        one = Counts(b.instructions * b.runs, cycles)
        found[b.phase] = found[b.phase] + one if b.phase in found else one
    return found


def _decoded(image: ElfFile, block: _Block, decode: Callable[[bytes, int], Instruction]) -> list[Instruction]:
    code = image.code_at(block.first, LONGEST * block.instructions)
    out: list[Instruction] = []
    at = 0
    for _ in range(block.instructions):
        out.append(decode(code, at))
        at += out[-1].size
    return out


def total(counts: Mapping[int, Counts]) -> Counts:
    """All phases together."""
    found = list(counts.values())
    return sum(found[1:], found[0]) if found else Counts(0, None)
