"""A page that talks: a language model as WebAssembly with tokenizer and sampler, in files that any server can serve."""

from __future__ import annotations

import hashlib
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sdk.boards import load_board
from sdk.driver.options import BuildOptions
from sdk.driver.sources import compile_sources
from sdk.driver.targets import target_of
from sdk.errors import UsageError
from sdk.files import read_regular, replacing
from sdk.llm.embed import embed_chat
from sdk.llm.layer import layer_files
from sdk.llm.model import read_info
from sdk.steps import step
from sdk.templates import render
from sdk.toolchains import LinkJob, toolchain_for

__all__ = ["write_page"]

_TEXT_BYTES: Final = 8192  # that are said at once
_MOST: Final = 400  # tokens of an answer, where nobody says more or less
_MEMORY: Final = 1 << 32  # bytes of WebAssembly's memory at most
_PAGES: Final = {  # file -> template
    **{name: f"llm/web/{name}" for name in ("index.html", "chat.js", "model.js", "style.css")},
    ".prettierrc.json": "projects/web/dot.prettierrc.json",
}
_HINT: Final = "build it for a board of WebAssembly: sdk llm build MODEL --board BOARD --threads 1"


def write_page(folder: Path, out: Path, date: datetime | None = None) -> list[Path]:
    """Writes the page of a build into ``out``: HTML, JavaScript, the module, the weights and the tokenizer's table; the
    paths. ``folder`` gets the C of ``sdk llm embed``. A chat template that writes a date writes this one.

    Raises:
        UsageError: the folder holds no build for WebAssembly, its chat template is not compiled, or ``out`` is taken.
        BuildError: the tokenizer has what devices cannot do.
    """
    info, found = read_info(folder)
    board = None if found.board is None else load_board(found.board)
    if found.board is None or board is None or not target_of(board, BuildOptions()).wasm:
        raise UsageError(f"{folder} is no build for a browser", hint=_HINT)
    if found.most_threads != 1:
        raise UsageError(f"{folder} is built for {found.most_threads} threads", why="a page has one", hint=_HINT)
    weights, table = (folder / f"{found.name}_{kind}.bin" for kind in ("weights", "tokenizer"))
    if out.exists() and any(out.iterdir()) and not (out / "model.js").is_file():
        raise UsageError(f"{out} has files that are no page of this tool", hint="name another folder with -o FOLDER")
    paths, why = embed_chat(folder, date=date)
    if why is not None:
        raise UsageError(f"{found.name} cannot chat in a page", why=why, hint="embed it in a program of yours")
    out.mkdir(parents=True, exist_ok=True)
    with step("building the module"):
        _module(folder, found.name, found.board, info, paths, out / f"{found.name}.wasm")
    for path in (weights, table):
        shutil.copyfile(path, out / path.name)
    files = {"module": out / f"{found.name}.wasm", "weights": out / weights.name, "table": out / table.name}
    if sum(path.stat().st_size for path in files.values()) > _MEMORY:
        raise UsageError(f"{found.name} is too large for a page", hint="quantise it: --quantize q4_0")
    has_system = bool(info.get("chat_template") and "system" in str(info["chat_template"]))
    values = {
        "m": found.name, "files": {kind: _told(path) for kind, path in files.items()},
        "context": info["context"], "most": min(_MOST, info["context"]), "system": has_system,
    }  # fmt: skip
    for name, template in _PAGES.items():
        with replacing(out / name) as stream:
            stream.write(render(template, **values).encode())
    return [*files.values(), *(out / name for name in _PAGES)]


def _told(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}


def _module(folder: Path, name: str, board: str, info: dict[str, Any], embedded: list[Path], out: Path) -> None:
    """Links model, tokenizer and sampler into one module that imports nothing."""
    taken = {path for path in embedded if path.suffix in (".c", ".h") and not path.stem.endswith(("_main", "_saved"))}
    taken |= {folder / f"{name}.{kind}" for kind in ("c", "h")}
    try:
        files = {path.name: read_regular(path).decode() for path in sorted(taken)}
        files |= layer_files(info, name)
    except (OSError, UnicodeDecodeError, KeyError) as error:
        raise UsageError(f"{folder} holds no whole build", why=str(error), hint=_HINT) from None
    files[f"{name}_web.c"] = render("llm/web/glue.c", m=name, M=name.upper(), text_bytes=_TEXT_BYTES)
    options = BuildOptions(name=name, threads=1, io="caller", weights="file")
    target = target_of(load_board(board), options).for_libraries
    tool = toolchain_for(target, options.toolchain)
    tool.link(LinkJob("module", compile_sources(files, tool, target), target), out)
