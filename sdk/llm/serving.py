"""OpenAI's interface to a built model, over HTTP: an ASGI application, and uvicorn to run it."""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from sdk.agent.server import is_loopback
from sdk.errors import MissingToolError, SdkError, UsageError
from sdk.installs import pip_command
from sdk.llm.conversation import Piece
from sdk.llm.engine import Asked, Busy, Engine
from sdk.llm.grammar import Grammar
from sdk.llm.requests import ChatBody, CompletionBody, Failure, read_body

__all__ = ["Application", "Server", "server_of"]

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
_MAX_BODY: Final = 8 << 20
_OWN_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")


class Application:
    """An ASGI application: ``name`` is the model's; with a ``key`` each request must have it. Without one, requests for
    hosts that are not this machine are refused, so that no page in a browser can reach the model."""

    def __init__(self, engine: Engine, name: str, key: str | None = None) -> None:
        self._engine, self._name, self._key = engine, name, key
        self._begun = int(time.time())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            try:
                await self._route(scope, receive, send)
            except Failure as failure:
                await _respond(send, failure.status, failure.body)
            except Busy:
                await _respond(send, 503, Failure(503, "too many requests wait already; try again later").body)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._admit({key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]})
        method, path = scope["method"], scope["path"].rstrip("/")
        posts = {"/v1/chat/completions": self._chat, "/v1/completions": self._complete}
        if path in posts:
            if method != "POST":
                raise Failure(405, f"{path} takes POST")
            await posts[path](await _body(receive), receive, send)
        elif method != "GET":
            raise Failure(404, f"there is no {path}")
        elif path == "/v1/models":
            await _respond(send, 200, {"object": "list", "data": [self._model()]})
        elif path == f"/v1/models/{self._name}":
            await _respond(send, 200, self._model())
        else:
            raise Failure(404, f"there is no {path}")

    def _admit(self, headers: Mapping[str, str]) -> None:
        if self._key is not None:
            given = headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), self._key.encode()):
                raise Failure(401, "the key is wrong or missing", code="invalid_api_key")
            return
        host = headers.get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name.lower() not in _OWN_NAMES:
            raise Failure(403, "this server answers requests for this machine only", code="forbidden_host")

    def _model(self) -> dict[str, Any]:
        return {"id": self._name, "object": "model", "created": self._begun, "owned_by": "local"}

    def _known(self, model: str | None) -> None:
        if model not in (None, self._name):
            raise Failure(
                404, f"there is no model {model!r}; this one is {self._name!r}", param="model", code="model_not_found"
            )

    async def _chat(self, data: bytes, receive: Receive, send: Send) -> None:
        body = read_body(data, ChatBody)
        self._known(body.model)
        messages = body.conversation()
        limit = body.max_completion_tokens or body.max_tokens
        speaker = self._engine.speaker
        asked = await self._asked(lambda: speaker.encode_chat(messages), lambda: speaker.kept(messages), body, limit)
        shape = _Shape("chatcmpl", "chat.completion", self._name, len(asked.prompt), chat=True)
        await self._answer(asked, shape, body, receive, send)

    async def _complete(self, data: bytes, receive: Receive, send: Send) -> None:
        body = read_body(data, CompletionBody)
        self._known(body.model)
        prompt: Any = body.prompt
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
            prompt = prompt[0]
        if isinstance(prompt, list) and any(isinstance(one, str) for one in prompt):
            raise Failure(400, "one text is gone on with in a request", param="prompt")

        def encode() -> list[int]:
            return self._engine.speaker.encode(prompt) if isinstance(prompt, str) else list(prompt)

        asked = await self._asked(encode, lambda: self._engine.speaker.kept([], raw=True), body, body.max_tokens)
        shape = _Shape("cmpl", "text_completion", self._name, len(asked.prompt), chat=False)
        await self._answer(asked, shape, body, receive, send)

    async def _asked(
        self, encode: Callable[[], list[int]], keep: Callable[[], int], body: Any, max_tokens: int | None
    ) -> Asked:
        def compiled() -> Grammar | None:
            rules = body.rules()
            return None if rules is None else self._engine.speaker.grammar(rules)

        loop = asyncio.get_running_loop()
        try:
            prompt = await loop.run_in_executor(None, encode)
            grammar = await loop.run_in_executor(None, compiled)
            kept = await loop.run_in_executor(None, keep) if self._engine.shift else 0
            asked = Asked(prompt, body.sampler(), max_tokens, body.ends, grammar, kept)
        except SdkError as error:
            said = (error.message, error.where and f"at {error.where}", error.why)
            raise Failure(400, "; ".join(part for part in said if part)) from None
        if len(prompt) >= self._engine.context and not self._engine.shift:
            raise Failure(
                400,
                f"the prompt has {len(prompt)} tokens, and there is room for {self._engine.context} with the answer",
                param="messages", code="context_length_exceeded",
            )  # fmt: skip
        return asked

    async def _answer(self, asked: Asked, shape: _Shape, body: Any, receive: Receive, send: Send) -> None:
        """Answers, and stops when the caller goes away."""
        answer = self._stream(asked, shape, body.wants_usage, send) if body.stream else self._whole(asked, shape, send)
        work, gone = asyncio.ensure_future(answer), asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
        try:
            await work
        except asyncio.CancelledError:
            if not gone.done():
                raise
        except OSError:
            pass  # the caller went away between two parts

    async def _whole(self, asked: Asked, shape: _Shape, send: Send) -> None:
        text, finish = [], "stop"
        try:
            async with aclosing(self._engine.answer(asked)) as pieces:
                async for piece, reused in pieces:
                    text.append(piece.text)
                    shape.count(piece, reused)
                    finish = piece.finish or finish
        except SdkError as error:
            raise _failure(error) from None
        await _respond(send, 200, shape.whole("".join(text), finish))

    async def _stream(self, asked: Asked, shape: _Shape, usage: bool, send: Send) -> None:
        async with aclosing(self._engine.answer(asked)) as pieces:
            begun = False
            try:
                async for piece, reused in pieces:
                    if not begun:
                        await _begin(send, 200, b"text/event-stream")
                        await _event(send, shape.part(first=True))
                        begun = True
                    shape.count(piece, reused)
                    if piece.text:
                        await _event(send, shape.part(piece.text))
                    if piece.finish:
                        await _event(send, shape.part(finish=piece.finish))
            except SdkError as error:
                failure = _failure(error)
                if not begun:
                    raise failure from None
                await _event(send, failure.body)
            if usage:
                await _event(send, {**shape.head(".chunk"), "choices": [], "usage": shape.usage()})
            await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})


class _Shape:
    """How an answer is written, as a whole and in parts."""

    def __init__(self, prefix: str, kind: str, model: str, prompt: int, *, chat: bool) -> None:
        self._id, self._kind, self._model, self._chat = f"{prefix}-{uuid.uuid4().hex}", kind, model, chat
        self._created, self._prompt, self._made, self._reused = int(time.time()), prompt, 0, 0

    def count(self, piece: Piece, reused: int) -> None:
        """Notes a token."""
        self._made += piece.token is not None
        self._reused = reused

    def head(self, suffix: str = "") -> dict[str, Any]:
        """What each part has."""
        kind = self._kind + (suffix if self._chat else "")
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def usage(self) -> dict[str, Any]:
        """The tokens that were taken and made."""
        return {
            "prompt_tokens": self._prompt, "completion_tokens": self._made, "total_tokens": self._prompt + self._made,
            "prompt_tokens_details": {"cached_tokens": self._reused},
        }  # fmt: skip

    def whole(self, text: str, finish: str) -> dict[str, Any]:
        """The answer at once."""
        said = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish}
        return {**self.head(), "choices": [choice], "usage": self.usage()}

    def part(self, text: str | None = None, *, first: bool = False, finish: str | None = None) -> dict[str, Any]:
        """A part of a stream."""
        delta: dict[str, Any] = {"role": "assistant", "content": ""} if first else {}
        if text is not None:
            delta["content"] = text
        said: dict[str, Any] = {"delta": delta} if self._chat else {"text": text or ""}
        return {**self.head(".chunk"), "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": finish}]}


def _failure(error: SdkError) -> Failure:
    """An error of the request's making, or of the server's where it is of no kind of its own."""
    return Failure(500 if type(error) is SdkError else 400, error.message)


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _body(receive: Receive) -> bytes:
    data, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Failure(400, "the request ended early")
        data += message.get("body", b"")
        more = message.get("more_body", False)
        if len(data) > _MAX_BODY:
            raise Failure(413, f"the request has more than {_MAX_BODY} bytes")
    return bytes(data)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _begin(send: Send, status: int, kind: bytes) -> None:
    headers = [(b"content-type", kind), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _respond(send: Send, status: int, body: Mapping[str, Any]) -> None:
    await _begin(send, status, b"application/json")
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


async def _event(send: Send, body: Mapping[str, Any]) -> None:
    await send(
        {"type": "http.response.body", "body": b"data: " + json.dumps(body).encode() + b"\n\n", "more_body": True}
    )


def server_of(engine: Engine, name: str, host: str, port: int, key: str | None) -> Server:
    """A server that listens, and answers once it runs.

    Raises:
        MissingToolError: uvicorn is not installed.
        UsageError: the host is not this machine's own, and there is no key; or the address cannot be listened at.
    """
    if key is None and not is_loopback(host):
        raise UsageError(
            f"{host} can be reached by others", hint="give --key-file FILE with a secret, or listen at 127.0.0.1"
        )
    if find_spec("uvicorn") is None:
        raise MissingToolError("the package uvicorn is not installed", hint=pip_command("uvicorn"))
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"cannot listen at {host}:{port}", why=error.strerror, hint="--listen HOST:PORT names another"
        ) from None
    return Server(Application(engine, name, key), listener)


class Server:
    """An application behind a socket that listens."""

    def __init__(self, application: Application, listener: socket.socket) -> None:
        uvicorn: Any = import_module("uvicorn")
        config = uvicorn.Config(
            application, log_level="critical", access_log=False, lifespan="off", server_header=False,
            timeout_graceful_shutdown=5, ws="none",
        )  # fmt: skip
        self._server, self._listener = uvicorn.Server(config), listener
        self.port = int(listener.getsockname()[1])

    def run(self) -> None:
        """Serves until it is interrupted, or ``stop`` is called."""
        with self._listener:
            self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        """Ends ``run``, from any thread."""
        self._server.should_exit = True
