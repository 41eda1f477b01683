"""Which compiler builds for a target where the user names none: zig where it is installed, else the system's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from typing import Final

from sdk.errors import MissingToolError
from sdk.installs import install_command, pip_command
from sdk.toolchains.target import Target

__all__ = ["has_c_library", "installed_for"]

_HEADERS: Final = "#include <stdlib.h>\n#include <string.h>\n"
_TIMEOUT_S: Final = 20


def installed_for(target: Target) -> str:
    """The name of the compiler for a target.

    zig comes first since one version of it builds for every board; it is 411 MB, so an installation is not asked for it
    where another compiler is there.

    Raises:
        MissingToolError: there is none, with the commands that install one.
    """
    others = system_compilers(target)
    if find_spec("ziglang") is not None:
        return "zig"
    found = next((name for name in others if _serves(name, target)), None)
    if found is not None:
        return found
    commands = [pip_command("ziglang"), *filter(None, map(install_command, others[:1]))]
    raise MissingToolError(
        f"no C compiler for {target.zig_target} is installed",
        why=f"looked for {', '.join(('zig', *others))}" + (" with a C library" if target.hosted and others else ""),
        hint=", or ".join(commands),
    )


def system_compilers(target: Target) -> tuple[str, ...]:
    """The compilers of other packages that may stand in for zig: none for programs of other systems, which a cross
    compiler links with libraries that are not there where they run."""
    if target.hosted:
        # what links for this machine is told in the words of GNU ld
        return ("gcc", "clang") if target.gcc_command == "gcc" and sys.platform == "linux" else ()
    return (target.gcc_command,) if target.gcc_command else ()


def _serves(name: str, target: Target) -> bool:
    """Whether a compiler is on PATH, with what programs for the target need: firmware takes nothing of a C library."""
    path = shutil.which(name)
    return path is not None and (not target.hosted or has_c_library(path))


@cache
def has_c_library(compiler: str | None) -> bool:
    """Whether a compiler, by its path, finds the headers of a C library; Debian has those of Arm in another package."""
    if compiler is None:
        return False
    try:
        done = subprocess.run(
            [compiler, "-E", "-x", "c", "-"], input=_HEADERS, capture_output=True, text=True, errors="replace",
            timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
