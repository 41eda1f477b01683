"""Mutations of a .tflite file at the level of its schema: one field of a table gets another value, in place."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sdk.frontends.tflite.verify import _MODEL, Schema

WORDS = (0, 1, 2, 3, 4, 5, 8, 16, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
FLOATS = (0.0, -0.0, -1.0, 1e-45, 1e-30, 1e30, 3.4e38, float("inf"), float("-inf"), float("nan"), 0.5, 1.0)


@dataclass(frozen=True)
class Place:
    """``size`` bytes at ``at``: a number, the length of a vector, or an offset (``kind``) of the field ``name``."""

    at: int
    size: int
    kind: str
    name: str


def places(data: bytes) -> list[Place]:
    """Every number, length and offset of the file by its schema; of options every field by its layout."""
    return list(_table(data, _u32(data, 0), _MODEL, "model"))


def _u32(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def _table(data: bytes, at: int, schema: Schema | None, name: str) -> Iterator[Place]:
    vtable = at - struct.unpack_from("<i", data, at)[0]
    length = struct.unpack_from("<H", data, vtable)[0]
    slots = [struct.unpack_from("<H", data, vtable + k)[0] for k in range(4, length, 2)]
    for k in range(len(slots)):
        yield Place(vtable + 4 + 2 * k, 2, "slot", f"{name} slot {k}")
    if schema is None:  # the options of an operator: what stands where is told by the layout alone
        for k, slot in enumerate(slots):
            if slot:
                yield Place(at + slot, 4 if at + slot + 4 <= len(data) else 1, "number", f"{name} field {k}")
        return
    for item in schema.fields:
        if item.slot >= len(slots) or not slots[item.slot]:
            continue
        here, path = at + slots[item.slot], f"{name}.{item.name}"
        if item.kind == "scalar":
            yield Place(here, item.size, "number", path)
            continue
        target = here + _u32(data, here)
        yield Place(here, 4, "offset", path)
        if item.kind in ("table", "opaque"):
            yield from _table(data, target, item.schema, path)
            continue
        yield Place(target, 4, "length", path)
        for k in range(_u32(data, target)):
            element = target + 4 + k * (4 if item.kind == "tables" else item.size if item.kind == "vector" else 1)
            if item.kind == "tables":
                yield Place(element, 4, "offset", f"{path}[{k}]")
                yield from _table(data, element + _u32(data, element), item.schema, f"{path}[{k}]")
            elif k < 64:
                size = item.size if item.kind == "vector" else 1
                yield Place(element, size, "float" if item.name == "scale" else "number", f"{path}[{k}]")


def mutated(data: bytes, found: list[Place], rng: np.random.Generator) -> tuple[bytes, str]:
    """A copy with one to three fields changed, and what was changed."""
    raw, said = bytearray(data), []
    kinds = sorted({p.kind for p in found})
    for _ in range(int(rng.integers(1, 4))):
        kind = str(rng.choice(kinds))
        of_kind = [p for p in found if p.kind == kind]
        place = of_kind[int(rng.integers(len(of_kind)))]
        _change(raw, place, of_kind, rng)
        said.append(place.name)
    return bytes(raw), ", ".join(said)


def _change(raw: bytearray, place: Place, alike: list[Place], rng: np.random.Generator) -> None:
    at, size = place.at, place.size
    if place.kind == "float":
        raw[at : at + 4] = struct.pack("<f", FLOATS[int(rng.integers(len(FLOATS)))])
        return
    if place.kind == "offset" and rng.random() < 0.7:  # to where another one leads, of the same kind if it can be
        stem = place.name.rstrip("0123456789]").rsplit("[", 1)[0]
        near = [p for p in alike if p.name.rstrip("0123456789]").rsplit("[", 1)[0] == stem] or alike
        other = near[int(rng.integers(len(near)))]
        target = other.at + _u32(bytes(raw), other.at) - at
        raw[at : at + 4] = (target % 2**32).to_bytes(4, "little")
        return
    old = int.from_bytes(raw[at : at + size], "little")
    choice = int(rng.integers(3))
    word = WORDS[int(rng.integers(len(WORDS)))]
    new = word if choice == 0 else old + int(rng.integers(-3, 4)) if choice == 1 else -1 - word
    if size == 8 and rng.random() < 0.3:
        new = 1 << int(rng.integers(31, 64))
    raw[at : at + size] = (new % (1 << 8 * size)).to_bytes(size, "little")
