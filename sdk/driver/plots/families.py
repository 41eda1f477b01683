"""Kinds of operators as plots colour them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["FAMILIES", "GLUE", "family_of", "family_of_words"]

# family -> words of ops of ours and of model formats that are of it, the first family that matches
FAMILIES: Final = {
    "convolution": "conv|depthwise",
    "matrix product": "dense|matmul|gemm|fully.?connected|einsum",
    "recurrent": "rnn|gru|lstm|scan|recurrent|svdf",
    "attention, norm, softmax": "softmax|norm|attention|lrn",
    "pooling, reduction": "pool|reduce|sum$|mean$|argm|topk|cumsum|^max$|^min$",
    "quantisation, type": "quantize|rescale|cast|bitcast|dynamicquant",
    "layout": "reshape|transpose|slice|concat|pad|gather|split|squeeze|expand|flatten|pack|tile|shape|broadcast|"
    "resize|depth_?to_?space|space_?to_?depth|identity|where|scatter|one_?hot|resample|constant|fill|range|full|iota",
    "state": "state|assign_?var|read_?var|var_?handle|call_?once",
    "elementwise": "",
}
GLUE: Final = frozenset({"quantisation, type", "layout", "state"})  # drawn small
_HEAVY: Final = ("convolution", "matrix product", "recurrent", "attention, norm, softmax", "pooling, reduction")


def family_of_words(kind: str) -> str:
    """The family of an operator called ``kind`` in its model format."""
    return next(f for f, words in FAMILIES.items() if re.search(words, kind.lower()))


def family_of(ops: Iterable[str], kind: str) -> str:
    """The family of an operator: by its ``kind`` where that says it computes, else by what most is of its calls."""
    own, found = family_of_words(kind), [family_of_words(name) for name in ops]
    if own in _HEAVY:
        return own
    return next((f for f in _HEAVY if f in found), next((f for f in found if f not in GLUE), own))
