"""Files of JSON beside a checkpoint, read with care."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from sdk.errors import UsageError
from sdk.files import read_regular

__all__ = ["is_language_model", "read_json"]

_JSON: Final = 64 << 20  # bytes


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file of JSON.

    Raises:
        UsageError: it cannot be read, or is none.
    """
    try:
        found = json.loads(read_regular(path, _JSON))
    except OSError as err:
        hint = "give a folder with config.json and .safetensors files, or a .gguf file"
        raise UsageError(f"cannot read {path}", why=err.strerror or str(err), hint=hint) from None
    except (ValueError, RecursionError) as err:
        raise UsageError(f"{path} is no JSON", why=str(err)[:200], hint="fetch it again") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no object of JSON", hint="fetch it again")
    return found


def is_language_model(path: Path) -> bool:
    """Whether a path is a checkpoint, or a build of one: a folder with config.json or model.json, or a GGUF file."""
    if path.is_dir():
        return any((path / name).is_file() for name in ("config.json", "model.json"))
    try:
        with path.open("rb") as stream:
            return path.is_file() and stream.read(4) == b"GGUF"
    except OSError:
        return False
