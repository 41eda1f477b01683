"""What all tables of a board's file are."""

from __future__ import annotations

from msgspec import Struct


class Size(int):
    """Bytes; a file may say them as text such as "640K"."""


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a board's file, whose keys are the fields."""
