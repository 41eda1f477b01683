"""`sdk llm serve` as its clients see it: over HTTP, in this process."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sdk.cli import run_command
from sdk.errors import UsageError
from sdk.llm.conversation import Conversation
from sdk.llm.engine import Engine
from sdk.llm.serving import server_of

HELLO = [{"role": "user", "content": "Hello, who are you?"}]
CHAT = {"messages": HELLO, "max_tokens": 12, "temperature": 0, "seed": 1}


@contextmanager
def serving(
    folder: Path, parallel: int = 2, key: str | None = None, **options: Any
) -> Iterator[tuple[int, Engine]]:  # fmt: skip
    """A server on a port of its own."""
    engine = Engine(Conversation.of(folder), parallel, **options)
    server = server_of(engine, "tiny", "127.0.0.1", 0, key)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.port, engine
    finally:
        server.stop()
        thread.join(60)
        engine.close()


@pytest.fixture(scope="module")
def server(chat_model: Path) -> Iterator[tuple[int, Engine]]:
    with serving(chat_model) as found:
        yield found


def ask(port: int, path: str, body: Any = None, method: str | None = None, **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method or ("GET" if data is None else "POST"), path, data, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def stream(port: int, path: str, body: Any) -> list[Any]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", path, json.dumps({**body, "stream": True}))
        response = connection.getresponse()
        assert response.headers["content-type"] == "text/event-stream"
        lines = response.read().decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def until(right: Callable[[], bool]) -> None:
    begin = time.monotonic()
    while not right():
        assert time.monotonic() - begin < 60
        time.sleep(0.02)


def test_answers_whole_and_in_parts(server: tuple[int, Engine], chat_model: Path) -> None:
    port, engine = server
    status, whole = ask(port, "/v1/chat/completions", {"model": "tiny", **CHAT})
    assert (status, whole["object"], whole["model"]) == (200, "chat.completion", "tiny")
    choice, usage = whole["choices"][0], whole["usage"]
    assert choice["message"]["role"] == "assistant"
    talk = Conversation.of(chat_model)
    ids = talk.speaker.encode_chat(HELLO)
    assert usage["prompt_tokens"] == len(ids)
    assert usage["total_tokens"] == len(ids) + usage["completion_tokens"]
    assert choice["finish_reason"] == "stop" or usage["completion_tokens"] == 12
    parts = stream(port, "/v1/chat/completions", {**CHAT, "stream_options": {"include_usage": True}})
    assert parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(part["choices"][0]["delta"].get("content", "") for part in parts[:-1])
    assert text == choice["message"]["content"] != ""
    assert [part["choices"][0]["finish_reason"] for part in parts[:-1]][-1] == choice["finish_reason"]
    assert parts[-1]["choices"] == []
    assert parts[-1]["usage"]["completion_tokens"] == usage["completion_tokens"]
    assert parts[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == len(ids) - 1
    for prompt in ("Hello", ["Hello"], engine.speaker.encode("Hello")):
        status, gone_on = ask(port, "/v1/completions", {"prompt": prompt, "max_tokens": 5, "temperature": 0})
        assert (status, gone_on["object"]) == (200, "text_completion")
    streamed = stream(port, "/v1/completions", {"prompt": "Hello", "max_tokens": 5, "temperature": 0})
    assert "".join(part["choices"][0]["text"] for part in streamed) == gone_on["choices"][0]["text"]
    ended = ask(port, "/v1/chat/completions", {**CHAT, "stop": [text[2:4]]})[1]["choices"][0]
    assert (ended["message"]["content"], ended["finish_reason"]) == (text[: text.index(text[2:4])], "stop")
    assert ask(port, "/v1/models")[1]["data"][0]["id"] == "tiny"
    assert ask(port, "/v1/models/tiny")[1]["object"] == "model"


def test_answers_that_follow_a_schema(server: tuple[int, Engine]) -> None:
    port, _ = server
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "n": {"type": "integer"}}, "required": ["a"]}
    hot = {**CHAT, "max_tokens": 150, "temperature": 1}
    named = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    for seed in range(3):
        body = {**hot, "seed": seed, "response_format": named}
        choice = ask(port, "/v1/chat/completions", body)[1]["choices"][0]
        assert choice["finish_reason"] == "stop"
        assert json.loads(choice["message"]["content"])["a"] in ("x", "y")
        parts = stream(port, "/v1/chat/completions", body)
        assert "".join(part["choices"][0]["delta"].get("content", "") for part in parts) == choice["message"]["content"]
    whole = ask(port, "/v1/completions", {"prompt": "Hello", "grammar": 'root ::= "yes" | "no"', "max_tokens": 9})[1]
    assert whole["choices"][0]["text"] in ("yes", "no")
    for kind in ({"type": "json_object"}, {"type": "text"}):
        answer = ask(port, "/v1/chat/completions", {**CHAT, "max_tokens": 40, "response_format": kind})[1]["choices"][0]
        assert answer["message"]["content"].startswith("{") == (kind["type"] == "json_object")


def test_eight_at_once(server: tuple[int, Engine]) -> None:
    port, _ = server
    found: dict[int, Any] = {}
    asks = [{**CHAT, "messages": [{"role": "user", "content": f"Count to {n}"}]} for n in range(8)]

    def work(n: int) -> None:
        found[n] = ask(port, "/v1/chat/completions", asks[n])[1]["choices"]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    alone = [ask(port, "/v1/chat/completions", body)[1]["choices"] for body in asks]
    assert [found[n] for n in range(8)] == alone


@pytest.mark.parametrize("streamed", [True, False])
def test_who_goes_away_stops_the_model(chat_model: Path, streamed: bool) -> None:
    with serving(chat_model, parallel=1) as (port, engine):
        conversation = engine._all[0]
        slow = conversation.model.feed

        def feed(ids: Any) -> Any:
            time.sleep(0.05)
            return slow(ids)

        conversation.model.feed = feed  # type: ignore[method-assign]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = {**CHAT, "max_tokens": 150, "temperature": 2, "stream": streamed}
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        until(lambda: engine.positions[0] > 5)
        if streamed:
            connection.getresponse().read(40)
        assert connection.sock or streamed
        connection.close()
        until(lambda: engine.positions == [0] and conversation.tokens == [])
        conversation.model.feed = slow  # type: ignore[method-assign]
        assert ask(port, "/v1/chat/completions", CHAT)[0] == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v1/chat/completions", b"{", 400, "cannot be read"),
        ("/v1/chat/completions", b"[1]", 400, "no JSON object"),
        ("/v1/chat/completions", b"[" * 100_000, 400, "cannot be read"),
        ("/v1/chat/completions", {}, 400, "messages"),
        ("/v1/chat/completions", {"messages": []}, 400, "messages is empty"),
        ("/v1/chat/completions", {"messages": [{"role": 1}]}, 400, "cannot be read"),
        ("/v1/chat/completions", {**CHAT, "model": "gpt"}, 404, "there is no model 'gpt'"),
        ("/v1/chat/completions", {**CHAT, "temperature": -1}, 400, "temperature is -1"),
        ("/v1/chat/completions", {**CHAT, "max_tokens": 0}, 400, "max_tokens is less than 1"),
        ("/v1/chat/completions", {**CHAT, "tools": [{}]}, 400, "tools is not supported"),
        ("/v1/chat/completions", {**CHAT, "n": 2}, 400, "one answer"),
        ("/v1/chat/completions", {**CHAT, "response_format": {"type": "xml"}}, 400, "neither text, json_object nor"),
        ("/v1/chat/completions", {**CHAT, "response_format": {"type": "json_schema"}}, 400, "neither text"),
        (
            "/v1/chat/completions",
            {**CHAT, "response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}},
            400, "the schema has 'not', which grammars cannot follow; at #",
        ),
        ("/v1/chat/completions", {**CHAT, "grammar": "root ::= x"}, 400, "the rule x is not there; at rule root"),
        (
            "/v1/chat/completions",
            {**CHAT, "grammar": "root ::= [a]", "response_format": {"type": "json_object"}}, 400,
            "a grammar and a response_format are given",
        ),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a " * 999}]}, 400, "there is room for 192"),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "text only",
        ),
        ("/v1/completions", {"prompt": ["a", "b"]}, 400, "one text"),
        ("/v1/completions", {"prompt": []}, 400, "nothing to go on with"),
        ("/v1/completions", {"prompt": [99999]}, 400, "not in the vocabulary"),
        ("/v1/completions", {"prompt": [99999], "stream": True}, 400, "not in the vocabulary"),
        ("/v1/chat/completions", None, 405, "takes POST"),
        ("/v1/other", {"a": 1}, 404, "there is no /v1/other"),
        ("/", None, 404, "there is no "),
    ],
)
def test_bad_requests(server: tuple[int, Engine], path: str, body: Any, status: int, said: str) -> None:
    found, error = ask(server[0], path, body)
    assert found == status, error
    assert said in error["error"]["message"]
    assert set(error["error"]) == {"message", "type", "param", "code"}
    assert error["error"]["type"] == "invalid_request_error"


def test_guesses_and_a_full_context(chat_model: Path, server: tuple[int, Engine]) -> None:
    """A draft changes nothing of what is said; a chat that is too long for the context is shifted, not refused."""
    draft = Conversation.of(chat_model)
    with serving(chat_model, parallel=2, draft=draft, lookup=4, shift=True) as (port, engine):
        for seed in (1, 2):
            body = {**CHAT, "seed": seed, "temperature": 0.8}
            want = ask(server[0], "/v1/chat/completions", body)[1]
            found = ask(port, "/v1/chat/completions", body)[1]
            assert found["choices"] == want["choices"]
            assert found["usage"]["completion_tokens"] == want["usage"]["completion_tokens"]
        assert draft.tokens
        long = [{"role": "system", "content": "Be short"}, {"role": "user", "content": "a " * 300}]
        status, found = ask(port, "/v1/chat/completions", {**CHAT, "messages": long, "max_tokens": 20})
        assert (status, found["usage"]["completion_tokens"] > 0) == (200, True)
        assert found["usage"]["prompt_tokens"] > engine.context
        status, found = ask(port, "/v1/completions", {"prompt": "a " * 300, "temperature": 0})
        assert (status, found["usage"]["completion_tokens"] <= engine.context) == (200, True)
        assert all(n < engine.context for n in engine.positions)


def test_who_may_ask(chat_model: Path, server: tuple[int, Engine], tmp_path: Path) -> None:
    status, error = ask(server[0], "/v1/models", Host="evil.example")
    assert (status, error["error"]["code"]) == (403, "forbidden_host")
    with serving(chat_model, key="s3cret") as (port, _):
        for headers in ({}, {"Authorization": "Bearer other"}):
            status, error = ask(port, "/v1/models", **headers)
            assert (status, error["error"]["type"]) == (401, "authentication_error")
        assert ask(port, "/v1/models", Authorization="Bearer s3cret", Host="a.example")[0] == 200
    with pytest.raises(UsageError, match=r"0\.0\.0\.0 can be reached by others"):
        server_of(server[1], "tiny", "0.0.0.0", 0, None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run_command(["llm", "serve", str(chat_model), "--listen", f"127.0.0.1:{port}"]) == 2
    (tmp_path / "key").write_text("\n")
    for words in (["--listen", "8080"], ["--key-file", str(tmp_path / "key")], ["--listen", "0.0.0.0:1"]):
        assert run_command(["llm", "serve", str(chat_model), *words]) == 2


def test_a_model_that_fails_is_no_answer(chat_model: Path) -> None:
    """It fails at its first token and in the middle of an answer (a drawn token might end the answer before)."""
    ask_it = {"prompt": "Hello", "max_tokens": 9, "temperature": 0}
    with serving(chat_model, parallel=1) as (port, engine):
        model = engine._all[0].model
        right, counted = model.feed, []

        def count(ids: Any) -> Any:
            counted.append(ids)
            return right(ids)

        model.feed = count  # type: ignore[method-assign]
        assert ask(port, "/v1/completions", ask_it)[0] == 200
        assert len(counted) > 1, "an answer of one token has no middle"
        for fails_at in (0, len(counted) - 1):
            calls = iter(range(100))

            def feed(ids: Any, calls: Any = calls, fails_at: int = fails_at) -> Any:
                if next(calls) == fails_at:
                    raise RuntimeError("out of luck")
                return right(ids)

            model.feed = feed  # type: ignore[method-assign]
            status, error = ask(port, "/v1/completions", ask_it)
            assert (status, error["error"]["message"]) == (500, "the model failed")
            assert error["error"]["type"] == "server_error"
        model.feed = right  # type: ignore[method-assign]
        assert ask(port, "/v1/completions", ask_it)[0] == 200


def test_too_long_a_body(server: tuple[int, Engine]) -> None:
    assert ask(server[0], "/v1/completions", b" " * (9 << 20))[0] == 413
