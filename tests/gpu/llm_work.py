"""Language models on a GPU beside the same on the processor, in another process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sdk.llm
from sdk.llm.build import build_model
from sdk.llm.model import LanguageModel


def compared(folder: Path, cache: Path, parts: Sequence[int], seed: int = 0) -> dict[str, Any]:
    """Feeds random tokens in ``parts`` to a build and to it without a GPU: how far logits are apart, relative to
    the largest, after each part, after ``verify``, after a conversation was put back and after a reset; the tokens of
    the parts and the processor's logits after the last; how many recordings were made by then; and what the GPU does
    not run."""
    os.environ["SDK_CACHE"] = str(cache)
    with sdk.llm.load(folder, 1) as gpu:
        library = gpu._library
        interface, library.gpu = library.gpu, None
        processor = LanguageModel(folder, 1, library)
        library.gpu = interface
        ids = np.random.default_rng(seed).integers(0, gpu.vocabulary_size, sum(parts) + 8)
        at, off = 0, []

        def apart(call: str, count: int, start: int) -> tuple[float, Any]:
            a, b = (getattr(m, call)(ids[start : start + count]) for m in (processor, gpu))
            return float(np.abs(a - b).max() / np.abs(a).max()), a

        for part in parts:
            one, logits = apart("feed", part, at)
            off.append(one)
            at += part
        recorded = gpu.recorded
        fed = {"ids": ids[:at], "logits": logits}
        verified, _ = apart("verify", 3, at)
        saved = gpu.save()
        before = gpu.feed(ids[at : at + 1])
        gpu.reset()
        gpu.feed(ids[:3])
        gpu.restore(saved)
        restored = float(np.abs(gpu.feed(ids[at : at + 1]) - before).max())
        for model in (processor, gpu):
            model.reset()
        found = {"off": off, "verified": verified, "restored": restored, "reset": apart("feed", 5, 0)[0]}
        return {**found, **fed, "recorded": recorded, "notes": list(gpu.notes)}


def chosen(checkpoint: Path, folder: Path) -> str:
    """What a build of a checkpoint with ``gpu`` "auto" has measured."""
    made = build_model(checkpoint, folder, context=64, chunk=8, name="m", gpu="auto")
    assert made.choice is not None
    return made.choice.told
