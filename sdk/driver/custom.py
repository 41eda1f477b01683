"""Files of a user that say how custom operators are imported: Python, run by the user's own hand."""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sdk.errors import UsageError
from sdk.files import read_regular
from sdk.frontends.base import Custom

if TYPE_CHECKING:
    from sdk.frontends.custom import CustomImporter

__all__ = ["IMPORTERS", "checked", "load_custom"]

IMPORTERS: Final = "IMPORTERS"
MAX_BYTES: Final = 16 << 20  # of one file
_HINT: Final = f'end the file with {IMPORTERS} = {{"MyOp": my_op}}; sdk help adding has an example'


def load_custom(paths: Sequence[Path]) -> Custom:
    """The importers of files, which are run.

    Raises:
        UsageError: a file cannot be read or run (with file and line), has no importers, or two have one of a name.
    """
    found: dict[str, CustomImporter] = {}
    hasher = hashlib.sha256()
    for path in paths:
        text, names = _run(path)
        if IMPORTERS not in names:
            raise UsageError(f"{path} has no {IMPORTERS}", hint=_HINT)
        for name, importer in checked(names[IMPORTERS], str(path)).items():
            if name in found:
                raise UsageError(f"two files import the operator {name!r}", where=str(path), hint="leave one out")
            found[name] = importer
        for part in (text, *_helpers(path)):
            hasher.update(hashlib.sha256(part).digest())
    return Custom(found, hasher.hexdigest())


def checked(given: object, where: str) -> Mapping[str, CustomImporter]:
    """Importers by name.

    Raises:
        UsageError: these are none.
    """
    if not isinstance(given, Mapping) or not all(isinstance(k, str) and callable(v) for k, v in given.items()):
        raise UsageError("importers are functions by the names of operators", where=where, hint=_HINT)
    return given


def _run(path: Path) -> tuple[bytes, dict[str, Any]]:
    """The text of a file, and the names that are there when it was run."""
    try:
        text = read_regular(path, MAX_BYTES)
    except OSError as err:
        raise UsageError(f"cannot read {path}", why=err.strerror or str(err), hint="check --custom") from None
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    try:
        exec(compile(text, str(path), "exec"), names)
    except (Exception, SystemExit) as err:  # a file may be a program that ends itself
        raise UsageError(f"{path} cannot be run", where=_place(path, err), why=_why(err), hint="mend the file") from err
    return text, names


def _place(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{path}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _why(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _helpers(path: Path) -> list[bytes]:
    """Other files of the user that were imported from the folder of this one: a build depends on them too."""
    folder, found = path.resolve().parent, {}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and not name.startswith("sdk.") and name != "sdk":
            at = Path(file)
            if at.is_relative_to(folder) and "site-packages" not in at.parts and at.suffix == ".py" and at.is_file():
                found[at] = at.read_bytes()
    return [found[at] for at in sorted(found)]
