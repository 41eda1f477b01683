"""The schema of TensorFlow Lite: names of its numbers, and tables of options, with those newer than the package that
reads them."""

from __future__ import annotations

from typing import Any, Final

import tflite

__all__ = ["BLOCKWISE", "BUILTIN", "OPTIONS", "OPTIONS2", "TYPE_NAMES", "BlockwiseQuantization", "options_table"]


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


class BlockwiseQuantization:
    """What a tensor has whose rows have scales for blocks. It is a table of integers, as that of a slice is."""

    def __init__(self, table: Any) -> None:
        self._numbers = tflite.StridedSliceOptions()
        self._numbers.Init(table.Bytes, table.Pos)

    def Scales(self) -> int:
        """The number of the tensor of scales."""
        return int(self._numbers.BeginMask())

    def ZeroPoints(self) -> int:
        """The number of the tensor of zero points, -1 without."""
        return int(self._numbers.EndMask())

    def BlockSize(self) -> int:
        """The elements of a row that have one scale."""
        return int(self._numbers.EllipsisMask())


_NEWER: Final = {"StablehloCaseOptions": StablehloCaseOptions}
BLOCKWISE: Final = 2  # among the kinds of quantisation beside scales
BUILTIN: Final = {**_names(tflite.BuiltinOperator), 209: "STABLEHLO_CASE"}
TYPE_NAMES: Final = _names(tflite.TensorType)
OPTIONS: Final = _names(tflite.BuiltinOptions)
OPTIONS2: Final = {**_names(tflite.BuiltinOptions2), 23: "StablehloCaseOptions"}


def options_table(kind: str, data: bytes, position: int) -> Any:
    """The table of options called ``kind`` at a position of a file."""
    table = _NEWER[kind]() if kind in _NEWER else getattr(tflite, kind)()
    table.Init(data, position)
    return table
