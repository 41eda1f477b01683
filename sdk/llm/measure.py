"""How fast a built model is, and how well it knows a text."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdk.errors import UsageError
from sdk.llm.conversation import Conversation
from sdk.llm.model import LanguageModel
from sdk.llm.opening import open_model

__all__ = ["bench_model", "perplexity"]

_TIMES = 3  # each measured, the best counts: what else runs on a machine only makes it slower


def bench_model(
    folder: Path, prompts: Sequence[int], count: int, *, threads: int | None = None, seed: int = 0,
    device: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Times of a model on random tokens, with so many ``threads`` (None: one a processor): ``load_ms``, and for each
    length in ``prompts`` ``prefill`` and ``decode`` in tokens per second, the latter over ``count`` tokens after that
    prompt; ``notes`` say what a GPU does not run; ``peak_bytes`` is this process's largest memory, or None where that
    is not known. At the address of a ``device`` all is measured there, without what the connection takes.

    Raises:
        UsageError: there is no build, or no room for a length.
    """
    begin = time.perf_counter()
    model = open_model(folder, threads, device)
    load_ms = (time.perf_counter() - begin) * 1e3 if model.loaded_there_ns is None else model.loaded_there_ns / 1e6
    rows = []
    with model:
        for length in prompts:
            if length + count > model.context:
                raise UsageError(
                    f"a prompt of {length} tokens and {count} more do not fit in {model.context} positions",
                    hint="give smaller numbers, or build with a larger --context",
                )
            rows.append(_row(model, length, count, np.random.default_rng(seed)))
        peak, notes = model.peak_bytes(), list(model.notes)
    return {
        "load_ms": load_ms,
        "threads": model.threads,
        "context": model.context,
        "lengths": rows,
        "peak_bytes": peak,
        "notes": notes,
    }


def _row(model: LanguageModel, length: int, count: int, rng: np.random.Generator) -> dict[str, Any]:
    ids = rng.integers(0, model.vocabulary_size, length + count)
    prefill, decode = [], []
    for _ in range(_TIMES):
        model.reset()
        prefill.append(length / max(model.timed_feed(ids[:length]), 1e-9))
        took = sum(model.timed_feed(ids[at : at + 1]) for at in range(length, length + count))
        decode.append(count / max(took, 1e-9))
    return {"prompt": length, "prefill": max(prefill), "decode": max(decode)}


def perplexity(
    folder: Path, text: str, *, window: int | None = None, told: Callable[[int, int], None] = lambda done, of: None,
    device: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """How well a model foresees a text: ``perplexity``, the exponential of the mean negative logarithm of the
    probability of each of ``tokens`` tokens. The text is cut into windows of ``window`` tokens (default: the context),
    each begun anew; the first token of each is not counted.

    Raises:
        UsageError: there is no build, or the text has less than two tokens.
    """
    conversation = Conversation.of(folder, device=device)
    model, speaker = conversation.model, conversation.speaker
    ids = speaker.encode(text, special=False)
    size = min(window or model.context, model.context)
    begin = [] if speaker.begin is None else [speaker.begin]
    if len(ids) < 2 or size <= len(begin) + 1:
        raise UsageError(
            f"{len(ids)} tokens in windows of {size} say nothing of a model", hint="give a longer text or window"
        )
    total, count = 0.0, 0
    with model:
        for at in range(0, len(ids), size - len(begin)):
            part = [*begin, *ids[at : at + size - len(begin)]]
            model.reset()
            for start in range(0, len(part) - 1, model.max_verified):
                given = part[start : start + model.max_verified]
                nexts = part[start + 1 : start + 1 + len(given)]
                total += _surprise(model.verify(given)[: len(nexts)], nexts)
                count += len(nexts)
            told(min(at + size, len(ids)), len(ids))
    mean = total / max(count, 1)
    return {"perplexity": math.exp(min(mean, 700.0)), "tokens": count, "window": size, "nll": mean}


def _surprise(logits: np.ndarray, nexts: Sequence[int]) -> float:
    rows = logits.astype(np.float64)
    top = rows.max(axis=1)
    sums = top + np.log(np.exp(rows - top[:, None]).sum(axis=1))
    return float((sums - rows[np.arange(len(nexts)), list(nexts)]).sum())
