"""Generated C as text, and its compilation to objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sdk.resources import data_dir
from sdk.toolchains import CompileJob, ObjectFile, SourceText, Target
from sdk.toolchains.base import Toolchain
from sdk.toolchains.cache import digest

__all__ = ["Sources", "compile_sources"]


@dataclass(frozen=True)
class Sources:
    """Generated C of one model by file name; ``agent`` are the files only an agent needs."""

    prefix: str
    model: Mapping[str, str]
    agent: Mapping[str, str]

    @property
    def key(self) -> str:
        """Hex digest of everything in it."""
        return digest("sources", self.prefix, dict(self.model), dict(self.agent))


def compile_sources(
    files: Mapping[str, str],
    toolchain: Toolchain,
    target: Target,
    *,
    pic: bool = False,
    extra: tuple[str, ...] = (),
) -> tuple[ObjectFile, ...]:
    """Compiles every ``.c`` of ``files``; its ``.h`` files are beside it, and the runtime's headers are found."""
    headers = tuple(SourceText(name, text) for name, text in files.items() if name.endswith(".h"))
    include = (data_dir("c_runtime") / "include",)
    jobs = [
        CompileJob(
            SourceText(name, text), target, headers=headers, include_dirs=include, pic=pic, flags=extra
        )
        for name, text in sorted(files.items())
        if name.endswith(".c")
    ]
    return tuple(toolchain.compile_all(jobs))
