"""The body of a function in WGSL: each value a ``let`` of its own, computed once, and structured control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sdk.codegen_c.spirv.code import REAL, Code
from sdk.codegen_c.spirv.words import GLSL
from sdk.codegen_c.wgsl.helpers import helpers_of
from sdk.codegen_c.wgsl.names import PAIR, Names
from sdk.errors import BuildError

__all__ = ["Text"]

_GLSL: Final = {number: name for name, number in GLSL.items()}
# Instructions on words as text of their operands: those that see a sign convert before and after.
_WORDS: Final = {
    "IAdd": "{0} + {1}", "ISub": "{0} - {1}", "IMul": "{0} * {1}", "UDiv": "{0} / {1}", "UMod": "{0} % {1}",
    "SDiv": "bitcast<u32>(bitcast<i32>({0}) / bitcast<i32>({1}))", "SNegate": "~{0} + 1u",
    "BitwiseAnd": "{0} & {1}", "BitwiseOr": "{0} | {1}", "BitwiseXor": "{0} ^ {1}", "Not": "~{0}",
    "ShiftLeftLogical": "{0} << {1}", "ShiftRightLogical": "{0} >> {1}",
    "ShiftRightArithmetic": "bitcast<u32>(bitcast<i32>({0}) >> {1})",
    "BitFieldSExtract": "bitcast<u32>(extractBits(bitcast<i32>({0}), {1}, {2}))",
    "BitFieldUExtract": "extractBits({0}, {1}, {2})",
    "SMulExtended": "smul_wide({0}, {1})", "UMulExtended": "umul_wide({0}, {1})",
    "UMin": "min({0}, {1})", "UMax": "max({0}, {1})",
    "SMin": "bitcast<u32>(min(bitcast<i32>({0}), bitcast<i32>({1})))",
    "SMax": "bitcast<u32>(max(bitcast<i32>({0}), bitcast<i32>({1})))",
    "FindUMsb": "firstLeadingBit({0})",
}  # fmt: skip
_COMPARISONS: Final = {"LessThan": "<", "LessThanEqual": "<=", "GreaterThan": ">", "GreaterThanEqual": ">="}
_WORDS_TESTED: Final = {
    "IEqual": "{0} == {1}", "INotEqual": "{0} != {1}",
    **{f"U{name}": f"{{0}} {sign} {{1}}" for name, sign in _COMPARISONS.items()},
    **{f"S{name}": f"bitcast<i32>({{0}}) {sign} bitcast<i32>({{1}})" for name, sign in _COMPARISONS.items()},
}  # fmt: skip
# The same on pairs of words: functions of helpers.py.
_PAIRS: Final = {
    "IAdd": "add64({0}, {1})", "ISub": "sub64({0}, {1})", "IMul": "mul64({0}, {1})", "UDiv": "udiv64({0}, {1})",
    "UMod": "umod64({0}, {1})", "SDiv": "sdiv64({0}, {1})", "SNegate": "neg64({0})", "BitwiseAnd": "{0} & {1}",
    "BitwiseOr": "{0} | {1}", "BitwiseXor": "{0} ^ {1}", "Not": "~{0}", "ShiftLeftLogical": "shl64({0}, {1}.x)",
    "ShiftRightLogical": "shr64({0}, {1}.x)", "ShiftRightArithmetic": "sar64({0}, {1}.x)",
}  # fmt: skip
_PAIRS_TESTED: Final = {
    "IEqual": "all({0} == {1})", "INotEqual": "any({0} != {1})",
    **{f"{s}LessThan": f"{f}({{0}}, {{1}})" for s, f in (("U", "ult64"), ("S", "slt64"))},
    **{f"{s}GreaterThan": f"{f}({{1}}, {{0}})" for s, f in (("U", "ult64"), ("S", "slt64"))},
    **{f"{s}LessThanEqual": f"!{f}({{1}}, {{0}})" for s, f in (("U", "ult64"), ("S", "slt64"))},
    **{f"{s}GreaterThanEqual": f"!{f}({{0}}, {{1}})" for s, f in (("U", "ult64"), ("S", "slt64"))},
}  # fmt: skip
_REALS: Final = {
    "FAdd": "{0} + {1}", "FSub": "{0} - {1}", "FMul": "{0} * {1}", "FDiv": "{0} / {1}", "FNegate": "-{0}",
    "FAbs": "abs({0})", "Fma": "fma({0}, {1}, {2})", "RoundEven": "round({0})", "Trunc": "trunc({0})",
    "Floor": "floor({0})", "Ceil": "ceil({0})", "Sqrt": "sqrt({0})", "InverseSqrt": "inverseSqrt({0})",
}  # fmt: skip
_REALS_TESTED: Final = {
    "FOrdEqual": "{0} == {1}", "FUnordNotEqual": "!({0} == {1})",  # a NaN is unequal, which != leaves open
    **{f"FOrd{name}": f"{{0}} {sign} {{1}}" for name, sign in _COMPARISONS.items()},
}  # fmt: skip
_LOGIC: Final = {
    "LogicalAnd": "{0} && {1}", "LogicalOr": "{0} || {1}", "LogicalNot": "!{0}", "LogicalEqual": "{0} == {1}",
    "LogicalNotEqual": "{0} != {1}",
}  # fmt: skip
# Conversions by instruction, type of the result and of the value.
_CONVERTED: Final = {
    ("UConvert", "u32", PAIR): "{0}.x", ("SConvert", "u32", PAIR): "{0}.x",
    ("UConvert", PAIR, "u32"): "vec2<u32>({0}, 0u)",
    ("SConvert", PAIR, "u32"): "vec2<u32>({0}, bitcast<u32>(bitcast<i32>({0}) >> 31u))",
    ("ConvertSToF", "f32", "u32"): "f32(bitcast<i32>({0}))", ("ConvertUToF", "f32", "u32"): "f32({0})",
    ("ConvertFToS", "u32", "f32"): "bitcast<u32>(i32({0}))", ("ConvertFToU", "u32", "f32"): "u32({0})",
    ("ConvertSToF", "f32", PAIR): "real_of_s64({0})", ("ConvertUToF", "f32", PAIR): "real_of_u64({0})",
    ("ConvertFToS", PAIR, "f32"): "s64_of_real({0})", ("ConvertFToU", PAIR, "f32"): "u64_of_real({0})",
    ("Bitcast", "f32", "u32"): "bitcast<f32>({0})", ("Bitcast", "u32", "f32"): "bitcast<u32>({0})",
}  # fmt: skip
_ATOMICS: Final = {
    "AtomicIAdd": "atomicAdd", "AtomicUMin": "atomicMin", "AtomicUMax": "atomicMax", "AtomicAnd": "atomicAnd",
    "AtomicOr": "atomicOr", "AtomicXor": "atomicXor",
}  # fmt: skip


class Text(Code):
    """Statements in order, as lines. With ``exact`` the results of real arithmetic go through a function that compilers
    cannot see through, as WGSL has no word for what may not be contracted or rearranged."""

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self.names = names
        self.lines: list[str] = []
        self.atomic: set[int] = set()  # variables whose elements are atomic, and pointers into them
        self._locals: list[str] = []
        self._depth = 1

    def line(self, text: str) -> None:
        """Adds a statement."""
        self.lines.append("  " * self._depth + text)

    # --- values ----------------------------------------------------------------------------------------------

    def _put(self, name: str, type: int, found: int, *operands: int) -> None:
        kind = self.names.texts[type]
        if name == "AccessChain":
            self.names.set(found, f"{self.names.texts[operands[0]]}[{self.names.texts[operands[-1]]}]", kind)
            if operands[0] in self.atomic:
                self.atomic.add(found)
            return
        if name == "CompositeExtract":
            self.names.set(found, f"{self.names.texts[operands[0]]}.{'xy'[operands[1]]}", kind)
            return
        if name == "ExtInst":
            name, operands = _GLSL[operands[1]], operands[2:]
        text = self._expression(name, kind, operands)
        if text == self.names.texts[operands[0]]:
            self.names.set(found, text, kind)
            return
        self.line(f"let v{found} = {f'exact({text})' if self.exact and name in REAL else text};")
        self.names.set(found, f"v{found}", kind)

    def _expression(self, name: str, kind: str, operands: tuple[int, ...]) -> str:
        if name == "Load":
            pointer = self.names.texts[operands[0]]
            return f"atomicLoad(&{pointer})" if operands[0] in self.atomic else f"{pointer}"
        if name in _ATOMICS:
            if operands[0] not in self.atomic:
                raise BuildError("an atomic operation on an array of no operand has no form in WGSL")
            return f"{_ATOMICS[name]}(&{self.names.texts[operands[0]]}, {self.names.texts[operands[-1]]})"
        args = [self.names.texts[x] for x in operands]
        if all(x in self.names.literals for x in operands):  # a constant expression may not overflow, others wrap
            self.line(f"let v{(held := self.names.new())} = {args[0]};")
            args[0] = f"v{held}"
        given = self.names.types[operands[0]]
        if name == "Select":
            return f"select({args[2]}, {args[1]}, {args[0]})"
        if name == "CompositeConstruct":
            return f"{kind}({', '.join(args)})"
        if name in ("UConvert", "SConvert", "Bitcast") and kind == given:
            return args[0]
        if name.startswith("Shift") and kind == "u32" and self.names.types[operands[1]] == PAIR:
            args[1] += ".x"
        if name.startswith("Shift") and kind == PAIR and self.names.types[operands[1]] == "u32":
            args[1] = f"{PAIR}({args[1]}, 0u)"
        form = _CONVERTED.get((name, kind, given)) or _table(kind, given).get(name)
        if form is None:
            raise BuildError(f"{name} of {given} to {kind} has no form in WGSL")
        return form.format(*args)

    def effect(self, name: str, *operands: int) -> None:
        """A statement without a result."""
        if name == "ControlBarrier":
            self.line("workgroupBarrier();")
            return
        assert name == "Store"
        pointer, value = (self.names.texts[x] for x in operands)
        self.line(f"atomicStore(&{pointer}, {value});" if operands[0] in self.atomic else f"{pointer} = {value};")

    def fresh(self, name: str, type: int, *operands: int) -> int:
        """The result of what is run whenever it stands: a load, an atomic."""
        found = self.names.new()
        if name == "Load" or name in _ATOMICS:
            kind = self.names.texts[type]
            self.line(f"let v{found} = {self._expression(name, kind, operands)};")
            return self.names.set(found, f"v{found}", kind)
        if name in ("AtomicSMin", "AtomicSMax"):
            raise BuildError("an atomic minimum or maximum of signed numbers has no form in WGSL")
        self._put(name, type, found, *operands)
        return found

    def variable(self, type: int) -> int:
        """A variable of the function, which starts as 0."""
        found, kind = self.names.new(), self.names.texts[type]
        self._locals.append(f"  var v{found}: {kind};")
        return self.names.set(found, f"v{found}", kind)

    # --- control flow ----------------------------------------------------------------------------------------

    def _block(self, run: Callable[[], None]) -> None:
        self._depth += 1
        with self._scope():
            run()
        self._depth -= 1

    def branch(self, cond: int, then: Callable[[], None], orelse: Callable[[], None] | None = None) -> None:
        """Runs one of two blocks."""
        self.line(f"if ({self.names.texts[cond]}) {{")
        self._block(then)
        if orelse is not None:
            self.line("} else {")
            self._block(orelse)
        self.line("}")

    def loop(
        self, lo: int, goes_on: Callable[[int], int], body: Callable[[int], None], step: int, unroll: bool = False
    ) -> None:
        """Runs ``body(i)`` for i = lo, lo + step ... while ``goes_on(i)``, a condition, holds."""
        at = self.names.new()

        def inside() -> None:
            index = self.names.set(self.names.new(), f"v{at}", "u32")
            self.line(f"if (!({self.names.texts[goes_on(index)]})) {{ break; }}")
            body(index)
            self.line(f"continuing {{ v{at} += {self.names.texts[step]}; }}")

        self.line(f"var v{at} = {self.names.texts[lo]};")
        self.line("loop {")
        self._block(inside)
        self.line("}")

    def text(self, head: list[str], group: tuple[int, int, int]) -> str:
        """The module: declarations, helpers, the kernel."""
        x, y, z = group
        parameters = ",\n".join(
            f"  @builtin({name}) {name}: vec3<u32>"
            for name in ("global_invocation_id", "local_invocation_id", "workgroup_id", "num_workgroups")
            if any(f"{name}." in line for line in self.lines)
        )
        given = f"\n{parameters}\n" if parameters else ""
        main = [f"@compute @workgroup_size({x}, {y}, {z})", f"fn main({given}) {{", *self._locals, *self.lines, "}"]
        body = "\n".join(main)
        parts = [*head, *self.names.declared]
        return "\n".join([*parts, "", *helpers_of(body), body, ""])


def _table(kind: str, given: str) -> dict[str, str]:
    """The instructions whose result is of ``kind`` and whose first operand is ``given``."""
    if kind == "bool":
        return {"u32": _WORDS_TESTED, PAIR: _PAIRS_TESTED, "f32": _REALS_TESTED}.get(given, _LOGIC)
    if kind == PAIR and given == PAIR:
        return _PAIRS
    return _REALS if kind == "f32" else _WORDS
