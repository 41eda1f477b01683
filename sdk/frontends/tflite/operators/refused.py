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
_OPEN: Final = ("how large its result is follows from data", "compute it in your program")

REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(
        ("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "STABLEHLO_RNG_BIT_GENERATOR"), _RANDOM
    ),
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_LOOKUP", "HASHTABLE_SIZE"), _TABLE),
    **dict.fromkeys(("LSH_PROJECTION", "SKIP_GRAM"), _TEXT),
    "EMBEDDING_LOOKUP_SPARSE": _OPEN,
    "DELEGATE": ("it stands for code of one accelerator, which the file does not have", "take the model before that"),
    "FAKE_QUANT": ("it belongs to training", "convert the model to int8, or without quantisation"),
}
