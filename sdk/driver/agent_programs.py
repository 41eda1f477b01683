"""The agent as a program of its own (c_runtime/agent), built for the machines that have no Python."""

from __future__ import annotations

import struct
from pathlib import Path

from sdk.errors import UsageError
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, SourceText, Target, get_toolchain
from sdk.toolchains.cache import digest

__all__ = ["AGENT_MACHINES", "agent_program", "agent_sources"]

# What `uname -m` says -> zig's architecture and C library, the CPU that every such machine has, the bits of a pointer.
_TARGETS = {
    "aarch64": ("aarch64", "musl", "generic", 64),
    "armv7l": ("arm", "musleabihf", "generic+v7a+vfp3d16", 32),
    "riscv64": ("riscv64", "musl", "baseline_rv64", 64),
    "x86_64": ("x86_64", "musl", "x86_64", 64),
}
_ALIKE = {"arm64": "aarch64", "amd64": "x86_64", "armv8l": "armv7l", "arm": "armv7l"}
AGENT_MACHINES = tuple(_TARGETS)


def agent_sources() -> list[Path]:
    """The files of C that the agent is made of."""
    return sorted((data_dir("c_runtime") / "agent").glob("*.c"))


def agent_program(machine: str) -> Path:
    """A static program for a machine with Linux or Android, by what ``uname -m`` says there; from the cache, or made.

    Raises:
        UsageError: there is no agent for such machines.
        BuildError, MissingToolError: the compiler, zig, rejects it or is not installed.
    """
    if (found := _TARGETS.get(_ALIKE.get(machine, machine))) is None:
        why = "agents are built for " + ", ".join(_TARGETS)
        hint = "where Python runs, sdk agent does the same: sdk help devices"
        raise UsageError(f"there is no agent for machines of the kind {machine!r}", why=why, hint=hint)
    arch, library, cpu, bits = found
    target = Target(
        zig_target=f"{arch}-linux-{library}", zig_cpu=cpu, link_cpu=cpu, gcc_command="", gcc_flags=(), opt="2",
        hosted=True, pointer_bits=bits,
    )  # fmt: skip
    tool = get_toolchain("zig")
    folder = data_dir("c_runtime") / "agent"
    flags = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
    jobs = [CompileJob(SourceText.read(path), target, include_dirs=(folder,), flags=flags) for path in agent_sources()]
    objects = tuple(tool.compile_all(jobs))
    key = digest("agent", "stripped", tool.version(), [unit.key for unit in objects])

    def make(place: Path) -> None:
        linked = tool.link(LinkJob("executable", objects, target), place / "agent")
        linked.write_bytes(_stripped(linked.read_bytes()))

    return tool.cache.entry(key, make) / "agent"


def _stripped(program: bytes) -> bytes:
    """An ELF program without what is not loaded: most of it is what debuggers want to know of the C library, which the
    compiler would build anew to leave it out."""
    wide = program[4] == 2
    table, entry, count = (32, 54, 56) if wide else (28, 42, 44)  # offset of program headers, their size and number
    (start,) = struct.unpack_from("<Q" if wide else "<I", program, table)
    size, number = (struct.unpack_from("<H", program, at)[0] for at in (entry, count))
    layout, end = ("<8xQ16xQ", 0) if wide else ("<4xI8xI", 0)
    for at in range(start, start + size * number, size):
        offset, length = struct.unpack_from(layout, program, at)
        end = max(end, offset + length)
    kept = bytearray(program[:end])
    sections, numbers = (40, 58) if wide else (32, 46)  # the table of sections is gone, and says so
    struct.pack_into("<Q" if wide else "<I", kept, sections, 0)
    struct.pack_into("<HHH", kept, numbers, 0, 0, 0)
    return bytes(kept)
