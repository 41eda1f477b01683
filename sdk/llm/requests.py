"""What clients of OpenAI's interface send, and the errors that they understand."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from sdk.llm.grammar import any_json, parse_grammar, read_schema
from sdk.llm.grammar.nodes import Rules
from sdk.llm.text.sampler import Sampler, Sampling

__all__ = ["ChatBody", "CompletionBody", "Failure", "read_body"]

_ENDS: Final = 16


class Failure(Exception):
    """An answer that is an error: ``status`` of HTTP, and the object that clients read."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        kinds = {401: "authentication_error", 429: "rate_limit_error", 503: "server_error", 500: "server_error"}
        self.status = status
        kind = kinds.get(status, "invalid_request_error")
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class _Named(msgspec.Struct, frozen=True):
    """A JSON schema as clients give it, with a name."""

    schema: Any = True


class _Format(msgspec.Struct, frozen=True):
    type: str
    json_schema: _Named | None = None


class _Body(msgspec.Struct, kw_only=True, frozen=True):
    """What both kinds of requests have; fields that are not named here are ignored, but for those in _UNKNOWN."""

    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    n: int | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    response_format: _Format | None = None
    grammar: str | None = None

    def rules(self) -> Rules | None:
        """What the answer follows.

        Raises:
            Failure: two things at once, or a format of an unknown type.
            UsageError: the schema or grammar cannot be followed.
        """
        kind = None if self.response_format is None else self.response_format.type
        if kind in (None, "text"):
            return None if self.grammar is None else parse_grammar(self.grammar)
        if self.grammar is not None:
            raise Failure(400, "a grammar and a response_format are given; keep one of them", param="grammar")
        named = self.response_format.json_schema if self.response_format is not None else None
        if kind == "json_schema" and named is not None:
            return read_schema(named.schema)
        if kind != "json_object":
            raise Failure(400, "the response_format is neither text, json_object nor json_schema with a schema",
                          param="response_format", code="unsupported_parameter")  # fmt: skip
        return any_json(objects=True)

    def sampler(self) -> Sampler:
        """How tokens are chosen.

        Raises:
            UsageError: a number is not in its range.
        """
        given: dict[str, Any] = {
            "temperature": self.temperature, "top_p": self.top_p, "presence": self.presence_penalty,
            "frequency": self.frequency_penalty, "top_k": self.top_k, "min_p": self.min_p,
            "repetition": self.repetition_penalty,
        }  # fmt: skip
        named = {name: value for name, value in given.items() if value is not None}
        return Sampler(
            Sampling(**{"temperature": 1.0, **named}), secrets.randbits(63) if self.seed is None else self.seed
        )

    @property
    def ends(self) -> list[str]:
        """The texts that end an answer."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with what it took."""
        return self.stream_options is not None and self.stream_options.include_usage


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None


class _Said(msgspec.Struct, frozen=True):
    role: str
    content: str | list[_Part] | None = None


class ChatBody(_Body, kw_only=True, frozen=True):
    """A request for the next message of a chat."""

    messages: list[_Said]
    max_completion_tokens: int | None = None

    def conversation(self) -> list[dict[str, str]]:
        """The messages, each of one text.

        Raises:
            Failure: there are none, or one has something else than text.
        """
        if not self.messages:
            raise Failure(400, "messages is empty", param="messages")
        return [{"role": one.role, "content": _text(one.content)} for one in self.messages]


class CompletionBody(_Body, kw_only=True, frozen=True):
    """A request to go on with a text."""

    prompt: str | list[str | int] = ""


def _text(content: str | list[_Part] | None) -> str:
    if isinstance(content, list):
        if any(part.type != "text" or part.text is None for part in content):
            raise Failure(400, "the model reads text only", param="messages", code="unsupported_content")
        return "".join(part.text or "" for part in content)
    return content or ""


_B = TypeVar("_B", bound=_Body)
# What would change an answer, and is not there: value that asks for nothing.
_UNKNOWN: Final[Mapping[str, tuple[Any, ...]]] = {
    "tools": (None, []), "tool_choice": (None, "none", "auto"), "functions": (None, []), "logprobs": (None, False, 0),
    "logit_bias": (None, {}), "audio": (None,), "echo": (None, False),
    "suffix": (None, ""), "best_of": (None, 1), "top_logprobs": (None, 0),
}  # fmt: skip


def read_body(data: bytes, kind: type[_B]) -> _B:
    """A request of a kind.

    Raises:
        Failure: it is no JSON, or asks for something that is not there.
    """
    try:
        fields = msgspec.json.decode(data)
        if not isinstance(fields, dict):
            raise Failure(400, "the body is no JSON object")
        body = msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Failure(400, f"the request cannot be read: {str(error)[:300]}") from None
    for name, nothing in _UNKNOWN.items():
        if fields.get(name) not in nothing:
            raise Failure(400, f"{name} is not supported by this server", param=name, code="unsupported_parameter")
    if body.n not in (None, 1):
        raise Failure(400, "one answer is made for a request", param="n", code="unsupported_parameter")
    if len(body.ends) > _ENDS:
        raise Failure(400, f"more than {_ENDS} texts that end an answer", param="stop")
    for name in ("max_tokens", "max_completion_tokens"):
        if (getattr(body, name, None) or 1) < 1 or getattr(body, name, None) == 0:
            raise Failure(400, f"{name} is less than 1", param=name)
    return body
