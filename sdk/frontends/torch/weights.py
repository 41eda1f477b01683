"""Parameters and buffers of an exported program replaced by others."""

from __future__ import annotations

import json
import zipfile
from typing import Any, Final

from sdk.errors import BuildError
from sdk.frontends.tensors import Tensors, matched
from sdk.frontends.torch.screen import archive_files, archive_of

__all__ = ["retensored"]

_FOLDER: Final = "data/weights/"
_CONFIG: Final = f"{_FOLDER}model_weights_config.json"
_KINDS: Final = {
    1: "U8", 2: "I8", 3: "I16", 4: "I32", 5: "I64", 6: "F16", 7: "F32", 8: "F64", 12: "BOOL", 13: "BF16", 28: "U16",
    34: "U32", 35: "U64",
}  # fmt: skip
_DAMAGE: Final = (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError, zipfile.BadZipFile)


def retensored(data: bytes, given: Tensors) -> bytes:
    """The file of a program whose tensors of these names hold these elements. Every parameter must be among them, or
    share its elements with one; a buffer that is not keeps its own.

    Raises:
        UsageError: the names, types or shapes are not the program's.
        BuildError: the file is damaged.
    """
    try:
        files = archive_files(data)
        described = json.loads(files[_CONFIG])
        entries: dict[str, Any] = described["config"]
        known = {name: _type(one["tensor_meta"]) for name, one in entries.items()}
        groups = {name: _memory(one) for name, one in entries.items()}
        learnt = [name for name, one in entries.items() if one["is_param"]]
    except _DAMAGE as error:
        raise BuildError("the file is not a valid exported program", why=str(error)[:200]) from None
    told = {groups[name]: name for name in given.by_name if name in groups}
    missing = [name for name in learnt if groups[name] not in told]
    elements = matched(given, known, missing, "parameter or buffer")
    places: dict[str, str] = {}
    for number, (name, content) in enumerate(elements.items()):
        places[name] = f"weight_{len(files) + number}"
        files[_FOLDER + places[name]] = content
    for name, one in entries.items():
        source = name if name in places else told.get(groups[name])
        if source is not None:
            one["path_name"] = places[source]
            _lay_out(one["tensor_meta"], known[name][1])
    files[_CONFIG] = json.dumps(described).encode()
    return archive_of(files)


def _type(meta: Any) -> tuple[str, tuple[int, ...]]:
    return _KINDS.get(meta["dtype"], ""), tuple(int(size["as_int"]) for size in meta["sizes"])


def _memory(one: Any) -> str:
    """What tensors that share their elements have in common."""
    meta = one["tensor_meta"]
    return json.dumps([one["path_name"], meta["sizes"], meta["strides"], meta["storage_offset"]])


def _lay_out(meta: Any, shape: tuple[int, ...]) -> None:
    """Describes elements in row-major order."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append({"as_int": step})
        step *= max(extent, 1)
    meta["strides"], meta["storage_offset"] = strides[::-1], {"as_int": 0}
