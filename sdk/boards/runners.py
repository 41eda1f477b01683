"""Runners as data: what programs that flash boards are called, what they take, and what they say when they cannot."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Annotated, Final, Literal

from msgspec import Meta, field

from sdk.boards.base import Table
from sdk.boards.board import Setting
from sdk.boards.files import search_path
from sdk.boards.table import read_table, suggest
from sdk.errors import UsageError

__all__ = ["GIVEN", "IMAGE", "Meaning", "Runner", "Says", "lint_settings", "load_runners", "placeholders"]

FOLDER: Final = "runners"
IMAGE: Final = "image"  # what the file to flash is called, in the folder where a runner is started
# Placeholders that have a value without a setting: the image's file and its first address, the script's file; and those
# that the user chooses. The others are settings of the board's file.
GIVEN: Final = frozenset({"file", "path", "address", "script", "beside"})
CHOSEN: Final = frozenset({"probe", "port"})
Meaning = Literal["no-probe", "no-board", "no-access", "busy", "wrong-chip", "protected", "too-large"]


class Says(Table, frozen=True):
    """A regular expression, and what a runner means that prints what it matches."""

    match: str
    means: Meaning

    def __post_init__(self) -> None:
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(f"match is no regular expression: {error}\nsee {self.match!r}") from None


class Runner(Table, frozen=True):
    """A program that flashes boards: its command lines with placeholders, never for a shell.

    It is started in a folder of its own that has the image, as ``image.elf``, ``.bin``, ``.hex`` or ``.uf2``
    (``takes``). Of ``program`` the first that is installed is taken, else the Python package ``module``; a runner with
    neither copies the image to a drive. ``commands`` run one after the other, each at most ``timeout_s`` seconds.

    An argument that is a placeholder alone stands for as many arguments as its value has: of ``options`` those with
    its name, where there is a value, else none. Within text it is the value. ``{file}`` and ``{path}`` (the image, by
    its name there and by its absolute one), ``{address}`` (its first), ``{script}`` (a file with the text ``script``)
    and ``{beside}`` (the folder of the program) are given, ``{probe}`` and ``{port}`` what the user chooses, all others
    settings of the board's file or of ``defaults``; a board's file must have those of ``needs``.

    ``confirms`` is what the last command prints where it has written and compared; ``says`` what else it prints means,
    whatever its exit status. ``touch``: opening the port at this rate starts the board's loader. ``prepare`` is what
    people do before. ``external`` names the setting without which it does not write a flash chip beside the
    microcontroller; empty where it never does. ``source`` is where the facts come from.
    """

    title: str
    source: str
    takes: Literal["elf", "bin", "hex", "uf2"]
    install: str = ""
    program: tuple[str, ...] = ()
    module: str | None = None
    needs: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: dict[str, Setting] = field(default_factory=dict)
    script: str | None = None
    confirms: str | None = None
    says: tuple[Says, ...] = ()
    touch: Annotated[int, Meta(ge=1)] | None = None
    timeout_s: Annotated[int, Meta(ge=1)] = 120
    prepare: str = ""
    external: str = ""

    def __post_init__(self) -> None:
        if bool(self.commands) != bool(self.program or self.module):
            raise ValueError("commands belong to a program or a module\nlist the arguments of each command")
        known = GIVEN | CHOSEN | {*self.needs} | self.defaults.keys() | self.options.keys()
        texts = [text for command in self.commands for text in command] + [self.script or ""]
        for name in sorted({name for text in texts for name in placeholders(text)}):
            if name not in known:
                raise ValueError(f"unknown placeholder {{{name}}}\nname it in needs, defaults or options")
        if self.confirms is not None:
            re.compile(self.confirms)

    @property
    def drive(self) -> bool:
        """Whether the image is copied to a drive that the board shows."""
        return not self.commands


def placeholders(text: str) -> list[str]:
    """The names of the placeholders in an argument."""
    return [name for _, name, _, _ in Formatter().parse(text) if name]


def load_runners() -> dict[str, Runner]:
    """All runners by name; a user's file hides ours of the same name.

    Raises:
        UsageError: a file is no runner's; it says which key is wrong.
    """
    found: dict[str, Path] = {}
    for folder in search_path():
        for path in sorted((folder / FOLDER).glob("*.toml")):
            found.setdefault(path.stem, path)
    return {name: _read(path, path.stat().st_mtime_ns) for name, path in sorted(found.items())}


@lru_cache(maxsize=64)
def _read(path: Path, changed: int) -> Runner:
    """The runner of a file that was last ``changed`` then."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError("cannot read the runner's file", where=str(path), why=str(error)) from error
    return read_table(Runner, data, str(path))


def lint_settings(flash: Mapping[str, Mapping[str, Setting]]) -> list[str]:
    """What is wrong with what a board's file says of its runners."""
    runners = load_runners() if flash else {}
    problems = []
    for name, settings in flash.items():
        if name not in runners:
            near = suggest(name, runners) or f"there are {', '.join(runners)}"
            problems.append(f"flash.{name} is no runner: {near}")
            continue
        runner = runners[name]
        problems += [f"flash.{name} lacks {key!r}" for key in runner.needs if key not in settings]
        known = {*runner.needs, *runner.defaults, *runner.options} - CHOSEN
        problems += [f"flash.{name} has an unknown key {key!r}" for key in settings if key not in known]
    return problems
