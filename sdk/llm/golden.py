"""Golden cases of conversations: what somebody says, and what the model answers on the machine that makes a project, as
far as the answer is beyond doubt: not where two tokens are about as probable, which sums in another order may swap."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from sdk.llm.conversation import Conversation
from sdk.llm.text.sampler import Sampler, Sampling
from sdk.toolchains import Blob

__all__ = ["ChatCase", "chat_cases", "packed_cases"]

TOKENS: Final = 12  # of an answer at most
CASES: Final = 3
CLOSE: Final = 0.02  # of the largest logit: two tokens that are no further apart may change places elsewhere
SAID: Final = (
    "Hello!", "Count from one to ten.", "What is the capital of France?", "Tell me a story.",
    "\u00e9t\u00e9 \u2603 \u4f60\u597d", "Why is the sky blue?", "Write a line of Python.", "2 + 2 =",
)  # fmt: skip


@dataclass(frozen=True)
class ChatCase:
    """What the user says first, how many tokens are answered, and their text."""

    said: str
    tokens: int
    text: str


def chat_cases(folder: Path) -> list[ChatCase]:
    """Cases of a build for this machine; none where every answer is in doubt from its first token."""
    talk = Conversation.of(folder)
    with talk.model:
        found = sorted(_cases(talk), key=lambda case: -case.tokens)
    return found[:CASES]


def _cases(talk: Conversation) -> Iterator[ChatCase]:
    for said in SAID:
        ids = talk.speaker.encode_chat([{"role": "user", "content": said}])
        tokens = _certain(talk, list(ids))
        if tokens == 0:
            continue
        texts = [piece.text for piece in talk.answer(ids, Sampler(Sampling(temperature=0.0), 0), max_tokens=tokens)]
        while texts and not texts[-1]:  # a part of a character, which is shown in other ways where it is cut off
            texts.pop()
        if texts:
            yield ChatCase(said, len(texts), "".join(texts))


def _certain(talk: Conversation, ids: Sequence[int]) -> int:
    """How many tokens of the most probable answer are so without doubt; its end is none."""
    if len(ids) + TOKENS > talk.model.context:
        return 0
    count, logits = 0, talk.take(ids)
    while count < TOKENS and logits is not None:
        best, next_best = (int(n) for n in np.argsort(logits)[::-1][:2])
        far = float(logits[best] - logits[next_best]) > CLOSE * float(np.abs(logits).max())
        if not far or best in talk.speaker.ends:
            break
        count += 1
        logits = talk.add(best)
    return count


def packed_cases(cases: Sequence[ChatCase]) -> Blob:
    """Cases as little-endian words of 32 bits and bytes: how many there are; of each the tokens, how many bytes of
    UTF-8 are said, these, and the same of the answer."""
    out = [struct.pack("<i", len(cases))]
    for case in cases:
        said, text = case.said.encode(), case.text.encode()
        out += [struct.pack("<ii", case.tokens, len(said)), said, struct.pack("<i", len(text)), text]
    return Blob(b"".join(out))
