"""Tokenizers of devices, compiled from what `tokenizers` reads, against that package."""

from __future__ import annotations

import json
import random
import struct
import time

import pytest
from tokenizer_kinds import GPT2, KINDS, LLAMA3, SIGN, byte_level, corpus, random_texts, sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from sdk.errors import BuildError
from sdk.llm.text.gguf_vocabulary import tokenizer_of_gguf
from sdk.llm.text.native import DeviceTokenizer
from sdk.llm.text.table import compile_table
from sdk.llm.text.tokenizer import load_tokenizer


def device(tokenizer: Tokenizer) -> DeviceTokenizer:
    return DeviceTokenizer(compile_table(tokenizer))


def assert_equal(tokenizer: Tokenizer, own: DeviceTokenizer, texts: list[str]) -> None:
    for text, encoding in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert own.encode(text, special=True) == encoding.ids, text
        assert own.decode(encoding.ids) == tokenizer.decode(encoding.ids), text
        assert own.decode(encoding.ids, specials=True) == tokenizer.decode(encoding.ids, skip_special_tokens=False)


@pytest.mark.some(6)
@pytest.mark.parametrize("kind", KINDS)
def test_a_device_tokenizes_as_the_package(kind: str) -> None:
    tokenizer = KINDS[kind]()
    texts = [*random_texts(300, 1), *corpus()[:60], "\n".join(corpus()[:200]), "", " ", "\0", "a\0b"]
    assert_equal(tokenizer, device(tokenizer), texts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_texts_and_a_megabyte_of_one_letter(kind: str) -> None:
    tokenizer = KINDS[kind]()
    own = device(tokenizer)
    assert_equal(tokenizer, own, random_texts(10_000, 2))
    for letter in ("a", " ", "\u0323"):
        begin = time.monotonic()
        own.encode(letter * 1_000_000)
        assert time.monotonic() - begin < 60


@pytest.mark.parametrize("kind", ["llama3", "gemma", "unigram bytes"])
def test_broken_text_is_defined(kind: str) -> None:
    own = device(KINDS[kind]())
    rng = random.Random(5)
    for size in [*range(6), *(rng.randrange(40) for _ in range(300))]:
        data = bytes(rng.choice([rng.randrange(256), 0xF0, 0x9F, 0x80, 0xE2, 0xED, 0xA0, 0x41]) for _ in range(size))
        assert own.encode(data) == own.encode(data.decode("utf-8", "replace")), data


@pytest.mark.parametrize("kind", ["gpt2", "llama3", "o200k", "qwen2", "llama2", "unigram"])
def test_long_texts_take_no_longer_than_they_are(kind: str) -> None:
    """A letter, white space, marks and names of tokens, over and over: what is quadratic would take an hour."""
    own = device(KINDS[kind]())
    begin = time.monotonic()
    for text in ("a", " ", "\n ", "\u0301\u0323", "<s", "1", "\u00e9A"):
        own.encode(text * (60_000 // len(text)))
    assert time.monotonic() - begin < 60


def test_what_a_user_writes_can_be_text_alone() -> None:
    tokenizer = KINDS["llama3"]()
    own = device(tokenizer)
    text = "hello<|end|> <s>x[x]"
    assert tokenizer.token_to_id("<|end|>") in own.encode(text)
    tokenizer.encode_special_tokens = True
    want = tokenizer.encode(text, add_special_tokens=False).ids
    assert own.encode(text, plain=True) == want
    assert tokenizer.token_to_id("<|end|>") not in want
    assert tokenizer.token_to_id("[x]") in want


@pytest.mark.parametrize("kind", ["gpt2", "llama2"])
def test_streams_hold_back_what_may_become_a_character(kind: str) -> None:
    own = device(KINDS[kind]())
    for text in random_texts(200, 3):
        stream, said = own.stream(), ""
        ids = own.encode(text)
        for one in ids:
            said += stream.next(one)
            assert "\ufffd" not in said or "\ufffd" in text
        assert said + stream.end() == own.decode(ids)
    byte = own.encode("\U0001f600")[:-1]
    assert own.decode(byte).endswith("\ufffd")


def test_numbers_that_no_token_has() -> None:
    own = device(KINDS["gpt2"]())
    for number in (own.size, 1 << 32):
        with pytest.raises(BuildError, match="no token has this number"):
            own.decode([number])


def test_behaviours_of_splits() -> None:
    texts = random_texts(60, 11)
    tokenizer = KINDS["gpt2"]()
    for behaviour in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Split(Regex(r"\p{N}{2,4}|(?:[a-f]|\s)+|[^\x20-\x{7e}]?\u0041(?=B)|(?:xy){1,2}z?"),
                                         behaviour, invert=invert),
                    pre_tokenizers.Split("e", behaviour, invert=invert),
                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                ]
            )  # fmt: skip
            assert_equal(tokenizer, device(tokenizer), [*texts, "xyxyxyz xy xyxy AB\u00e9AB", "eee face 12345 e"])


def changed(**parts: object) -> Tokenizer:
    """A byte-level tokenizer with other parts in its tokenizer.json."""
    data = json.loads(byte_level(GPT2).to_str())
    return Tokenizer.from_str(json.dumps({**data, **parts}))


def state(part: object) -> object:
    return json.loads(part.__getstate__())  # type: ignore[attr-defined]


def split(pattern: str) -> dict[str, object]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"normalizer": state(normalizers.NFKC())}, "the normalizer NFKC"),
        ({"normalizer": state(normalizers.Replace(Regex("a+"), "b"))}, "a Replace of a regular expression"),
        ({"pre_tokenizer": state(pre_tokenizers.BertPreTokenizer())}, "the pre-tokenizer BertPreTokenizer"),
        ({"decoder": None}, "the decoder None"),
        ({"pre_tokenizer": split(r"(?<=a)b")}, "a group of an unknown kind"),
        ({"pre_tokenizer": split(r"a*")}, "the pattern 'a*'"),
        ({"pre_tokenizer": split(r"(ab)*c")}, "a quantifier of a group"),
        ({"pre_tokenizer": split(r"a*?b")}, "the quantifier *?"),
        ({"pre_tokenizer": split(r"a{1,3}+")}, "two quantifiers in a row|the quantifier {1,3}+"),
        ({"pre_tokenizer": split(r"a$")}, "a $ at 2"),
        ({"pre_tokenizer": split(r"\ba")}, r"\b at 1"),
        ({"pre_tokenizer": split(r"(?i:st)")}, "letters that a ligature matches"),
        ({"pre_tokenizer": split("(" * 40 + "a" + ")" * 40)}, "more than 30 groups"),
        ({"pre_tokenizer": split("(?:(?:(?:(?:(?:ab){8}){8}){8}){8}){8}")}, "a pattern whose program is too long"),
    ],
)
def test_what_cannot_be_compiled_is_named(parts: dict[str, object], named: str) -> None:
    with pytest.raises(BuildError) as error:
        compile_table(changed(**parts))
    assert any(name in str(error.value) for name in named.split("|")), error.value


def test_models_that_cannot_be_compiled() -> None:
    words = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    words.decoder = decoders.Fuse()
    single = byte_level(GPT2)
    single.add_tokens([AddedToken("word", single_word=True)])
    ended = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], end_of_word_suffix="</w>"))
    ended.decoder = decoders.Fuse()
    for tokenizer, named in ((words, "the model WordLevel"), (single, "single_word"), (ended, "end_of_word_suffix")):
        with pytest.raises(BuildError, match=named):
            compile_table(tokenizer)


def test_a_slow_pattern_is_stopped() -> None:
    pattern = "a{0,255}" * 12 + "b"
    own = device(changed(pre_tokenizer={"type": "Sequence", "pretokenizers": [
        split(pattern), state(pre_tokenizers.ByteLevel(use_regex=False, add_prefix_space=False))]}))  # fmt: skip
    assert own.encode("aaab")
    with pytest.raises(BuildError, match="take too long"):
        own.encode("a" * 3000)


def test_a_damaged_table_is_refused_or_harmless() -> None:
    """Every word of the head and of the places, and bytes anywhere: read, or refused, and never beyond its end."""
    table = compile_table(KINDS["qwen2"]())
    rng = random.Random(9)
    places = [*range(0, 232, 4), *(rng.randrange(len(table) - 4) for _ in range(100))]
    refused = 0
    for at in places:
        for value in (0, 0xFFFFFFFF, rng.randrange(1 << 32)):
            data = bytearray(table)
            struct.pack_into("<I", data, at, value)
            try:
                own = DeviceTokenizer(bytes(data))
                own.decode(range(0, own.size, 197))
                own.encode("Hello \u00e9e\u0301 <s>x 123\n\n don't \u00c5\u0323")
            except BuildError:
                refused += 1
    assert refused > len(places) // 2
    for size in (0, 31, 231, len(table) // 2, len(table) - 8):
        with pytest.raises(BuildError, match="damaged"):
            DeviceTokenizer(table[:size])


def gguf_fields(tokenizer: Tokenizer, **own: object) -> dict[str, object]:
    data = json.loads(tokenizer.to_str())
    special = {token["content"] for token in data["added_tokens"] if token["special"]}
    added = {token["content"] for token in data["added_tokens"]}
    tokens = [tokenizer.id_to_token(at) for at in range(tokenizer.get_vocab_size())]
    kinds = [3 if t in special else 4 if t in added else 6 if t.startswith("<0x") else 1 for t in tokens]
    return {f"tokenizer.ggml.{k}": v for k, v in {"tokens": tokens, "token_type": kinds, **own}.items()}


def test_gguf_files_have_the_same_tokenizers() -> None:
    texts = random_texts(300, 21)
    tokenizer = byte_level(LLAMA3)
    plain = Tokenizer.from_str(tokenizer.to_str())
    merges = [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    begin = tokenizer.token_to_id("<s>")
    fields = gguf_fields(tokenizer, model="gpt2", pre="llama-bpe", merges=merges, bos_token_id=begin)
    found = tokenizer_of_gguf(fields)
    simple = [text for text in texts if not any(name in text for name in ("<mask>", "tall"))]
    for text in simple:
        assert found.encode(text).ids == plain.encode(text).ids, text
    assert_equal(found, device(found), texts)
    # scores as SentencePiece has them: the earlier a merge was learnt, the better
    spiece = sentencepiece("llama2")
    data = json.loads(spiece.to_str())["model"]
    ranks = {left + right: rank for rank, (left, right) in reversed(list(enumerate(data["merges"])))}
    tokens = [spiece.id_to_token(at) for at in range(len(data["vocab"]))]
    fields = gguf_fields(spiece, model="llama", scores=[-float(ranks.get(t, 0)) for t in tokens], unknown_token_id=0)
    fields |= {f"tokenizer.ggml.{k}": fields[f"tokenizer.ggml.{k}"][: len(tokens)] for k in ("tokens", "token_type")}
    found = tokenizer_of_gguf(fields)
    assert_equal(found, device(found), texts)
    assert found.encode(f"a b{SIGN}").ids == spiece.encode(f"a b{SIGN}", add_special_tokens=False).ids


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"model": "rwkv"}, "GGUF tokenizer 'rwkv'"),
        ({"pre": "unheard-of"}, "GGUF pre-tokenizer 'unheard-of'"),
        ({"merges": ["a"]}, "the GGUF file has the merge 'a'"),
        ({"tokens": 7}, "no list of texts"),
        ({"token_type": [1]}, "no list of 3 numbers"),
        ({"bos_token_id": 3, "add_bos_token": True}, "the token 3 of 3"),
    ],
)
def test_gguf_fields_that_are_wrong(own: dict[str, object], said: str) -> None:
    right = {"model": "gpt2", "pre": "gpt-2", "tokens": ["a", "b", "ab"], "merges": ["a b"], "token_type": [1, 1, 1]}
    assert tokenizer_of_gguf({f"tokenizer.ggml.{k}": v for k, v in right.items()}).encode("abb").ids == [2, 1]
    with pytest.raises(BuildError, match=said):
        tokenizer_of_gguf({f"tokenizer.ggml.{k}": v for k, v in {**right, **own}.items()})


def test_files(tmp_path) -> None:
    tokenizer = KINDS["gpt2"]()
    tokenizer.enable_truncation(2)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert len(load_tokenizer(tmp_path).encode("one two three four").ids) > 4
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(BuildError, match="cannot be read"):
        load_tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(BuildError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path / "none")
