"""A process of ``llm_engine.py`` that holds one model and measures what it is told, for any engine: lines of JSON in,
lines of JSON out. It imports nothing but numpy, since llama.cpp's side runs in another Python.

A model has ``load_ms``, ``base`` (what ``memory`` said before it was loaded), ``vocabulary``, ``reset()``,
``truncate(length)`` and ``feed(ids)``, which gives logits.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import default_rng  # loaded now, since that is no memory of a model

__all__ = ["memory", "serve", "timed"]


def serve(model: Any) -> None:
    """Takes orders until there are no more."""
    out, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    print(json.dumps({"load_ms": model.load_ms}), file=out, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(ORDERS[order.pop("do")](model, **order)), file=out, flush=True)


def timed(call: Callable[[], object]) -> dict[str, float]:
    """Seconds by the clock, and of processor time, of all threads."""
    begin, used = time.perf_counter(), time.process_time()
    call()
    return {"wall": time.perf_counter() - begin, "cpu": time.process_time() - used}


def _prefill(model: Any, tokens: int) -> dict[str, float]:
    """A prompt from nothing."""
    ids = default_rng(1).integers(0, model.vocabulary, tokens)
    model.reset()
    return timed(lambda: model.feed(ids))


def _decode(model: Any, context: int, tokens: int) -> dict[str, float]:
    """Tokens after the first ``context``, which are in the caches."""
    ids = default_rng(2).integers(0, model.vocabulary, tokens)
    model.truncate(context)
    return timed(lambda: [model.feed(ids[k : k + 1]) for k in range(tokens)])


def _logits(model: Any, prompt: list[int], tokens: list[int], path: str) -> dict[str, Any]:
    """Logits after a prompt and after each of ``tokens``, to a file."""
    model.reset()
    rows = [np.array(model.feed(np.array(prompt)))]
    rows += [np.array(model.feed(np.array([token]))) for token in tokens]
    np.save(path, np.stack(rows))
    return {}


def _greedy(model: Any, prompt: list[int], count: int) -> dict[str, Any]:
    """The most probable tokens after a prompt."""
    model.reset()
    logits, found = model.feed(np.array(prompt)), []
    for _ in range(count):
        found.append(int(np.argmax(logits)))
        logits = model.feed(np.array(found[-1:]))
    return {"tokens": found}


def _memory(model: Any) -> dict[str, int]:
    """The most memory that this process had, and what it had before the model."""
    return {"peak": memory("VmHWM"), "base": model.base}


def memory(line: str) -> int:
    """Bytes by a line of what the system says of this process: VmRSS now, VmHWM at most."""
    lines = dict(text.split(":", 1) for text in Path("/proc/self/status").read_text().splitlines())
    return int(lines[line].split()[0]) * 1024


ORDERS: dict[str, Callable[..., dict[str, Any]]] = {
    "prefill": _prefill, "decode": _decode, "logits": _logits, "greedy": _greedy, "memory": _memory,
}  # fmt: skip
