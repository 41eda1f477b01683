"""JSON schemas that must all hold, as one; and whether two can hold at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from sdk.llm.grammar.nodes import refuse

__all__ = ["ANNOTATIONS", "TYPES", "Schema", "are_disjoint", "merged", "types_of"]

Schema = Mapping[str, Any]
TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
ANNOTATIONS: Final = frozenset((
    "title", "description", "default", "examples", "example", "$schema", "$id", "$comment", "deprecated", "readOnly",
    "writeOnly", "$defs", "definitions", "$anchor",
))  # fmt: skip
_LARGEST: Final = ("minimum", "minLength", "minItems", "minProperties")
_MIN: Final = ("maximum", "maxLength", "maxItems", "maxProperties")


def types_of(schema: Schema, where: str) -> list[str]:
    """The types of a schema that names some, whole numbers not beside all numbers."""
    given = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    for kind in given:
        if kind not in TYPES:
            raise refuse(
                f"the schema has the type {str(kind)[:60]!r}", where=where, hint=f"types are {', '.join(TYPES)}"
            )
    return [kind for kind in dict.fromkeys(given) if not (kind == "integer" and "number" in given)]


def merged(one: Any, other: Any, where: str) -> Any:
    """The schema of what two schemas take.

    Raises:
        UsageError: they speak of the same in ways that cannot be put together.
    """
    if one is False or other is False:
        return False
    if one is True or other is True:
        return other if one is True else one
    if not isinstance(one, dict) or not isinstance(other, dict):
        raise refuse("a schema is no object", where=where)
    one = {key: value for key, value in one.items() if key not in ANNOTATIONS}
    other = {key: value for key, value in other.items() if key not in ANNOTATIONS}
    for a, b in ((one, other), (other, one)):
        names = set(b.get("properties", {})) | set(map(str, b.get("required", [])))
        if a.get("additionalProperties", True) is not True and not names <= set(a.get("properties", {})):
            raise refuse("a schema allows no properties beside its own, and another one has some", where=where,
                         hint="name all properties in one schema")  # fmt: skip
        if "prefixItems" in a and "items" in b:
            raise refuse("a schema has prefixItems, and another one items", where=where, hint="write them in one")
    return {**one, **other, **{key: _both(key, one[key], other[key], where) for key in one.keys() & other.keys()}}


def _both(key: str, one: Any, other: Any, where: str) -> Any:
    if json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True):
        return one
    if key == "type":
        return _shared_types(types_of({"type": one}, where), types_of({"type": other}, where))
    if key == "required":
        return [*one, *(name for name in other if name not in one)]
    if key == "properties":
        shared = {
            name: merged(one[name], other[name], f"{where}/properties/{name}") for name in one.keys() & other.keys()
        }
        return {**one, **other, **shared}
    if key in _LARGEST or key in _MIN:
        return max(one, other) if key in _LARGEST else min(one, other)
    if key == "enum":
        kept = {json.dumps(value) for value in other}
        return [value for value in one if json.dumps(value) in kept]
    if key == "allOf":
        return [*one, *other]
    raise refuse(f"two schemas that must both hold have different {key}", where=where, hint="write them as one")


def _shared_types(one: list[str], other: list[str]) -> list[str]:
    found = [kind for kind in one if kind in other]
    for a, b in ((one, other), (other, one)):
        if "integer" in a and "number" in b:
            found.append("integer")
    return found


def are_disjoint(one: Any, other: Any, resolved: Callable[[Any, str], Any]) -> bool:
    """Whether it is plain that no value is of both schemas: by their types, or by what a value or a required property
    of them can be."""
    one, other = resolved(one, "oneOf"), resolved(other, "oneOf")
    if one is False or other is False:
        return True
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    values = _values(one), _values(other)
    if values[0] is not None and values[1] is not None:
        return values[0].isdisjoint(values[1])
    kinds = [types_of(schema, "oneOf") if "type" in schema else list(TYPES) for schema in (one, other)]
    if not _shared_types(*kinds):
        return True
    if kinds != [["object"], ["object"]]:
        return False
    shared = set(one.get("required", [])) & set(other.get("required", []))
    for name in shared & set(one.get("properties", {})) & set(other.get("properties", {})):
        found = [_values(resolved(schema["properties"][name], "oneOf")) for schema in (one, other)]
        if found[0] is not None and found[1] is not None and found[0].isdisjoint(found[1]):
            return True
    return False


def _values(schema: Any) -> set[str] | None:
    """The values that a schema names, if it does."""
    if not isinstance(schema, dict) or not {"const", "enum"} & set(schema):
        return None
    given = [schema["const"]] if "const" in schema else schema["enum"]
    return {_key(value) for value in given}


def _key(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return json.dumps(float(value) if number and abs(value) < 1 << 53 else value, sort_keys=True)
