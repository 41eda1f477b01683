"""Operators that a compiled model cannot have, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["REFUSED"]

_RANDOM: Final = (
    "a compiled model gives the same results for the same inputs",
    "make the random numbers an input of the model, or export it for inference",
)
_TABLE: Final = (
    "its keys are texts or are filled in at run time",
    "look up in your program, and give the model positions: GATHER and EMBEDDING_LOOKUP are supported",
)
_TEXT: Final = ("it takes texts", "make numbers of texts in your program")
_HASHES: Final = (
    "its result are hashes of bytes by a function of LiteRT's own", "compute them in your program"
)
_NOBODY: Final = (
    "it is a number in the schema: LiteRT and tflite-micro have no kernel for it",
    "convert the model to operators of TensorFlow Lite, not to StableHLO",
)
# Operators that files may name and nothing runs.
_WITHOUT_KERNEL: Final = (
    "CONCAT_EMBEDDINGS", "STABLEHLO_ABS", "STABLEHLO_BROADCAST_IN_DIM", "STABLEHLO_CBRT", "STABLEHLO_CLAMP",
    "STABLEHLO_COMPARE", "STABLEHLO_CONCATENATE", "STABLEHLO_CONVERT", "STABLEHLO_CONVOLUTION", "STABLEHLO_COSINE",
    "STABLEHLO_CUSTOM_CALL", "STABLEHLO_DIVIDE", "STABLEHLO_DOT_GENERAL", "STABLEHLO_DYNAMIC_SLICE",
    "STABLEHLO_DYNAMIC_UPDATE_SLICE", "STABLEHLO_EXPONENTIAL", "STABLEHLO_FLOOR", "STABLEHLO_IOTA", "STABLEHLO_LOG",
    "STABLEHLO_LOGISTIC", "STABLEHLO_NEGATE", "STABLEHLO_OR", "STABLEHLO_POWER", "STABLEHLO_REDUCE",
    "STABLEHLO_REMAINDER", "STABLEHLO_RESHAPE", "STABLEHLO_RSQRT", "STABLEHLO_SELECT", "STABLEHLO_SLICE",
    "STABLEHLO_SORT", "STABLEHLO_SUBTRACT", "STABLEHLO_TANH", "STABLEHLO_TRANSPOSE", "STABLEHLO_WHILE",
)  # fmt: skip

REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(
        ("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "STABLEHLO_RNG_BIT_GENERATOR"), _RANDOM
    ),
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"), _TABLE),
    "SKIP_GRAM": _TEXT,
    "LSH_PROJECTION": _HASHES,
    **dict.fromkeys(_WITHOUT_KERNEL, _NOBODY),
    "PLACEHOLDER_FOR_GREATER_OP_CODES": (
        "it stands for an operator whose number the file leaves out", "export the model again"
    ),
    "DELEGATE": ("it stands for code of one accelerator, which the file does not have", "take the model before that"),
}
