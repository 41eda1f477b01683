"""Kinds of projects as data: a folder of templates with a record beside them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final, Literal

from msgspec import field as key

from sdk.boards.base import Table
from sdk.boards.table import read_table, suggest
from sdk.errors import UsageError
from sdk.resources import data_dir

__all__ = ["RECORD", "SHARED", "Kind", "kind_names", "load_kind", "template_folder"]

RECORD: Final = "project.toml"
SHARED: Final = "_shared"  # templates that several kinds include


class Kind(Table, frozen=True):
    """A kind of project, as ``project.toml`` in its folder of templates says it.

    Every file of the folder is a template, called as in the project with ``.j2`` behind; ``NAME`` in a path stands for
    the C name of the model, ``dot.`` at the beginning of a part for a dot. ``model`` is the folder for the model's C,
    ``headers`` the one for its headers (the same, where it is empty); without ``model`` it holds no C. With
    ``runtime``, the folder for start-up and drivers, it is for boards that the runtime has these for; without, for
    those whose system brings its own.
    ``yours`` are the files that belong to the user once they are there. ``needs`` is what a board's file says of this
    kind of project in ``[projects.KIND]``, or the user with --set. ``board`` is taken where none is named. ``io`` is
    where inputs and outputs lie. ``adds`` names what makes further files (``sdk.projects.added``). ``hint`` is what to
    do next.

    An app has the C of several instruction sets: ``sources`` is their folder, ``sets`` the board of each by the name of
    its folder there, and ``also`` the capabilities of newer cores for which it has code too. Where all that is compiled
    lies in one folder, ``choices`` are the conditions of C for each: a file there includes that of the set. ``golden``
    is the file of golden cases; ``TITLE`` in paths is the name of the module. ``defaults`` are settings that --set
    changes (``NAME`` as in paths, in small letters), ``patterns`` what they have to look like. ``weights`` is where
    files of weights lie, with ``--weights file`` or where the model has very many; ``pack`` is where very many do.
    ``bindings`` are the languages that --bindings names, ``gpus`` the interfaces of GPUs that --gpu names.
    """

    title: str
    yours: tuple[str, ...]
    model: str = ""
    headers: str = ""
    runtime: str = ""
    needs: tuple[str, ...] = ()
    board: str = ""
    io: Literal["arena", "caller"] = "arena"
    adds: str = ""
    sources: str = ""
    sets: dict[str, str] = key(default_factory=dict)
    also: dict[str, tuple[str, ...]] = key(default_factory=dict)
    choices: dict[str, str] = key(default_factory=dict)
    golden: str = ""
    weights: str = ""
    pack: str = ""
    bindings: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    defaults: dict[str, str] = key(default_factory=dict)
    patterns: dict[str, str] = key(default_factory=dict)
    hint: str = "README.md says how to build it"


def template_folder() -> Path:
    """The folder of the kinds."""
    return data_dir("templates") / "projects"


def kind_names() -> list[str]:
    """What can be made, sorted."""
    return sorted(path.parent.name for path in template_folder().glob(f"*/{RECORD}"))


def load_kind(name: str) -> Kind:
    """The kind called ``name``.

    Raises:
        UsageError: there is none, or its record is wrong.
    """
    names = kind_names()
    if name not in names:
        raise UsageError(f"unknown kind of project {name!r}", hint=suggest(name, names) or f"one of {', '.join(names)}")
    path = template_folder() / name / RECORD
    return read_table(Kind, tomllib.loads(path.read_text(encoding="utf-8")), str(path))
