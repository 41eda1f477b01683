"""Which capabilities come with which: what a processor that has one of them always has too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sdk.boards.board import Capability

__all__ = ["IMPLIED", "with_implied"]

IMPLIED: Final[Mapping[Capability, tuple[Capability, ...]]] = {
    "thumb2": ("thumb",),
    "dsp": ("thumb2",),
    "mve": ("dsp",),
    "mve-fp": ("mve", "fpu-half"),
    "fpu-dp": ("fpu-sp",),
    "fpu-half": ("fpu-sp",),
    "dotprod": ("neon",),
    "fp16": ("neon",),
    "i8mm": ("neon",),
    "bf16": ("neon",),
    "sve": ("fp16",),
    "sve2": ("sve",),
    "ssse3": ("sse2",),
    "sse4.1": ("ssse3",),
    "sse4.2": ("sse4.1",),
    "avx": ("sse4.2",),
    "avx2": ("avx",),
    "fma": ("avx",),
    "f16c": ("avx",),
    "avxvnni": ("avx2",),
    "avx512f": ("avx2", "fma", "f16c"),
    "avx512bw": ("avx512f",),
    "avx512dq": ("avx512f",),
    "avx512vl": ("avx512f",),
    "avx512vnni": ("avx512f",),
    "avx512bf16": ("avx512bw",),
    "avx512fp16": ("avx512bw",),
    "relaxed-simd": ("simd128",),
}


def with_implied(capabilities: Iterable[str]) -> frozenset[str]:
    """Capabilities with all that come with them."""
    have, todo = set[str](), list(capabilities)
    while todo:
        one = todo.pop()
        if one not in have:
            have.add(one)
            todo += IMPLIED.get(one, ())  # type: ignore[call-overload]
    return frozenset(have)
