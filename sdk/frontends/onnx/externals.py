"""Data of a model that lies in files beside it: read once, only what is declared, only from the model's folder."""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from sdk.errors import BuildError
from sdk.files import below, size_of

__all__ = ["NOTHING_BESIDE", "Externals", "Place", "read_places"]

MAX_DATA_BYTES: Final = (1 << 31) - 1  # of all files together: as much as generated code can index
ONE_READ: Final = 1 << 30  # systems read less than 2 GiB at once


class Place(NamedTuple):
    """Where the data of a tensor lies: bytes ``offset`` to ``offset + size`` of a file, named as the model names it."""

    file: str
    offset: int
    size: int

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.size


@dataclass(frozen=True)
class Externals:
    """What was read beside a model.

    ``stretches``: of each file its parts by offset, in order, none touching another; ``failures``: why a place cannot
    be had, as an error whose message goes on after the name of what lies there.
    """

    stretches: Mapping[str, Mapping[int, bytes]] = field(default_factory=dict)
    failures: Mapping[Place, BuildError] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of all of it; "" where there is nothing beside the model."""
        if not self.stretches and not self.failures:
            return ""
        hasher = hashlib.sha256()
        for file, parts in sorted(self.stretches.items()):
            for start, data in parts.items():
                hasher.update(f"{file!r} {start} {len(data)}\n".encode())
                hasher.update(data)
        for place, error in sorted(self.failures.items()):
            hasher.update(f"{place!r} {error}\n".encode())
        return hasher.hexdigest()

    @cached_property
    def _starts(self) -> Mapping[str, list[int]]:
        return {file: list(parts) for file, parts in self.stretches.items()}

    def at(self, place: Place, what: str) -> memoryview:
        """The bytes of a place, which ``what`` names in errors.

        Raises:
            BuildError: it could not be read, or was not asked for when the files were read.
        """
        starts = self._starts.get(place.file, [])
        k = bisect_right(starts, place.offset) - 1
        if k >= 0:
            data = memoryview(self.stretches[place.file][starts[k]])
            if place.end <= starts[k] + len(data):
                return data[place.offset - starts[k] : place.end - starts[k]]
        error = self.failures.get(place) or BuildError(
            f"is in the file {place.file!r}, and the model was given without a folder",
            hint="give the path of the model, beside which the file lies",
        )
        raise BuildError(f"{what} {error.message}", where=error.where, why=error.why, hint=error.hint)


NOTHING_BESIDE: Final = Externals()


def read_places(places: Iterable[Place], folder: Path | None) -> Externals:
    """What lies at ``places`` in files of ``folder`` and the folders in it; overlapping places are read once.

    Nothing is raised here, since a tensor that nothing uses may lack its data: ``at`` raises what went wrong.
    """
    wanted = sorted(set(places))
    if folder is None or not wanted:
        return NOTHING_BESIDE
    stretches: dict[str, Mapping[int, bytes]] = {}
    failures: dict[Place, BuildError] = {}
    room = MAX_DATA_BYTES
    for name, group in groupby(wanted, key=lambda p: p.file):
        own = list(group)
        try:
            found, short = _read(folder, name, own, room)
        except BuildError as error:
            failures |= dict.fromkeys(own, error)
            continue
        room -= sum(map(len, found.values()))
        failures |= short
        stretches |= {name: found} if found else {}
    return Externals(stretches, failures)


def _read(
    folder: Path, name: str, places: list[Place], room: int
) -> tuple[dict[int, bytes], dict[Place, BuildError]]:
    """The stretches of a file that hold the places, and what is wrong with those that lie beyond its end."""
    try:
        file = below(folder, name) if name else None
        if file is None:
            raise BuildError(f"is in {name!r}, outside the model's folder", hint="keep it beside the model")
        try:
            size = size_of(file)
            short = {p: _beyond(p, size) for p in places if p.end > size}
            parts = _merged(p for p in places if p.end <= size)
            if sum(hi - lo for lo, hi in parts) > room:
                raise BuildError(f"is in {name!r}, with which the model has more than {MAX_DATA_BYTES} bytes beside it")
            return {lo: _whole(file, lo, hi) for lo, hi in parts}, short
        finally:
            os.close(file)
    except (OSError, ValueError) as error:  # ValueError: no file can have such a name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise BuildError(f"cannot be read from {name!r}", why=why, hint="keep it beside the model") from None


def _beyond(place: Place, size: int) -> BuildError:
    return BuildError(
        f"ends {place.end - size} bytes early in {place.file!r}", hint="export the model or download the file again"
    )


def _merged(places: Iterable[Place]) -> list[tuple[int, int]]:
    """Where sorted places begin and end, those that overlap or touch as one."""
    out: list[tuple[int, int]] = []
    for p in places:
        if out and p.offset <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], p.end)
        else:
            out.append((p.offset, p.end))
    return out


def _whole(file: int, lo: int, hi: int) -> bytes:
    parts = []
    while lo < hi:
        part = os.pread(file, min(hi - lo, ONE_READ), lo)
        if not part:
            raise OSError(None, "it was cut while it was read")
        parts.append(part)
        lo += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
