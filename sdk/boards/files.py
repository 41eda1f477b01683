"""Finding board files and merging each with the files it extends, remembering which file set which key."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import platformdirs

from sdk.boards.table import suggest
from sdk.errors import UsageError
from sdk.resources import data_dir

USER_BOARDS_VARIABLE = "CROSSLEVEL_BOARDS"
_APPEND = "_append"


def search_path() -> list[Path]:
    """Folders that hold boards: the user's (CROSSLEVEL_BOARDS, or the configuration folder), then ours."""
    given = os.environ.get(USER_BOARDS_VARIABLE)
    own = _config_boards()
    # a home that may not be looked into has no boards
    user = [own] if os.access(own, os.R_OK | os.X_OK) else []
    user = [Path(part) for part in given.split(os.pathsep) if part] if given else user
    return [*user, data_dir("boards")]


def _config_boards() -> Path:
    return Path(platformdirs.user_config_dir("crosslevel")) / "boards"


def board_files() -> dict[str, Path]:
    """Map each board's name (its file's stem) to its file; a user's file hides ours of the same name."""
    found: dict[str, Path] = {}
    for folder in search_path():
        for name in sorted(path.name for path in folder.glob("*.toml")):
            found.setdefault(name.removesuffix(".toml"), folder / name)
    return found


def read_merged(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a board's merged table and the map from dotted key to the file that set it.

    Tables merge, arrays and values replace, ``<key>_append`` extends the parent's array ``<key>``.
    """
    return _read(path, ())


def read_registers(name: str) -> tuple[Path, Mapping[str, Any]]:
    """The file of registers called ``name`` in a folder ``registers`` beside boards, and its table."""
    for folder in search_path():
        path = folder / "registers" / f"{name}.toml"
        if path.is_file():
            return path, _parse(path)
    known = {path.stem for folder in search_path() for path in (folder / "registers").glob("*.toml")}
    raise UsageError(f"no file of registers {name!r}", where="runtime.registers", hint=suggest(name, known))


def _read(path: Path, trail: tuple[Path, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    path = path.resolve()
    if path in trail:
        names = " -> ".join(part.stem for part in (*trail, path))
        raise UsageError("board files extend each other in a circle", where=str(path), why=names)
    data = {**_parse(path)}
    parent = data.pop("extends", None)
    if parent is None:
        merged: dict[str, Any] = {}
        origin: dict[str, str] = {}
    else:
        merged, origin = _read(_find(parent, path), (*trail, path))
    _merge(merged, data, origin, path, "")
    return merged, origin


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        return _tables(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError("not a TOML file", where=str(path), why=str(error)) from error
    except OSError as error:
        raise UsageError("cannot read the board file", where=str(path), why=str(error)) from error


@lru_cache(256)  # many boards extend the same few files
def _tables(text: str) -> Mapping[str, Any]:
    return tomllib.loads(text)


def _find(parent: object, path: Path) -> Path:
    if not isinstance(parent, str):
        raise UsageError("'extends' must be a string", where=str(path))
    folders = [path.parent, *search_path()]
    for folder in folders:
        candidate = folder / f"{parent}.toml"
        if candidate.is_file():
            return candidate
    known = {str(f.relative_to(folder).with_suffix("")) for folder in folders for f in folder.rglob("*.toml")}
    raise UsageError(f"no board file {parent!r} to extend", where=str(path), hint=suggest(parent, known))


def _merge(
    into: dict[str, Any], data: Mapping[str, Any], origin: dict[str, str], path: Path, at: str
) -> None:
    name = f"{path.parent.name}/{path.name}"
    for key, value in data.items():
        dotted = f"{at}{key}"
        if key.endswith(_APPEND):
            target = key.removesuffix(_APPEND)
            old = into.get(target)
            if not isinstance(old, list) or not isinstance(value, list):
                raise UsageError(f"{dotted!r} appends to no array", where=str(path))
            into[target] = [*old, *value]
            origin[f"{at}{target}"] = f"{origin.get(f'{at}{target}', '')} + {name}"
        elif isinstance(value, dict):
            below = into.get(key)
            into[key] = dict(below) if isinstance(below, dict) else {}
            _merge(into[key], value, origin, path, f"{dotted}.")
        else:
            into[key] = value
            origin[dotted] = name
