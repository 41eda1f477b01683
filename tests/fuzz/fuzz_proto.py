"""Mutations of a protobuf message by its descriptor: one field, anywhere inside, gets another value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

INTS = (
    0, 1, -1, 2, 3, 5, 7, 16, 127, -128, 255, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 40, 1 << 62,
    (1 << 63) - 1, -(1 << 63),
)  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, 1e9, 3e38, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "x", "y", "Relu", "Add", "Loop", "If", "ai.onnx", "com.microsoft", "\x00", "ä" * 40, "SAME_UPPER", "n")


def messages(message: Any) -> Iterator[Any]:
    """The message and all below it."""
    waiting = [message]
    while waiting:
        item = waiting.pop()
        yield item
        for field, value in item.ListFields():
            if field.type == field.TYPE_MESSAGE:
                waiting.extend(value if _many(value) else [value])


def _many(value: Any) -> bool:
    return hasattr(value, "extend")


def _int(field: Any, rng: np.random.Generator) -> int:
    value = INTS[int(rng.integers(len(INTS)))]
    if field.cpp_type in (field.CPPTYPE_INT32,):
        return max(-(1 << 31), min(value, (1 << 31) - 1))
    if field.cpp_type == field.CPPTYPE_UINT64:
        return abs(value)
    return value


def _value(field: Any, texts: list[str], rng: np.random.Generator) -> Any:
    """Another value for a field that is no message."""
    match field.cpp_type:
        case field.CPPTYPE_STRING:
            if field.type == field.TYPE_BYTES:
                return rng.bytes(int(rng.integers(0, 40)))
            pool = texts if texts and rng.random() < 0.7 else TEXTS
            return pool[int(rng.integers(len(pool)))]
        case field.CPPTYPE_FLOAT | field.CPPTYPE_DOUBLE:
            return FLOATS[int(rng.integers(len(FLOATS)))]
        case field.CPPTYPE_ENUM:
            numbers = [v.number for v in field.enum_type.values]
            return numbers[int(rng.integers(len(numbers)))]
        case field.CPPTYPE_BOOL:
            return bool(rng.integers(2))
    return _int(field, rng)


def mutate(model: Any, rng: np.random.Generator) -> str:
    """Changes one to three fields of the model in place; says which."""
    said = []
    for _ in range(int(rng.integers(1, 4))):
        found = list(messages(model))
        item = found[int(rng.integers(len(found)))]
        fields = [f for f, _ in item.ListFields()]
        if not fields or rng.random() < 0.15:
            fields = list(item.DESCRIPTOR.fields)
        field = fields[int(rng.integers(len(fields)))]
        texts = [v for m in found for f, v in m.ListFields() if f.type == f.TYPE_STRING and isinstance(v, str)]
        texts += [t for m in found for name in ("input", "output") for t in _texts(m, name)]
        _change(item, field, found, texts, rng)
        said.append(f"{item.DESCRIPTOR.name}.{field.name}")
    return ", ".join(said)


def _texts(message: Any, name: str) -> list[str]:
    value = getattr(message, name, ())
    return [v for v in value if isinstance(v, str)] if _many(value) else []


def _change(item: Any, field: Any, found: list[Any], texts: list[str], rng: np.random.Generator) -> None:
    value = getattr(item, field.name)
    if not _many(value):
        if field.type != field.TYPE_MESSAGE:
            setattr(item, field.name, _value(field, texts, rng))
        elif rng.random() < 0.5:
            item.ClearField(field.name)
        else:
            _copy(getattr(item, field.name), found, rng)
        return
    choice = int(rng.integers(4))
    at = int(rng.integers(len(value))) if len(value) else 0
    if choice == 0 and len(value):
        del value[at]
    elif field.type == field.TYPE_MESSAGE:
        if choice == 1 and len(value):
            value.add().CopyFrom(value[at])
        elif choice == 2 and len(value):
            _copy(value[at], found, rng)
        else:
            _copy(value.add(), found, rng)
    elif choice == 1 or not len(value):
        value.append(_value(field, texts, rng))
    elif choice == 2:
        value[at] = _value(field, texts, rng)
    else:
        order = rng.permutation(len(value)).tolist()
        new = [value[k] for k in order]
        del value[:]
        value.extend(new)


def _copy(target: Any, found: list[Any], rng: np.random.Generator) -> None:
    """Makes a message what another one of its kind is; graphs are not put into themselves more than once."""
    alike = [m for m in found if m.DESCRIPTOR is target.DESCRIPTOR and m is not target and m.ByteSize() < 20000]
    if alike:
        chosen = type(target)()
        chosen.CopyFrom(alike[int(rng.integers(len(alike)))])
        target.CopyFrom(chosen)
