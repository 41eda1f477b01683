"""The operators of TensorFlow Lite that can be imported: small functions in tables by family, of quantised tensors in
some modules, of real numbers in others; what they look like in a file is in ``signatures``."""

from collections.abc import Mapping

from sdk.frontends.tflite.context import OperatorSpec, Table, Unsigned
from sdk.frontends.tflite.operators import (
    arithmetic,
    bytes,
    complex,
    contraction,
    control,
    layout,
    lstm_parts,
    moves,
    pairs,
    pooling,
    real,
    reduction,
    resizing,
    sparse,
    state,
    svdf,
    transposed,
)
from sdk.frontends.tflite.operators.signatures import SIGNATURES

__all__ = ["OPERATORS"]

# Tensors of i8, u8 and i16, which stand for scale * (stored - zero point).
_QUANTISED: Table = {
    **contraction.TABLE,
    **pooling.TABLE,
    **reduction.TABLE,
    **arithmetic.TABLE,
    **bytes.TABLE,
    **layout.TABLE,
    **moves.TABLE,
    **pairs.TABLE,
    **resizing.TABLE,
    **transposed.TABLE,
    **state.TABLE,
    **svdf.TABLE,
    **lstm_parts.TABLE,
    **control.TABLE,
    **sparse.TABLE,
}
# Floats, and integers and truth values that stand for themselves.
_REAL: Table = {**real.TABLE, **control.TABLE, **complex.TABLE, **sparse.TABLE}

# What the importers of quantised tensors see of u8: they compute with i8, unless said here.
_UNSIGNED: Mapping[str, Unsigned] = {
    **dict.fromkeys((*layout.TABLE, *moves.TABLE), "follow"),
    **dict.fromkeys((*state.TABLE, *control.TABLE, *sparse.TABLE), "keep"),
    "QUANTIZE": "convert",
}

OPERATORS = {
    name: OperatorSpec(
        one.options, one.fields, one.inputs, _QUANTISED.get(name), _REAL.get(name), _UNSIGNED.get(name, "lower")
    )
    for name, one in SIGNATURES.items()
    if name in _QUANTISED or name in _REAL
}
