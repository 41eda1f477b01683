"""The toolchain for every target: the clang and lld inside the ``ziglang`` package, for every target."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import tempfile
from functools import cache
from pathlib import Path

from sdk.errors import BuildError, MissingToolError, UsageError
from sdk.installs import pip_command
from sdk.toolchains.base import CompileJob, LinkJob, Toolchain, run_tool
from sdk.toolchains.cache import CACHE_VARIABLE as OUR_VARIABLE
from sdk.toolchains.cache import cache_root, digest, elsewhere, private_folder
from sdk.toolchains.size import section_sizes
from sdk.toolchains.target import Target
from sdk.toolchains.wasm import WasmObject

CACHE_VARIABLE = "ZIG_GLOBAL_CACHE_DIR"
_PAGE = 65536  # of a WebAssembly memory
_TELL = "ZIG_VERBOSE_CC"  # has zig print each call of clang
_LIBC_PAGES = 1  # for the variables of the C library, and gaps between all of them


@cache
def _zig() -> tuple[str, str]:
    """Path and version of the zig program in the installed package."""
    spec = importlib.util.find_spec("ziglang")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        program = Path(folder) / ("zig.exe" if sys.platform == "win32" else "zig")
        if program.is_file():
            return str(program), importlib.metadata.version("ziglang")
    raise MissingToolError(
        "the zig toolchain is not installed",
        why="the Python package ziglang cannot be found",
        hint=f"{pip_command('ziglang')}, or leave out --toolchain where the system has a compiler for the board",
    )


def cache_folder() -> Path:
    """Return the folder of zig's own cache, which holds the support library of each target once it was built.

    Raises:
        UsageError: the user has no home folder.
    """
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given) if given else cache_root() / "zig"


def make_cache_folder() -> Path:
    """Return that folder, made where it is not there.

    Raises:
        UsageError: others may write to it, or to the one around it that is ours.
        OSError: it cannot be made.
    """
    folder = cache_folder()
    if not os.environ.get(CACHE_VARIABLE):
        private_folder(folder.parent, OUR_VARIABLE)
    return private_folder(folder, CACHE_VARIABLE)


def is_cold() -> bool:
    """Return whether zig has never compiled here: the folder alone may be there."""
    return not (cache_folder() / "o").is_dir()


def _module_flags(job: LinkJob) -> list[str]:
    """What links WebAssembly: a program has as much memory as its objects ask for, and it stays at that; a module to be
    called exports every function, and where the memory that is free begins."""
    flags = ["-s", f"-Wl,-z,stack-size={job.target.stack_bytes}"]
    if job.kind == "module":
        functions = sorted({f.name for o in job.objects for f in WasmObject(o.path).functions if not f.local})
        return [*flags, "-mexec-model=reactor", *(f"-Wl,--export={name}" for name in (*functions, "__heap_base"))]
    need = section_sizes(o.path for o in job.objects)
    pages = -(-(job.target.stack_bytes + need.rodata + need.ram_bytes) // _PAGE) + _LIBC_PAGES
    return [*flags, f"-Wl,--initial-memory={pages * _PAGE}", f"-Wl,--max-memory={pages * _PAGE}"]


class ZigToolchain(Toolchain):
    """``zig cc`` with target, CPU, optimisation and sanitizers always spelled out."""

    name = "zig"
    small_opt = "2"  # without unrolling as small as -Os, which puts more in memory that registers have room for

    def version(self) -> str:
        """Return zig's version."""
        return f"zig {_zig()[1]}"

    def is_cold(self) -> bool:
        """Return whether zig has never compiled here: it then builds its support libraries first."""
        return is_cold()

    def _mark(self, target: Target) -> Path:
        return cache_folder() / f".linked-{self.version()}-{target.zig_target}-{target.link_cpu}".replace(" ", "-")

    def linked(self, target: Target) -> None:
        """Note that zig has its support library for ``target`` now."""
        with contextlib.suppress(OSError):  # it is for a message only
            self._mark(target).touch()

    def first_link(self, target: Target) -> str:
        """Return what to say where zig builds that library first: musl are a thousand files."""
        if self._mark(target).exists():
            return ""
        if "musl" in target.zig_target:
            kind = target.zig_target.split("-")[0]
            return f" for {kind} for the first time: zig builds a C library, which takes a minute of processor time"
        return f" for {target.link_cpu.split('+')[0]} for the first time, which takes some seconds more"

    def environment(self) -> dict[str, str]:
        """Return the environment in which zig keeps to a cache that is this user's.

        Where zig cannot write its cache it waits for minutes, so that is found out here.
        """
        folder = cache_folder()
        try:
            make_cache_folder()
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise UsageError(
                f"cannot write the C compiler's cache folder {folder}",
                why=error.strerror,
                hint=f"make room there, or name another folder: {elsewhere(CACHE_VARIABLE)}",
            ) from error
        place = str(folder.absolute())  # the compiler runs in other folders
        return {**os.environ, CACHE_VARIABLE: place, "ZIG_LOCAL_CACHE_DIR": place}

    def compiler(self, target: Target) -> list[str]:
        """Return ``zig cc`` for the target's exact CPU."""
        return [_zig()[0], "cc", "-target", target.zig_target, f"-mcpu={target.zig_cpu}", *target.zig_floats]

    def linker(self, target: Target) -> list[str]:
        """Return ``zig cc`` for linking.

        -O2 keeps zig from building its support library unoptimised, which takes it four times as long.
        """
        return [_zig()[0], "cc", "-target", target.zig_target, f"-mcpu={target.link_cpu}", "-O2"]

    def _front_end(self, argv: list[str], name: str) -> list[str]:
        """Return the clang that ``zig cc`` would run, with all that it would tell it.

        Two of the three processes that it takes for a unit, a fifth of the time, are spared: one looks for the unit in
        zig's cache, where ours is, and one links the object alone.
        """
        macros = [word for word in argv if word.startswith("-D")]
        command = [word for word in argv if word not in macros]
        if name.endswith(".S") or any(re.search(r"\s", word) for word in (*command, str(cache_folder()))):
            return argv  # zig prints words as they are, with a space between them
        try:
            told = self._told(command)
        except BuildError:
            return argv  # which says so of the unit
        found = re.search(r"^(\S+ clang) unit\.c (.*) -MD -MV -MF \S+ (.*) -c -o \S+$", told, re.MULTILINE)
        return argv if found is None else [*" ".join(found.groups()).split(), *macros]

    def _told(self, command: list[str]) -> str:
        """What ``zig cc`` says of its clang when it compiles an empty unit so, kept beside zig's own cache.

        Raises:
            BuildError: it takes no such flags.
        """
        path = cache_folder() / f".clang-{digest(self.version(), command)}.txt"
        if os.access(path, os.R_OK):
            return path.read_text(encoding="utf-8")
        environment = {**self.environment(), _TELL: "1"}
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".clang-") as name:
            folder = Path(name)
            (folder / "unit.c").touch()
            probe = [*command, "-c", "unit.c", "-o", "unit.o"]
            told = run_tool(probe, folder, "zig takes no such flags", environment)
            (folder / "told.txt").write_text(told, encoding="utf-8")
            os.replace(folder / "told.txt", path)
        return told

    def archiver(self) -> list[str]:
        """Return ``zig ar`` in its deterministic mode."""
        return [_zig()[0], "ar", "rcsD"]

    def compile_flags(self, job: CompileJob) -> list[str]:
        """Turn off the sanitizers zig turns on by itself, and record the frame size of every function."""
        if "address" in job.sanitize:
            raise UsageError("zig has no address sanitizer", hint="choose gcc or clang for that build")
        off = [] if job.sanitize else ["-fno-sanitize=all"]
        rolled = ["-fno-unroll-loops"] if job.target.rolled else []
        # LLVM 22 loses the counters of nested loops where it makes a gather: they never end
        apart = ["-mllvm", "-enable-arm-maskedgatscat=false"] if job.target.gathers else []
        return [*off, *rolled, *apart, "-fstack-size-section", "-fno-stack-protector"]

    def link_flags(self, job: LinkJob) -> list[str]:
        """Leave libraries out of a shared library that names none; do not pad firmware to 64 KiB pages."""
        if job.target.wasm:
            return _module_flags(job)
        if job.kind == "firmware":
            return ["-Wl,-z,max-page-size=4096"]
        bare = job.kind == "shared" and not job.libs and not job.sanitize and "linux" in job.target.zig_target
        return ["-nostdlib"] if bare else []

    def libraries(self, job: LinkJob) -> list[str]:
        """Add the compiler's support library to firmware, and to libraries of 32-bit Arm, whose phones have none."""
        divides = job.kind == "shared" and job.target.android and job.target.softfp
        return [*super().libraries(job), *(["-lcompiler_rt"] if job.kind == "firmware" or divides else [])]
