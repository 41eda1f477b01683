"""The table of a tokenizer that a device reads in place (see c_runtime/llm/sdk_tok.h)."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sdk.errors import BuildError
from sdk.llm.text.characters import composition
from sdk.llm.text.errors import refusal
from sdk.llm.text.pipeline import NFC, SHOW, STRIP, STRIP_TOKEN, Change, Pipeline, read_pipeline

__all__ = ["PARTS", "compile_table", "shown_texts"]

MAGIC: Final = 0x4B4F5453
VERSION: Final = 1
NONE: Final = 0xFFFFFFFF
PARTS: Final = 25
_MAX_TOKENS: Final = 1 << 24
_MAX_BYTES: Final = 1 << 30
_BYTE_LEVEL, _BYTE_FALLBACK, _FUSE_UNKNOWN, _WHOLE_WORDS = 1, 2, 4, 8
_SPECIAL, _BYTE, _HOLE = 1, 2, 4
_LEFT, _RIGHT = 2, 4
_UNKNOWN_PENALTY: Final = 10.0  # SentencePiece's: below the least probable token


def _alphabet() -> dict[str, int]:
    """The bytes that byte-level tokenizers write as a character each: visible ones of Latin-1 as themselves, the others
    from U+0100 on."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(0x100 + k): b for k, b in enumerate(hidden)}


_ALPHABET: Final = _alphabet()


class _Strings:
    """Short texts, each once."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._places: dict[bytes, int] = {}

    def add(self, text: bytes) -> tuple[int, int]:
        if text not in self._places:
            self._places[text] = len(self.data)
            self.data += text
        return self._places[text], len(text)


def compile_table(tokenizer: Any) -> bytes:
    """The table of a ``tokenizers.Tokenizer``; what it does beyond one text (truncation, padding, pairs) is left out.

    Raises:
        BuildError: it has what a device cannot do; that is named.
    """
    data = json.loads(tokenizer.to_str())
    pipeline = read_pipeline(data)
    model = data["model"]
    added = tokenizer.get_added_tokens_decoder()
    vocabulary = _vocabulary(model, pipeline)
    count = max([*_by_number(model), *added, -1]) + 1
    if not 0 < count <= _MAX_TOKENS:
        raise refusal(f"{count} tokens", where="model", why=f"a table has 1 to {_MAX_TOKENS}")
    strings = _Strings()
    texts, flags = _texts(tokenizer, model, pipeline, count)
    lexicon = _lexicon(vocabulary, pipeline)
    normal = data["normalizer"] is not None
    parts: list[bytes] = [
        *_pooled(texts), bytes(flags), _u32(lexicon), _u32(_byte_tokens(vocabulary, pipeline)),
        *_model_parts(model, vocabulary, count),
        _added(added, strings, lambda token: None if token.normalized else token.content),
        _added(
            added, strings,
            lambda token: _normal(tokenizer, token.content, normal) if token.normalized else None,
        ),
    ]  # fmt: skip
    rest = [_changes(steps, strings) for steps in (pipeline.normalisers, pipeline.changes)]
    shown = _changes(pipeline.decoders, strings)
    pages, classes, sets = pipeline.sets.tables()
    prefix, suffix = _around(data["post_processor"])
    parts += [
        bytes(strings.data), *rest, _u32(np.array(pipeline.splits).ravel()), _u32(pipeline.program),
        pages.tobytes(), classes.tobytes(), sets.tobytes(),
        *_composition(any(step.kind == NFC for step in pipeline.normalisers)), _u32(prefix), _u32(suffix), shown,
    ]  # fmt: skip
    return _join(parts, _head(model, vocabulary, pipeline, count))


def _head(model: Mapping[str, Any], vocabulary: Mapping[str, int], pipeline: Pipeline, count: int) -> list[int]:
    unigram = model["type"] == "Unigram"
    names = ("byte_fallback", _BYTE_FALLBACK), ("fuse_unk", _FUSE_UNKNOWN), ("ignore_merges", _WHOLE_WORDS)
    flags = sum(flag for name, flag in names if model.get(name)) | (_BYTE_LEVEL if pipeline.byte_level else 0)
    if unigram:
        unknown = NONE if model["unk_id"] is None else model["unk_id"]
    else:
        name = model["unk_token"]
        if name is not None and name not in vocabulary:
            raise BuildError(
                f"the unknown token {name!r} is not in the vocabulary", where="model", hint="correct the tokenizer"
            )
        unknown = NONE if name is None else vocabulary[name]
    return [int(unigram), flags, count, unknown, 0]


def _vocabulary(model: Mapping[str, Any], pipeline: Pipeline) -> dict[str, int]:
    kind = model["type"]
    if kind == "Unigram":
        if pipeline.byte_level:
            raise refusal("a Unigram model of bytes", where="model")
        return {text: at for at, (text, _) in enumerate(model["vocab"])}
    if kind != "BPE":
        raise refusal(f"the model {kind}", where="model")
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name):
            raise refusal(f"the {name} {model[name]!r}", where="model")
    if pipeline.byte_level and model["byte_fallback"]:
        raise refusal("byte_fallback of bytes", where="model")
    return dict(model["vocab"])


def _letters(text: str) -> bytes | None:
    """The bytes that a text of a byte-level vocabulary stands for; None where it is no such text."""
    found = [_ALPHABET.get(char) for char in text]
    return None if None in found else bytes(byte for byte in found if byte is not None)


def _by_number(model: Mapping[str, Any]) -> dict[int, str]:
    """The tokens of a model; those of a Unigram model may be there twice."""
    if model["type"] == "Unigram":
        return {at: text for at, (text, _) in enumerate(model["vocab"])}
    return {at: text for text, at in model["vocab"].items()}


def shown_texts(tokenizer: Any) -> tuple[list[bytes], int | None]:
    """The bytes that each token adds to a text, none for special ones, and how many spaces decoding takes from the
    begin of a text; None: all those of the first token.

    Raises:
        BuildError: the tokenizer decodes in a way that a device cannot.
    """
    data = json.loads(tokenizer.to_str())
    pipeline, model = read_pipeline(data), data["model"]
    count = max([*_by_number(model), *tokenizer.get_added_tokens_decoder(), -1]) + 1
    texts, flags = _texts(tokenizer, model, pipeline, count)
    changes = [(step.old, step.to) for step in pipeline.decoders if step.kind == SHOW]
    signs = re.compile(b"|".join(re.escape(old) for old, _ in changes)) if changes else None
    shown = []
    for text, flag in zip(texts, flags, strict=True):
        if flag & (_SPECIAL | _HOLE):
            text = b""
        elif flag & _BYTE:
            text = bytes([_byte_of(text.decode()) or 0])
        elif signs is not None:
            text = signs.sub(lambda found: _bytes_of(dict(changes)[found[0]]), text)
        shown.append(text)
    strips = {step.kind: step.to for step in pipeline.decoders if step.kind != SHOW}
    taken = strips.get(STRIP, 0)
    return shown, None if STRIP_TOKEN in strips else taken if isinstance(taken, int) else 0


def _bytes_of(value: bytes | int) -> bytes:
    return value if isinstance(value, bytes) else b""


def _texts(tokenizer: Any, model: Mapping[str, Any], pipeline: Pipeline, count: int) -> tuple[list[bytes], bytearray]:
    added = tokenizer.get_added_tokens_decoder()
    everything = {**_by_number(model), **{at: str(tokenizer.id_to_token(at)) for at in added}}
    special = {token.content for token in added.values() if token.special}
    texts, flags = [b""] * count, bytearray([_HOLE]) * count
    for at, text in everything.items():
        letters = _letters(text) if pipeline.byte_level else None
        texts[at] = text.encode() if letters is None else letters
        is_byte = pipeline.shows_bytes and _byte_of(text) is not None
        flags[at] = (_SPECIAL if text in special else 0) | (_BYTE if is_byte else 0)
    if sum(map(len, texts)) > _MAX_BYTES:
        raise refusal("more than a gigabyte of text", where="model")
    return texts, flags


def _byte_of(text: str) -> int | None:
    """The byte that a token such as ``<0x0A>`` stands for."""
    if len(text) != 6 or not text.startswith("<0x") or not text.endswith(">"):
        return None
    try:
        return int(text[3:5], 16)
    except ValueError:
        return None


def _lexicon(vocabulary: Mapping[str, int], pipeline: Pipeline) -> list[int]:
    """The tokens in the order of their bytes, those that a word can be."""
    texts = {at: _letters(text) if pipeline.byte_level else text.encode() for text, at in vocabulary.items()}
    return [at for _, at in sorted((text, at) for at, text in texts.items() if text)]


def _byte_tokens(vocabulary: Mapping[str, int], pipeline: Pipeline) -> list[int]:
    if pipeline.byte_level:
        return [vocabulary.get(char, NONE) for char, _ in sorted(_ALPHABET.items(), key=lambda item: item[1])]
    return [vocabulary.get(f"<0x{byte:02X}>", NONE) for byte in range(256)]


def _model_parts(model: Mapping[str, Any], vocabulary: Mapping[str, int], count: int) -> tuple[bytes, bytes, bytes]:
    """Where the merges of each left token begin, the merges, the scores."""
    if model["type"] == "Unigram":
        scores = [float(score) for _, score in model["vocab"]]
        unknown = min(scores) - _UNKNOWN_PENALTY
        scores += [0.0] * (count - len(scores)) + [unknown]
        return b"", b"", np.array(scores, dtype="<f8").tobytes()
    rows = {}
    for rank, (left, right) in enumerate(model["merges"]):
        try:
            rows[vocabulary[left], vocabulary[right]] = (rank, vocabulary[left + right])
        except KeyError as error:
            raise BuildError(
                f"the merge of {left!r} and {right!r} names a token that is not in the vocabulary",
                where="model", hint="correct the tokenizer",
            ) from error  # fmt: skip
    table = np.array([(*pair, *made) for pair, made in rows.items()], dtype=np.uint32).reshape(-1, 4)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    begins = np.searchsorted(table[:, 0], np.arange(count + 1))
    return _u32(begins), np.ascontiguousarray(table[:, 1:]).astype("<u4").tobytes(), b""


def _normal(tokenizer: Any, text: str, normal: bool) -> str:
    return str(tokenizer.normalizer.normalize_str(text)) if normal else text


def _added(added: Mapping[int, Any], strings: _Strings, text_of: Any) -> bytes:
    rows = {}
    for at, token in added.items():
        text = text_of(token)
        if not text:
            continue
        if token.single_word:
            raise refusal(f"the added token {token.content!r} with single_word", where="added_tokens")
        flags = (_SPECIAL if token.special else 0) | (_LEFT if token.lstrip else 0) | (_RIGHT if token.rstrip else 0)
        rows[text.encode()] = (at, flags)
    return _u32([word for text in sorted(rows) for word in (*strings.add(text), *rows[text])])


def _changes(steps: Iterable[Change], strings: _Strings) -> bytes:
    words: list[int] = []
    for step in steps:
        to = (step.to, 0) if isinstance(step.to, int) else strings.add(step.to)
        words += [step.kind, *strings.add(step.old), *to]
    return _u32(words)


def _around(step: Mapping[str, Any] | None) -> tuple[list[int], list[int]]:
    """What the post-processor puts before and after one text."""
    steps = step["processors"] if step is not None and step["type"] == "Sequence" else [step]
    ends: list[list[int]] = [[], []]
    for one in steps:
        if one is None or one["type"] == "ByteLevel":
            continue
        if one["type"] != "TemplateProcessing" or any(ends):
            raise refusal(f"the post-processor {one['type']}", where="post_processor")
        side = 0
        for part in one["single"]:
            if "Sequence" in part:
                side += 1
            else:
                ends[side > 0] += one["special_tokens"][part["SpecialToken"]["id"]]["ids"]
        if side != 1:
            raise refusal(f"a template with {side} texts", where="post_processor")
    return ends[0], ends[1]


def _composition(needed: bool) -> tuple[bytes, bytes, bytes, bytes]:
    if not needed:
        return b"", b"", b"", b""
    found = composition()
    rows: list[int] = []
    codes: list[int] = []
    for char, part in sorted(found.decomposed.items()):
        rows += [ord(char), len(codes), len(part)]
        codes += map(ord, part)
    orders = [ord(char) << 8 | order for char, order in sorted(found.orders.items())]
    pairs = [ord(char) for pair, whole in sorted(found.composed.items()) for char in (*pair, whole)]
    return _u32(rows), _u32(codes), _u32(orders), _u32(pairs)


def _pooled(texts: Sequence[bytes]) -> tuple[bytes, bytes]:
    return _u32(np.cumsum([0, *map(len, texts)])), b"".join(texts)


def _u32(numbers: Any) -> bytes:
    return np.asarray(numbers, dtype="<u4").tobytes()


def _join(parts: Sequence[bytes], head: Sequence[int]) -> bytes:
    assert len(parts) == PARTS
    at = 32 + 8 * PARTS
    places, body = [], bytearray()
    for part in parts:
        places += [at + len(body), len(part)]
        body += part + bytes(-len(part) % 8)
    total = at + len(body)
    return struct.pack("<8I", MAGIC, VERSION, total, *head) + _u32(places) + bytes(body)
