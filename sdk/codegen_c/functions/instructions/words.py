"""Two or four integers packed in a word of 32 bits, on any core without vector registers."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.functions.instructions.model import Instruction, InstructionSet, expression, function

__all__ = ["SET"]

_C_BYTE: Final = {"i8": "(int8_t)", "u8": "(uint8_t)"}


def _product(a: str, b: str, lane: int) -> str:
    """The product of one byte of each of the words ``a`` and ``b``."""
    if lane == 0:
        return f"{_C_BYTE[a]}a * {_C_BYTE[b]}b"
    return f"{_C_BYTE[a]}(a >> {8 * lane}) * {_C_BYTE[b]}(b >> {8 * lane})"


def _dot4(a: str, b: str) -> Instruction:
    terms = " + ".join(_product(a, b, lane) for lane in range(4))
    return function(
        f"dot4_{a}{b}",
        "dot",
        f"i32 i32 {a}x4 {b}x4",
        f"int32_t @@(int32_t acc, uint32_t a, uint32_t b) {{\n    return acc + {terms};\n}}",
        "words",
    )


def _mac4(a: str, b: str) -> Instruction:
    return expression(
        "mac_lane",
        f"i32 i32 {a}x4 {b}x4 i32",
        f"@mac{{3:int}}_{a}{b}({{0}}, {{1}}, {{2}})",
        "words",
        functions={
            f"mac{lane}_{a}{b}": "int32_t @@(int32_t acc, uint32_t a, uint32_t b) {\n"
            f"    return acc + {_product(a, b, lane)};\n}}"
            for lane in range(4)
        },
    )


SET: Final = InstructionSet(
    (
        expression("bits", "[iu]8x4 i16x2", "{0}", "words"),
        expression("bits", "i16x2 [iu]8x4", "{0}", "words"),
        function(
            "add4",
            "add",
            "[iu]8x4",
            """uint32_t @@(uint32_t a, uint32_t b) { /* four bytes, each wrapping */
    return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u);
}""",
            "words",
        ),
        function(
            "splat4",
            "broadcast",
            "[iu]8x4 [iu]8",
            "uint32_t @@(int32_t x) {\n    return ((uint32_t)x & 0xFFu) * 0x01010101u;\n}",
            "words",
        ),
        function(
            "splat2",
            "broadcast",
            "i16x2 i16",
            "uint32_t @@(int32_t x) {\n    return ((uint32_t)x & 0xFFFFu) * 0x00010001u;\n}",
            "words",
        ),
        function(
            "dot2",
            "dot",
            "i32 i32 i16x2 i16x2",
            """int32_t @@(int32_t acc, uint32_t a, uint32_t b) {
    return acc + (int16_t)a * (int16_t)b + (int16_t)(a >> 16) * (int16_t)(b >> 16);
}""",
            "words",
        ),
        function(
            "dot2_i64",
            "dot",
            "i64 i64 i16x2 i16x2",
            """int64_t @@(int64_t acc, uint32_t a, uint32_t b) {
    return acc + (int16_t)a * (int16_t)b + (int64_t)((int16_t)(a >> 16) * (int16_t)(b >> 16));
}""",
            "words",
        ),
        expression(
            "mac_pair",
            "i32 i32 i16x2 i16x2 i32 i32",
            "@mac{3:int}{4:int}({0}, {1}, {2})",
            "words",
            functions={
                f"mac{i}{j}": "int32_t @@(int32_t acc, uint32_t a, uint32_t b) {\n"
                f"    return acc + (int16_t)(a >> {16 * i}) * (int16_t)(b >> {16 * j});\n}}"
                for i in (0, 1)
                for j in (0, 1)
            },
        ),
        *(_dot4(a, b) for a in _C_BYTE for b in _C_BYTE),
        *(_mac4(a, b) for a in _C_BYTE for b in _C_BYTE),
    )
)
