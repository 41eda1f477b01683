"""What a tokenizer does around its model, as a device does it: changes of the text, splits, how tokens are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sdk.llm.text.characters import digits
from sdk.llm.text.errors import refusal
from sdk.llm.text.patterns import MATCH, SET, Sets, compile_pattern, literal_program

__all__ = ["Change", "Pipeline", "read_pipeline"]

NFC, PREPEND, REPLACE, PREPEND_MISSING, PREPEND_FIRST = range(5)
SHOW, STRIP, STRIP_TOKEN = range(3)
_BEHAVIOURS: Final = {"Isolated": 0, "Removed": 1, "MergedWithPrevious": 2, "MergedWithNext": 3, "Contiguous": 4}
# How GPT-2 splits, which ByteLevel does where it is not told otherwise.
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class Change:
    """A change of a text, of one of the kinds above: ``to``, a number where the kind takes one, is put in the place of
    ``old`` or before the text."""

    kind: int
    old: bytes = b""
    to: bytes | int = b""


@dataclass
class Pipeline:
    """The steps in a device's order; ``splits`` are (start in the program, behaviour, inverted)."""

    sets: Sets = field(default_factory=Sets)
    normalisers: list[Change] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    splits: list[tuple[int, int, int]] = field(default_factory=list)
    program: list[int] = field(default_factory=list)
    decoders: list[Change] = field(default_factory=list)
    byte_level: bool = False
    shows_bytes: bool = False  # decoding makes bytes of tokens such as <0x0A>

    def split(self, code: Sequence[int], behaviour: int, inverted: bool = False) -> None:
        """Adds a split by a program that stands where the others end."""
        self.splits.append((len(self.program), behaviour, int(inverted)))
        self.program += code


def read_pipeline(data: Mapping[str, Any]) -> Pipeline:
    """The steps of a tokenizer.json.

    Raises:
        BuildError: one of them cannot be compiled; it is named.
    """
    found = Pipeline()
    for step in _steps(data.get("normalizer"), "normalizer", "normalizers"):
        _normaliser(step, found)
    for step in _steps(data.get("pre_tokenizer"), "pre_tokenizer", "pretokenizers"):
        _pre_tokenizer(step, found)
    _decoder(data.get("decoder"), found)
    return found


def _steps(step: Mapping[str, Any] | None, where: str, inside: str, depth: int = 0) -> list[Mapping[str, Any]]:
    if step is None:
        return []
    if step["type"] != "Sequence":
        return [step]
    if depth > 8:
        raise refusal("more than 8 sequences inside one another", where=where)
    return [one for part in step[inside] for one in _steps(part, where, inside, depth + 1)]


def _text_of(pattern: Mapping[str, str], where: str) -> str:
    text = pattern.get("String")
    if not text:
        raise refusal("a Replace of a regular expression or of nothing", where=where)
    return text


def _normaliser(step: Mapping[str, Any], found: Pipeline) -> None:
    match step["type"]:
        case "NFC":
            found.normalisers.append(Change(NFC))
        case "Prepend":
            found.normalisers.append(Change(PREPEND, to=step["prepend"].encode()))
        case "Replace":
            old = _text_of(step["pattern"], "normalizer")
            found.normalisers.append(Change(REPLACE, old.encode(), step["content"].encode()))
        case kind:
            raise refusal(f"the normalizer {kind}", where="normalizer")


def _pre_tokenizer(step: Mapping[str, Any], found: Pipeline) -> None:
    where = "pre_tokenizer"
    if found.byte_level:
        raise refusal(f"{step['type']} after ByteLevel", where=where)
    match step["type"]:
        case "Split":
            pattern = step["pattern"]
            start = len(found.program)
            if "Regex" in pattern:
                code = compile_pattern(pattern["Regex"], found.sets, where, start)
            else:
                code = literal_program(pattern["String"], found.sets, where, start)
            if len(code) == 1:
                raise refusal("a Split by the empty text", where=where)
            found.split(code, _BEHAVIOURS[step["behavior"]], step["invert"])
        case "Digits":
            one = found.sets.add(digits(), where)
            behaviour = "Isolated" if step["individual_digits"] else "Contiguous"
            found.split([SET | one << 8, MATCH], _BEHAVIOURS[behaviour])
        case "ByteLevel":
            found.byte_level = True
            if step["add_prefix_space"]:
                _first(found, "ByteLevel with add_prefix_space")
                found.changes.append(Change(PREPEND_MISSING, to=b" "))
            if step["use_regex"]:
                found.split(compile_pattern(_GPT2, found.sets, where, len(found.program)), _BEHAVIOURS["Isolated"])
        case "Metaspace":
            _metaspace(step, found)
        case kind:
            raise refusal(f"the pre-tokenizer {kind}", where=where)


def _first(found: Pipeline, what: str) -> None:
    if found.splits:
        raise refusal(f"{what} after a split", where="pre_tokenizer")


def _metaspace(step: Mapping[str, Any], found: Pipeline) -> None:
    _first(found, "Metaspace")
    sign = step["replacement"]
    found.changes.append(Change(REPLACE, b" ", sign.encode()))
    scheme = {"always": PREPEND_MISSING, "first": PREPEND_FIRST, "never": None}[step["prepend_scheme"]]
    if scheme is not None:
        found.changes.append(Change(scheme, to=sign.encode()))
    if step["split"]:
        code = literal_program(sign, found.sets, "pre_tokenizer", len(found.program))
        found.split(code, _BEHAVIOURS["MergedWithNext"])


def _decoder(step: Mapping[str, Any] | None, found: Pipeline) -> None:
    where = "decoder"
    steps = _steps(step, where, "decoders")
    kinds = [one["type"] for one in steps]
    if found.byte_level or "ByteLevel" in kinds:
        if not found.byte_level or kinds != ["ByteLevel"]:
            raise refusal(f"the decoder {' + '.join(kinds) or None}", where=where)
        return
    if not steps:
        raise refusal("no decoder", where=where, why="tokens would be joined by spaces")
    for at, one in enumerate(steps):
        match one["type"]:
            case "Replace" if not found.decoders and not found.shows_bytes:
                old = _text_of(one["pattern"], where).encode()
                found.decoders.append(Change(SHOW, old, one["content"].encode()))
            case "Metaspace" if len(steps) == 1:
                if one["prepend_scheme"] != "never":
                    found.decoders.append(Change(STRIP_TOKEN))
                found.decoders.append(Change(SHOW, one["replacement"].encode(), b" "))
            case "ByteFallback":
                found.shows_bytes = True
            case "Fuse":
                pass
            case "Strip" if (one["content"], one["stop"]) == (" ", 0) and "Fuse" in kinds[:at] and one is steps[-1]:
                found.decoders.append(Change(STRIP, to=one["start"]))
            case kind:
                raise refusal(f"the decoder {kind} in {' + '.join(kinds)}", where=where)
