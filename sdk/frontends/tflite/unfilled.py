"""What LiteRT's kernels leave as memory held it: parts of results that they do not fill, which the compiled model has
as 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.frontends.tflite.operators.custom.detection import CODE, Settings
from sdk.frontends.tflite.reader import Operator, read_model

__all__ = ["Unfilled", "unfilled"]


@dataclass(frozen=True, slots=True)
class Unfilled:
    """The results of a detection: numbers of ``tensors``, the last one says how many rows of ``columns`` are filled,
    with ``used`` elements each."""

    tensors: tuple[int, ...]
    columns: int
    used: int

    def clear(self, found: dict[int, NDArray[Any]]) -> None:
        """Sets to 0 what is not filled, in tensors by number."""
        *parts, number = self.tensors
        if number not in found:
            return
        count = int(found[number].reshape(-1)[0])
        for part in parts:
            if part in found:
                array = np.array(found[part])
                places = np.arange(array.shape[1])
                array[:, (places // self.columns >= count) | (places % self.columns >= self.used)] = 0
                found[part] = array


def unfilled(data: bytes) -> tuple[Unfilled, ...]:
    """The results of the main subgraph that are not filled to their end.

    Raises:
        BuildError: the file is damaged.
    """
    operators = read_model(data, {})[0].operators
    return tuple(_of(o) for o in operators if o.custom and o.name == CODE and len(o.outputs) == 4)


def _of(operator: Operator) -> Unfilled:
    given = Settings.of(operator)
    columns = 1 if given.regular else given.labels
    return Unfilled(operator.outputs, columns, min(columns, given.classes))
