"""Grammars: masks are those of a recogniser by definition, answers of schemas are of the schema, hostile ones end."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from datetime import datetime
from typing import Any

import jsonschema
import numpy as np
import pytest

from sdk.errors import UsageError
from sdk.llm.grammar import Grammar, GrammarRun, Words, any_json, parse_grammar, read_schema
from sdk.llm.grammar.automaton import utf8_ranges
from sdk.llm.grammar.native import _aligned, _library
from sdk.llm.grammar.schema import _KNOWN
from sdk.llm.grammar.words import words_of_texts

BYTES = [bytes([byte]) for byte in range(256)]
PIECES = [
    *(piece.encode() for piece in ('", "', '":', '{"', '"}', "  ", "\n  ", "true", "null", "alse", "12", "0.", "name")),
    "é".encode(),
    *(piece.encode() for piece in ("日本", "],", "}}", '\\"', "\\u00", "abc", '"name": "', '", "b": ')),
    b"\xe6\x97", b"\x97\xa5",
]  # fmt: skip
TEXTS = [*BYTES, *PIECES]
WORDS = words_of_texts(TEXTS, len(TEXTS))
CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER


def allowed(run: GrammarRun, count: int) -> list[int]:
    bits = np.unpackbits(run.allowed(count).view(np.uint8), bitorder="little")[:count]
    return [int(one) for one in np.flatnonzero(bits)]


def written(grammar: Grammar, rng: random.Random, texts: list[bytes] = TEXTS, maximum: int = 60) -> str:
    """A text by random logits; after ``maximum`` tokens those that close something are likelier."""
    run, said, count = grammar.run(), b"", 0
    closing = [b'"', b"}", b"]", b"0", b"1", b"e", b"l", b",", b":", b"Z"]
    while True:
        ids = allowed(run, len(texts))
        if not ids:
            assert run.is_done, said
            return said.decode()
        if run.can_end and rng.random() < 0.3:
            return said.decode()
        count += 1
        ends = closing[: 3 if rng.random() < 0.7 else 10]
        likely = [at for at in ids if texts[at] in ends] if count > maximum else []
        token = rng.choice(likely if likely and rng.random() < 0.9 else ids)
        assert run.take(token)
        said += texts[token]
        assert count < 4000, said


def language(rules: dict[str, Any], longest: int) -> set[str]:
    """All texts of up to so many letters, by the definition. Rules are alternatives, lists of letters and names."""
    found: dict[str, set[str]] = {name: set() for name in rules}
    while True:
        before = {name: len(texts) for name, texts in found.items()}
        for name, alternatives in rules.items():
            for parts in alternatives:
                texts = {""}
                for part in parts:
                    some = found[part] if part in rules else {part}
                    texts = {a + b for a in texts for b in some if len(a) + len(b) <= longest}
                found[name] |= texts
        if before == {name: len(texts) for name, texts in found.items()}:
            return found["root"]


def as_text(rules: dict[str, Any]) -> str:
    def part(one: str) -> str:
        return one if one in rules else f'"{one}"'

    return "\n".join(
        f"{name} ::= " + " | ".join(" ".join(map(part, parts)) or '""' for parts in alternatives)
        for name, alternatives in rules.items()
    )


def grammar_or_none(source: str, words: Words, why: str) -> Grammar | None:
    """The grammar of a text; None where it is refused for this reason."""
    with suppress(UsageError):
        return Grammar(parse_grammar(source), words)
    with pytest.raises(UsageError, match=why):
        Grammar(parse_grammar(source), words)
    return None


def test_masks_are_those_of_the_definition() -> None:
    rng = random.Random(5)
    texts = [b"a", b"b", b"c", b"ab", b"ba", b"aa", b"abc", b"cc", b"bca"]
    words = words_of_texts(texts, len(texts))
    longest, checked, refused = 7, 0, 0
    fixed = [
        {"root": [["a", "root", "b"], []]},
        {"root": [["x", "root", "c"], ["y", "root", "c"], ["b"]], "x": [["a"]], "y": [["a"]]},  # 2^n ways
        {"root": [["a", "root"], ["b"]]},
        {"root": [["x", "x", "x", "b"]], "x": [["a"], []]},
        {"root": [["a", "root", "root"], ["b"]]},
        {"root": [["x", "c"]], "x": [["y"], ["a"]], "y": [["b", "x", "b"], []]},
    ]
    names = ["root", "x", "y"]
    made = [
        {
            name: [
                [rng.choice(["a", "b", "c", *names]) for _ in range(rng.randint(0, 3))]
                for _ in range(rng.randint(1, 3))
            ]
            for name in names
        }
        for _ in range(60)
    ]
    for rules in [*fixed, *made]:
        said = language(rules, longest)
        grammar = grammar_or_none(as_text(rules), words, "begins with itself" if said else "itself|no text")
        if grammar is None:
            refused += 1
            continue
        viable = {text[:n] for text in said for n in range(len(text) + 1)}
        for _ in range(4):
            run, text = grammar.run(), ""
            while len(text) <= 2:
                assert run.can_end == (text in said), (as_text(rules), text)
                ids = allowed(run, len(texts))
                assert ids or run.can_end
                for at, piece in enumerate(texts):
                    if len(text) + len(piece) <= 3:  # others might end beyond what was listed
                        assert (at in ids) == (text + piece.decode() in viable), (as_text(rules), text, piece)
                        checked += 1
                        if at not in ids:
                            assert not run.take(at)
                if not ids:
                    assert run.is_done
                    break
                token = rng.choice(ids)
                assert run.take(token)
                text += texts[token].decode()
    assert checked > 2000
    assert 5 < refused < 50


SCHEMAS: list[Any] = [
    True, {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "array", "items":
     {"type": "number"}}}, "required": ["b"], "additionalProperties": False, "title": "t"},
    {"type": "object", "properties": {"a": {"type": "integer"}, "ab": {}}, "additionalProperties": {"type": "boolean"}},
    {"properties": {"a": {"type": "integer"}}, "additionalProperties": True, "required": ["z"]},
    {"enum": ["x", 1, None, {"a": [1, 2]}, 'q"\\\n\u00e9\u2028'], "type": ["string", "object"]}, {"const": 5},
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "pattern": '^[a-z"\\\\]{2,4}(-\\d+)?$'}, {"type": "string", "pattern": "a|^b.\\t$"},
    {"type": "string", "pattern": "^([^\"x]\\u0041|\\x42[\\w-]*?){1,2}$"},
    {"type": "integer", "minimum": -17, "maximum": 230}, {"type": "integer", "exclusiveMinimum": 5.5, "multipleOf": 1},
    {"type": "integer", "maximum": -3}, {"type": "number", "minimum": -1.5, "exclusiveMaximum": 2},
    {"type": "number", "minimum": 0, "maximum": 1}, {"type": "number", "exclusiveMinimum": 0},
    {"type": "number", "maximum": -3}, {"type": "number", "exclusiveMaximum": 0, "minimum": -1},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3}, {"type": "array", "maxItems": 0},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}], "items": False},
    {"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "boolean"}, "minItems": 3},
    {"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items":
     {"$ref": "#/$defs/node"}}}, "required": ["v"]}}, "$ref": "#/$defs/node"},
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]},
    {"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "x": {"type": "integer"}}, "required": ["k"]},
     {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]}, {"type": "integer"}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "number", "minimum": 3}}, "required": ["a"]},
     {"properties": {"a": {"type": "integer", "maximum": 9}, "b": {"type": "null"}}, "required": ["b"]}]},
    {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"type": "boolean"}}},
    {"type": ["string", "null", "integer"]}, *({"type": "string", "format": name} for name in
     ("date-time", "uuid", "date", "ipv4", "time")),
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 3},
]  # fmt: skip


@pytest.mark.parametrize("every_byte", [True, False])
def test_answers_of_schemas(every_byte: bool) -> None:
    """Whatever the logits, an answer is JSON and of its schema; also where the vocabulary lacks bytes."""
    rng = random.Random(7)
    texts = (
        TEXTS if every_byte else [text for text in TEXTS if text.isascii()] + ["é".encode(), "日本".encode(), b"\xe6"]
    )
    words = words_of_texts(texts, len(texts))
    for schema in SCHEMAS:
        grammar = Grammar(read_schema(schema), words)
        for _ in range(6 if every_byte else 3):
            said = written(grammar, rng, texts)
            if schema == {"type": "string", "format": "date-time"}:
                datetime.fromisoformat(json.loads(said))
            jsonschema.validate(json.loads(said), schema, format_checker=CHECKER)
    assert json.loads(written(Grammar(any_json(objects=True), words), rng, texts)).keys() is not None


def test_what_schemas_take() -> None:
    """Texts that a grammar takes and such that it does not."""

    def takes(schema: Any, text: str) -> bool:
        run = Grammar(read_schema(schema), WORDS).run()
        return all(run.take(byte) for byte in text.encode()) and run.can_end

    person = SCHEMAS[2]
    assert takes(person, '{ "a": 1, "b": "x\\u00e9\\n", "c": [1, 2.5e-3]}')
    assert takes(person, '{"b":""}')
    for wrong in (
        '{"a": 1}',
        '{"b": "x", "a": 1}',
        '{"b": "x",}',
        '{"a": 01, "b": ""}',
        '{"b": "\\ud800"}',
        '{"b": "\n"}',
    ):
        assert not takes(person, wrong)
    other = SCHEMAS[3]
    assert takes(other, '{"a": 1, "ab": [], "abc": true, "b": false}')
    assert not takes(other, '{"abc": 1}')
    assert not takes(other, '{"\\u0061": true}')  # another way to write "a"
    assert [takes(SCHEMAS[11], str(n)) for n in (-18, -17, -1, 0, 9, 10, 99, 100, 230, 231, 1000)] == [
        False, *[True] * 8, False, False,
    ]  # fmt: skip
    bounds = {"type": "integer", "minimum": 389, "maximum": 1204}
    run = Grammar(read_schema(bounds), WORDS)
    for number in (*range(380, 400), *range(980, 1010), *range(1195, 1210), 5, 38, 12040):
        text, walk = str(number), run.run()
        assert (all(walk.take(ord(char)) for char in text) and walk.can_end) == (389 <= number <= 1204), number


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string", "format": "email"}, "the format 'email' cannot be followed"),
        ({"not": {}}, "the schema has 'not'"),
        ({"type": "array", "uniqueItems": True}, "the items of an array are to differ"),
        ({"type": "integer", "multipleOf": 3}, "multiples of 3"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "might both be true"),
        ({"oneOf": [{"const": 1}, {"const": 1.0}]}, "might both be true"),
        ({"$ref": "#"}, "no text that can be written to its end"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "no text that can"),
        ({"$ref": "http://example.com/a"}, "only places in itself are read"),
        ({"$ref": "#/nowhere"}, "which is not there"),
        ({"type": "strin"}, "the type 'strin'"),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, "required and not allowed"),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "no text that can be written to its end"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "no text that can be written to its end"),
        ({"type": "string", "pattern": "(?=a)b"}, "a group of a kind"),
        ({"type": "string", "pattern": "a\\1"}, r"has \\1"),
        ({"type": "string", "pattern": "a$b"}, "after|too many"),
        ({"type": "string", "minLength": 10**6}, "needs more than 65,536 states"),
        ({"type": "string", "minLength": "3"}, "no number of things"),
        ({"enum": 3}, "no list"),
        ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, "have different pattern"),
        ({"allOf": [{"properties": {"a": {}}, "additionalProperties": False}, {"properties": {"b": {}}}]}, "no prop"),
        ({"type": "object", "properties": {"a": {}}, "maxProperties": 1}, "are counted"),
        ([], "a schema is no object"),
        ({"oneOf": [{"const": n} for n in range(300)]}, "more than 200 alternatives"),
        ({"properties": {"x" * 20_000: {}}, "additionalProperties": True}, "names of more than 10,000 letters"),
        ({"allOf": [{"properties": []}, {"properties": {"a": {}}}]}, "of another type|as schemas have"),
        ({"const": float("nan")}, "the schema is no JSON"),
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_followed(schema: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Grammar(read_schema(schema), WORDS)


def test_schemas_come_from_anywhere() -> None:
    """Whatever a schema holds, it is followed or refused with an error of ours, at once."""
    rng, strange = random.Random(3), [None, 1, -1, 2.5, "x", [], {}, True, [1], {"a": 1}, ["a"], "#", 1e300, [[]]]
    keys = [*_KNOWN]
    refused = 0
    for _ in range(200):
        schema = json.loads(json.dumps(rng.choice(SCHEMAS[1:])))
        for _ in range(rng.randint(1, 3)):
            place = schema
            while isinstance(place, dict) and rng.random() < 0.5:
                inner = [one for one in place.values() if isinstance(one, dict)]
                inner += [one for many in place.values() if isinstance(many, list) for one in many]
                inner = [one for one in inner if isinstance(one, dict)]
                if not inner:
                    break
                place = rng.choice(inner)
            value = rng.choice([*strange, schema.get("properties"), [{}, {"type": "null"}]])
            place[rng.choice(keys)] = json.loads(json.dumps(value))
            schema = json.loads(json.dumps(schema))
        try:
            Grammar(read_schema(schema), WORDS)
        except UsageError:
            refused += 1
    assert 40 < refused < 200


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "no rule root"),
        ("root ::= x", "the rule x is not there"),
        ('root ::= "a', "without an end"),
        ("root ::= [a", "without an end"),
        ("root ::= [z-a]", "a range of characters that falls"),
        ('root ::= ("a"', "a group without an end"),
        ('root ::= "a" )', "within the rule root"),
        ('root = "a"', "no ::="),
        ('root ::= "\\q"', "the escape"),
        ('root ::= "\\ud800"', "U\\+D800, which is no character"),
        ('root ::= "a"{2,1}', "times from a smaller"),
        ('root ::= "a"{x}', "says no number"),
        ('root ::= "a"' + "*" * 9, "repetitions of repetitions"),
        ('root ::= "a"\nroot ::= "b"', "the rule root twice"),
        ("root ::= <[13]>", "no part of a rule"),
        ('root ::= "a" root', "no text that can be written to its end"),
        ('root ::= x\nx ::= x "a" | "b"', "the rule x begins with itself"),
        ('root ::= y* root "a" | "b"\ny ::= "c"?', "the rule root begins with itself"),
        ('root ::= "a"{70000}', "needs more than 65,536 states"),
        ('root ::= (""{60000}){60000}', "more than 1,048,576 edges"),
        ("root ::= (.{300}){300}", "needs more than 65,536 states"),
        ("root ::= " + "(" * 100 + '"a"' + ")" * 100, "inside one another"),
        ("root ::= " + '"a"?' * 3000, "too many empty steps|more than 1,048,576 edges"),
        ("root ::= [^\\x00-\\U0010ffff]", "no text that can be written"),
    ],
)
def test_grammars_that_are_none(source: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Grammar(parse_grammar(source), WORDS)


def test_grammars_as_they_are_written() -> None:
    source = """
    # remarks, and rules over several lines
    root ::= ( "yes"   # one
             | "no" ) tail{1,2}
    tail ::= [ \\t]? [^a-z\\]"] .? |
             "\\x41\\u00e9\\U0001F600\\"\\\\"
    """
    grammar = Grammar(parse_grammar(source), WORDS)
    for text, right in (("yes ?é", True), ('noAé😀"\\', True), ("no", False), ("yesx", False), ("yes 1 2", True)):
        run = grammar.run()
        assert (all(run.take(byte) for byte in text.encode()) and run.can_end) == right, text


def test_many_ways_are_no_trouble() -> None:
    """Grammars with 2^n ways to read a text, right recursion and deep nesting: time and memory stay small."""
    words = words_of_texts([*BYTES, b"aaaaaaaa", b"[[[["], 258)
    twice = 'root ::= x root "c" | y root "c" | "b"\nx ::= "a"\ny ::= "a"'
    lists = 'root ::= "[" (root ("," root)*)? "]"'
    catalan = 'root ::= "a" root root | "a" root | "a"'
    for source, begin, end in (
        (twice, "a" * 200, "b" + "c" * 200), ("root ::= [a-z] root | [a-y]", "a" * 2000, "b"),
        (lists, "[" * 300, "]" * 300), (catalan, "a" * 60, "a"), ('root ::= ("a"? "a"?){200}', "a" * 300, ""),
        ("root ::= (.* .* .*)+", "x" * 300, "y"),
    ):  # fmt: skip
        run = Grammar(parse_grammar(source), words).run()
        for byte in begin.encode():
            assert run.take(byte), source
        assert run.allowed(258).any()
        assert all(run.take(byte) for byte in end.encode()), source
        assert run.can_end
    # what needs more than there may be is refused, not followed wrongly
    run = Grammar(parse_grammar(catalan), words).run()
    with pytest.raises(UsageError, match="too many ways to read this text"):
        all(run.take(256) for _ in range(100_000))


def test_spaces_that_decoding_takes_away() -> None:
    texts = [b" yes", b"yes", b" ", b"  ", b"no"]
    for strip, first, after in ((0, [1, 4], [1, 4]), (1, [0, 1, 2, 4], [1, 4]), (255, [0, 1, 2, 3, 4], [1, 4])):
        run = Grammar(parse_grammar('root ::= ("yes" | "no"){2}'), words_of_texts([*texts, *BYTES], 261, strip)).run()
        assert [at for at in allowed(run, 261) if at < 5] == first
        assert run.take(first[0])
        assert [at for at in allowed(run, 261) if at < 5] == after


def test_characters_as_bytes() -> None:
    rng = random.Random(1)
    cases = [(0, 0x7F), (0x80, 0x7FF), (0, 0xD7FF), (0xE000, 0x10FFFF), (0x1F5FF, 0x1F64F)]
    cases += [tuple(sorted(rng.randrange(0xD800) for _ in range(2))) for _ in range(30)]
    for low, high in cases:
        runs = list(utf8_ranges(low, high))
        size = 0
        for run in runs:
            size += int(np.prod([last - first + 1 for first, last in run]))
        assert size == high - low + 1
        for code in {low, high, (low + high) // 2, *(rng.randint(low, high) for _ in range(20))}:
            data = chr(code).encode()
            found = [
                len(run) == len(data) and all(a <= byte <= b for byte, (a, b) in zip(data, run, strict=True))
                for run in runs
            ]
            assert found.count(True) == 1


def test_damaged_tables() -> None:
    """Whatever a table holds, it is refused or followed within its memory."""
    rng, library = random.Random(2), _library()
    grammar = Grammar(read_schema(SCHEMAS[2]), WORDS)
    refused = 0
    for table, load in ((grammar.table, library.sdk_grammar_load), (WORDS.table, library.sdk_words_load)):
        handle = np.zeros(32, dtype=np.uint64)
        for _ in range(400):
            data = bytearray(table)
            for _ in range(rng.randint(1, 3)):
                data[rng.randrange(rng.choice((40, len(data))))] = rng.choice((0, 1, 255, rng.randrange(256)))
            if rng.random() < 0.2:
                data = data[: rng.randrange(len(data))]
            memory = _aligned(bytes(data))
            refused += load(handle.ctypes.data, memory.ctypes.data, len(data)) != 0
    assert refused > 200
    left = np.zeros(64, dtype=np.uint64)  # too little memory is said
    handles = [np.zeros(32, dtype=np.uint64) for _ in range(2)]
    for load, handle, table in zip(
        (library.sdk_words_load, library.sdk_grammar_load), handles, (WORDS.table, grammar.table), strict=True
    ):
        kept = _aligned(table)
        assert load(handle.ctypes.data, kept.ctypes.data, len(table)) == 0
    state = np.zeros(512, dtype=np.uint64)
    assert (
        library.sdk_grammar_begin(
            state.ctypes.data, handles[1].ctypes.data, handles[0].ctypes.data, left.ctypes.data, 512
        )
        == 2
    )
