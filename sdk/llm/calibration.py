"""What the inputs of a decoder's matrices are like on a text: the model is run in floats by the interpreter."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.module import Module
from sdk.errors import UsageError
from sdk.files import open_regular
from sdk.llm.checkpoint import Checkpoint
from sdk.llm.config import Config
from sdk.llm.decoder import Sizes, decoder_module, stacked
from sdk.llm.quantise import is_matrix
from sdk.llm.text.gguf_vocabulary import tokenizer_of_gguf
from sdk.llm.text.tokenizer import load_tokenizer
from sdk.llm.weights import Weight
from sdk.steps import update

__all__ = ["Inputs", "calibration_tokens", "observed"]

Floats = NDArray[np.float32]
_TOKENS: Final = 2048  # of a text that are used: more change the choices little
_FEWEST: Final = 64  # tokens: of fewer, what is large is chance
_TEXT: Final = 1 << 20  # bytes of its file that are looked at: tokens of 512 bytes each
_WINDOW: Final = 256  # tokens that are computed together, in a context of their own
_KEPT: Final = 128  # rows of inputs that are kept of each matrix
_LARGEST: Final = float(np.finfo(np.float32).max)  # of mean squares


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
    """The first 2048 tokens of a text in UTF-8, of which no more than the first MiB is read.

    Raises:
        UsageError: the file cannot be read, its tokens are none of the model's, or they say too little: there are
            fewer than 64, or most of them are unknown or special.
    """
    read = _begin(text)
    of_gguf = any(key.startswith("tokenizer.") for key in checkpoint.metadata)
    tokenizer = tokenizer_of_gguf(checkpoint.metadata) if of_gguf else load_tokenizer(checkpoint.path)
    ids: list[int] = tokenizer.encode(read, add_special_tokens=False).ids[:_TOKENS]
    without = _saying_nothing(tokenizer)
    empty = [id for id in ids if id in without]
    maximum = max(ids, default=0)
    if maximum >= checkpoint.config.vocabulary_size:
        why = f"the tokenizer has the token {maximum}, the model does not"
    elif len(ids) < _FEWEST:
        why = f"it has {len(ids)} tokens, fewer than {_FEWEST}"
    elif 2 * len(empty) > len(ids):
        why = f"{len(empty)} of its {len(ids)} tokens are special or stand for what the tokenizer does not know"
    else:
        return ids
    raise UsageError(f"{text} is nothing to calibrate with", why=why, hint="give pages of what the model is for")


def _begin(text: Path) -> str:
    """The first MiB of a text, up to its last whole character."""
    try:
        with os.fdopen(open_regular(text), "rb") as file:
            data = file.read(_TEXT + 1)
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data[:_TEXT], final=len(data) <= _TEXT)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"cannot read {text}", why=why, hint="check --calibrate: it takes a file") from None
    except UnicodeDecodeError as error:
        why = f"{error.reason} at byte {error.start}"
        raise UsageError(f"{text} is no text in UTF-8", why=why, hint="save it as UTF-8, or give another") from None


def _saying_nothing(tokenizer: Any) -> set[int]:
    """Tokens that stand for no text: the special ones, and the one for what is not known."""
    found = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    unknown = getattr(tokenizer.model, "unk_token", None)  # a unigram model has none by that name: it is special there
    return found if unknown is None else found | {tokenizer.token_to_id(unknown)}


def observed(config: Config, weights: Mapping[str, Weight], ids: Sequence[int]) -> dict[str, Inputs]:
    """The inputs of the matrices of floats by the names of these, over tokens in windows of 256 that begin anew.

    Raises:
        UsageError: inputs are no numbers, or so large that f32 does not hold their squares.
    """
    window = min(_WINDOW, config.context_length, len(ids))
    room = max(window, 2)  # positions that every decoder has at least
    module = decoder_module("calibration", config, weights, Sizes(room, room))
    watch = _Watch(_matrices(module, config, weights), -(-len(ids) // _KEPT))
    starts = range(0, len(ids), window)
    for done, at in enumerate(starts):
        update(f"observing activations, {done * window:,} of {len(ids):,} tokens")
        part = np.asarray(ids[at : at + window], np.int32)
        with np.errstate(all="ignore"):  # what is no number is told below
            run_graph(module, "prefill", {"ids": part}, initial_states(module), {"pos": 0}, observe=watch)
    for name, held in watch.found.items():
        if not held.total_squares.max(initial=0) / held.count < _LARGEST:
            raise UsageError(
                f"the inputs of {name} are too large or no numbers on this text",
                why="the model is damaged, or was not made for floats of 32 bits",
                hint="fetch the checkpoint again, or leave --calibrate out",
            )
    return watch.found


def _matrices(module: Module, config: Config, weights: Mapping[str, Weight]) -> dict[int, str]:
    """The names of matrices of floats by the identities of the module's arrays."""
    found = {id(const.data): name for name, const in module.consts.items()}
    for name, names in stacked(config, weights).items():
        if name in module.stacks:
            found |= dict(zip(map(id, module.stacks[name].arrays), names, strict=True))
    return {key: name for key, name in found.items() if name in weights and is_matrix(weights[name])}


class _Watch:
    """Told of calls by the interpreter: products with a matrix of the checkpoint, known by the identity of its array,
    are noted; every ``step``-th row of inputs is kept."""

    def __init__(self, names: Mapping[int, str], step: int) -> None:
        self.names = names
        self.step = step
        self.found: dict[str, Inputs] = {}

    def __call__(self, call: Call, args: Sequence[NDArray[Any]]) -> None:
        if call.callee != "matmul" or len(args) != 2 or id(args[1]) not in self.names:
            return
        x, matrix = args
        rows = np.asarray(x, np.float32).reshape(-1, matrix.shape[1])
        held = self.found.setdefault(self.names[id(matrix)], Inputs(*np.zeros((2, rows.shape[1]))))
        kept = rows[-held.count % self.step :: self.step]  # the same rows of the text, however it is cut
        held.total += np.abs(rows).sum(axis=0, dtype=np.float64)
        held.total_squares += np.square(rows, dtype=np.float64).sum(axis=0)
        held.count += len(rows)
        held.kept.append(kept.copy())
