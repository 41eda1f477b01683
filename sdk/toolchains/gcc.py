"""Compilers installed on this machine: gcc, clang, and cross gcc such as arm-none-eabi-gcc."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

from sdk.errors import MissingToolError, UsageError
from sdk.installs import install_command
from sdk.toolchains.base import CompileJob, LinkJob, Toolchain
from sdk.toolchains.cache import BuildCache
from sdk.toolchains.target import Target


@cache
def _version(command: str) -> str:
    """Return the first line of ``command --version``."""
    if shutil.which(command) is None:
        how = install_command(command)
        raise MissingToolError(
            f"{command} is not installed",
            why="no such program on PATH",
            hint=f"{how}, or use --toolchain zig" if how else "use --toolchain zig",
        )
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.split("\n", 1)[0]


class GccToolchain(Toolchain):
    """One gcc-compatible command found on PATH."""

    def __init__(self, name: str, cache: BuildCache | None = None) -> None:
        super().__init__(cache)
        self.name = name

    def version(self) -> str:
        """Return the compiler's own version line; raise MissingToolError when it is not installed."""
        return _version(self.name)

    def _command(self, target: Target) -> list[str]:
        _version(self.name)
        same = {self.name, target.gcc_command} <= {"gcc", "clang"} or self.name == target.gcc_command
        if not same:
            raise UsageError(
                f"{self.name} does not build for {target.zig_target}",
                hint="use --toolchain zig" + (f" or --toolchain {target.gcc_command}" if target.gcc_command else ""),
            )
        return [self.name, *target.gcc_flags]

    def compiler(self, target: Target) -> list[str]:
        """Return the compiler with the target's flags; raise UsageError when it cannot build for it."""
        return self._command(target)

    def linker(self, target: Target) -> list[str]:
        """Return the compiler driver, which links too."""
        return self._command(target)

    def archiver(self) -> list[str]:
        """Return the ar that belongs to the compiler."""
        name = "ar" if self.name == "clang" else f"{self.name.removesuffix('gcc')}ar"
        return [name, "rcsD"]

    def compile_flags(self, job: CompileJob) -> list[str]:
        """Record every function's frame size, in a section (clang) or a file beside the object (gcc).

        What gcc says of vectors wider than the registers it is told of concerns no static function; for the copies that
        it makes of them it heeds no pragma. gcc 12.2 at -O3 with AVX2 turns a guarded load (``i >= 2 && i < 4 ?
        x[2 * i + k - 4] : 0`` in two loops) into masked loads that read zeros: it is told to keep such branches. For
        Cortex-M55 it chooses between two doubles by two conditional moves in a block of one."""
        own = ["-fstack-size-section"] if self.name == "clang" else ["-fstack-usage", "-Wno-psabi"]
        branches = ["-fno-tree-loop-if-convert"] if self.name == "gcc" else []
        moves = ["-fno-if-conversion2"] if job.target.gathers and self.name != "clang" else []
        return [*own, *branches, *moves, "-fno-stack-protector"]

    def retries(self, said: str) -> tuple[str, ...]:
        """Have gcc 12 for Thumb keep integers out of the registers of the FPU, from which it may not get operands of an
        assembly statement back; where floats need those, have it allocate otherwise."""
        lost = "operand has impossible constraints" in said
        return ("-mgeneral-regs-only", "-fira-algorithm=priority", "-O3", "-O1") if lost else ()

    def link_flags(self, job: LinkJob) -> list[str]:
        """Leave libraries out of a shared library that names none, and no trace of the link in any file."""
        same = ["-Wl,--build-id=none"]
        if job.kind == "firmware":
            return [*same, "-Wl,--no-warn-rwx-segments"]
        bare = job.kind == "shared" and not job.libs and not job.sanitize
        sanitize = [f"-fsanitize={','.join(job.sanitize)}"] if job.sanitize else []
        return [*same, *sanitize, *(["-nostdlib"] if bare else [])]

    def libraries(self, job: LinkJob) -> list[str]:
        """Add the compiler's support library to firmware."""
        return [*super().libraries(job), *(["-lgcc"] if job.kind == "firmware" else [])]
