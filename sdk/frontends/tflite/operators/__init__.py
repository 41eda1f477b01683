"""The operators of TensorFlow Lite that can be imported: one small function each, in tables by family."""

from sdk.frontends.tflite.context import Table
from sdk.frontends.tflite.operators import arithmetic, contraction, layout, pooling, reduction, state

__all__ = ["OPERATORS"]

OPERATORS: Table = {
    **contraction.TABLE,
    **pooling.TABLE,
    **reduction.TABLE,
    **arithmetic.TABLE,
    **layout.TABLE,
    **state.TABLE,
}
