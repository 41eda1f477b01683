"""C toolchains: pick one by name, give it jobs, get objects, libraries and firmware back, measured."""

from __future__ import annotations

from sdk.boards import suggest
from sdk.errors import UsageError
from sdk.toolchains.base import Blob, CompileJob, LinkJob, LinkKind, ObjectFile, SourceText, Toolchain
from sdk.toolchains.cache import BuildCache
from sdk.toolchains.gcc import GccToolchain
from sdk.toolchains.installed import installed_for
from sdk.toolchains.target import Target, target_for
from sdk.toolchains.zig import ZigToolchain

__all__ = [
    "AUTO",
    "TOOLCHAINS",
    "Blob",
    "BuildCache",
    "CompileJob",
    "LinkJob",
    "LinkKind",
    "ObjectFile",
    "SourceText",
    "Target",
    "Toolchain",
    "get_toolchain",
    "target_for",
    "toolchain_for",
]

AUTO = "auto"  # the toolchain of users who name none
TOOLCHAINS = ("zig", "gcc", "clang", "arm-none-eabi-gcc")


def toolchain_for(target: Target, name: str = AUTO, cache: BuildCache | None = None) -> Toolchain:
    """Return the toolchain called ``name`` for a target; AUTO is what is installed: zig, else the system's compiler.

    Raises:
        UsageError: there is no such toolchain.
        MissingToolError: nothing that is installed builds for the target.
    """
    return get_toolchain(installed_for(target) if name == AUTO else name, cache)


def get_toolchain(name: str = "zig", cache: BuildCache | None = None) -> Toolchain:
    """Return the toolchain called ``name``: one of TOOLCHAINS, or any other cross compiler ending in "-gcc".

    Nothing is run yet; a tool that is not installed is reported by its first use.
    """
    if name == "zig":
        return ZigToolchain(cache)
    if name in TOOLCHAINS or name.endswith("-gcc"):
        return GccToolchain(name, cache)
    raise UsageError(
        f"unknown toolchain {name!r}", hint=suggest(name, TOOLCHAINS) or f"one of {', '.join((AUTO, *TOOLCHAINS))}"
    )
