"""Chat templates of checkpoints: jinja2 in a sandbox, with budgets, since checkpoints come from anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sdk.errors import UsageError

__all__ = ["ChatTemplate", "Message"]

Message = Mapping[str, Any]
_MAX_SOURCE: Final = 1 << 20
_MAX_STEPS: Final = 200_000  # passes of loops and calls
_MAX_TEXT: Final = 1 << 24
_MAX_WIDTH: Final = 1_000_000
_COUNT, _JOINED, _TICK = "_counted", "_joined", "_tick"


class _TooMuch(Exception):
    pass


class _Refused(Exception):
    """What a template says by ``raise_exception``."""


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox that counts passes of loops and calls, and makes no large texts by repetition."""

    intercepted_binops = frozenset(("*", "**", "+", "%"))

    def __init__(self, now: Callable[[str], str]) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        self.steps = 0
        self.globals |= {"raise_exception": _raise, "strftime_now": lambda pattern: now(str(pattern)[:200])}
        self.globals |= {_COUNT: self.counted, _JOINED: self.joined}
        self.globals[_TICK] = self.tick
        self.filters["tojson"] = _to_json
        self.filters = {name: self._guarded(name, function) for name, function in self.filters.items()}

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def guarded(*args: Any, **named: Any) -> Any:
            self.weigh(name, [*args, *named.values()])
            return function(*args, **named)

        return guarded

    def weigh(self, name: str, args: Sequence[Any]) -> None:
        """Counts a call by what it works on, and refuses one that makes a large text of small ones."""
        if name in ("format", "format_map"):
            raise _TooMuch("texts by format")
        if any(isinstance(one, int) and abs(one) > _MAX_WIDTH for one in args):
            raise _TooMuch(f"a text or list by a number above {_MAX_WIDTH:,}")
        sizes = [len(one) for one in args if isinstance(one, str | bytes | list | tuple)]
        if name in ("replace", "join", "translate", "indent") and math.prod(size + 1 for size in sizes) > 1 << 26:
            raise _TooMuch(f"a large text by {name}")
        self.count(1 + sum(sizes) // 256)

    def joined(self, *parts: Any) -> str:
        """What the operator ~ makes."""
        texts = [str(part) for part in parts]
        self.count(1 + sum(map(len, texts)) // 256)
        return "".join(texts)

    def count(self, steps: int = 1) -> None:
        """Counts what a template does."""
        self.steps += steps
        if self.steps > _MAX_STEPS:
            raise _TooMuch(f"more than {_MAX_STEPS:,} passes of loops and calls")

    def counted(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.count()
            yield item

    def call(self, context: Any, function: Any, *args: Any, **named: Any) -> Any:
        """Calls what a template calls."""
        owner = getattr(function, "__self__", None)
        name = getattr(function, "__name__", "")
        self.weigh(name, [owner, *args, *named.values()] if isinstance(owner, str | bytes | list) else args)
        return super().call(context, function, *args, **named)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Computes what a template computes by an operator."""
        sizes = [len(side) for side in (left, right) if isinstance(side, str | bytes | list | tuple)]
        numbers = [abs(side) for side in (left, right) if isinstance(side, int)]
        if operator == "**" or (sizes and operator in "*+" and sizes[0] * max(numbers, default=1) > _MAX_TEXT):
            raise _TooMuch("powers, or texts and lists of more than 16 MB")
        if operator == "%" and sizes:
            raise _TooMuch("texts formatted by %")
        self.count(1 + sum(sizes) // 256)
        if operator == "*" and any(number.bit_length() > 4096 for number in numbers):
            raise _TooMuch("numbers of more than 4096 bits")
        return super().call_binop(context, operator, left, right)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in list(tree.find_all(nodes.For)):
            counted = nodes.Name(_COUNT, "load").set_lineno(loop.lineno)
            if not loop.recursive and not _uses_loop(loop):
                loop.iter = nodes.Call(counted, [loop.iter], [], None, None).set_lineno(loop.lineno)
            else:
                ticks = nodes.Call(nodes.Name(_TICK, "load"), [], [], None, None)
                loop.body.insert(0, nodes.Output([ticks]).set_lineno(loop.lineno))
        _replace_joins(tree)
        tree.set_environment(self)
        return tree

    def tick(self) -> str:
        """Counts a pass of a loop, and shows nothing."""
        self.count()
        return ""


def _replace_joins(node: nodes.Node) -> None:
    """Calls what counts where the operator ~ stands."""
    for name, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            setattr(node, name, _counted_join(value))
        elif isinstance(value, list):
            setattr(node, name, [_counted_join(one) if isinstance(one, nodes.Node) else one for one in value])


def _counted_join(node: nodes.Node) -> nodes.Node:
    _replace_joins(node)
    if not isinstance(node, nodes.Concat):
        return node
    return nodes.Call(nodes.Name(_JOINED, "load"), list(node.nodes), [], None, None).set_lineno(node.lineno)


def _uses_loop(loop: nodes.For) -> bool:
    return any(name.name == "loop" for name in loop.find_all(nodes.Name))


def _raise(message: object) -> None:
    raise _Refused(str(message))


def _now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=None if indent is None else min(indent, 16))


class ChatTemplate:
    """A template; ``tokens`` are texts of special tokens by the names that templates use (``bos_token``). Where it
    writes a date, that is ``date``, or today's.

    Raises:
        UsageError: it is no jinja2, or longer than a megabyte.
    """

    def __init__(self, source: str, tokens: Mapping[str, str], date: datetime | None = None) -> None:
        if len(source) > _MAX_SOURCE:
            raise UsageError("the chat template has more than a megabyte", hint="use the checkpoint's original one")
        self.tells_date = date is None and "strftime_now" in source
        self._environment, self._tokens = _Environment(_now if date is None else date.strftime), dict(tokens)
        try:
            self._template = self._environment.from_string(source)
        except (jinja2.TemplateError, RecursionError, ValueError) as error:
            raise UsageError(
                "the chat template cannot be read", why=str(error)[:300], hint="use the checkpoint's original one"
            ) from None

    @property
    def steps(self) -> int:
        """What the last text took, in passes of loops and calls."""
        return self._environment.steps

    def render(self, messages: Sequence[Message], *, answer: bool = True, **values: Any) -> str:
        """The text of a conversation; with ``answer`` up to where the model goes on.

        Raises:
            UsageError: the template refuses the messages, fails on them, or does too much.
        """
        self._environment.steps = 0
        parts, size = [], 0
        given = {"tools": None, "documents": None, **values, **self._tokens}
        try:
            for part in self._template.generate(messages=list(messages), add_generation_prompt=answer, **given):
                parts.append(part)
                size += len(part)
                if size > _MAX_TEXT:
                    raise _TooMuch("more than 16 MB of text")
        except _Refused as error:
            raise UsageError(f"the chat template refuses these messages: {str(error)[:300]}") from None
        except _TooMuch as error:
            raise UsageError("the chat template does too much", why=f"it makes {error}") from None
        except Exception as error:  # a template may fail in any way that Python can
            raise UsageError(
                "the chat template fails on these messages", why=f"{type(error).__name__}: {str(error)[:300]}",
                hint="messages are {role, content}; some templates want user and assistant in turns",
            ) from None  # fmt: skip
        return "".join(parts)
