"""Guesses of the tokens that follow, which a model then computes together: what was said before, or a smaller model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sdk.errors import UsageError
from sdk.llm.model import LanguageModel
from sdk.llm.text.sampler import Sampler

__all__ = ["Draft", "Talker", "followers"]


class Talker(Protocol):
    """What a draft needs of a conversation."""

    model: LanguageModel
    speaker: Any

    def take(self, prompt: Sequence[int]) -> NDArray[np.float32] | None:
        """The logits after a text."""

    def add(self, token: int) -> NDArray[np.float32]:
        """The logits after one more token."""

    def forget(self) -> None:
        """Empties the caches."""


def followers(said: Sequence[int], maximum: int) -> list[int]:
    """What followed the last words where they were said before, the latest time of the longest match."""
    for size in (3, 2):
        words = list(said[-size:])
        for at in range(len(said) - size - 1, -1, -1):
            if said[at + size - 1] == words[-1] and list(said[at : at + size]) == words:
                return list(said[at + size : at + size + maximum])
    return []


class Draft:
    """A smaller model that guesses. It draws with the same numbers as the sampler will, so that it guesses what that
    will choose where both models think alike.

    Raises:
        UsageError: its tokens are not those of the model that it is to guess for.
    """

    def __init__(self, conversation: Talker, other: Talker) -> None:
        own, theirs = (talk.speaker.tokenizer.get_vocab(with_added_tokens=True) for talk in (conversation, other))
        if own != theirs:
            raise UsageError(
                "the draft has other tokens than the model", why=f"they have {len(own):,} and {len(theirs):,}",
                hint="take a smaller model of the same family",
            )  # fmt: skip
        self._talk = conversation

    def forget(self) -> None:
        """Empties the caches of the smaller model."""
        self._talk.forget()

    def guess(self, said: Sequence[int], sampler: Sampler, maximum: int) -> list[int]:
        """Up to ``maximum`` tokens that may follow."""
        maximum = min(maximum, self._talk.model.context - len(said))
        logits = self._talk.take(said) if maximum > 0 else None
        found: list[int] = []
        own = sampler.copy()
        while logits is not None:
            token = own.next(logits, [*said, *found])
            if token in self._talk.speaker.ends:
                break
            found.append(token)
            logits = self._talk.add(token) if len(found) < maximum else None
        return found
