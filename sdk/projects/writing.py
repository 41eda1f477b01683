"""Projects as folders: templates filled in, and files written so that the user's stay as they are."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import jinja2

from sdk.driver.out_folder import MANIFEST, contents_of, file_digest, replace_build
from sdk.errors import UsageError
from sdk.projects.kinds import Kind, template_folder
from sdk.text import GENERATED, printable
from sdk.toolchains import Blob, SourceText
from sdk.version import VERSION

__all__ = ["TEMPLATE", "ProjectReport", "environment", "rendered", "write_project"]

SCHEMA: Final = 1
TEMPLATE: Final = ".j2"
_NAME: Final = "NAME"
_TITLE: Final = "TITLE"
_DOT: Final = "dot."
_REPLACED: Final = "replaced"  # a folder of a project, for what somebody had edited


@dataclass(frozen=True)
class ProjectReport:
    """What was made: files that are generated, files of the user's that were written now, those that were kept, and of
    generated ones that somebody had edited where they are now."""

    kind: str
    model: str
    board: str
    out: Path
    generated: tuple[str, ...]
    written: tuple[str, ...]
    kept: tuple[str, ...]
    replaced: tuple[str, ...]
    hint: str

    def to_json(self) -> dict[str, Any]:
        """The object of ``--json``."""
        return {
            "kind": self.kind, "model": self.model, "board": self.board, "out": str(self.out),
            "generated": list(self.generated), "written": list(self.written), "kept": list(self.kept),
            "replaced": list(self.replaced),
        }  # fmt: skip


def rendered(
    folder: str, values: Mapping[str, Any], wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[str, str]]:
    """The templates of a folder that are wanted by their paths in it, filled in, by their names in the project; those
    that are empty then are for other models."""
    root = template_folder() / folder
    for path in sorted(root.rglob(f"*{TEMPLATE}")):
        at = path.relative_to(root).as_posix().removesuffix(TEMPLATE)
        if not wanted(at):
            continue
        parts_of = at.replace(_NAME, str(values["m"])).replace(_TITLE, str(values.get("module", ""))).split("/")
        name = "/".join(f".{part.removeprefix(_DOT)}" if part.startswith(_DOT) else part for part in parts_of)
        text = environment().get_template(path.relative_to(template_folder()).as_posix()).render(values)
        if text:
            yield name, text


def write_project(
    kind_name: str, kind: Kind, model: str, board: str, out: Path, files: Iterable[tuple[str, str | Blob]], *,
    force: bool,
) -> ProjectReport:  # fmt: skip
    """Writes the files of a project into ``out``: in a folder that has one those that are the user's stay as they are,
    and generated ones that somebody has edited are put aside, but with ``force``.

    Raises:
        UsageError: a file is in the way that was not generated, or nothing can be written there.
    """
    kept: list[str] = []
    written: list[str] = []
    generated: list[str] = []
    replaced: list[str] = []

    def make(folder: Path) -> set[str]:
        before, edited = contents_of(out), set()
        for name, text in files:
            own = any(fnmatch(name, pattern) for pattern in kind.yours)
            if own and os.path.lexists(out / name) and not force:  # also a link to what is not there now
                kept.append(name)
                continue
            (written if own else generated).append(name)
            place_of = folder / name
            place_of.parent.mkdir(parents=True, exist_ok=True)
            SourceText(place_of.name, text).write(place_of.parent)
            old = None if own or force else file_digest(out / name)
            if old not in (None, before.get(name), file_digest(place_of)):
                replaced.append(_aside(out, folder, name))
                edited.add(name)
        contents = {name: file_digest(folder / name) for name in sorted(generated)}
        manifest = {"schema": SCHEMA, "project": kind_name, "generator": f"{GENERATED} {VERSION}", "contents": contents}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        return edited

    try:
        replace_build(out, make, force=force)
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename or out}", why=error.strerror, hint="name another folder with -o FOLDER"
        ) from None
    return ProjectReport(
        kind_name, model, board, out, tuple(sorted(generated)), tuple(sorted(written)), tuple(sorted(kept)),
        tuple(sorted(replaced)), kind.hint,
    )  # fmt: skip


def _aside(out: Path, folder: Path, name: str) -> str:
    """Puts a copy of a file of ``out`` into ``folder``, under a name that is free in both; the name."""
    names = (f"{_REPLACED}/{name}{f'.{number}' if number else ''}" for number in count())
    free = next(one for one in names if not (out / one).exists() and not (folder / one).exists())
    (folder / free).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(out / name, folder / free)
    return free


@cache
def environment() -> jinja2.Environment:
    """Of all templates of projects."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: printable(value, "\n\t") if isinstance(value, str) else value,
    )
