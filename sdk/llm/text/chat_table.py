"""Chat templates as tables for devices: what stands before each message by its role and that of the one before, found
by what the template writes, and compared with it on texts that it might treat in a special way."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import jinja2
from jinja2 import nodes

from sdk.errors import BuildError, UsageError
from sdk.llm.text.template import ChatTemplate

__all__ = ["ROLES", "ChatTable", "compile_chat"]

ROLES: Final = ("system", "user", "assistant")
_BEGIN: Final = "begin"
_TURNS: Final = 4
_MAX_PIECE: Final = 4000  # bytes; C compilers take texts of 4095
_MAX_SIGNS: Final = 40  # texts of the template itself that are tried as parts of messages
_MAX_STEPS: Final = 5_000_000  # of all comparisons
_RANDOM: Final = 120
_LETTERS: Final = (*"ab <>|[]{}/\\#:'\"\n\t", "\u00e9", "\u3042", "\u00a0", "\u2003", "\x1c", "  ", "\n\n", "{{", "{%")

Talk = Sequence[tuple[str, str]]  # (role, text)


@dataclass(frozen=True)
class ChatTable:
    """Chats of maybe a message of the system, then of the user and the assistant in turns, up to where the assistant
    answers. ``between``: what stands before a message, by the role before ("begin" at the first) and its own;
    ``answer``: what stands after the user's last; ``trimmed``: roles whose texts lose white space around them. No text
    is empty. ``history`` tells why answers cannot be given as texts; None: they can."""

    between: Mapping[tuple[str, str], str]
    answer: str
    trimmed: frozenset[str]
    history: str | None = field(default=None, compare=False)

    def render(self, talk: Talk) -> str:
        """The text of a chat."""
        said, before = [], _BEGIN
        for role, text in talk:
            said += [self.between[before, role], text.strip() if role in self.trimmed else text]
            before = role
        return "".join(said) + self.answer


def compile_chat(template: ChatTemplate, source: str, **values: Any) -> ChatTable:
    """The table of a template; ``values`` are what else it is given.

    Raises:
        BuildError: it is not of this form; the reason is named.
    """
    return _Compiler(template, source, values).compile()


def _refuse(why: str) -> BuildError:
    return BuildError(
        "the chat template cannot be compiled for a device", where="chat_template", why=why,
        hint="let the app feed the texts around messages (NAME_chat_feed)",
    )  # fmt: skip


class _Compiler:
    def __init__(self, template: ChatTemplate, source: str, values: Mapping[str, Any]) -> None:
        self.template, self.values, self.steps = template, values, 0
        self.signs = _signs_of(source)

    def write(self, talk: Talk) -> str:
        """What the template writes."""
        messages = [{"role": role, "content": text} for role, text in talk]
        try:
            return self.template.render(messages, **self.values)
        finally:
            self.steps += self.template.steps
            if self.steps > _MAX_STEPS:
                raise _refuse("it takes too long to be compared with a table")

    def compile(self) -> ChatTable:
        if self.template.tells_date:
            raise _refuse("it writes the date of the day, and none was given")
        between: dict[tuple[str, str], str] = {}
        answers: set[str] = set()
        for system in self.systems():
            for turns in range(1, _TURNS + 1):
                talk = self.talk(system, turns)
                pieces = self.pieces(talk)
                roles = [_BEGIN, *(role for role, _ in talk)]
                for pair, piece in zip(pairwise(roles), pieces, strict=False):
                    if between.setdefault(pair, piece) != piece:
                        raise _refuse(
                            f"what it writes between {pair[0]} and {pair[1]} depends on more than these roles"
                        )
                answers.add(pieces[-1])
        if len(answers) != 1:
            raise _refuse("what it writes before an answer depends on what was said")
        if any(len(piece.encode()) > _MAX_PIECE for piece in (*between.values(), *answers)):
            raise _refuse(f"it writes more than {_MAX_PIECE} bytes around a message")
        table = ChatTable(between, answers.pop(), frozenset(role for role in ROLES if self.trims(role, between)))
        return self.proved(table)

    def systems(self) -> tuple[bool, ...]:
        """Without a message of the system, and with one where the template takes it."""
        try:
            self.write(self.talk(True, 1))
        except UsageError:
            return (False,)
        return (False, True)

    def talk(self, system: bool, turns: int) -> list[tuple[str, str]]:
        roles = [*(["system"] if system else []), *(["user", "assistant"] * turns)[:-1]]
        return [(role, f"\ue000{n}\ue001") for n, role in enumerate(roles)]

    def pieces(self, talk: Talk) -> list[str]:
        """What stands around the texts of messages."""
        try:
            rest = self.write(talk)
        except UsageError as error:
            raise _refuse(error.message) from None
        found = []
        for _, sign in talk:
            before, there, rest = rest.partition(sign)
            if not there or sign in rest:
                raise _refuse("it does not write each message once, in their order")
            found.append(before)
        return [*found, rest]

    def trims(self, role: str, between: Mapping[tuple[str, str], str]) -> bool:
        """Whether white space around a message is left out; some of it only is found by the proof."""
        if not any(to == role for _, to in between):
            return False
        talk = [(one, " \n\t" + text + "\n " if one == role else text) for one, text in self.any_talk(between)]
        return all(text in self.write(talk) for one, text in self.any_talk(between) if one == role) and not any(
            text in self.write(talk) for one, text in talk if one == role
        )

    def any_talk(self, between: Mapping[tuple[str, str], str]) -> list[tuple[str, str]]:
        return self.talk((_BEGIN, "system") in between, 3)

    def proved(self, table: ChatTable) -> ChatTable:
        """The table, when the template writes the same on texts that it might look for."""
        for role in ("user", "system"):
            for text in self.texts() if any(to == role for _, to in table.between) else ():
                talk = [(one, text if one == role else said) for one, said in self.any_talk(table.between)]
                self.compare(table, talk, f"what it writes depends on what the {role} says, as {text[:40]!r}")
        history = None
        for text in self.texts():
            talk = [(one, text if one == "assistant" else said) for one, said in self.any_talk(table.between)]
            if self.differs(table, talk):
                history = f"what it writes depends on what the assistant said, as {text[:40]!r}"
                break
        rng = random.Random(1)
        for n in range(_RANDOM):
            system = (_BEGIN, "system") in table.between and n % 2 == 0
            talk = [
                (role, said if history and role == "assistant" else _random_text(rng))
                for role, said in self.talk(system, 1 + n % _TURNS)
            ]
            self.compare(table, talk, "what it writes depends on what is said")
        return ChatTable(table.between, table.answer, table.trimmed, history)

    def differs(self, table: ChatTable, talk: Talk) -> bool:
        try:
            return self.write(talk) != table.render(talk)
        except UsageError:
            return True

    def compare(self, table: ChatTable, talk: Talk, why: str) -> None:
        if self.differs(table, talk):
            raise _refuse(why)

    def texts(self) -> Iterator[str]:
        """Texts with white space, and with what the template has as texts: alone, around others, and two of them."""
        yield from ("a", " a", "a ", "\na\n", "\u00a0a\u2003", "\x1ca\x85", "a\n\nb")
        for one in self.signs:
            yield from (text for text in (one, one + "x", "x" + one, f"x{one}y", f"x\n{one}\ny") if text.strip())
        for one in self.signs:
            yield from (f"{one}x{other}y" for other in self.signs)


def _random_text(rng: random.Random) -> str:
    text = "".join(rng.choice(_LETTERS) for _ in range(rng.randint(1, 12)))
    return text if text.strip() else text + "x"


def _signs_of(source: str) -> list[str]:
    """The texts that a template might compare messages with."""
    tree = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(source)
    found = (node.value for node in tree.find_all(nodes.Const))
    return list(dict.fromkeys(text for text in found if isinstance(text, str) and text))[:_MAX_SIGNS]
