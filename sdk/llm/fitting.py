"""What a built model takes of memory, and the longest context that fits: computed, without building anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sdk.boards.board import Board
from sdk.errors import UsageError
from sdk.graph.quantised import FORMATS as IN_GROUPS
from sdk.llm.config import Config
from sdk.llm.decoder import Sizes, slots_of
from sdk.llm.quantise import is_matrix
from sdk.llm.weights import FORMATS, Weight

__all__ = ["DEVICES", "LIMIT", "Needs", "Room", "largest_context", "needs"]

LIMIT: Final = (1 << 31) - 1  # bytes of caches, or of working memory, that generated code indexes
_FLOAT: Final = 4
_BYTES: Final = {"f32": 4, "f16": 2, "int8": 1}  # of a number in a cache
_ALIGN: Final = 64


@dataclass(frozen=True)
class Needs:
    """Bytes: of the file of ``weights``, of the ``caches``, and about those of the ``arena``."""

    weights: int
    caches: int
    arena: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.caches + self.arena


@dataclass(frozen=True)
class Room:
    """What a device, or a part of it, has of memory in bytes; with ``flash``, weights lie there, and ``ram`` holds what
    changes."""

    name: str
    ram: int
    flash: int | None = None

    def holds(self, found: Needs) -> bool:
        """Whether a model fits, by itself."""
        if self.flash is None:
            return found.total <= self.ram
        return found.weights <= self.flash and found.caches + found.arena <= self.ram

    @classmethod
    def of(cls, board: Board) -> Room:
        """A board's.

        Raises:
            UsageError: its file does not describe its memory, as of phones and computers that come with several sizes.
        """
        ram, flash = board.ram_bytes, board.flash_bytes
        if ram is None:
            hint = "give bytes instead: --memory 4G"
            raise UsageError(f"the memory of the board {board.name} is not described", hint=hint)
        return cls(board.name, ram, flash)


_GIB: Final = 1 << 30
# A system ends an app that takes much more than half of a phone's memory; a page of WebAssembly has 32-bit addresses.
DEVICES: Final = (
    *(Room(f"phone of {n} GB", n * _GIB // 2) for n in (4, 6, 8, 12, 16)),
    Room("page in a browser", 4 * _GIB),
    *(Room(f"computer of {n} GB", (n - 2) * _GIB) for n in (8, 16, 32)),
)


def needs(config: Config, weights: Mapping[str, Weight], sizes: Sizes, format: str | None = None) -> Needs:
    """What a model takes.

    Args:
        config: the model.
        weights: its tensors.
        sizes: its context, and the tokens of one run.
        format: what matrices of floats are quantised to; None for nothing.
    """
    held = sum(_stored(weight, format) for weight in weights.values())
    return Needs(held, _caches(config, sizes), _arena(config, sizes))


def _stored(weight: Weight, format: str | None) -> int:
    """Bytes of a tensor as it is computed with."""
    if format is not None and is_matrix(weight):
        kind = FORMATS[format]
        size = weight.numbers // kind.count * kind.bytes
    else:
        size = weight.data.nbytes if weight.format.name in IN_GROUPS else weight.numbers * _FLOAT
    return _aligned(size)


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _caches(config: Config, sizes: Sizes) -> int:
    each = config.kv_heads * config.head_dim * _BYTES[sizes.cache]
    scale = config.kv_heads * _FLOAT if sizes.cache == "int8" else 0
    slots = (slots_of(layer.window, sizes) for layer in config.layers)
    return sum(2 * (_aligned(each * count) + _aligned(scale * count)) for count in slots)


def _arena(config: Config, sizes: Sizes) -> int:
    """At the widest point of a layer: queries, keys, values and what they are mixed to, or what is inside of the
    feed-forward part. Beside them stands what goes on."""
    n = sizes.chunk
    attention = (2 * config.heads + 3 * config.kv_heads) * config.head_dim
    return _FLOAT * n * (max(attention, 3 * config.intermediate_size) + 2 * config.hidden_size)


def largest_context(
    config: Config, weights: Mapping[str, Weight], room: Room, chunk: int, format: str | None = None, cache: str = "f32"
) -> int | None:
    """The most positions, up to those that the model was made for, with which it fits into ``room``; None where not
    even two do."""

    def fits(context: int) -> bool:
        found = needs(config, weights, Sizes(context, min(chunk, context), cache), format)
        return room.holds(found) and max(found.caches, found.arena) <= LIMIT

    low, high = 1, config.context_length
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low if low > 1 else None
