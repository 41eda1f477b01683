"""A conversation in C for an app: tokenizer, model and sampler behind one header."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sdk.errors import BuildError, UsageError
from sdk.files import replacing
from sdk.llm.conversation import Speaker
from sdk.llm.grammar.nodes import Rules
from sdk.llm.json_files import read_json
from sdk.llm.text.chat_table import ROLES, ChatTable
from sdk.llm.text.native import DeviceTokenizer
from sdk.llm.text.table import compile_table
from sdk.resources import data_dir
from sdk.templates import render

__all__ = ["embed_chat"]

_SAMPLE_BYTES: Final = 12  # sdk_sample_work, per token of the vocabulary
_BYTE_BYTES: Final = 128  # tokenizing memory that is enough for a byte of text


def embed_chat(
    folder: Path, grammars: Mapping[str, Rules] | None = None, date: datetime | None = None
) -> tuple[list[Path], str | None]:
    """Writes ``NAME_chat.h``, ``NAME_chat.c``, ``NAME_chat_saved.c``, an example program, the tokenizer's table and the
    C of tokenizer and sampler into the folder of a build; their paths, and why there is no NAME_chat_say, if so. With
    ``grammars``, by names, their tables too, and the C that follows them. A chat template that writes a date writes
    this one.

    Raises:
        UsageError: the folder holds no build, or a grammar cannot be followed.
        BuildError: the tokenizer has what devices cannot do.
    """
    told = folder / "model.json"
    info = read_json(told) if told.is_file() else {}
    if not {"name", "vocabulary_size", "context"} <= set(info):
        raise UsageError(f"{folder} holds no language model", hint="make one: sdk llm build MODEL -o FOLDER")
    if info.get("gpu"):
        raise UsageError(
            f"{folder} is built for a GPU", why="the C of a chat keeps and restores caches in the host's memory alone",
            hint="build it without --gpu, or use the functions of NAME_llm.h",
        )  # fmt: skip
    name = str(info["name"])
    speaker = Speaker(folder, info)
    table = compile_table(speaker.tokenizer)
    if max(speaker.tokenizer.get_vocab(with_added_tokens=True).values()) >= info["vocabulary_size"]:
        raise UsageError(
            f"the tokenizer has tokens above the {info['vocabulary_size']} of the model",
            where=str(folder), hint="use the tokenizer of this checkpoint",
        )  # fmt: skip
    made = {_c_name(title): speaker.grammar(rules) for title, rules in (grammars or {}).items()}
    if len(made) != len(grammars or {}):
        raise UsageError("two grammars have the same name in C", hint="rename one of the files")
    tables = {f"{name}_tokenizer.bin": table}
    for title, grammar in made.items():
        tables |= {f"{name}_words.bin": grammar.words.table, f"{name}_{title}_grammar.bin": grammar.table}
    chat, why = _chat_table(speaker, date)
    around = 0 if chat is None else sum(map(_length, (*chat.between.values(), chat.answer)))
    values: dict[str, Any] = {
        "m": name, "M": name.upper(), "table_bytes": len(table), "file": info.get("weights") is not None,
        "ends": sorted(speaker.ends), "byte_bytes": _BYTE_BYTES + (chat is not None),
        "piece_bytes": DeviceTokenizer(table).longest,
        "base_bytes": (4 + _SAMPLE_BYTES) * info["vocabulary_size"] + 4 * info["context"]
                      + (_mask_bytes(info["vocabulary_size"]) if made else 0)
                      + (_BYTE_BYTES + 1) * around,
        "grammars": {title: len(grammar.table) for title, grammar in made.items()},
        **_chat_values(chat), "around": around,
        "words_bytes": len(tables.get(f"{name}_words.bin", b"")),
    }  # fmt: skip
    parts = ("chat.h", "chat.c", "chat_saved.c", "chat_main.c")
    texts = {f"{name}_{part}": render(f"llm/{part}", **values) for part in parts}
    paths = [folder / file for file in texts]
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    for file, data in tables.items():
        with replacing(folder / file) as stream:
            stream.write(data)
    sources = data_dir("c_runtime") / "llm"
    for part in ("*tok*.[ch]", "*sample.[ch]", *(["*grammar*.[ch]"] if made else [])):
        for source in sorted(sources.glob(part)):
            if source.name == "tok_names.c" and chat is None:
                continue
            shutil.copyfile(source, folder / source.name)
            paths.append(folder / source.name)
    return [*paths, *(folder / file for file in tables)], why


def _chat_table(speaker: Speaker, date: datetime | None) -> tuple[ChatTable | None, str | None]:
    """The table of the chat template, or why there is none."""
    try:
        return speaker.chat_table(date), None
    except BuildError as error:
        return None, error.why or error.message


def _chat_values(chat: ChatTable | None) -> dict[str, Any]:
    """A chat template as C: texts and their lengths by the roles before and after."""
    if chat is None:
        return {"roles": False}
    speakers = ("", *ROLES)

    def cell(before: str, role: str) -> tuple[str, int]:
        known = role != "" and not (role == "assistant" and chat.history is not None)
        return _c_text(chat.between.get((before or "begin", role)) if known else None)

    return {
        "roles": True, "answer": _c_text(chat.answer),
        "between": [[cell(before, role) for role in speakers] for before in speakers],
        "trimmed": [int(role in chat.trimmed) for role in speakers],
    }  # fmt: skip


def _length(text: str) -> int:
    return len(text.encode())


def _c_text(text: str | None) -> tuple[str, int]:
    """A text as C writes it, and its bytes."""
    if text is None:
        return "NULL", 0
    data = text.encode()
    shown = set(b" <>|_-.,:;/[](){}") | {byte for byte in range(128) if chr(byte).isalnum()}
    plain = "".join(chr(byte) if byte in shown else f"\\{byte:03o}" for byte in data)
    return f'"{plain}"', len(data)


def _mask_bytes(vocabulary: int) -> int:
    return (vocabulary + 31) // 32 * 4


def _c_name(title: str) -> str:
    """A name of C that a file's name stands for."""
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_") or "answer"
