"""The schema of TensorFlow Lite: names of its numbers, and tables of options, with those newer than the package that
reads them."""

from __future__ import annotations

from typing import Any, Final

import tflite

__all__ = ["BUILTIN", "OPTIONS", "OPTIONS2", "TYPE_NAMES", "options_table"]


def _names(enumeration: Any) -> dict[int, str]:
    return {v: k for k, v in vars(enumeration).items() if isinstance(v, int)}


class StablehloCaseOptions:
    """The options of STABLEHLO_CASE: a subgraph for each branch. They are one vector of integers, as a new shape is."""

    def __init__(self) -> None:
        self._vector = tflite.ReshapeOptions()

    def Init(self, data: bytes, position: int) -> None:
        """Reads the table at a position."""
        self._vector.Init(data, position)

    def BranchSubgraphIndicesAsNumpy(self) -> Any:
        """The numbers of the subgraphs; 0 where there are none."""
        return self._vector.NewShapeAsNumpy()


_NEWER: Final = {"StablehloCaseOptions": StablehloCaseOptions}
BUILTIN: Final = {**_names(tflite.BuiltinOperator), 209: "STABLEHLO_CASE"}
TYPE_NAMES: Final = _names(tflite.TensorType)
OPTIONS: Final = _names(tflite.BuiltinOptions)
OPTIONS2: Final = {**_names(tflite.BuiltinOptions2), 23: "StablehloCaseOptions"}


def options_table(kind: str, data: bytes, position: int) -> Any:
    """The table of options called ``kind`` at a position of a file."""
    table = _NEWER[kind]() if kind in _NEWER else getattr(tflite, kind)()
    table.Init(data, position)
    return table
