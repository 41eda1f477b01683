"""What a checkpoint says of its tokens: special ids, the chat template, and the tokenizer's files beside a build."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sdk.errors import UsageError
from sdk.files import read_regular, replacing
from sdk.llm.json_files import read_json

__all__ = ["GGUF_TOKENS", "tokens_of"]

GGUF_TOKENS: Final = "tokenizer.gguf.json"  # the metadata of a GGUF file under "tokenizer."
_SPECIAL: Final = ("bos", "eos", "pad", "unk")
_TEMPLATE: Final = 1 << 20  # bytes


def tokens_of(checkpoint: Any, out: Path) -> dict[str, Any]:
    """Copies the tokenizer's files into ``out``; their names (``tokenizer_files``), ``special_tokens`` (ids by role, a
    list for "eos") and the ``chat_template`` (jinja2, or None).

    Raises:
        UsageError: a file cannot be read, or is no JSON.
    """
    if any(key.startswith("tokenizer.") for key in checkpoint.metadata):
        return _gguf(checkpoint.metadata, out)
    for file in checkpoint.files:
        shutil.copyfile(file, out / file.name)
    names = [file.name for file in checkpoint.files]
    tokens = _object(checkpoint.path / "tokenizer_config.json")
    generation = _object(checkpoint.path / "generation_config.json")
    special = {role: _ids(generation.get(f"{role}_token_id", checkpoint.metadata.get(f"{role}_token_id")))
               for role in _SPECIAL}  # fmt: skip
    return {
        "tokenizer_files": names,
        "special_tokens": _roles(special),
        "chat_template": _template(checkpoint.path, tokens.get("chat_template")),
    }


def _gguf(metadata: Mapping[str, Any], out: Path) -> dict[str, Any]:
    held = {key: value for key, value in metadata.items() if key.startswith("tokenizer.")}
    with replacing(out / GGUF_TOKENS) as file:
        file.write(json.dumps(held).encode())
    names = {"bos": ("bos",), "eos": ("eos", "eot", "eom"), "pad": ("padding",), "unk": ("unknown",)}
    special = {
        role: [n for name in found for n in _ids(held.get(f"tokenizer.ggml.{name}_token_id"))]
        for role, found in names.items()
    }
    template = held.get("tokenizer.chat_template")
    return {
        "tokenizer_files": [GGUF_TOKENS],
        "special_tokens": _roles(special),
        "chat_template": template if isinstance(template, str) else None,
    }


def _roles(special: Mapping[str, list[int]]) -> dict[str, Any]:
    """One id by role, of those that may end a text all."""
    return {role: ids if role == "eos" else ids[0] for role, ids in special.items() if ids}


def _ids(value: Any) -> list[int]:
    found = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(n for n in found if isinstance(n, int) and not isinstance(n, bool)))


def _object(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _template(path: Path, given: Any) -> str | None:
    """The template that a file of its own has, or the configuration of the tokenizer: the default one of several."""
    own = path / "chat_template.jinja"
    if own.is_file():
        try:
            return read_regular(own, _TEMPLATE).decode()
        except (OSError, UnicodeDecodeError) as err:
            raise UsageError(f"cannot read {own}", why=str(err)[:200], hint="fetch it again") from None
    if isinstance(given, list):
        named = {t.get("name"): t.get("template") for t in given if isinstance(t, dict)}
        given = named.get("default", next(iter(named.values()), None))
    return given if isinstance(given, str) else None
