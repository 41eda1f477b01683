"""C toolchains: pick one by name, give it jobs, get objects, libraries and firmware back, measured."""

from __future__ import annotations

from sdk.boards import suggest
from sdk.errors import UsageError
from sdk.toolchains.base import Blob, CompileJob, LinkJob, LinkKind, ObjectFile, SourceText, Toolchain
from sdk.toolchains.cache import BuildCache
from sdk.toolchains.gcc import GccToolchain
from sdk.toolchains.target import Target, target_for
from sdk.toolchains.zig import ZigToolchain

__all__ = [
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
]

TOOLCHAINS = ("zig", "gcc", "clang", "arm-none-eabi-gcc")


def get_toolchain(name: str = "zig", cache: BuildCache | None = None) -> Toolchain:
    """Return the toolchain called ``name``: one of TOOLCHAINS, or any other cross compiler ending in "-gcc".

    Nothing is run yet; a tool that is not installed is reported by its first use.
    """
    if name == "zig":
        return ZigToolchain(cache)
    if name in TOOLCHAINS or name.endswith("-gcc"):
        return GccToolchain(name, cache)
    raise UsageError(
        f"unknown toolchain {name!r}", hint=suggest(name, TOOLCHAINS) or f"one of {', '.join(TOOLCHAINS)}"
    )
