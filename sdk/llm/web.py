"""The files of an npm package that talks: a language model as WebAssembly with tokenizer and sampler, its weights and
tokenizer's table, and what its JavaScript has to know."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sdk.boards import load_board
from sdk.driver.built import Built
from sdk.driver.options import BuildOptions
from sdk.driver.sources import Files, compile_sources
from sdk.driver.targets import target_of
from sdk.errors import UsageError
from sdk.llm.golden import ChatCase
from sdk.projects.apps import errors_of
from sdk.projects.web import compiler_licences, package_name
from sdk.projects.web_modules import part_record
from sdk.projects.writing import environment
from sdk.toolchains import Blob, LinkJob, toolchain_for

__all__ = ["page_cases", "page_files"]

_MEMORY: Final = (1 << 32) - (1 << 16)  # bytes of WebAssembly's memory at most
_MAX: Final = 400  # tokens of an answer, where nobody says more or less
_CODE: Final = "_chats/_shared/page.c.j2"
_PAGE: Final = (*(f"demo/{name}" for name in ("chat.css", "chat.js", "offline.js", "style.css")), "golden/cases.json")
_SCRIPTS: Final = ("calls", "errors", "golden", "index", "interface", "parts", "port", "session", "talk", "worker")
_SIZES: Final = r"^#define {}_(?:WEIGHTS_FILE|ARENA|STATE)_BYTES (\d+)u"


def page_files(
    built: Built, board: str, chat: Mapping[str, str], table: Blob, values: dict[str, Any]
) -> dict[str, str | Blob]:
    """The files by name: of a build for a board, the C of the conversation around it, and the tokenizer's table.
    ``values`` gets what templates name of them.

    Raises:
        UsageError: a page has not as much memory.
    """
    m = built.sources.prefix
    header = str(built.sources.model[f"{m}.h"])
    sizes = [int(size) for size in re.findall(_SIZES.format(m.upper()), header, re.MULTILINE)]
    weights = built.sources.model[f"{m}_weights.bin"]
    assert isinstance(weights, Blob)
    memory = sum(sizes) + len(table.data)
    if memory > _MEMORY:
        raise UsageError(
            f"{m} needs {memory:,} bytes of memory", why=f"WebAssembly has at most {_MEMORY:,}",
            hint="quantise it, or give less room: --quantize q4_0 --context 2048",
        )  # fmt: skip
    code = environment().get_template(_CODE).render(values)
    own = {name: text for name, text in built.sources.model.items() if name.endswith((".c", ".h"))}
    module = _linked({**own, **chat, f"{m}_page.c": code}, m, board)
    parts = {"module": (f"{m}.wasm", module), "weights": (f"{m}.weights.bin", weights),
             "tokenizer": (f"{m}.tokenizer.bin", table)}  # fmt: skip
    licences = compiler_licences()
    told = [errors_of(header.partition("\n/* ---- ")[0]), *map(errors_of, chat.values())]
    values["max_tokens"] = min(_MAX, values["context"])
    values["web"] = {
        **{part: part_record(name, data) for part, (name, data) in parts.items()},
        "package": package_name(m), "page": _PAGE, "scripts": _SCRIPTS, "licences": sorted(licences),
        "memory": memory,
        "codes": {code: (name, what) for own_codes in told for name, code, what in own_codes},
    }  # fmt: skip
    return {
        **{f"model/{name}": data for name, data in parts.values()},
        **{f"LICENSES/{name}": text for name, text in licences.items()},
    }


def page_cases(cases: Sequence[ChatCase]) -> str:
    """Golden answers as JSON."""
    told = [{"said": case.said, "tokens": case.tokens, "text": case.text} for case in cases]
    return json.dumps({"cases": told}, indent=1, ensure_ascii=False) + "\n"


def _linked(files: Files, m: str, board: str) -> Blob:
    """One module that imports nothing."""
    options = BuildOptions(name=m, io="caller", weights="file")
    target = target_of(load_board(board), options).for_libraries
    tool = toolchain_for(target, options.toolchain)
    with tempfile.TemporaryDirectory() as folder:
        job = LinkJob("module", compile_sources(files, tool, target), target)
        return Blob(tool.link(job, Path(folder) / f"{m}.wasm").read_bytes())
