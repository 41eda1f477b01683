"""JSON schemas as grammars: each text of the grammar is JSON that the schema takes. Where a schema takes more than is
usual to write (properties that it does not name, in any order), the grammar has less."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from sdk.llm.grammar.basics import (
    BASICS,
    FORMATS,
    SPACE,
    STRING_CHAR,
    any_but,
    decimals,
    literal,
    quoted,
    whole_bounds,
    whole_numbers,
)  # fmt: skip
from sdk.llm.grammar.merging import ANNOTATIONS, TYPES, Schema, are_disjoint, merged, types_of
from sdk.llm.grammar.nodes import Call, Either, Node, Repeat, Rules, Run, refuse, text
from sdk.llm.grammar.regex import pattern_node

__all__ = ["any_json", "read_schema"]

_MAX_TEXT: Final = 1 << 20
_MAX_DEPTH: Final = 60
_MAX_SCHEMAS: Final = 20_000
_MAX_PAIRED: Final = 200  # alternatives that are compared with one another
_MAX_NAMED: Final = 10_000  # letters of names that other properties are told from
_OF_TYPE: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
}
_ANY_TYPE: Final = ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref")
_KNOWN: Final = {*ANNOTATIONS, *_ANY_TYPE, *(key for keys in _OF_TYPE.values() for key in keys)}


def any_json(*, objects: bool = False) -> Rules:
    """Any JSON, or any object."""
    return Rules({**BASICS, "root": Call("object" if objects else "value")})


def read_schema(schema: Any) -> Rules:
    """The grammar of a JSON schema.

    Raises:
        UsageError: it says what a grammar cannot follow; the keyword and its place are named.
    """
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise refuse("the schema is no JSON", where="schema", why=str(error)[:200]) from None
    if size > _MAX_TEXT:
        raise refuse("the schema has more than a megabyte", where="schema", hint="write a smaller one")
    try:
        return _Reader(schema).read()
    except (TypeError, AttributeError, KeyError, ValueError, RecursionError) as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise refuse("a keyword of the schema has a value of another type", where="schema", why=why) from None


class _Reader:
    def __init__(self, schema: Any) -> None:
        self.whole = schema
        self.rules: dict[str, Node] = dict(BASICS)
        self.count = 0

    def read(self) -> Rules:
        self.rules["#"] = Run(())  # a place, for what refers to it
        self.rules["#"] = self.node(self.whole, "#", 0)
        self.rules["root"] = Call("#")
        return Rules(self.rules)

    def find(self, pointer: str, where: str) -> Any:
        """What a $ref means."""
        found = self.whole
        if pointer != "#" and not pointer.startswith("#/"):
            raise refuse(f"the schema refers to {pointer[:100]!r}", where=where, why="only places in itself are read",
                         hint="put what it refers to under $defs")  # fmt: skip
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise refuse(f"the schema refers to {pointer[:100]!r}, which is not there", where=where)
        return found

    def resolved(self, schema: Any, where: str) -> Any:
        """A schema without $ref at its top: what it refers to, and what stands beside."""
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = merged(self.find(str(schema["$ref"]), where), rest, where)
        raise refuse("the schema refers to itself", where=where)

    def node(self, schema: Any, where: str, depth: int) -> Node:
        self.count += 1
        if depth > _MAX_DEPTH or self.count > _MAX_SCHEMAS:
            raise refuse("the schema has too many schemas in one another", where=where,
                         why=f"{_MAX_DEPTH} levels and {_MAX_SCHEMAS:,} schemas are read")  # fmt: skip
        if schema is True:
            return Call("value")
        if schema is False:
            return Either(())
        if not isinstance(schema, dict):
            raise refuse("a schema is no object", where=where)
        for key in schema:
            if key not in _KNOWN:
                raise refuse(f"the schema has {key[:60]!r}, which grammars cannot follow", where=where,
                             hint="take it out, and check it in the answer")  # fmt: skip
        said = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
        if set(said) == {"$ref"}:
            return self.reference(str(said["$ref"]), where, depth)
        for key in ("$ref", "allOf", "anyOf", "oneOf"):
            if key in said:
                return self.combined(key, said, where, depth)
        if "const" in said or "enum" in said:
            return self.values(said, where)
        types = types_of(said, where) if "type" in said else self.implied(said)
        if types is None:
            return Call("value")
        return Either(tuple(getattr(self, f"{kind}_node")(said, where, depth) for kind in types))

    def reference(self, pointer: str, where: str, depth: int) -> Node:
        if pointer not in self.rules or not pointer.startswith("#"):
            found = self.find(pointer, where)
            self.rules[pointer] = Run(())
            self.rules[pointer] = self.node(found, pointer, depth + 1)
        return Call(pointer)

    def combined(self, key: str, said: Schema, where: str, depth: int) -> Node:
        rest = {name: value for name, value in said.items() if name != key}
        if key == "$ref":
            return self.node(self.resolved(said, where), where, depth + 1)
        parts = said[key]
        if not isinstance(parts, list) or not parts:
            raise refuse(f"{key} is no list of schemas", where=where)
        whole = [self.resolved(part, f"{where}/{key}/{n}") for n, part in enumerate(parts)]
        if key == "allOf":
            for n, part in enumerate(whole):
                rest = merged(rest, part, f"{where}/allOf/{n}")
            return self.node(rest, where, depth + 1)
        if key == "oneOf" and len(whole) > _MAX_PAIRED:
            raise refuse(f"oneOf has more than {_MAX_PAIRED} alternatives", where=where, hint="use anyOf")
        if key == "oneOf":
            for n, one in enumerate(whole):
                if any(not are_disjoint(one, other, self.resolved) for other in whole[:n]):
                    hint = "use anyOf, or give each a required property with a const of its own"
                    raise refuse("alternatives of oneOf might both be true", where=f"{where}/oneOf/{n}", hint=hint)
        if not rest:  # as they are: what they refer to is one rule
            whole = parts
        places = (f"{where}/{key}/{n}" for n in range(len(parts)))
        return Either(tuple(
            self.node(merged(rest, part, at) if rest else part, at, depth + 1)
            for part, at in zip(whole, places, strict=True)
        ))  # fmt: skip

    def values(self, said: Schema, where: str) -> Node:
        """The values of const and enum."""
        others = set(said) - {"const", "enum", "type"}
        if others or ("enum" in said and not isinstance(said["enum"], list)):
            raise refuse(f"enum or const is beside {', '.join(sorted(others)) or 'no list'}", where=where,
                         hint="name the values alone")  # fmt: skip
        values = [said["const"]] if "const" in said else list(said["enum"])
        if "const" in said and "enum" in said and json.dumps(said["const"]) not in map(json.dumps, said["enum"]):
            values = []
        types = types_of(said, where) if "type" in said else TYPES
        return Either(tuple(literal(value) for value in values if any(_is_of(value, kind) for kind in types)))

    def implied(self, said: Schema) -> Iterable[str] | None:
        """The types that a schema without one speaks of; None: it speaks of none."""
        found = [kind for kind, keys in _OF_TYPE.items() if not set(keys).isdisjoint(said)]
        return found or None

    def null_node(self, said: Schema, where: str, depth: int) -> Node:
        return text("null")

    def boolean_node(self, said: Schema, where: str, depth: int) -> Node:
        return Either((text("true"), text("false")))

    def string_node(self, said: Schema, where: str, depth: int) -> Node:
        minimum, maximum = _size(said, "minLength", where) or 0, _size(said, "maxLength", where)
        given = [key for key in ("pattern", "format") if key in said]
        if len(given) + bool(minimum or maximum is not None) > 1:
            raise refuse("a string has bounds, a pattern or a format at once", where=where, hint="keep one of them")
        if "pattern" in said:
            return quoted(pattern_node(str(said["pattern"]), where))
        if "format" in said:
            if said["format"] not in FORMATS:
                raise refuse(f"the format {str(said['format'])[:60]!r} cannot be followed", where=where,
                             hint=f"take it out, or use one of {', '.join(FORMATS)}")  # fmt: skip
            return quoted(Call(str(said["format"])))
        return Call("string") if not minimum and maximum is None else quoted(Repeat(STRING_CHAR, minimum, maximum))

    def integer_node(self, said: Schema, where: str, depth: int) -> Node:
        low, high, above, below = _bounds(said, where)
        if low is None and high is None:
            return Call("integer")
        return whole_numbers(*whole_bounds(low, high, above=above, below=below))

    def number_node(self, said: Schema, where: str, depth: int) -> Node:
        if said.get("multipleOf") is not None:
            return self.integer_node(said, where, depth)
        low, high, above, below = _bounds(said, where)
        return decimals(low, high, above=above, below=below)

    def array_node(self, said: Schema, where: str, depth: int) -> Node:
        if said.get("uniqueItems") not in (None, False):
            raise refuse("the items of an array are to differ", where=where, why="grammars cannot compare them",
                         hint="take uniqueItems out, and check it in the answer")  # fmt: skip
        first = said.get("prefixItems", [])
        if not isinstance(first, list):
            raise refuse("prefixItems is no list", where=where)
        minimum, maximum = _size(said, "minItems", where) or 0, _size(said, "maxItems", where)
        first = first if maximum is None else first[:maximum]
        parts = [self.node(one, f"{where}/prefixItems/{n}", depth + 1) for n, one in enumerate(first)]
        rest = said.get("items", not first)
        minimum, maximum = max(minimum - len(first), 0), None if maximum is None else max(maximum - len(first), 0)
        following: Node = Run(())
        if rest is not False or minimum:
            item = self.node(rest, f"{where}/items", depth + 1)
            following = self.members(item, minimum, maximum, begun=bool(first))
        between = Run((text(","), SPACE))
        begun = [piece for n, part in enumerate(parts) for piece in ([between] if n else []) + [part]]
        return Run((text("["), SPACE, *begun, following, SPACE, text("]")))

    def members(self, item: Node, minimum: int, maximum: int | None, *, begun: bool) -> Node:
        """So many items, with what stands between them."""
        another = Run((text(","), SPACE, item))
        if begun:
            return Repeat(another, minimum, maximum)
        if maximum == 0:
            return Run(())
        some = Run((item, Repeat(another, max(minimum - 1, 0), None if maximum is None else maximum - 1)))
        return some if minimum else Repeat(some, 0, 1)

    def object_node(self, said: Schema, where: str, depth: int) -> Node:
        named, required = said.get("properties", {}), said.get("required", [])
        if (
            not isinstance(named, dict)
            or not isinstance(required, list)
            or not all(isinstance(n, str) for n in required)
        ):
            raise refuse("properties or required is not as schemas have it", where=where)
        more, others = said.get("additionalProperties", not named), said.get("additionalProperties", True)
        missing = [name for name in required if name not in named]
        if others is False and missing:
            raise refuse(f"the property {missing[0][:60]!r} is required and not allowed", where=where)
        schemas = {**named, **dict.fromkeys(missing, others)}
        entries = [
            (self.entry(literal(name), one, f"{where}/properties/{name}", depth), name in required)
            for name, one in schemas.items()
        ]
        counts = _size(said, "minProperties", where) or 0, _size(said, "maxProperties", where)
        extra: Node | None = None
        if more is not False and sum(map(len, schemas)) > _MAX_NAMED:
            raise refuse(f"other properties beside names of more than {_MAX_NAMED:,} letters", where=where,
                         hint="set additionalProperties to false")  # fmt: skip
        if more is not False:
            key = any_but(list(schemas), self.rules, f"other {where}") if schemas else Call("string")
            extra = self.entry(key, more, f"{where}/additionalProperties", depth)
        if counts[0] > max(len(set(required)), int(not schemas)) or (counts[1] is not None and schemas):
            raise refuse("the properties of an object are counted", where=where, hint="name them under required")
        if not entries:
            inner = self.members(extra, *counts, begun=False) if extra is not None else Run(())
            return Run((text("{"), SPACE, inner, SPACE, text("}")))
        return Run((text("{"), SPACE, self.entries(entries, extra, f"entries {where} {self.count}"), SPACE, text("}")))

    def entry(self, key: Node, schema: Any, where: str, depth: int) -> Node:
        return Run((key, text(":"), SPACE, self.node(schema, where, depth + 1)))

    def entries(self, entries: list[tuple[Node, bool]], extra: Node | None, key: str) -> Node:
        """Entries in their order, those that are not required or not: a rule for what follows another one, and a rule
        for what stands first."""
        extras: Node = Run(()) if extra is None else Repeat(Run((text(","), SPACE, extra)))
        self.rules[f"{key} then {len(entries)}"] = extras
        self.rules[f"{key} first {len(entries)}"] = Run(()) if extra is None else Repeat(Run((extra, extras)), 0, 1)
        for n in range(len(entries) - 1, -1, -1):
            node, needed = entries[n]
            self.rules[f"{key} {n}"] = node
            after = Call(f"{key} then {n + 1}")
            another = Run((text(","), SPACE, Call(f"{key} {n}")))
            self.rules[f"{key} then {n}"] = Run((another if needed else Repeat(another, 0, 1), after))
            first: Node = Run((Call(f"{key} {n}"), after))
            self.rules[f"{key} first {n}"] = first if needed else Either((first, Call(f"{key} first {n + 1}")))
        return Call(f"{key} first 0")


def _is_of(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    kinds = {str: ("string",), dict: ("object",), list: ("array",), type(None): ("null",),
             int: ("integer", "number"), float: ("integer", "number") if whole else ("number",)}  # fmt: skip
    return kind in kinds[type(value)]


def _size(said: Schema, key: str, where: str) -> int | None:
    value = said.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or not 0 <= value < 1 << 31:
        raise refuse(f"{key} is no number of things", where=where)
    return int(value)


def _bounds(said: Schema, where: str) -> tuple[Fraction | None, Fraction | None, bool, bool]:
    """The least and the largest number, and whether these are left out."""
    for key in _OF_TYPE["number"]:
        value = said.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refuse(f"{key} is no number", where=where)
    if said.get("multipleOf", 1) != 1:
        raise refuse(f"numbers are to be multiples of {said['multipleOf']}", where=where,
                     why="grammars cannot divide", hint="take multipleOf out, and check it in the answer")  # fmt: skip
    sides = []
    for plain, without, better in (("minimum", "exclusiveMinimum", max), ("maximum", "exclusiveMaximum", min)):
        found = [Fraction(said[key]) for key in (plain, without) if key in said]
        bound = better(found) if found else None
        sides.append((bound, without in said and bound == Fraction(said[without])))
    return sides[0][0], sides[1][0], sides[0][1], sides[1][1]
