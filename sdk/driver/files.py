"""Model files as they are given: read once, and refused in clear words when they are something else."""

from __future__ import annotations

from pathlib import Path

from sdk.errors import UsageError
from sdk.frontends.kinds import refuse_folder, refuse_others

__all__ = ["read_model_file"]


def read_model_file(path: Path) -> bytes:
    """The contents of a model file.

    Raises:
        UsageError: it cannot be read, or is of another kind; the hint says what to do with that.
    """
    if path.is_dir():
        raise refuse_folder(path)
    try:
        data = path.read_bytes()
    except OSError as err:
        raise UsageError(
            f"cannot read {path}", why=err.strerror or str(err), hint="give the path of a .tflite, .onnx or .ir file"
        ) from None
    refuse_others(path, data)
    return data
