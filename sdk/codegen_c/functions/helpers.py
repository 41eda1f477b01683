"""The small C functions that generated code may need: those of instructions, and a few that are none.

``@name`` stands for another function or a vector type. A family is written once for all types: ``$T`` is the
type ("i32x8"), ``$C`` its C type, ``$S`` the C type of a lane, ``$M`` the mask type of its comparisons,
``$N`` the number of lanes, ``$Q`` that of 32-bit words. All rely on two things that C leaves to the
compiler and every supported one does: ``>>`` of a negative number is arithmetic, and converting to a
narrower signed type wraps.
"""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.functions.convert import conversion_text
from sdk.codegen_c.functions.instructions.lanes import LANES
from sdk.codegen_c.functions.instructions.lookup import FUNCTIONS, HEADERS
from sdk.codegen_c.functions.instructions.scalar import SCALARS
from sdk.codegen_c.functions.names import scalar_name
from sdk.codegen_c.functions.real import real_text
from sdk.compiler.ir.types import DType, dtype
from sdk.errors import BuildError

__all__ = ["helper_header", "helper_text"]

_INLINE: Final = "static inline "
# Families that others use on some targets only; clang warns of functions nobody uses.
_SOMETIMES: Final = ("abs", "copysign", "mad", "select", "splat", "sqrt", "sqrtnewton", "whole")

_PLAIN: Final = {
    # Memory that may overlap.
    "copy": """void @@(void *to, const void *from, size_t bytes) {
    uint8_t *out = to;
    const uint8_t *in = from;
    if ((uintptr_t)out < (uintptr_t)in) {
        for (size_t i = 0; i < bytes; ++i) {
            out[i] = in[i];
        }
    } else {
        for (size_t i = bytes; i > 0u; --i) {
            out[i - 1u] = in[i - 1u];
        }
    }
}""",
    # Asks for memory that later iterations read. Beyond the end of an array it is an address, never read.
    "prefetch": """void @@(const void *from, uintptr_t ahead) {
    __builtin_prefetch((const void *)((uintptr_t)from + ahead));
}""",
    "same": """bool @@(const void *a, const void *b, size_t bytes) {
    const uint8_t *x = a;
    const uint8_t *y = b;
    for (size_t i = 0; i < bytes; ++i) {
        if (x[i] != y[i]) {
            return false;
        }
    }
    return true;
}""",
    # Within 1e-4 of the largest wanted value, or of 1.
    "same_f32": """bool @@(const float *got, const float *want, size_t count) {
    float top = 1.0f;
    for (size_t i = 0; i < count; ++i) {
        top = want[i] > top ? want[i] : (-want[i] > top ? -want[i] : top);
    }
    for (size_t i = 0; i < count; ++i) {
        float error = got[i] > want[i] ? got[i] - want[i] : want[i] - got[i];
        if (!(error <= 1e-4f * top)) {
            return false;
        }
    }
    return true;
}""",
    "fill": """void @@(uint8_t *to, uint8_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
        to[i] = value;
    }
}""",
}


def helper_text(name: str) -> str:
    """The C text of helper ``name``: one of the table, or ``family_type`` as in "min_i32x8".

    Raises:
        BuildError: no such helper.
    """
    body = _PLAIN.get(name) or FUNCTIONS.get(name) or _of_family(name)
    if body is None:
        raise BuildError(f"no helper function {name}")
    inline = "" if body.startswith("static ") else _INLINE
    if name.partition("_")[0] in _SOMETIMES:
        inline += "__attribute__((unused)) "
    return inline + body.replace("@@", f"@{name}")


def helper_header(name: str) -> str | None:
    """The header of the compiler that helper ``name`` needs; None for most."""
    return HEADERS.get(name)


def _of_family(name: str) -> str | None:
    family, _, types = name.partition("_")
    kinds = [dtype(t) for t in types.split("_") if t]
    table = SCALARS if kinds and kinds[0].lanes == 1 else LANES
    if family == "dot" and len(kinds) == 3:
        acc, a, b = kinds
        text = table[family].replace("$A", str(a)).replace("$B", str(b)).replace("$K", str(a.lanes // acc.lanes))
        return _fill(text, acc)
    if len(kinds) == 2:
        found = conversion_text(family, *kinds)
        return _fill(found, kinds[0]) if found else None
    if len(kinds) != 1:
        return None
    real = real_text(family, kinds[0])
    if real is not None:
        return _fill(real, kinds[0])
    found = table.get(f"{family}_float" if kinds[0].is_float else family) or table.get(family)
    return _fill(found, kinds[0]) if found else None


def _fill(text: str, type: DType) -> str:
    scalar = scalar_name(type)
    c_type = f"@{type}" if type.lanes > 1 else scalar
    lanes = f"x{type.lanes}" if type.lanes > 1 else ""
    half = type.with_lanes(max(type.lanes // 2, 1))
    mask, unsigned = (f"@{k}{type.bits}{lanes}" if lanes else scalar_name(DType(k, type.bits)) for k in "iu")
    for key, value in (
        ("$C", c_type),
        ("$S", scalar),
        ("$M", mask),
        ("$U", unsigned),
        ("$D", type.scalar),
        ("$H", f"@{half}" if half.lanes > 1 else scalar),
        ("$J", half),
        ("$X", _zipped(type.lanes, 0)),
        ("$Y", _zipped(type.lanes, type.lanes // 2)),
        ("$I", ", ".join(str(k) for k in range(type.lanes))),
        ("$N", type.lanes),
        ("$Q", type.nbytes // 4),
        ("$T", type),
    ):
        text = text.replace(key, str(value))
    return text


def _zipped(lanes: int, start: int) -> str:
    """The numbers of lanes of two vectors in turn, from ``start`` of each."""
    return ", ".join(f"{k}, {k + lanes}" for k in range(start, start + lanes // 2))
