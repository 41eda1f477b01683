"""Tokenizers of each kind, trained here on the project's own docs, and texts that are hard to split."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

DOCS = Path(__file__).resolve().parents[2] / "docs"
# How families of models split texts; patterns are facts of their tokenizer.json.
GPT2 = None  # what ByteLevel does by itself
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
SIGN = "\u2581"


@lru_cache(maxsize=1)
def corpus() -> list[str]:
    """Lines of English, and of random Unicode so that vocabularies know some."""
    text = [line for name in ("errors", "devices", "math") for line in (DOCS / f"{name}.md").read_text().splitlines()]
    return [*text[:1500], *random_texts(300, 7)]


def random_texts(count: int, seed: int) -> list[str]:
    """Texts of words, digits, white space of all kinds, marks, scripts and signs, one after the other."""
    rng = random.Random(seed)
    spaces = " \t\n\r\u00a0\u2003\u3000\u0085\u2028\x0b\x1c\u180e\u200b"
    odd = "\u017fK\u212a\u0130\ufb05\u00df\u01c5\u02b0\u0903"
    odd += "\u20dd\u2160\u00b2\u0bf2\ufffd\0\x7f\u00ad\ufeff\U000e0001\U000f0000\U0010ffff"
    marks = "\u0301\u0327\u0323\u0345\u0334\u093c\u05b4\u302a\u1161\u11a8\u0344\u1ac1"
    ranges = [
        (0x20, 0x7F), (0xA0, 0x250), (0x370, 0x600), (0x900, 0x980), (0xAC00, 0xAC80), (0x1100, 0x1200),
        (0x3040, 0x3100), (0x4E00, 0x4E80), (0x2000, 0x2070), (0x1F300, 0x1F680), (0xD7A0, 0xD7FF),
        (0xE000, 0xE010), (0x1D400, 0x1D800),
    ]  # fmt: skip
    words = [
        "don't", "I'LL", "we'\u017fe", "HTTPServer", "naive", "x86_64", "12345678", "\r\n\r\n", "   ", "<s>", "</s>",
        "<0x0A>", SIGN, "<unk>", "<|end|>", "\u00e9", "e\u0301", "Ab", "...", "//\n/", "'s's", "<mask>", "tall", "[x]",
    ]  # fmt: skip

    def piece() -> str:
        kind = rng.randrange(8)
        if kind == 0:
            return rng.choice(spaces) * rng.choice([1, 1, 1, 2, 5])
        if kind == 1:
            return rng.choice(odd)
        if kind == 2:
            return rng.choice(words)
        if kind == 3:
            return "".join(rng.choices(marks, k=rng.randrange(1, 4)))
        low, high = rng.choice(ranges)
        return "".join(chr(rng.randrange(low, high)) for _ in range(rng.randrange(1, 6))) + rng.choice(["", " "])

    return ["".join(piece() for _ in range(rng.randrange(12))) for _ in range(count)]


def byte_level(pattern: str | None, normaliser: object = None, digits: bool = False, prefix: bool = False) -> Tokenizer:
    """A byte-level BPE, as GPT-2's where there is no pattern."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=pattern == LLAMA3))
    if normaliser:
        tokenizer.normalizer = normaliser
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if pattern:
        steps.append(pre_tokenizers.Split(Regex(pattern), "isolated", invert=False))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=pattern is None))
    tokenizer.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=["<s>", "<|end|>"],
    )  # fmt: skip
    trained = _trained(tokenizer, trainer)
    _add(trained)
    return trained


def sentencepiece(style: str) -> Tokenizer:
    """A BPE of characters with byte tokens, as of ``llama2`` (changed by normalizers), ``gemma`` (no space before the
    text) or ``metaspace`` (as newer conversions write Mistral's)."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    spaces = normalizers.Replace(" ", SIGN)
    fallback = [decoders.Replace(SIGN, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(fallback if style == "gemma" else [*fallback, decoders.Strip(" ", 1, 0)])
    if style == "metaspace":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SIGN, prepend_scheme="first", split=False)
    elif style == "gemma":
        tokenizer.normalizer = spaces
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous", invert=False)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SIGN), spaces])
    trainer = trainers.BpeTrainer(
        vocab_size=1100, limit_alphabet=120, show_progress=False, max_token_length=12,
        special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))],
    )  # fmt: skip
    before = tokenizer.pre_tokenizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SIGN)  # so that words are learnt; afterwards nothing is split
    data = _as_in_checkpoints(_trained(tokenizer, trainer))
    again = Tokenizer.from_str(json.dumps({**data, "pre_tokenizer": None}))
    if before is not None:
        again.pre_tokenizer = before
    _add(again)
    return again


def _as_in_checkpoints(tokenizer: Tokenizer) -> dict[str, Any]:
    """A trained tokenizer whose byte tokens are tokens like others, and no added ones."""
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [token for token in data["added_tokens"] if not token["content"].startswith("<0x")]
    return data


def unigram(byte_fallback: bool) -> Tokenizer:
    """A unigram model of characters between spaces, as SentencePiece has it."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SIGN, prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Metaspace(SIGN, prepend_scheme="always", split=True)
    trainer = trainers.UnigramTrainer(
        vocab_size=2500, unk_token="<unk>", show_progress=False, max_piece_length=8,
        special_tokens=["<unk>", "<s>", "</s>", *([f"<0x{byte:02X}>" for byte in range(256)] * byte_fallback)],
    )  # fmt: skip
    data = _as_in_checkpoints(_trained(tokenizer, trainer))
    if byte_fallback:
        data["model"]["byte_fallback"] = True
        steps = [decoders.Replace(SIGN, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        data["decoder"] = json.loads(decoders.Sequence(steps).__getstate__())
    again = Tokenizer.from_str(json.dumps(data))
    _add(again)
    return again


def _trained(tokenizer: Tokenizer, trainer: object) -> Tokenizer:
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def _add(tokenizer: Tokenizer) -> None:
    tokenizer.add_special_tokens(["<s>", "</s>", "<|end|>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False, special=True)])
    tokenizer.add_tokens([AddedToken("tall", normalized=True), AddedToken("<s>x", normalized=False), AddedToken("[x]")])
    begin = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])


KINDS = {
    "gpt2": lambda: byte_level(GPT2),
    "smollm": lambda: byte_level(GPT2, digits=True),
    "prefix": lambda: byte_level(GPT2, prefix=True),
    "llama3": lambda: byte_level(LLAMA3),
    "qwen2": lambda: byte_level(QWEN2, normalizers.NFC()),
    "o200k": lambda: byte_level(O200K),
    "llama2": lambda: sentencepiece("llama2"),
    "gemma": lambda: sentencepiece("gemma"),
    "metaspace": lambda: sentencepiece("metaspace"),
    "unigram": lambda: unigram(False),
    "unigram bytes": lambda: unigram(True),
}
