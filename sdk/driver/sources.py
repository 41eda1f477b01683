"""Generated sources in memory, on disk, and their compilation to objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sdk.files import read_regular
from sdk.resources import data_dir
from sdk.toolchains import Blob, CompileJob, ObjectFile, SourceText, Target
from sdk.toolchains.base import Toolchain
from sdk.toolchains.cache import digest

__all__ = ["Files", "Sources", "as_emitted", "as_files", "compile_sources", "read_files", "write_files"]

Files = Mapping[str, str | Blob]
# what a header states of the objects once they are measured; none depends on it, so they need not be compiled again
_MEASURED = re.compile(r"^#define \w+_STACK_BYTES [^\n]*\n", re.MULTILINE)


@dataclass(frozen=True)
class Sources:
    """Generated files of one model by name, as a backend printed them; ``agent`` are those only an agent needs."""

    prefix: str
    backend: str
    model: Files
    agent: Files

    @property
    def key(self) -> str:
        """Hex digest of everything in it."""
        parts = [sorted(SourceText(n, t).identity for n, t in files.items()) for files in (self.model, self.agent)]
        return digest("sources", self.prefix, *parts)

    @property
    def model_hash(self) -> str | None:
        """What an agent of these sources says of the model that it has; None where they say nothing of it."""
        return self._defined(r'_MODEL_HASH "([0-9a-f]*)"')

    @property
    def threads(self) -> int:
        """How many threads may share a run."""
        return int(self._defined(r"_THREADS (\d+)") or 1)

    def _defined(self, pattern: str) -> str | None:
        """What the header says; None where it says nothing of it."""
        text = self.model.get(f"{self.prefix}.h", "")
        found = re.search(pattern, text) if isinstance(text, str) else None
        return found and found[1]


def as_files(given: Mapping[str, str | bytes]) -> dict[str, str | Blob]:
    """What a backend emitted, with bytes as blobs."""
    return {name: text if isinstance(text, str) else Blob(text) for name, text in given.items()}


def as_emitted(files: Files) -> dict[str, str | bytes]:
    """Files as a backend takes and emits them: what ``as_files`` was given."""
    return {name: text if isinstance(text, str) else text.data for name, text in files.items()}


def read_files(folder: Path, names: list[str]) -> dict[str, str | Blob]:
    """The files called ``names`` in ``folder``."""
    found: dict[str, str | Blob] = {}
    for name in names:
        data = read_regular(folder / name)
        found[name] = Blob(data) if name.endswith(".bin") else data.decode()
    return found


def write_files(folder: Path, files: Files) -> None:
    """Writes files into ``folder``."""
    for name, text in files.items():
        SourceText(name, text).write(folder)


def compile_sources(
    files: Files,
    toolchain: Toolchain,
    target: Target,
    *,
    pic: bool = False,
    defines: tuple[str, ...] = (),
) -> tuple[ObjectFile, ...]:
    """Compiles every ``.c`` and ``.S`` of ``files``.

    ``.h`` files are beside the former, without the stack that they state, and ``.bin`` files beside the latter; the
    runtime's headers are found.
    """
    files = {n: _MEASURED.sub("", t) if n.endswith(".h") and isinstance(t, str) else t for n, t in files.items()}
    beside = {".c": _ending(files, ".h"), ".S": _ending(files, ".bin")}
    include = {".c": (data_dir("c_runtime") / "include",), ".S": ()}
    jobs = [
        CompileJob(
            SourceText(name, text),
            target,
            headers=beside[name[-2:]],
            include_dirs=include[name[-2:]],
            pic=pic,
            defines=defines if name.endswith(".c") else (),
        )
        for name, text in sorted(files.items())
        if name.endswith((".c", ".S"))
    ]
    return tuple(toolchain.compile_all(jobs))


def _ending(files: Files, suffix: str) -> tuple[SourceText, ...]:
    return tuple(SourceText(name, text) for name, text in files.items() if name.endswith(suffix))
