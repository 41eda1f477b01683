"""Whether bytes are a program of ``torch.export.save``: a zip archive that says so of itself."""

from __future__ import annotations

import io
import zipfile
from typing import Final

__all__ = ["is_exported"]

_ZIP: Final = b"PK\x03\x04"
_FORMAT: Final = "archive_format"


def is_exported(data: bytes) -> bool:
    """Whether the archive's record of its format says that it holds an exported program."""
    if not data.startswith(_ZIP):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found = [name for name in archive.namelist() if name.split("/")[1:] == [_FORMAT]]
            return len(found) == 1 and archive.getinfo(found[0]).file_size < 64 and archive.read(found[0]) == b"pt2"
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, RuntimeError):
        return False
