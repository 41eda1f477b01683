"""``sdk new``: a project of a kind around a model, and the same once more around another one, with the user's files
left as they are."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

from sdk.boards import Board, Setting
from sdk.boards.files import search_path
from sdk.driver.agents import runtime_parts
from sdk.driver.artifact import build_sources
from sdk.driver.backends import runtime_of
from sdk.driver.built import Built
from sdk.driver.files import read_model_file
from sdk.driver.options import BuildOptions
from sdk.driver.targets import target_of
from sdk.errors import UsageError
from sdk.frontends.base import ModelFile
from sdk.projects.added import Making, maker_of
from sdk.projects.interface import entries_of
from sdk.projects.kinds import SHARED, Kind, load_kind
from sdk.projects.weights import place_weights
from sdk.projects.writing import TEMPLATE, ProjectReport, environment, rendered, write_project
from sdk.resources import data_dir
from sdk.text import GENERATED, printable
from sdk.version import VERSION

__all__ = ["new_project"]

_NAME: Final = "NAME"


def new_project(
    kind_name: str, model: Path | ModelFile, board: Board, options: BuildOptions, out: Path,
    settings: Mapping[str, str] | None = None, *, paths: Mapping[str, Path] | None = None, force: bool = False,
    bindings: Sequence[str] = (),
) -> ProjectReport:  # fmt: skip
    """Writes a project of a kind for a model on a board into ``out``. In a folder that has one, generated files are
    written anew, and the user's are kept; ``force``: they are written anew too. ``paths`` are the files of a model of
    several entries, by these; ``bindings`` the languages that it has a file for too.

    Raises:
        UsageError: there is no such kind, it has no such bindings, the board's file does not say what it needs, the
            runtime has no start-up for the board, or a file is in the way that was not generated.
        BuildError: the model cannot be compiled for the board.
    """
    kind = load_kind(kind_name)
    for name in bindings:
        if name not in kind.bindings:
            has = f"it has {', '.join(kind.bindings)}" if kind.bindings else "leave it out"
            raise UsageError(f"a project for {kind.title} has no bindings for {name}", where="--bindings", hint=has)
    place = _place(kind_name, kind, board, settings or {})
    gpu = options.gpu or ""
    if gpu and gpu not in kind.gpus:
        raise UsageError(
            f"--gpu {gpu} has no part in a project for {kind.title}",
            why=f"it takes --gpu {' or '.join(kind.gpus)}" if kind.gpus else "its programs open no GPU",
            hint="leave it out; sdk new web takes --gpu webgpu, sdk new android --gpu vulkan and opencl",
        )
    if kind.runtime and (board.runtime.uart is None or board.runtime.timer is None or board.hosted):
        raise UsageError(
            f"the runtime has no start-up for {board.name} itself",
            why="its file names no uart or no timer of the board",
            hint="sdk boards lists others; other kinds of projects bring a start-up of their own",
        )
    if options.watchdog is not None and not kind.runtime:
        raise UsageError(
            f"--watchdog has no part in a project for {kind.title}",
            why="its start-up is not ours",
            hint="leave it out, and start the watchdog as that system does",
        )
    if options.weights == "external" and not kind.runtime:
        raise UsageError(
            f"--weights external has no part in a project for {kind.title}",
            why="its start-up, which maps the flash chip, is not ours",
            hint="leave it out; kinds firmware and cmake take it",
        )
    options = replace(options, gpu=None)  # a GPU's code is beside what runs where there is none
    file = read_model_file(model, options.importers, options.tensors)
    built = build_sources(file, board, replace(options, io=kind.io))
    placed = place_weights(kind, options, built, 2 if gpu else 1)
    if placed != options:
        options, built = placed, build_sources(file, board, replace(placed, io=kind.io))
    values = _values(kind_name, kind, built, board, options, place, file, out)
    values["told"] = "".join(f" --set {shlex.quote(f'{key}={value}')}" for key, value in (settings or {}).items())
    values["told"] += "".join(f" --bindings {name}" for name in bindings) + (f" --gpu {gpu}" if gpu else "")
    values["bindings"] = bindings
    options = replace(options, io=kind.io)
    added = maker_of(kind)(Making(kind, file, board, options, built, values["entries"], settings or {}, gpu))
    values |= added.values
    given = paths or {"": file.path}
    values["model_path"] = " ".join(f"{name}={at}" if name else at for name, at in _from(out, given))
    values["entry"] = f" --entry {next(iter(built.entries))}" if len(built.entries) > 1 else ""
    files = chain(_files(kind_name, kind, built, board, options, values), added.files.items())
    return write_project(kind_name, kind, built.report.model, board.name, out, files, force=force)


def _place(name: str, kind: Kind, board: Board, settings: Mapping[str, str]) -> dict[str, Setting]:
    """What the board is called where the project is built.

    Raises:
        UsageError: neither the board's file nor the user says it.
    """
    found: dict[str, Setting] = {**board.projects.get(name, {}), **settings}
    missing = [key for key in kind.needs if key not in found]
    if missing:
        raise UsageError(
            f"the file of {board.name} does not say what {kind.title} calls it",
            why=f"[projects.{name}] lacks {', '.join(missing)}",
            hint=" ".join(f"--set {key}=VALUE" for key in missing),
        )
    return found


def _values(
    name: str, kind: Kind, built: Built, board: Board, options: BuildOptions, place: Mapping[str, Setting],
    file: ModelFile, out: Path,
) -> dict[str, Any]:  # fmt: skip
    """What templates may name."""
    m, commands = built.sources.prefix, target_of(board, options).commands
    words = next((c for c in commands if c[0].endswith("gcc")), commands[0])
    compiler, flags = (words[0], words[1:-1]) if words[0] != "zig" else ("zig cc", words[2:-1])
    headers, sources = _by_ending(built.sources.model)
    values: dict[str, Any] = {
        "kind": name, "kind_title": kind.title, "m": m, "M": m.upper(), "model": printable(file.path.name),
        "board": board.name, "title": board.title, "place": place, "version": VERSION, "generated": GENERATED,
        "cc": compiler, "flags": flags, "cpu_flags": [f for f in flags if f.startswith("-m")],
        "sources": sources, "headers": headers, "folder": kind.model, "runtime": kind.runtime,
        "entries": entries_of(str(built.sources.agent[f"{m}_glue.c"])), "boards": _own_boards(board),
        "macros": (), "runtime_sources": (), "cpu": board.core.cpu, "flashes": list(board.flash),
        "same": _same(m, options, out),
    }  # fmt: skip
    if kind.runtime:
        how = runtime_of(built.sources.backend)
        parts, macros, _ = runtime_parts(how, board, options)
        macros = macros if options.watchdog is None else (*macros, *how.feeding(m))
        values |= {"macros": macros, "runtime_sources": sorted(parts)}
    return values


def _from(out: Path, paths: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """Files as they are named in the project's folder, for a shell."""
    for name, path in paths.items():
        yield name, shlex.quote(os.path.relpath(path.resolve(), out.resolve()))


def _same(name: str, options: BuildOptions, out: Path) -> str:
    """The options of a command that compiles the model as it is in the project."""
    words = ["--name", name]
    for dim, bounds in options.dims.items():
        words += ["--dim", f"{dim}={':'.join(map(str, bounds))}"]
    for size in [options.arena_limit] if options.arena_limit is not None else []:
        words += ["--arena-limit", str(size)]
    for region, size in options.regions:
        words += ["--region", f"{region}={size}"]
    usual = BuildOptions()
    for option in ("memory", "weights", "opt", "isa", "threads", "watchdog"):
        value = getattr(options, option)
        words += [f"--{option}", str(value)] if value != getattr(usual, option) else []
    libraries = [one if isinstance(one, Path) else one.path for one in options.externs]
    beside = {"extern": libraries, "custom": options.custom, "safetensors": options.safetensors}
    for option, files in beside.items():
        for path in files if isinstance(files, (list, tuple)) else ():
            words += [f"--{option}", os.path.relpath(path.resolve(), out.resolve())]
    return f" {shlex.join([*words, '--io', 'arena'])}"


def _own_boards(board: Board) -> bool:
    """Whether the board's file is one of the user's, which others do not have."""
    ours = search_path()[-1]
    return not (ours / f"{board.name}.toml").is_file()


def _by_ending(files: Mapping[str, object]) -> tuple[list[str], list[str]]:
    return (
        sorted(name for name in files if name.endswith(".h")),
        sorted(name for name in files if name.endswith((".c", ".S"))),
    )


def _files(
    kind_name: str, kind: Kind, built: Built, board: Board, options: BuildOptions, values: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """All files of the project by name."""
    if kind.model:
        yield from _sources(kind, built, board, options, values)
    yield from rendered(kind_name, values)


def _sources(
    kind: Kind, built: Built, board: Board, options: BuildOptions, values: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The C of the model, and with it what starts and drives a board."""
    m, headers = built.sources.prefix, kind.headers or kind.model
    glue = {name: text for name, text in built.sources.agent.items() if name.endswith("_glue.c") or kind.runtime}
    for name, text in {**built.sources.model, **glue}.items():
        yield f"{headers if name.endswith('.h') else kind.model}/{name}".replace(_NAME, m), text
    include = data_dir("c_runtime") / "include"
    yield f"{headers}/sdk_rt.h".replace(_NAME, m), _ours(include / "sdk_rt.h")
    for ending, folder in (("c", kind.model), ("h", headers)):
        text = environment().get_template(f"{SHARED}/app.{ending}{TEMPLATE}").render(values)
        yield f"{folder}/{m}_app.{ending}".replace(_NAME, m), text
    if kind.runtime:
        parts, _, script = runtime_parts(runtime_of(built.sources.backend), board, options)
        for name, text in parts.items():
            yield f"{kind.runtime}/{name}", _marked(text)
        for path in sorted(include.rglob("*.h")):
            if path.name != "sdk_rt.h":
                yield f"{kind.runtime}/include/{path.relative_to(include).as_posix()}", _ours(path)
        yield f"{kind.runtime}/board.ld", _marked(script or "")


def _ours(path: Path) -> str:
    return _marked(path.read_text(encoding="utf-8"))


def _marked(text: str) -> str:
    """A file of the runtime with the line that all generated files begin with."""
    return f"/* {GENERATED} {VERSION}. Do not edit. */\n{text}"
