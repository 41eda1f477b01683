"""The file of large constants beside a program, read when something first wants them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sdk.errors import UsageError
from sdk.files import read_regular

__all__ = ["Constants", "unreadable"]


@dataclass(frozen=True)
class Constants:
    """The file at ``path``, or none. A program names its constants by their digests: the file needs none."""

    path: Path
    digest: str = ""

    @cached_property
    def data(self) -> bytes | None:
        """The contents of the file; None where there is none.

        Raises:
            UsageError: it cannot be read.
        """
        try:
            return read_regular(self.path)
        except FileNotFoundError:
            return None
        except OSError as err:
            raise unreadable(self.path, err.strerror or str(err)) from None


def unreadable(path: Path, why: str) -> UsageError:
    """The error for a file of constants that is not as it was written."""
    return UsageError(f"cannot read {path}", why=why, hint="it holds the constants: keep it as it was written")
