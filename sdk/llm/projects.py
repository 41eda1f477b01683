"""``sdk new`` around a language model: projects that talk, of a checkpoint or of what ``sdk llm build`` made of one."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from sdk.boards import load_board
from sdk.boards.base import Table
from sdk.boards.table import read_table
from sdk.driver.built import Built, load_built
from sdk.driver.options import BuildOptions
from sdk.driver.targets import target_of
from sdk.errors import UsageError
from sdk.files import read_regular
from sdk.llm.build import build_model
from sdk.llm.embed import embed_chat
from sdk.llm.golden import ChatCase, chat_cases, packed_cases
from sdk.llm.layer import layer_files
from sdk.llm.model import read_info
from sdk.llm.web import page_cases, page_files
from sdk.projects.apps import app_settings, codes_of, kotlin_text, module_name, set_choices, swift_text
from sdk.projects.kinds import Kind, load_kind, template_folder
from sdk.projects.weights import HASH_DIGITS, weights_bytes, weights_files
from sdk.projects.writing import ProjectReport, environment, rendered, write_project
from sdk.resources import data_dir
from sdk.steps import step
from sdk.text import GENERATED, printable
from sdk.toolchains import Blob
from sdk.version import VERSION

__all__ = ["ChatChoices", "new_chat"]

_CHATS: Final = "_chats"
_MAPPED: Final = (1 << 31) - 1  # bytes that a buffer of Java's maps
_MIN_TEXT, _MAX_TEXT = 4096, 65536  # bytes that are said at once
_TOKEN_BYTES: Final = 4  # of text, about
TALK_ERRORS: Final = (
    ("MEMORY", -300, "there is no memory for a conversation"),
    ("FILE", -301, "the file cannot be read or written, or ends early"),
    ("BUSY", -302, "another answer goes on"),
)
_MANY_THREADS: Final = "a page computes the answers of a language model in one thread"
_PIECE: Final = re.compile(r"_CHAT_PIECE_BYTES (\d+)u")

Files = dict[str, str | Blob]


class ChatKind(Table, frozen=True):
    """What a kind of projects has for language models, as ``chat.toml`` beside their templates says it: those of its
    usual templates that it ``takes``, the board of each instruction set, and how many threads may share an answer there
    (None: as many as in other builds)."""

    takes: tuple[str, ...]
    sets: dict[str, str]
    threads: int | None = None


@dataclass(frozen=True)
class ChatChoices:
    """How a checkpoint is built (as ``sdk.llm.build_model``; None: as it is there where nobody says), and the day that
    a chat template writes."""

    name: str | None = None
    context: int | None = None
    quantize: str | None = None
    cache: str | None = None
    threads: int | None = None
    date: datetime | None = None

    def words(self) -> list[str]:
        """The options of a command that say the same."""
        given = {name: getattr(self, name) for name in ("name", "context", "quantize", "cache", "threads")}
        given["date"] = self.date and f"{self.date:%Y-%m-%d}"
        return [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]


@dataclass(frozen=True)
class Sets:
    """Builds of a model by the names of instruction sets: their folders, and what is in them. ``checkpoint`` is where
    they are of, None where they were there already."""

    folders: Mapping[str, Path]
    builds: Mapping[str, Built]
    checkpoint: Path | None

    @property
    def first(self) -> Path:
        """A folder, for what all have alike."""
        return next(iter(self.folders.values()))

    @property
    def info(self) -> Mapping[str, Any]:
        """model.json, which all have alike but for the board."""
        return read_info(self.first)[0]

    @property
    def prefix(self) -> str:
        """What C names begin with."""
        return next(iter(self.builds.values())).sources.prefix


def new_chat(
    kind_name: str, model: Path, out: Path, choices: ChatChoices, settings: Mapping[str, str] | None = None, *,
    force: bool = False,
) -> ProjectReport:  # fmt: skip
    """Writes a project of a kind that talks with a language model into ``out``; in a folder that has one, the user's
    files stay, as ``new_project`` has it. ``model`` is a checkpoint, which is built for each instruction set of the
    kind, or a build for one of them.

    Raises:
        UsageError: there is no such kind, it has no place for language models, its board is another one than the
            build's, or the chat template cannot be compiled.
        BuildError: the checkpoint cannot be compiled, or its tokenizer has what devices cannot do.
    """
    kind, chat = _kind(kind_name)
    if chat.threads is not None and (choices.threads or chat.threads) > chat.threads:
        raise UsageError(_MANY_THREADS, where="--threads", hint="leave out --threads")
    app_settings(kind, "model", settings or {})  # what is wrong with them is told before minutes of work
    with tempfile.TemporaryDirectory(prefix="sdk-chat-") as scratch:
        sets = _sets(kind_name, chat, model, choices, Path(scratch))
        paths, why = embed_chat(sets.first, date=choices.date)
        if why is not None:
            raise UsageError(f"{sets.prefix} cannot chat in an app", why=why, hint="embed it: sdk llm embed")
        values = _values(kind_name, kind, sets, model, choices, settings or {}, out)
        embedded = [path for path in paths if not path.stem.endswith("_main")]
        files = (_page_files if kind.adds == "web" else _app_files)(kind, sets, embedded, values)
        cases = [] if sets.checkpoint is None else _cases(sets.checkpoint, Path(scratch) / "here", choices)
        golden = kind.golden.replace("TITLE", str(values["module"]))
        if kind.adds == "web":
            files[golden] = page_cases(cases)
        elif cases:
            files[golden] = packed_cases(cases)
        values["golden"] = bool(cases)
        base = rendered(kind_name, values, lambda at: any(fnmatch(at, one) for one in chat.takes))
        texts = {**dict(base), **dict(rendered(f"{_CHATS}/{kind_name}", values))}
        report = write_project(kind_name, kind, str(values["model"]), kind.board, out, {**texts, **files}.items(),
                               force=force)  # fmt: skip
    return report


def _cases(checkpoint: Path, folder: Path, choices: ChatChoices) -> list[ChatCase]:
    """Golden answers of a checkpoint, by a build for this machine."""
    with step("computing golden cases"):
        _build(checkpoint, folder, "host", replace(choices, threads=None))
        return chat_cases(folder)


def _kind(name: str) -> tuple[Kind, ChatKind]:
    """A kind, with what it has for language models in place of what others have."""
    kind = load_kind(name)
    path = template_folder() / _CHATS / name / "chat.toml"
    if not path.is_file():
        able = sorted(p.parent.name for p in path.parents[1].glob("*/chat.toml"))
        raise UsageError(
            f"projects for {kind.title} have no place for language models", why="sdk llm build compiles these",
            hint=f"sdk new {', '.join(able)}, or sdk llm build MODEL --board BOARD and sdk llm embed",
        )  # fmt: skip
    chat = read_table(ChatKind, tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    return structs.replace(kind, sets=chat.sets, also={}), chat


def _sets(kind_name: str, chat: ChatKind, model: Path, choices: ChatChoices, scratch: Path) -> Sets:
    """The builds that a project takes."""
    if (model / "model.json").is_file():
        return _built_already(kind_name, chat, model, choices, scratch)
    folders = {name: scratch / name for name in chat.sets}
    for name, folder in folders.items():
        _build(model, folder, chat.sets[name], replace(choices, threads=choices.threads or chat.threads))
    return Sets(folders, {name: load_built(folder) for name, folder in folders.items()}, model)


def _build(model: Path, folder: Path, board: str, choices: ChatChoices) -> None:
    build_model(
        model, folder, board=board, name=choices.name, context=choices.context, threads=choices.threads,
        quantize=choices.quantize, cache=choices.cache or "f32",
    )  # fmt: skip


def _built_already(kind_name: str, chat: ChatKind, model: Path, choices: ChatChoices, scratch: Path) -> Sets:
    """The build that a folder has, which has to be for one of the sets."""
    given = [word for word in replace(choices, date=None).words() if word.startswith("--")]
    if given:
        raise UsageError(f"{given[0]} has no part here", why=f"{model} is built already", hint="leave it out")
    info, found = read_info(model)
    boards = {_system(board): name for name, board in chat.sets.items()}
    own = None if found.board is None else boards.get(_system(found.board))
    if own is None or found.weights is None:
        told = " or ".join(f"--board {board}" for board in chat.sets.values())
        raise UsageError(
            f"{model} is a build for {found.board or 'another board'}", why=f"sdk new {kind_name} takes no such",
            hint=f"give the checkpoint itself, or sdk llm build MODEL {told}",
        )  # fmt: skip
    if chat.threads is not None and (found.max_threads or 1) > chat.threads:
        why = f"{model} is built for {found.max_threads}"
        raise UsageError(_MANY_THREADS, why=why, hint="build it with --threads 1")
    folder = scratch / own
    folder.mkdir()
    for name in ("model.json", *info.get("tokenizer_files", ())):  # what is embedded is not of the user's folder
        if Path(name).name == name and (model / name).is_file():
            (folder / name).symlink_to((model / name).resolve())
    return Sets({own: folder}, {own: load_built(model)}, None)


def _system(board: str) -> str:
    """What the code of a board runs under."""
    return target_of(load_board(board), BuildOptions()).for_libraries.zig_target


def _app_files(kind: Kind, sets: Sets, embedded: Sequence[Path], values: dict[str, Any]) -> Files:
    """The C of the instruction sets and what all have alike, and the weights; ``values`` gets what templates name of
    them."""
    m, module = sets.prefix, str(values["module"])
    root = kind.sources.replace("TITLE", module)
    files: Files = {
        f"{root}/{folder}/{name}": text
        for folder, built in sets.builds.items()
        for name, text in built.sources.model.items()
        if not name.endswith(".bin")
    }
    own = {
        name: sorted(one for one in built.sources.model if one.endswith((".c", ".S")))
        for name, built in sets.builds.items()
    }
    values["app_sources"] = own
    if kind.choices:
        files |= {f"{root}/{name}": text for name, text in set_choices(_only(kind, own), own, m)}
    chat = _chat_files(sets, embedded, values)
    values["chat_sources"] = sorted(name for name in chat if name.endswith((".c", ".S")))
    own_folder = root if kind.choices else f"{root}/chat"
    for name, text in chat.items():
        files[f"{f'{root}/include' if name == f'{m}_talk.h' else own_folder}/{name}"] = text
    beside = {name.replace("TITLE", module): data for name, data in weights_files(kind, sets.builds.values()).items()}
    values["weights_names"] = sorted(Path(name).name for name in beside) if kind.choices else sorted(beside)
    one = {name: weights_files(kind, [built]) for name, built in sets.builds.items()}
    values["weights_of"] = {name: Path(next(iter(own_files))).name for name, own_files in one.items()}
    values["weights_pack"] = bool(kind.pack) and any(name.startswith(f"{kind.pack}/") for name in beside)
    maximum = max(len(weights.data) for weights in beside.values())
    if kind.board.startswith("android") and maximum > _MAPPED:
        raise UsageError(
            f"the weights have {maximum:,} bytes", why=f"an app of Java's maps at most {_MAPPED:,}",
            hint="quantise them: --quantize q4_0",
        )  # fmt: skip
    return files | beside


def _page_files(kind: Kind, sets: Sets, embedded: Sequence[Path], values: dict[str, Any]) -> Files:
    """The module, the weights and the tokenizer's table of a page; ``values`` gets what templates name of them."""
    (built,), (board,) = sets.builds.values(), kind.sets.values()
    texts = {path.name: read_regular(path).decode() for path in embedded if path.suffix in (".c", ".h")}
    chat = {name: text for name, text in texts.items() if not name.endswith("_saved.c")}
    table = Blob(read_regular(sets.first / f"{sets.prefix}_tokenizer.bin"))
    with step("building the module"):
        return page_files(built, board, chat | layer_files(sets.info, sets.prefix), table, values)


def _only(kind: Kind, sets: Mapping[str, object]) -> Kind:
    """The kind with choices among the sets that there are; the only one needs none."""
    choices = {name: text if len(sets) > 1 else "1" for name, text in kind.choices.items() if name in sets}
    return structs.replace(kind, choices=choices)


def _chat_files(sets: Sets, embedded: Sequence[Path], values: dict[str, Any]) -> Files:
    """What is around the model: tokenizer, sampler, conversations, threads."""
    m, mark = sets.prefix, f"/* {GENERATED} {VERSION}. Do not edit. */\n"
    texts = {path.name: read_regular(path).decode() for path in embedded if path.suffix in (".c", ".h")}
    texts |= layer_files(sets.info, m)
    runtime = data_dir("c_runtime")
    if int(values["threads"]) > 1:
        texts["sdk_rt_pool.c"] = (runtime / "port" / "posix" / "pool.c").read_text(encoding="utf-8")
        texts["sdk_rt_pool.h"] = (runtime / "include" / "sdk_rt_pool.h").read_text(encoding="utf-8")
    files: Files = {name: mark + text for name, text in texts.items()}
    table = Blob(read_regular(sets.first / f"{m}_tokenizer.bin"))
    piece = _PIECE.search(texts[f"{m}_chat.h"])
    header = str(next(iter(sets.builds.values())).sources.model[f"{m}.h"]).partition("\n/* ---- ")[0]  # of all entries
    assert piece is not None
    codes = [codes_of(text) for text in (header, texts[f"{m}_llm.h"], texts[f"{m}_chat.h"])]
    errors = dict(code for own in codes for code in own) | {code: what for _, code, what in TALK_ERRORS}
    values |= {"table_bytes": len(table.data), "piece_bytes": int(piece[1])}
    values["errors"] = sorted(errors.items(), reverse=True)
    for part in ("talk.h", "talk.c", "table.h", "table.S"):
        files[f"{m}_{part}"] = environment().get_template(f"{_CHATS}/_shared/{part}.j2").render(values)
    files[f"{m}_table.bin"] = table
    return files


def _values(
    kind_name: str, kind: Kind, sets: Sets, model: Path, choices: ChatChoices, settings: Mapping[str, str], out: Path
) -> dict[str, Any]:
    """What templates may name."""
    m, info = sets.prefix, sets.info
    context = int(info["context"])
    told = "".join(f" --set {shlex.quote(f'{name}={value}')}" for name, value in settings.items())
    return {
        "kind": kind_name, "kind_title": kind.title, "m": m, "M": m.upper(), "model": printable(model.resolve().name),
        "chat": True, "version": VERSION, "generated": GENERATED, "place": app_settings(kind, m, settings),
        "module": module_name(m), "context": context, "threads": int(info.get("max_threads", 1)),
        "text_bytes": min(max(_TOKEN_BYTES * context, _MIN_TEXT), _MAX_TEXT), "hash_digits": HASH_DIGITS,
        "talk_errors": TALK_ERRORS, "busy": dict((name, code) for name, code, _ in TALK_ERRORS)["BUSY"],
        "weights_file": True, "gpu": None,
        "bindings": (), "kotlin": kotlin_text, "swift": swift_text,
        "weights_bytes": max(map(weights_bytes, sets.builds.values())),
        "system": "system" in str(info.get("chat_template")),
        "model_path": shlex.quote(os.path.relpath(model.resolve(), out.resolve())),
        "same": "".join(f" {shlex.quote(word)}" for word in choices.words()) + told,
    }  # fmt: skip
