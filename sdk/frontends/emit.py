"""What converts one operator of a source format: calls to append, constants, values that stand for sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, Value
from sdk.compiler.ir.types import I64, DType, TensorType
from sdk.compiler.sym import Dim
from sdk.errors import BuildError
from sdk.frontends.builder import Builder, Contents, contents_of
from sdk.frontends.names import identifier

__all__ = ["Emitter"]

Array = NDArray[Any]


@dataclass
class Emitter:
    """An operator being imported into the module of ``builder``. ``source`` names it in reports, ``stem`` its results
    in the program."""

    builder: Builder
    source: str
    stem: str

    def axis(self, value: int, rank: int) -> int:
        """An axis of a tensor of ``rank``, negative ones counted from the end.

        Raises:
            BuildError: it is out of range.
        """
        if not -rank <= value < max(rank, 1):
            self.fail(f"the axis {value} is outside rank {rank}")
        return value % rank if rank else 0

    def call(self, op: str, *args: Value, **given: Attr) -> Value:
        """Appends a call of an op with one result; on small constants the result is known at once instead.

        Raises:
            BuildError: the op rejects its arguments.
        """
        (value,) = self.calls(op, *args, **given)
        return value

    def calls(self, op: str, *args: Value, **given: Attr) -> tuple[Value, ...]:
        """Appends a call of an op with any number of results."""
        return self.builder.call(op, args, given, self.stem, self.source)

    def value(self, value: Value) -> Value:
        """``value`` where the graph can use it: known contents become a constant or calls."""
        return self.builder.materialize(value, self.source)

    def const(self, data: Array, stem: str = "") -> Value:
        """A constant with these contents."""
        return self.builder.const(f"{self.stem}_{identifier(stem)}" if stem else self.stem, np.asarray(data))

    def scalar(self, number: float, like: TensorType | DType) -> Value:
        """A constant of rank 0 in the element type of ``like``."""
        kind = like.dtype if isinstance(like, TensorType) else like
        return self.const(np.asarray(number, dtype=kind.numpy), "scalar")

    def shape_value(self, dims: Sequence[Dim]) -> Value:
        """A 1-D integer tensor whose contents are these dims; it becomes a run-time tensor only where one is used."""
        return self.known(contents_of(list(dims), I64, (len(dims),)))

    def numbers(self, value: Value) -> Array | None:
        """The contents of a value when they are numbers at import; None when they are not."""
        found = self.builder.contents_of(value)
        return found.numbers if found is not None else None

    def known(self, contents: Contents) -> Value:
        """A value with contents known at import."""
        return self.builder.known(contents, self.stem)

    def fail(self, why: str, *, hint: str | None = None) -> NoReturn:
        """Refuses the node.

        Raises:
            BuildError: always.
        """
        raise BuildError(why, hint=hint)
