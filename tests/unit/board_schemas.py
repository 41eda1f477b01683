"""The JSON schemas by which editors complete and check the files of boards, made of the records that read them.

Run as a program it writes them again.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, get_args

import msgspec

from sdk.boards.base import Size
from sdk.boards.board import BoardFile
from sdk.boards.chip import RegisterFile
from sdk.boards.runners import Runner
from sdk.boards.table import SIZE
from sdk.cores import Kind, Timing

BOARDS = Path(__file__).resolve().parent.parent.parent / "boards"
# A file of a board may leave out what it takes over from another, but for the tables of these arrays: they replace.
WHOLE = ("Core", "Memory", "Usb")


def schemas() -> dict[Path, dict[str, Any]]:
    """Each schema by its file."""
    board = _schema(BoardFile)
    for name, table in {"": board, **board["definitions"]}.items():
        if name not in WHOLE:
            table.pop("required", None)
            arrays = {key: value["items"] for key, value in table["properties"].items() if value.get("type") == "array"}
            table["properties"] |= {f"{key}_append": {"type": "array", "items": of} for key, of in arrays.items()}
    board["properties"]["extends"] = {"type": "string", "description": "the file that this one changes, without .toml"}
    core = _schema(Timing)
    kinds = {kind: {"type": "number", "default": 1.0} for kind in get_args(Kind)}
    core["properties"]["cycles"] |= {"properties": kinds, "additionalProperties": False}
    registers = _schema(RegisterFile)
    return {
        BOARDS / "schema.json": board,
        BOARDS / "cpu" / "schema.json": core,
        BOARDS / "registers" / "schema.json": registers,
        BOARDS / "runners" / "schema.json": _schema(Runner),
    }


def _schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a record, in the draft that editors for TOML know."""
    _, tables = msgspec.json.schema_components([kind], schema_hook=_size, ref_template="#/definitions/{name}")
    found = {name: _toml(table) for name, table in tables.items()}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **found.pop(kind.__name__), "definitions": found}


def _size(kind: type) -> dict[str, Any]:
    assert kind is Size
    said = {"type": "string", "pattern": f"^{SIZE.pattern}$"}
    return {"anyOf": [{"type": "integer", "minimum": 0}, said], "description": 'bytes, or a string such as "640K"'}


def _toml(node: Any) -> Any:
    """A part of a schema without null, which TOML lacks, and with pairs as that draft writes them."""
    if isinstance(node, list):
        return [_toml(one) for one in node]
    if not isinstance(node, dict):
        return node
    node = {key: _toml(value) for key, value in node.items() if key != "default" or value is not None}
    kinds = [kind for kind in node.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        node = {**node, **kinds[0]}
        del node["anyOf"]
    if "prefixItems" in node:
        node["items"] = node.pop("prefixItems")
    if isinstance(node.get("description"), str):
        node["description"] = inspect.cleandoc(node["description"])
    return node


def text(schema: dict[str, Any]) -> str:
    """A schema as it stands in its file."""
    return json.dumps(schema, indent=1) + "\n"


if __name__ == "__main__":
    for path, schema in schemas().items():
        path.write_text(text(schema), encoding="utf-8")
