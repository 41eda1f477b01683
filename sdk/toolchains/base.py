"""What every C toolchain does: compile text to objects, link objects, reuse what was built before."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from sdk.errors import BuildError, UsageError
from sdk.steps import step, update
from sdk.toolchains.cache import BuildCache, digest
from sdk.toolchains.includes import included
from sdk.toolchains.target import Target

LinkKind = Literal["shared", "static", "executable", "firmware", "module"]
_TIMEOUT_S = 600
_FIRST_S = 3600  # where a C library is built before: a minute of processor time, of which a busy machine gives little
_SHOWN_LINES = 12
# Every object is built with these, whatever the compiler: sections the linker can drop, nothing that
# names this machine or the day, and no tables for unwinding that C never does.
_COMMON_FLAGS = (
    "-std=c99",
    "-g0",
    "-fomit-frame-pointer",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-common",
    "-fno-ident",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
)
_ASSEMBLE_FLAGS = ("-g0",)


@dataclass(frozen=True)
class Blob:
    """The bytes of a binary file, hashed once. They may be of gigabytes, so that they are held and not copied."""

    data: bytes

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class SourceText:
    """One file in memory: C, assembler (``.S``), or bytes that an assembler file takes in.

    Compiler messages show its ``name``, a relative path with "/".
    """

    name: str
    text: str | Blob

    @property
    def identity(self) -> tuple[str, str]:
        """Its name and contents, the latter as a digest where they are bytes."""
        return self.name, self.text.digest if isinstance(self.text, Blob) else self.text

    def write(self, folder: Path) -> None:
        """Writes it below ``folder``."""
        path = folder / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(self.text, Blob):
            path.write_bytes(self.text.data)
        else:
            path.write_text(self.text, encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> SourceText:
        """Read a file, keeping only its last name."""
        return cls(path.name, path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class CompileJob:
    """One translation unit: its source, headers, macros ("NAME" or "NAME=VALUE") and extra flags.

    ``headers`` can be included by name; ``include_dirs`` lend all their .h files. ``opt`` overrides the
    target's optimisation level; ``sanitize`` names sanitizers ("address", "undefined").
    """

    source: SourceText
    target: Target
    headers: tuple[SourceText, ...] = ()
    include_dirs: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    pic: bool = False
    opt: str | None = None
    sanitize: tuple[str, ...] = ()


@dataclass(frozen=True)
class ObjectFile:
    """A compiled unit: ``path`` of the object, the source's ``name``, content ``key``, compiler warnings.

    ``stack_usage`` is the compiler's own report of frame sizes where it writes one beside the object.
    """

    path: Path
    name: str
    key: str
    warnings: str
    stack_usage: Path | None


@dataclass(frozen=True)
class LinkJob:
    """Objects to combine into one file.

    ``script`` is the text of a linker script (firmware only); ``libs`` names libraries such as "pthread".
    Firmware gets the compiler's own support library and nothing else, so it brings its own memcpy.
    With no ``libs``, a shared library depends on no other: it takes memcpy and the like from its process.
    A module is what takes its place in a WebAssembly engine, and imports nothing.
    """

    kind: LinkKind
    objects: tuple[ObjectFile, ...]
    target: Target
    script: str | None = None
    libs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    sanitize: tuple[str, ...] = ()


class Toolchain(ABC):
    """A C compiler with its linker and archiver. Subclasses say how to spell things; caching is here."""

    name: str
    small_opt: str = "s"  # the level for targets whose code is to be small

    def __init__(self, cache: BuildCache | None = None) -> None:
        self.cache = cache or BuildCache()

    @abstractmethod
    def version(self) -> str:
        """Return text that changes whenever the tool would produce other output; raise MissingToolError."""

    def is_cold(self) -> bool:
        """Return whether the compiler has yet to fill a cache of its own, so that its first run takes longer."""
        return False

    @abstractmethod
    def compiler(self, target: Target) -> list[str]:
        """Return the argv prefix that compiles C for ``target``, flags of the target included."""

    @abstractmethod
    def linker(self, target: Target) -> list[str]:
        """Return the argv prefix that links for ``target``."""

    @abstractmethod
    def archiver(self) -> list[str]:
        """Return the argv prefix of ``ar``."""

    def environment(self) -> dict[str, str] | None:
        """Return the environment that the tools run in; None is this process's own."""
        return None

    def _run(self, argv: list[str], cwd: Path, failure: str, timeout_s: int = _TIMEOUT_S) -> str:
        return run_tool(argv, cwd, failure, self.environment(), timeout_s)

    def compile_flags(self, job: CompileJob) -> list[str]:
        """Return the flags this compiler needs beyond the common ones; default none."""
        return []

    def link_flags(self, job: LinkJob) -> list[str]:
        """Return the flags this linker needs for ``job``; default none."""
        return []

    def retries(self, said: str) -> tuple[str, ...]:
        """Return flags, each of which is tried on a unit that the compiler rejected with these words; default none."""
        return ()

    def libraries(self, job: LinkJob) -> list[str]:
        """Return the libraries of ``job``, which follow its objects on the command line."""
        return [f"-l{lib}" for lib in job.libs]

    def compile(self, job: CompileJob) -> ObjectFile:
        """Compile one unit; raise BuildError with the compiler's first lines when it is rejected."""
        headers = _headers(job)
        argv = [
            *self.compiler(job.target),
            *(_ASSEMBLE_FLAGS if job.source.name.endswith(".S") else self._compile_flags(job)),
            *[f"-D{define}" for define in job.defines],
            "-I.",
        ]
        name = job.source.name
        key = digest(self.version(), argv, job.source.identity, *[h.identity for h in headers])

        def make(folder: Path) -> None:
            for source in (*headers, job.source):
                source.write(folder / "src")
            command = [*self._front_end(argv, name), "-c", name, "-o", "../unit.o"]
            messages = self._compiled(command, folder / "src", f"the C compiler ({self.name}) rejected {name}")
            (folder / "warnings.txt").write_text(messages, encoding="utf-8")
            shutil.rmtree(folder / "src")

        folder = self.cache.entry(key, make)
        usage = folder / "unit.su"
        return ObjectFile(
            path=folder / "unit.o",
            name=name,
            key=key,
            warnings=(folder / "warnings.txt").read_text(encoding="utf-8"),
            stack_usage=usage if usage.is_file() else None,
        )

    def _front_end(self, argv: list[str], name: str) -> list[str]:
        """Return what compiles the unit ``name`` as ``argv`` does."""
        return argv

    def _compiled(self, command: list[str], cwd: Path, failure: str) -> str:
        """Return what the compiler said of a unit that it took, if need be with flags more."""
        try:
            return self._run(command, cwd, failure)
        except BuildError as error:
            for flag in self.retries(error.why or ""):
                with suppress(BuildError):
                    return self._run([*command, flag], cwd, failure)
            raise

    def _compile_flags(self, job: CompileJob) -> list[str]:
        """Return what a C file is compiled with, beyond its target and macros."""
        return [
            f"-O{job.opt or (self.small_opt if job.target.small else job.target.opt)}",
            *_COMMON_FLAGS,
            *(["-fPIC"] if job.pic and not job.target.wasm else []),  # an object of a module has no place of its own
            *([f"-fsanitize={','.join(job.sanitize)}"] if job.sanitize else []),
            *self.compile_flags(job),
            *job.flags,
        ]

    def linked(self, target: Target) -> None:  # noqa: B027 - most have nothing to note
        """Note that something was linked for ``target``."""

    def first_link(self, target: Target) -> str:
        """Return what to say of a link that takes long because nothing was linked for ``target`` here; "" for none."""
        return ""

    def compile_all(self, jobs: Sequence[CompileJob]) -> list[ObjectFile]:
        """Compile units side by side, one for each CPU, results in the order of ``jobs``."""
        done: list[ObjectFile] = []
        first = ", for the first time: the C compiler's cache is cold" if self.is_cold() else ""
        with step("compiling C"), ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            for unit in pool.map(self.compile, jobs):
                done.append(unit)
                update(f"compiling C: {len(done)} of {len(jobs)} files{first}")
        return done

    def link(self, job: LinkJob, out: Path) -> Path:
        """Link ``job`` into the file ``out`` and return it; the same objects give the same bytes anywhere."""
        if (job.kind == "firmware") != (job.script is not None):
            raise UsageError("a linker script goes with firmware, and firmware with a linker script")
        prefix = self.archiver() if job.kind == "static" else self.linker(job.target)
        flags = [] if job.kind == "static" else [*_LINK_KINDS[job.kind], *self.link_flags(job), *job.flags]
        libraries = self.libraries(job)
        script = None if job.script is None else job.script + _DROP
        key = digest(self.version(), prefix, flags, libraries, script, [unit.key for unit in job.objects])

        def make(folder: Path) -> None:
            names = _gather(job.objects, folder)
            command = [*prefix, "out.bin", *names] if job.kind == "static" else [*prefix, *flags]
            if script is not None:
                (folder / "link.ld").write_text(script, encoding="utf-8")
                command += ["-Wl,-T,link.ld"]
            if job.kind != "static":
                command += [*names, *libraries, "-o", "out.bin"]
            self._run(command, folder, f"the linker ({self.name}) failed", _FIRST_S if first else _TIMEOUT_S)
            self.linked(job.target)
            for entry in names:
                (folder / entry).unlink()

        first = self.first_link(job.target)
        with step(f"linking{first}"):
            built = self.cache.entry(key, make) / "out.bin"
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = out.with_name(f".{out.name}.{os.getpid()}")
        shutil.copyfile(built, partial)
        if job.kind in ("shared", "executable"):
            partial.chmod(0o755)
        os.replace(partial, out)
        return out


_LINK_KINDS: dict[str, tuple[str, ...]] = {
    "shared": ("-shared",),
    "executable": (),
    "firmware": ("-nostdlib", "-Wl,--gc-sections"),
    "module": (),
}


# zig's support library carries a megabyte of debug information; the frame sizes have been read by now.
_DROP = "\nSECTIONS { /DISCARD/ : { *(.debug* .stack_sizes) } }\n"


def _headers(job: CompileJob) -> list[SourceText]:
    """The files the unit takes in, the in-memory ones last so that they win over a folder's."""
    found: dict[str, SourceText] = {}
    for folder in job.include_dirs:
        for header in headers_in(folder):
            found.setdefault(header.name, header)
    found.update({header.name: header for header in job.headers})
    texts = {name: str(header.text) for name, header in found.items() if not isinstance(header.text, Blob)}
    if isinstance(job.source.text, Blob) or len(texts) < len(found):  # an assembler's, which takes in bytes too
        return list(found.values())
    return [found[name] for name in included(job.source.name, job.source.text, texts)]


def headers_in(folder: Path) -> list[SourceText]:
    """The headers of a folder and those below it, each by its path from there."""
    return [
        SourceText(path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.h"))
    ]


def _gather(objects: Iterable[ObjectFile], folder: Path) -> list[str]:
    """Copy the objects into ``folder`` under their sources' names, which end up in the output."""
    names: list[str] = []
    for index, unit in enumerate(objects):
        stem = Path(unit.name).stem
        name = f"{stem}.o" if f"{stem}.o" not in names else f"{stem}_{index}.o"
        shutil.copyfile(unit.path, folder / name)
        names.append(name)
    return names


def run_tool(
    argv: list[str], cwd: Path, failure: str, environment: dict[str, str] | None, timeout_s: int = _TIMEOUT_S
) -> str:
    """Run a tool and return what it said; raise BuildError with its first lines when it fails."""
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=environment, capture_output=True, text=True, errors="replace", timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        hint = "run it again when the machine is less busy: what is done is kept"
        raise BuildError(failure, why=f"it did not end within {timeout_s} s", hint=hint) from error
    messages = (done.stderr + done.stdout).strip()
    if done.returncode != 0:
        place = re.search(r"^(\S+?:\d+(?::\d+)?): (?:fatal )?error:", messages, re.MULTILINE)
        lines = [line for line in messages.splitlines() if line.strip()][:_SHOWN_LINES]
        raise BuildError(
            failure,
            where=place[1] if place else None,
            why="\n".join(lines) or f"it ended with status {done.returncode}",
        )
    return messages
