"""A tokenizer from the fields of a GGUF file, as the converters of checkpoints write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from sdk.errors import BuildError
from sdk.llm.text.errors import refusal
from sdk.llm.text.package import tokenizers_package

__all__ = ["GGUF_SPLITS", "tokenizer_of_gguf"]

_PREFIX: Final = "tokenizer.ggml."
_SIGN: Final = "\u2581"  # what stands for a space
_MAX_TOKENS: Final = 1 << 24


class _Kind(IntEnum):
    NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)


_ENDS: Final = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BREAKS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CASED: Final = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
)
_LLAMA3: Final = rf"{_ENDS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_BREAKS}"
_QWEN2: Final = rf"{_ENDS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_BREAKS}"
_SLASHED: Final = _BREAKS.replace(r"[\r\n]*|", r"[\r\n/]*|", 1)
_O200K: Final = rf"{_CASED[0]}{_ENDS}?|{_CASED[1]}{_ENDS}?|\p{{N}}{{1,3}}|{_SLASHED}"
_TEKKEN: Final = rf"{_CASED[0]}|{_CASED[1]}|\p{{N}}|{_SLASHED}"
# Name in the file -> (pattern; "": as GPT-2, "digits": GPT-2's after single digits; whole words before merges; NFC)
GGUF_SPLITS: Final[Mapping[str, tuple[str, bool, bool]]] = {
    **dict.fromkeys(("gpt-2", "gpt2", "mpt", "olmo", "phi-2", "gpt-neox", "default"), ("", False, False)),
    **dict.fromkeys(("starcoder", "refact", "smollm", "command-r", "codeshell"), ("digits", False, False)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "smaug-bpe"), (_LLAMA3, True, False)),
    "dbrx": (_LLAMA3, False, False),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), (_QWEN2, False, True)),
    "stablelm2": (_QWEN2, False, False),
    **dict.fromkeys(("gpt-4o", "llama4"), (_O200K, False, False)),
    "tekken": (_TEKKEN, True, False),
}


def tokenizer_of_gguf(fields: Mapping[str, Any]) -> Any:
    """The ``tokenizers.Tokenizer`` of the fields ``tokenizer.ggml.*``.

    Raises:
        BuildError: a field is missing or of another kind, or the file's kind of tokenizer is not known here.
    """
    own = {key.removeprefix(_PREFIX): value for key, value in fields.items() if key.startswith(_PREFIX)}
    kind = own.get("model")
    makers = {"gpt2": _byte_level, "llama": _sentencepiece, "t5": _unigram}
    if not isinstance(kind, str) or kind not in makers:
        raise refusal(f"the GGUF tokenizer {kind!r}", where=f"{_PREFIX}model", why=f"known are {', '.join(makers)}")
    tokens = _texts(own, "tokens")
    if not 0 < len(tokens) <= _MAX_TOKENS:
        raise _wrong("tokens", f"{len(tokens)} tokens")
    kinds = [_Kind.NORMAL] * len(tokens) if "token_type" not in own else _numbers(own, "token_type", len(tokens))
    tokenizer = makers[kind](own, tokens, kinds)
    _add(tokenizer, own, tokens, kinds)
    return tokenizer


def _wrong(field: str, what: str) -> BuildError:
    return BuildError(f"the GGUF file has {what}", where=_PREFIX + field, hint="convert the checkpoint again")


def _texts(own: Mapping[str, Any], field: str) -> list[str]:
    found = own.get(field)
    if not isinstance(found, Sequence) or isinstance(found, str) or not all(isinstance(one, str) for one in found):
        raise _wrong(field, "no list of texts there")
    return list(found)


def _numbers(own: Mapping[str, Any], field: str, count: int) -> list[Any]:
    found = own.get(field)
    right = found is not None and not isinstance(found, str | bytes | int | float) and len(found) == count
    numbers = list(found) if right and found is not None else []
    if not right or not all(isinstance(one, int | float) or hasattr(one, "item") for one in numbers):
        raise _wrong(field, f"no list of {count} numbers there")
    return [one.item() if hasattr(one, "item") else one for one in numbers]


def _number(own: Mapping[str, Any], field: str, count: int) -> int | None:
    found = own.get(field)
    if found is None:
        return None
    if not isinstance(found, int) or not 0 <= found < count:
        raise _wrong(field, f"the token {found!r} of {count}")
    return found


def _byte_level(own: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> Any:
    package = tokenizers_package()
    name = own.get("pre", "default")
    if name not in GGUF_SPLITS:
        why = f"known are {', '.join(GGUF_SPLITS)}"
        raise refusal(f"the GGUF pre-tokenizer {name!r}", where=f"{_PREFIX}pre", why=why)
    pattern, whole, nfc = GGUF_SPLITS[name]
    vocabulary = {text: at for at, text in enumerate(tokens)}
    merges = []
    for line in _texts(own, "merges"):
        left, _, right = line.partition(" ")
        if left not in vocabulary or right not in vocabulary or left + right not in vocabulary:
            raise _wrong("merges", f"the merge {line!r} of tokens that it has not")
        merges.append((left, right))
    tokenizer = package.Tokenizer(package.models.BPE(vocab=vocabulary, merges=merges, ignore_merges=whole))
    if nfc:
        tokenizer.normalizer = package.normalizers.NFC()
    pre = package.pre_tokenizers
    steps = [pre.Digits(individual_digits=True)] if pattern == "digits" else []
    regular = pattern not in ("", "digits")
    if regular:
        steps.append(pre.Split(package.Regex(pattern), "isolated", invert=False))
    tokenizer.pre_tokenizer = pre.Sequence([*steps, pre.ByteLevel(add_prefix_space=False, use_regex=not regular)])
    tokenizer.decoder = package.decoders.ByteLevel()
    return tokenizer


def _sentencepiece(own: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> Any:
    package = tokenizers_package()
    scores = _numbers(own, "scores", len(tokens))
    vocabulary = {text: at for at, text in enumerate(tokens)}
    unknown = _number(own, "unknown_token_id", len(tokens))
    if unknown is None and _Kind.UNKNOWN in kinds:
        unknown = kinds.index(_Kind.UNKNOWN)
    model = package.models.BPE(
        vocab=vocabulary, merges=_merges(tokens, scores, kinds, vocabulary), fuse_unk=True, byte_fallback=True,
        unk_token=None if unknown is None else tokens[unknown],
    )  # fmt: skip
    tokenizer = package.Tokenizer(model)
    _spaces(tokenizer, own)
    return tokenizer


def _merges(
    tokens: list[str], scores: list[float], kinds: list[int], vocabulary: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Each way to make a token of two, those of the best score first."""
    found = []
    for text, score, kind in zip(tokens, scores, kinds, strict=True):
        if kind not in (_Kind.NORMAL, _Kind.USER) or len(text) > 1024:
            continue
        ways = [(text[:at], text[at:]) for at in range(1, len(text))]
        known = [(vocabulary[a], vocabulary[b], a, b) for a, b in ways if a in vocabulary and b in vocabulary]
        found += [(score, len(a), len(b), a, b) for *_, a, b in sorted(known)]
    found.sort(key=lambda way: way[:3], reverse=True)
    return [(a, b) for *_, a, b in found]


def _unigram(own: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> Any:
    package = tokenizers_package()
    if own.get("precompiled_charsmap") is not None and len(own["precompiled_charsmap"]):
        raise refusal("a table of characters to normalise by", where=f"{_PREFIX}precompiled_charsmap")
    scores = _numbers(own, "scores", len(tokens))
    unknown = _number(own, "unknown_token_id", len(tokens))
    vocabulary = [(text, float(score)) for text, score in zip(tokens, scores, strict=True)]
    model = package.models.Unigram(vocabulary, unk_id=unknown, byte_fallback=_Kind.BYTE in kinds)
    tokenizer = package.Tokenizer(model)
    _spaces(tokenizer, own)
    return tokenizer


def _spaces(tokenizer: Any, own: Mapping[str, Any]) -> None:
    """A sign for each space, one before the text where the file says so or nothing, and what turns them back."""
    package = tokenizers_package()
    before = own.get("add_space_prefix", True)
    steps = [package.normalizers.Prepend(_SIGN)] if before else []
    tokenizer.normalizer = package.normalizers.Sequence([*steps, package.normalizers.Replace(" ", _SIGN)])
    show = [package.decoders.Replace(_SIGN, " "), package.decoders.ByteFallback(), package.decoders.Fuse()]
    tokenizer.decoder = package.decoders.Sequence([*show, *([package.decoders.Strip(" ", 1, 0)] if before else [])])


def _add(tokenizer: Any, own: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> None:
    """Tokens that are found before anything else, and those around a text."""
    package = tokenizers_package()
    named = [(text, kind) for text, kind in zip(tokens, kinds, strict=True) if text]
    special = [text for text, kind in named if kind in (_Kind.CONTROL, _Kind.UNKNOWN)]
    user = [text for text, kind in named if kind == _Kind.USER]
    tokenizer.add_special_tokens([package.AddedToken(text, special=True, normalized=False) for text in special])
    tokenizer.add_tokens([package.AddedToken(text, special=False, normalized=False) for text in user])
    llama = own["model"] != "gpt2" or own.get("pre") in ("llama-bpe", "llama3", "llama-v3", "tekken")
    ends = []
    for name, field, always in (("bos", "add_bos_token", llama), ("eos", "add_eos_token", own["model"] == "t5")):
        at = _number(own, f"{name}_token_id", len(tokens))
        ends.append(at if at is not None and own.get(field, always) else None)
    if ends != [None, None]:
        around = [(f"<{side}>", at) for side, at in zip(("begin", "end"), ends, strict=True) if at is not None]
        parts = [f"<{side}>" if at is not None else "" for side, at in zip(("begin", "end"), ends, strict=True)]
        tokenizer.post_processor = package.processors.TemplateProcessing(
            single=f"{parts[0]} $A {parts[1]}".strip(), special_tokens=around
        )
