"""The WebAssembly modules of an npm package: what any engine runs, and one for engines with relaxed vectors; where
several threads may share a run, both have a memory that can be shared."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from sdk.boards import Board
from sdk.driver.artifact import build_libraries, build_sources
from sdk.driver.built import Built
from sdk.driver.sources import compile_sources
from sdk.driver.targets import capabilities, target_of
from sdk.errors import BuildError
from sdk.projects.making import Making
from sdk.projects.wasm_data import share_memory, split_module
from sdk.resources import data_dir
from sdk.toolchains import Blob, LinkJob, toolchain_for

__all__ = ["part_record", "web_modules"]

_VECTORS, _RELAXED = "simd128", "relaxed-simd"
_FUSED: Final = "fma_f32x4("  # in the C of a model whose vectors of products are added in one operation
_CODE: Final = r"^    {}_(\w+) = (-\d+),? +/\* (.*?) \*/"
_MAX_BYTES: Final = (1 << 32) - (1 << 16)  # of a memory, as the linker takes it
_POOL: Final = "pool.c"

_Files = dict[str, str | Blob]


@dataclass(frozen=True)
class _Module:
    """What a module is made of: the project's model, a board, and the build for it."""

    making: Making
    board: Board
    built: Built

    @property
    def threads(self) -> int:
        """1 also where no call of the model is large enough to be shared."""
        header = str(self.built.sources.model[f"{self.built.sources.prefix}.h"])
        found = re.search(r"^#define \w+_THREADS (\d+)", header, re.MULTILINE)
        return int(found[1]) if found else 1


def web_modules(making: Making) -> tuple[_Files, dict[str, Any], dict[str, Any] | None]:
    """The modules and their constants as files; what JavaScript has to know of the module for any engine, and of that
    for engines with relaxed vectors, where there is one.

    Raises:
        BuildError: the model cannot be compiled for them.
    """
    files, told = _files(_Module(making, making.board, making.built), "")
    relaxed = _relaxed(making)
    if relaxed is None:
        return files, told, None
    added, known = _files(relaxed, ".relaxed")
    own, other = known["constants"]["file"], told["constants"]["file"]
    if added[f"model/{own}"] == files[f"model/{other}"]:
        del added[f"model/{own}"]
        known["constants"]["file"] = other
    return files | added, told, known


def _relaxed(making: Making) -> _Module | None:
    """The same for engines with relaxed vectors, which add products in one instruction; None where the model adds none
    in vectors, or the board or the user wants no vectors, or has relaxed ones anyway."""
    board = making.board
    if making.options.isa is not None or _VECTORS not in board.capabilities or _RELAXED in board.capabilities:
        return None
    core = structs.replace(board.core, capabilities=board.capabilities | {_RELAXED})
    faster = replace(_with_features(board, _RELAXED.replace("-", "_")), cores=(core, *board.cores[1:]))
    built = build_sources(making.file, faster, making.options)
    fused = any(_FUSED in str(text) for text in built.sources.model.values())
    return _Module(making, faster, built) if fused else None


def _with_features(board: Board, *features: str) -> Board:
    """A board whose compiler is told that its engine has these too."""
    zig = structs.replace(board.compilers.zig, cpu="+".join([board.compilers.zig.cpu, *features]))
    return replace(board, compilers=structs.replace(board.compilers, zig=zig))


def _files(module: _Module, of: str) -> tuple[_Files, dict[str, Any]]:
    """A module and its constants, files with ``of`` in their names; and what JavaScript has to know of it."""
    m = module.built.sources.prefix
    split = split_module(_linked(module))
    code, memory = split.module, None
    if module.threads > 1:
        code, flag, pages = share_memory(code)
        memory = {"flag": flag, "pages": pages}
    files = {f"{m}{of}.wasm": Blob(code), f"{m}{of}.weights.bin": Blob(split.data)}
    names = list(files)
    used = capabilities(module.board, module.making.options)
    told = {
        "module": part_record(names[0], files[names[0]]), "constants": part_record(names[1], files[names[1]]),
        "segments": [list(segment) for segment in split.segments], "threads": module.threads, "memory": memory,
        "stack_bytes": module.board.runtime.stack_bytes, "context_bytes": module.built.report.context_bytes,
        "engine": next((one for one in (_RELAXED, _VECTORS) if one in used), "scalar"),
        **_memory(str(module.built.sources.model[f"{m}.h"]), m),
    }  # fmt: skip
    return {f"model/{name}": contents for name, contents in files.items()}, told


def _linked(module: _Module) -> bytes:
    m, file = module.built.sources.prefix, module.making.file
    if module.threads == 1:
        return build_libraries(file, module.board, module.making.options)[f"{m}.wasm"].read_bytes()
    # a memory that others have too, and a stack for each thread
    board = _with_features(module.board, "atomics", "bulk_memory")
    target = target_of(board, module.making.options).for_libraries
    tool = toolchain_for(target, module.making.options.toolchain)
    pool = (data_dir("c_runtime") / "port" / "wasi" / _POOL).read_text(encoding="utf-8")
    objects = compile_sources({**module.built.sources.model, _POOL: pool}, tool, target)
    flags = ("-Wl,--import-memory", f"-Wl,--max-memory={_MAX_BYTES}", "-Wl,--export=__stack_pointer")

    with tempfile.TemporaryDirectory() as folder:
        return tool.link(LinkJob("module", objects, target, flags=flags), Path(folder) / f"{m}.wasm").read_bytes()


def part_record(name: str, contents: Blob) -> dict[str, Any]:
    """What a page has to know of a file that it fetches."""
    return {"file": name, "bytes": len(contents.data), "sha256": contents.digest}


def _memory(header: str, m: str) -> dict[str, Any]:
    """What the header tells of memory and codes.

    Raises:
        BuildError: a tensor is where the JavaScript does not look for it.
    """
    macro = m.upper()

    def number(name: str) -> int:
        found = re.search(rf"^#define {macro}_{name} (\d+)u", header, re.MULTILINE)
        if found is None:
            raise BuildError(f"the header of {m} does not tell {name}")
        return int(found[1])

    if re.search(rf"\b{m}(_\w+)?_(in|out)_\w+\(", header):
        raise BuildError("an input or output has its place in the arena, where the page's code does not look for it")
    codes = re.findall(_CODE.format(macro), header, re.MULTILINE)
    return {
        "state": [number("STATE_BYTES"), number("STATE_ALIGN")],
        "arena": [number("ARENA_BYTES"), number("ARENA_ALIGN")],
        "codes": {code: [name, text] for name, code, text in codes if name.startswith("E_") and int(code) > -16},
    }  # fmt: skip
