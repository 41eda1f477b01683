"""A conversation in C: its example program says what the host says."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sdk.cli import run_command
from sdk.errors import UsageError
from sdk.llm.conversation import Conversation
from sdk.llm.embed import embed_chat
from sdk.llm.grammar import read_schema
from sdk.llm.saved import restore_conversation, save_conversation
from sdk.llm.text.sampler import Sampler, Sampling

SCHEMA = {
    "type": "object", "required": ["kind", "n"],
    "properties": {"kind": {"enum": ["board", "phone"]}, "n": {"type": "integer", "minimum": 3, "maximum": 99}},
}  # fmt: skip
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-pedantic", "-Werror"]


def test_an_app_speaks_as_the_host(
    chat_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], need_tool: Callable[[str], str]
) -> None:
    folder = tmp_path / "out"
    shutil.copytree(chat_model, folder)
    assert run_command(["llm", "embed", str(folder), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert {"tiny_chat.h", "tiny_chat.c", "tiny_tokenizer.bin", "sdk_tok.h", "sample.c"} <= {
        Path(f).name for f in files
    }
    assert not list(folder.glob("*grammar*"))  # nothing of what is not used

    def built() -> None:
        chat = [folder / "tiny_chat.c", folder / "tiny_chat_saved.c", folder / "tiny_chat_main.c"]
        own = [*folder.glob("tok_*.c"), *folder.glob("grammar_*.c"), folder / "sample.c", *chat]
        for source in own:
            if source in chat or not source.with_suffix(".o").exists():
                command = [need_tool("gcc"), *STRICT, "-O1", "-c", str(source), "-o", str(source.with_suffix(".o"))]
                subprocess.run(command, check=True, cwd=folder)
        objects = [str(source.with_suffix(".o")) for source in own]
        library = ["-L.", "-ltiny", "-Wl,-rpath,.", "-lm", "-o", "app"]
        subprocess.run(["gcc", *objects, *library], check=True, cwd=folder)

    def said(text: str, count: int, seed: int) -> tuple[int, str]:
        done = subprocess.run(["./app", text, str(count), str(seed)], cwd=folder, capture_output=True, check=False)
        return done.returncode, done.stdout.decode()

    built()
    talk = Conversation.of(chat_model)
    for text in ("Hello there", "\u00e9t\u00e9 <|end|> 12", " "):
        for seed, sampling in ((0, Sampling()), (5, Sampling(temperature=0.8, top_k=40))):
            ids = talk.speaker.encode(text)
            pieces = list(talk.answer(ids, Sampler(sampling, seed), max_tokens=25))
            made = [p.token for p in pieces if p.token is not None and p.token not in talk.speaker.ends]
            want = talk.speaker.tokenizer.decode(made)
            assert said(text, 25, seed) == (0, want + "\n")
    assert said("word " * 300, 1, 0)[0] == 1  # no room: an error, and no harm
    assert said("Hello", 1000, 0)[0] in (0, 1)  # to the end of the context, or of the answer
    # with a schema: the same on the device, and JSON of the schema
    (tmp_path / "My answer.json").write_text(json.dumps(SCHEMA))
    assert run_command(["llm", "embed", str(folder), "--json-schema", str(tmp_path / "My answer.json")]) == 0
    assert "tiny_my_answer_grammar.bin" in capsys.readouterr().out
    built()
    grammar = talk.speaker.grammar(read_schema(SCHEMA))
    ids = talk.speaker.encode("Hello there")
    for seed, sampling in ((0, Sampling()), *((n, Sampling(temperature=0.8, top_k=40)) for n in (5, 6))):
        want = "".join(piece.text for piece in talk.answer(ids, Sampler(sampling, seed), grammar=grammar))
        assert json.loads(want)["kind"] in ("board", "phone")
        assert said("Hello there", 150, seed) == (0, want + "\n")


TALKER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tiny_chat.h"
static _Alignas(TINY_ARENA_ALIGN) uint8_t arena[TINY_ARENA_BYTES];
static _Alignas(TINY_STATE_ALIGN) uint8_t state[TINY_STATE_BYTES];
static _Alignas(8) uint8_t table[TINY_CHAT_TABLE_BYTES];
static int put(void *to, const void *bytes, size_t n) { return fwrite(bytes, 1, n, to) == n ? 0 : -7; }
static int get(void *from, void *bytes, size_t n) { return fread(bytes, 1, n, from) == n ? 0 : -7; }
static int kept(tiny_chat_t *chat, const char *name, int save)
{
    FILE *file = fopen(name, save ? "wb" : "rb");
    if (file == NULL) return 3;
    int status = save ? tiny_chat_save(chat, put, file) : tiny_chat_restore(chat, get, file);
    return fclose(file) == 0 ? status : 3;
}
int main(int argc, char **argv) /* roles and texts; prints the tokens before the answer */
{
    static tiny_llm_t model;
    static tiny_chat_t chat;
    char out[TINY_CHAT_PIECE_BYTES];
    size_t n, bytes = TINY_CHAT_BYTES(400);
    const void *weights;
    sdk_sampler_t sampler = {0};
    FILE *file = fopen(TINY_CHAT_TABLE_FILE, "rb");
    if (file == NULL || fread(table, 1, sizeof table, file) != sizeof table) return 3;
    fclose(file);
    int status = tiny_weights_map(TINY_WEIGHTS_FILE, &weights, &n);
    status = status ? status : tiny_llm_init(&model, arena, sizeof arena, state, sizeof state, weights, n);
    void *memory = malloc(bytes);
    status = status ? status : tiny_chat_create(&chat, &model, table, sizeof table, &sampler, memory, bytes);
    for (int i = 1; i + 1 < argc && status == 0; i += 2)
        status = argv[i][0] == 'n' ? tiny_chat_next(&chat, out, sizeof out, &n)
                 : argv[i][0] == 's' ? kept(&chat, argv[i + 1], 1)
                 : argv[i][0] == 'r' ? kept(&chat, argv[i + 1], 0)
                                   : tiny_chat_say(&chat, argv[i][0] - '0', argv[i + 1], strlen(argv[i + 1]));
    for (int32_t i = 0; i < chat.count; ++i) printf("%u ", (unsigned)chat.past[i]);
    free(memory);
    return status < 0 ? -status : 0;
}
"""


def test_messages_are_those_of_the_template(
    chat_model: Path, tmp_path: Path, need_tool: Callable[[str], str]
) -> None:
    folder = tmp_path / "out"
    shutil.copytree(chat_model, folder)
    assert embed_chat(folder)[1] is None
    (folder / "talker.c").write_text(TALKER)
    own = [folder / name for name in ("tiny_chat.c", "tiny_chat_saved.c", "talker.c")]
    sources = [*folder.glob("tok_*.c"), folder / "sample.c", *own]
    library = ["-L.", "-ltiny", "-Wl,-rpath,.", "-lm", "-o", "app"]
    subprocess.run([need_tool("gcc"), *STRICT, *map(str, sources), *library], check=True, cwd=folder)
    talk = Conversation.of(chat_model)

    def said(*words: str) -> tuple[int, list[int]]:
        done = subprocess.run(["./app", *words], cwd=folder, capture_output=True, check=False)
        return done.returncode, [int(word) for word in done.stdout.split()]

    roles = ("", "system", "user", "assistant")
    for words in (
        ("2", "Hello"), ("1", " Be short.\n", "2", "\u00e9t\u00e9"), ("2", "a", "3", "b ", "2", "c"),
        ("1", "x", "2", " <|end|> <s>system\n ", "3", "<s>", "2", "\u3000d\u00a0"),
    ):  # fmt: skip
        messages = [
            {"role": roles[int(role)], "content": text} for role, text in zip(words[::2], words[1::2], strict=True)
        ]
        status, ids = said(*words, "n", "")
        assert status == 0
        assert ids[:-1] == talk.speaker.encode_chat(messages), words
    # what the model said is the assistant's message, and goes on in the caches
    first = said("2", "Hello", "n", "")[1]
    status, ids = said("2", "Hello", "n", "", "2", "more", "n", "")
    assert status == 0
    assert ids[: len(first)] == first
    rest = talk.speaker.tokenizer.decode(ids[len(first) : -1], skip_special_tokens=False)
    assert rest == "<|end|>\n<s>user\nmore<|end|>\n<s>assistant\n"
    # a conversation in a file goes on as if nothing had happened, also the host's; what is damaged is refused
    words = ("1", "Be short", "2", "Hello", "n", "", "n", "")
    more = ("n", "", "2", "and more", "n", "", "n", "")
    assert said(*words, "s", "kept")[0] == 0
    assert said("r", "kept", *more) == said(*words, *more)
    assert said("2", "a", "s", "waits")[1] == []
    assert said("r", "waits", "n", "") == said("2", "a", "n", "")
    messages = [{"role": "user", "content": "Hello"}]
    own = Conversation.of(chat_model)
    ids = own.speaker.encode_chat(messages)
    pieces = list(own.answer(ids, Sampler(Sampling(), 0), max_tokens=3))
    messages.append({"role": "assistant", "content": "".join(piece.text for piece in pieces)})
    save_conversation(folder / "host", own, messages)
    count = len(own.tokens)
    assert said("r", "host", "2", "more", "n", "")[1][:count] == own.tokens
    plain = said("2", "Hello", *["n", ""] * (count - len(ids)), *more[2:])
    assert said("r", "host", *more[2:]) == plain
    whole = (folder / "kept").read_bytes()
    for at, code in ((0, 206), (20, 206), (72, 206), (81, 206), (86, 206), (90, 206), (97, 206), (104, 206), (107, 206),
                     (len(whole) // 2, 206), (len(whole) - 1, 206)):  # fmt: skip
        (folder / "bad").write_bytes(whole[:at] + bytes([whole[at] ^ 0x81]) + whole[at + 1 :])
        assert said("r", "bad") == (code, []), at
    for size in (0, 50, 104, 110, len(whole) // 2, len(whole) - 1):
        (folder / "bad").write_bytes(whole[:size])
        assert said("r", "bad") == (7, []), size
    with pytest.raises(UsageError, match="was saved by a device"):
        restore_conversation(folder / "kept", own)
    for words, code in (
        (("3", "a"), 205), (("2", "a", "1", "b"), 205), (("4", "a"), 205), (("2", " \n"), 202), (("2", "a" * 900), 201),
        (("1", "x" * 399, "2", "y" * 399), 201), (("2", "a", "2", "b"), 205), (("n", ""), 203),
    ):  # fmt: skip
        assert said(*words)[0] == code, words


def test_what_cannot_be_embedded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no language model"):
        embed_chat(tmp_path)
    (tmp_path / "model.json").write_text('{"name": "m", "vocabulary_size": 5, "context": 9}')
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({"model": {"type": "BPE", "vocab": {chr(97 + n): n for n in range(9)}, "merges": []},
                    "decoder": {"type": "Fuse"}})
    )  # fmt: skip
    with pytest.raises(UsageError, match="the tokenizer has tokens above the 5 of the model"):
        embed_chat(tmp_path)
