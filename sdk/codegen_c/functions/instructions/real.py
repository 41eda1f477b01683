"""Functions of real numbers, of scalars and vectors alike: their texts are those of ``functions/real.py``."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.functions.instructions.model import InstructionSet, expression, function

__all__ = ["SET"]

_REAL: Final = "f[36]*"  # not those of 16 bits, which are converted first
# fmt: off
_FUNCTIONS: Final = (
    "exp", "log", "tanh", "erf", "sigmoid", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "asinh", "acosh", "atanh", "abs", "floor", "ceil", "trunc",
)
# fmt: on

SET: Final = InstructionSet(
    (
        *(expression(name, _REAL, f"@{name}_$T({{0}})") for name in _FUNCTIONS),
        expression("round", _REAL, "@whole_$T({0})"),
        expression("isnan", f"* {_REAL}", "@isnan_$0({0})"),
        expression("isinf", f"* {_REAL}", "@isinf_$0({0})"),
        expression("fmod", _REAL, "@fmod_$T({0}, {1})"),
        expression("pow", _REAL, "@pow_$T({0}, {1})"),
        function(
            "fma_f32",
            "fma",
            "f32",
            "float @@(float a, float b, float c) {\n    return __builtin_fmaf(a, b, c);\n}",
        ),
    )
)
