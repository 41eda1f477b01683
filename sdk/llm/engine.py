"""Conversations for many callers: as many at once as there are caches, the others wait their turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from sdk.errors import SdkError
from sdk.llm.conversation import Conversation, Piece, shared
from sdk.llm.grammar import Grammar
from sdk.llm.guesses import Draft
from sdk.llm.text.sampler import Sampler

__all__ = ["Asked", "Busy", "Engine"]

WAITING: Final = 64  # callers that wait at most


class Busy(Exception):
    """Too many callers wait already."""


@dataclass(frozen=True)
class Asked:
    """What a caller wants: the tokens of a prompt, how to choose those of the answer, how many at most, the texts that
    end it, the grammar that it follows, and how many tokens of the prompt stay where the context is shifted."""

    prompt: Sequence[int]
    sampler: Sampler
    max_tokens: int | None = None
    ends: Sequence[str] = ()
    grammar: Grammar | None = None
    keep: int = 0


class Engine:
    """Answers of ``parallel`` conversations at once over the same weights. With ``lookup`` up to so many tokens are
    guessed, by the model of ``draft`` where there is one. With ``shift`` a full context is no end."""

    def __init__(
        self, conversation: Conversation, parallel: int = 1, *, lookup: int = 0, draft: Conversation | None = None,
        shift: bool = False,
    ) -> None:  # fmt: skip
        self.speaker = conversation.speaker
        self.context = conversation.model.context
        self._all = [conversation, *(conversation.another() for _ in range(parallel - 1))]
        smaller = [] if draft is None else [draft, *(draft.another() for _ in range(parallel - 1))]
        self._drafts = {id(own): Draft(small, own) for own, small in zip(self._all, smaller, strict=False)}
        self._lookup, self.shift = lookup, shift
        self._idle = list(self._all)
        self._turns = asyncio.Semaphore(parallel)
        self._waiting = 0
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="llm")

    @property
    def positions(self) -> list[int]:
        """Positions taken in the caches of each conversation."""
        return [conversation.model.length for conversation in self._all]

    async def answer(self, asked: Asked) -> AsyncGenerator[tuple[Piece, int], None]:
        """The pieces of an answer, each with how many tokens of the prompt were in the caches. Whoever closes this
        stops the model after the token at hand, and empties its caches.

        Raises:
            Busy: too many wait.
            SdkError: what the conversation raises.
        """
        conversation = await self._turn(asked.prompt)
        draft = self._drafts.get(id(conversation))
        max_tokens = asked.max_tokens
        if self.shift and max_tokens is None:
            max_tokens = self.context  # an answer ends in any case
        stopped = threading.Event()
        loop, found = asyncio.get_running_loop(), asyncio.Queue[tuple[Piece, int] | SdkError | None]()

        def tell(item: tuple[Piece, int] | SdkError | None) -> None:
            loop.call_soon_threadsafe(found.put_nowait, item)

        def work() -> None:
            try:
                for piece in conversation.answer(
                    asked.prompt, asked.sampler, max_tokens=max_tokens, ends=asked.ends, stopped=stopped.is_set,
                    grammar=asked.grammar, lookup=self._lookup, draft=draft, keep=asked.keep if self.shift else None,
                ):  # fmt: skip
                    tell((piece, conversation.reused))
            except SdkError as error:
                stopped.set()
                tell(error)
            except Exception as error:  # nobody may take what there is so far for the whole answer
                stopped.set()
                tell(SdkError("the model failed", why=f"{type(error).__name__}: {error}"))
            finally:
                if stopped.is_set():
                    conversation.forget()
                    if draft is not None:
                        draft.forget()
                tell(None)

        done = loop.run_in_executor(self._pool, work)
        done.add_done_callback(lambda _: self._give_back(conversation))
        try:
            while (item := await found.get()) is not None:
                if isinstance(item, SdkError):
                    raise item
                yield item
                await asyncio.sleep(0)  # others' turn, and that of who tells that the caller went away
        finally:
            stopped.set()

    async def _turn(self, prompt: Sequence[int]) -> Conversation:
        """The idle conversation that knows most of a prompt."""
        if self._waiting >= WAITING:
            raise Busy
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        best = max(self._idle, key=lambda one: shared(one.tokens, prompt))
        self._idle.remove(best)
        return best

    def _give_back(self, conversation: Conversation) -> None:
        self._idle.append(conversation)
        self._turns.release()

    def close(self) -> None:
        """Waits for what runs, and gives the memory back."""
        self._pool.shutdown(cancel_futures=True)
        for conversation in self._all:
            conversation.model.close()
