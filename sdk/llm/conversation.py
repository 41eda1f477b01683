"""A conversation with a built model: texts in, texts out, as they come."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.errors import BuildError, UsageError
from sdk.files import read_regular
from sdk.llm.grammar import Grammar, GrammarRun, Words, words_of
from sdk.llm.grammar.nodes import Rules
from sdk.llm.guesses import Draft, followers
from sdk.llm.model import LanguageModel
from sdk.llm.opening import open_model
from sdk.llm.text.chat_table import ChatTable, compile_chat
from sdk.llm.text.gguf_vocabulary import tokenizer_of_gguf
from sdk.llm.text.package import tokenizers_package
from sdk.llm.text.sampler import Sampler
from sdk.llm.text.template import ChatTemplate, Message
from sdk.llm.text.tokenizer import load_tokenizer
from sdk.llm.tokens import GGUF_TOKENS

__all__ = ["Conversation", "Piece", "Speaker", "shared"]

_MAX_JSON: Final = 256 << 20
_ROLES: Final = ("bos", "eos", "pad", "unk")


@dataclass(frozen=True)
class Piece:
    """What an answer grows by: ``text`` may be empty while characters or what ends the answer are incomplete.
    ``finish`` is None but for the last: "stop" or "length"."""

    text: str
    token: int | None
    finish: str | None = None


class Speaker:
    """What a build knows of texts: its tokenizer, its chat template and the tokens that end an answer. Conversations
    share it; threads may."""

    def __init__(self, folder: Path, info: Mapping[str, Any]) -> None:
        self._lock = threading.Lock()
        self.tokenizer = _tokenizer(folder)
        special = info.get("special_tokens", {})
        self.ends = frozenset(special.get("eos", ()))
        self.begin: int | None = special.get("bos")
        ids = {role: special.get(role) for role in _ROLES} | {"eos": next(iter(special.get("eos", ())), None)}
        names = {f"{role}_token": self.tokenizer.id_to_token(at) or "" for role, at in ids.items() if at is not None}
        self._source, self._names = info.get("chat_template"), {"bos_token": "", "eos_token": "", **names}
        self._template = None if self._source is None else ChatTemplate(self._source, self._names)
        added = self.tokenizer.get_added_tokens_decoder().values()
        self._special = [token.content for token in added if token.special]
        self._vocabulary = int(info.get("vocabulary_size", 0))
        self._words: Words | None = None

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The tokens of a text, with what the model expects around it where ``special``."""
        with self._lock:
            return list(self.tokenizer.encode(text, add_special_tokens=special).ids)

    def encode_chat(self, messages: Sequence[Message], **values: Any) -> list[int]:
        """The tokens of messages ({"role", "content"}) up to where the model answers. Names of special tokens in what
        is said are text, so that nobody can speak for another.

        Raises:
            UsageError: the checkpoint has no chat template, or its template refuses the messages.
        """
        if self._template is None:
            raise UsageError("the checkpoint has no chat template", hint="give it a text to go on with instead")
        hidden, signs = [], []
        for at, message in enumerate(messages):
            text, sign = str(message.get("content", "")), f"\ue000{at}\ue001"
            if any(name in text for name in self._special):
                core = text.strip()
                signs.append((sign, core))
                message = {**message, "content": sign.join(text.split(core, 1))}
            hidden.append(message)
        ids, rest = [], self._template.render(hidden, **values)
        for sign, text in signs:
            before, found, after = rest.partition(sign)
            if found:
                ids += self.encode(before, special=False) + self._plain(text)
                rest = after
        return ids + self.encode(rest, special=False)

    def kept(self, messages: Sequence[Message], *, raw: bool = False) -> int:
        """How many tokens of a chat stand before what the user says first: what begins the text, and the system's
        message."""
        if raw:
            return len(self.encode(""))
        others = [{**one, "content": "\ue000"} if one["role"] == "user" else one for one in messages]
        return shared(self.encode_chat(messages), self.encode_chat(others))

    def chat_table(self, date: datetime | None = None) -> ChatTable:
        """The chat template as a table for devices; where it writes a date, that is ``date``.

        Raises:
            BuildError: there is none, or it is not of the form that a table has.
        """
        if self._source is None:
            raise BuildError("the checkpoint has no chat template", hint="let the app feed the texts around messages")
        return compile_chat(ChatTemplate(self._source, self._names, date), self._source)

    def _plain(self, text: str) -> list[int]:
        with self._lock:
            self.tokenizer.encode_special_tokens = True
            try:
                return list(self.tokenizer.encode(text, add_special_tokens=False).ids)
            finally:
                self.tokenizer.encode_special_tokens = False

    def grammar(self, rules: Rules) -> Grammar:
        """A grammar for the tokens of this build.

        Raises:
            UsageError: no text of it can be written, a rule begins with itself, or it is too large.
            BuildError: the tokenizer decodes in a way that a device cannot.
        """
        with self._lock:
            self._words = self._words or words_of(self.tokenizer, self._vocabulary)
            words = self._words
        return Grammar(rules, words)

    def stream(self) -> Callable[[int], str]:
        """What gives the text that each token of an answer adds."""
        package, state = tokenizers_package(), None
        state = package.decoders.DecodeStream(skip_special_tokens=True)
        return lambda token: state.step(self.tokenizer, token) or ""


def _tokenizer(folder: Path) -> Any:
    own = folder / GGUF_TOKENS
    if not own.is_file():
        return load_tokenizer(folder)
    try:
        fields = json.loads(read_regular(own, _MAX_JSON))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot read {own}", why=str(error)[:200], hint="build the model again") from None
    return tokenizer_of_gguf(fields)


class Conversation:
    """A model with the texts it was given. What a new prompt shares with the tokens before stays in the caches. Not to
    be used by two threads at the same time."""

    def __init__(self, model: LanguageModel, speaker: Speaker) -> None:
        self.model, self.speaker = model, speaker
        self.tokens: list[int] = []  # those in the caches
        self.reused = 0  # tokens of the last prompt that were there already
        self._logits: NDArray[np.float32] | None = None

    @staticmethod
    def of(folder: Path, threads: int | None = None, device: str | None = None) -> Conversation:
        """A conversation with the build in a folder, whose runs so many ``threads`` share (None: one a processor), on
        the machine at the address of a ``device`` where there is one.

        Raises:
            UsageError: there is no build, or its tokenizer is missing.
            SdkError: what the connection raises.
        """
        model = open_model(folder, threads, device)
        return Conversation(model, Speaker(folder, model.info))

    def another(self) -> Conversation:
        """A second one over the same weights, which may run beside this."""
        return Conversation(self.model.another(), self.speaker)

    def forget(self) -> None:
        """Empties the caches."""
        self.model.reset()
        self.tokens = []

    def take(self, prompt: Sequence[int], stopped: Callable[[], bool] = lambda: False) -> NDArray[np.float32] | None:
        """Computes a prompt and gives the logits of what follows; None when ``stopped`` says so between parts of it.

        Raises:
            UsageError: it is empty, or there is no room for it and an answer.
        """
        room = self.model.context
        if not prompt:
            raise UsageError("there is nothing to go on with", hint="give a text")
        if len(prompt) >= room:
            raise UsageError(
                f"the prompt has {len(prompt):,} tokens, and there is room for {room:,} with the answer",
                hint="shorten it, or build with a larger --context",
            )
        self.reused = self._go_back(prompt)
        return self._compute(prompt, stopped)

    def _compute(self, prompt: Sequence[int], stopped: Callable[[], bool]) -> NDArray[np.float32] | None:
        """Computes what of a text is not in the caches."""
        step = max(int(self.model.info.get("chunk", 128)), 1)
        logits = None
        for at in range(len(self.tokens), len(prompt), step):
            if stopped():
                return None
            part = list(prompt[at : at + step])
            logits = self.model.feed(part)
            self.tokens += part
        return logits

    def _go_back(self, prompt: Sequence[int]) -> int:
        """Leaves in the caches what a text begins with, but for its last token; how much that is."""
        same = min(shared(self.tokens, prompt), len(prompt) - 1)  # the last is computed again, for its logits
        if same < len(self.tokens) and not self.model.truncate(same):
            self.model.reset()
            same = 0
        self.tokens = self.tokens[:same]
        return same

    def add(self, token: int) -> NDArray[np.float32]:
        """Computes one more token, and gives the logits of what follows."""
        logits = self.model.feed([token])
        self.tokens.append(token)
        return logits

    def answer(
        self, prompt: Sequence[int], sampler: Sampler, *, max_tokens: int | None = None, ends: Sequence[str] = (),
        stopped: Callable[[], bool] = lambda: False, lookup: int = 0, draft: Draft | None = None,
        grammar: Grammar | None = None, keep: int | None = None,
    ) -> Iterator[Piece]:  # fmt: skip
        """What the model says after a prompt, token by token: up to ``max_tokens`` tokens, to one of the texts
        ``ends``, which are not shown, or until ``stopped``, which makes it end without a last piece.

        With ``lookup``, up to so many tokens are guessed and computed together: those of a ``draft``, else those that
        followed the same words before. A guess stays where the sampler chooses the same token, so that what is said
        does not change. With a ``grammar`` the answer follows it, and ends where nothing can follow; cut off by
        ``max_tokens`` or ``ends``, it is the begin of one that does. With ``keep``, a full context is no end: the first
        ``keep`` tokens and the later half of the others stay, and are computed again.

        Raises:
            UsageError: there is no room for the prompt, or the grammar has too many ways to read the answer.
        """
        live = list(prompt) if keep is None else self._shifted(prompt, keep)
        logits = self.take(live, stopped)
        room = self.model.context
        if keep is None:
            max_tokens = min(room - len(prompt), room if max_tokens is None else max_tokens)
        show, held = self.speaker.stream(), _Held(ends)
        run = None if grammar is None else grammar.run()
        said = list(prompt)
        rows, at = [] if logits is None else [logits], 0
        guess: list[int] = []
        while rows and not stopped():
            if max_tokens is not None and len(said) - len(prompt) >= max_tokens:
                yield Piece(held.rest(), None, "length")
                return
            allowed = None if run is None else self._allowed(run, len(rows[at]))
            token = sampler.next(rows[at], said, allowed)
            if token in self.speaker.ends:
                yield Piece(held.rest(), token, "stop")
                return
            said.append(token)
            live.append(token)
            text, ended = held.add(show(token))
            if run is not None:
                run.take(token)
                text, ended = (text + held.rest(), True) if run.is_done and not ended else (text, ended)
            yield Piece(text, token, "stop" if ended else None)
            if ended:
                return
            if at < len(guess) and guess[at] == token:
                at += 1
            elif max_tokens is None or len(said) - len(prompt) < max_tokens:
                live = live if keep is None else self._shifted(live, keep)
                rows, guess = self._step(live, sampler, lookup, draft)
                at = 0

    def _shifted(self, said: Sequence[int], keep: int) -> list[int]:
        """A text that leaves room in the context: its begin, and of the rest the later half where it is full."""
        room = self.model.context
        if len(said) < room:
            return list(said)
        keep = min(keep, room // 2)
        return [*said[:keep], *said[len(said) - (room - keep) // 2 :]]

    def _allowed(self, run: GrammarRun, vocabulary: int) -> NDArray[np.uint32]:
        """The tokens that may come in an answer with a grammar, a bit each."""
        found = run.allowed(vocabulary)
        for end in self.speaker.ends if run.can_end else ():
            if end < vocabulary:
                found[end >> 5] |= np.uint32(1 << (end & 31))
        return found

    def _step(
        self, said: Sequence[int], sampler: Sampler, lookup: int, draft: Draft | None
    ) -> tuple[list[NDArray[np.float32]], list[int]]:
        """Computes the last token of a text, whose others are in the caches but for guesses that were wrong; logits
        after it and after each of the tokens that are guessed to follow."""
        self._go_back(said)
        maximum = min(lookup, self.model.max_verified - 1, self.model.context - len(said))
        guess: list[int] = []
        if maximum > 0 and len(said) - len(self.tokens) == 1:  # not where much is to be computed again
            guess = followers(said, maximum) if draft is None else draft.guess(said, sampler, maximum)
        given = [*said[len(self.tokens) :], *guess]
        if guess and len(given) <= self.model.max_verified:
            rows = list(self.model.verify(given))[-1 - len(guess) :]
            self.tokens += given
            return rows, guess
        logits = self._compute(said, lambda: False)
        return [] if logits is None else [logits], []


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


class _Held:
    """Text of which an end is kept as long as it may be the begin of what ends the answer."""

    def __init__(self, ends: Sequence[str]) -> None:
        self._ends, self._text = [end for end in ends if end], ""

    def add(self, text: str) -> tuple[str, bool]:
        """What can be shown now, and whether the answer has ended."""
        self._text += text
        places = [place for place in (self._text.find(end) for end in self._ends) if place >= 0]
        if places:
            return self._text[: min(places)], True
        keep = max((self._overlap(end) for end in self._ends), default=0)
        shown, self._text = self._text[: len(self._text) - keep], self._text[len(self._text) - keep :]
        return shown, False

    def _overlap(self, end: str) -> int:
        return next((n for n in range(min(len(end) - 1, len(self._text)), 0, -1) if self._text.endswith(end[:n])), 0)

    def rest(self) -> str:
        """What was kept."""
        return self._text
