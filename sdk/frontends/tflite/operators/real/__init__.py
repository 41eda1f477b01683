"""Importers of operators on real numbers: floats, and integers and truth values that stand for themselves.

They compute what LiteRT's reference kernels do (``BUILTIN_REF``), which ``sdk verify`` compares with.
"""

from sdk.frontends.tflite.context import Table
from sdk.frontends.tflite.operators.real import (
    activations,
    elementwise,
    lookups,
    movement,
    positions,
    products,
    recurrent,
    reductions,
    resizing,
    segments,
    shapes,
    slices,
    spaced,
    stablehlo,
    storage,
    suppression,
    svdf,
    windows,
)

__all__ = ["TABLE"]

TABLE: Table = {
    **products.TABLE,
    **elementwise.TABLE,
    **activations.TABLE,
    **windows.TABLE,
    **reductions.TABLE,
    **movement.TABLE,
    **slices.TABLE,
    **positions.TABLE,
    **resizing.TABLE,
    **shapes.TABLE,
    **storage.TABLE,
    **segments.TABLE,
    **suppression.TABLE,
    **svdf.TABLE,
    **recurrent.TABLE,
    **lookups.TABLE,
    **spaced.TABLE,
    **stablehlo.TABLE,
}
