"""What the inputs of a decoder's matrices are like on a text: the model is run in floats by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.graph import Call
from sdk.errors import UsageError
from sdk.files import read_regular
from sdk.llm.checkpoint import Checkpoint
from sdk.llm.config import Config
from sdk.llm.decoder import Sizes, decoder_module
from sdk.llm.quantise import is_matrix
from sdk.llm.text.gguf_vocabulary import tokenizer_of_gguf
from sdk.llm.text.tokenizer import load_tokenizer
from sdk.llm.weights import Weight
from sdk.steps import update

__all__ = ["Inputs", "calibration_tokens", "observed"]

Floats = NDArray[np.float32]
_TOKENS: Final = 2048  # of a text that are used: more change the choices little
_TEXT: Final = 64 << 20  # bytes of its file
_WINDOW: Final = 256  # tokens that are computed together, in a context of their own
_KEPT: Final = 128  # rows of inputs that are kept of each matrix


@dataclass
class Inputs:
    """The inputs of one matrix over the tokens seen: sums over all, and some rows, spread over the text."""

    total: NDArray[np.float64]
    total_squares: NDArray[np.float64]
    count: int = 0
    kept: list[Floats] = field(default_factory=list)

    @property
    def magnitude(self) -> Floats:
        """The mean of |x|, f32[inputs]."""
        return (self.total / max(self.count, 1)).astype(np.float32)

    @property
    def squares(self) -> Floats:
        """The mean of x * x, f32[inputs]."""
        return (self.total_squares / max(self.count, 1)).astype(np.float32)

    @property
    def rows(self) -> Floats:
        """At most 128 inputs, f32[rows, inputs]."""
        return np.concatenate(self.kept)


def calibration_tokens(checkpoint: Checkpoint, text: Path) -> list[int]:
    """The first 2048 tokens of a text in UTF-8.

    Raises:
        UsageError: the file cannot be read, or its tokens are none of the model's.
    """
    try:
        read = read_regular(text, _TEXT).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {text}", why=str(error)[:200], hint="give a text in UTF-8") from None
    of_gguf = any(key.startswith("tokenizer.") for key in checkpoint.metadata)
    tokenizer = tokenizer_of_gguf(checkpoint.metadata) if of_gguf else load_tokenizer(checkpoint.path)
    ids: list[int] = tokenizer.encode(read, add_special_tokens=False).ids[:_TOKENS]
    if not ids or max(ids) >= checkpoint.config.vocabulary_size:
        why = "it has no tokens" if not ids else f"the tokenizer has the token {max(ids)}, the model does not"
        raise UsageError(f"{text} is nothing to calibrate with", why=why, hint="give pages of what the model is for")
    return ids


def observed(config: Config, weights: Mapping[str, Weight], ids: Sequence[int]) -> dict[str, Inputs]:
    """The inputs of the matrices of floats by the names of these, over tokens in windows of 256 that begin anew."""
    window = min(_WINDOW, config.context_length, len(ids))
    room = max(window, 2)  # positions that every decoder has at least
    module = decoder_module("calibration", config, weights, Sizes(room, room))
    watch = _Watch(weights, -(-len(ids) // _KEPT))
    starts = range(0, len(ids), window)
    for done, at in enumerate(starts):
        update(f"observing activations, {done * window:,} of {len(ids):,} tokens")
        part = np.asarray(ids[at : at + window], np.int32)
        run_graph(module, "prefill", {"ids": part}, initial_states(module), {"pos": 0}, observe=watch)
    return watch.found


class _Watch:
    """Told of calls by the interpreter: products with a matrix of the checkpoint, which is known by its first row, are
    noted; every ``step``-th row of inputs is kept."""

    def __init__(self, weights: Mapping[str, Weight], step: int) -> None:
        self.names = {_key(w.shape, w.rows(slice(0, 1)).floats()): name for name, w in weights.items() if is_matrix(w)}
        self.step = step
        self.found: dict[str, Inputs] = {}

    def __call__(self, call: Call, args: Sequence[NDArray[Any]]) -> None:
        if call.callee != "matmul" or len(args) != 2 or args[1].ndim != 2:
            return
        x, matrix = args
        name = self.names.get(_key(matrix.shape, matrix[:1]))
        if name is None:
            return
        rows = np.asarray(x, np.float32).reshape(-1, matrix.shape[1])
        held = self.found.setdefault(name, Inputs(*np.zeros((2, rows.shape[1]))))
        kept = rows[-held.count % self.step :: self.step]  # the same rows of the text, however it is cut
        held.total += np.abs(rows).sum(axis=0, dtype=np.float64)
        held.total_squares += np.square(rows).sum(axis=0, dtype=np.float64)
        held.count += len(rows)
        held.kept.append(kept.copy())


def _key(shape: tuple[int, ...], row: NDArray[np.float32]) -> tuple[tuple[int, ...], bytes]:
    return shape, row.tobytes()
