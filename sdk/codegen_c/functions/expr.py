"""Value expressions as C: scalars by operators and helpers, lanes by GNU vectors or words of four bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from sdk.codegen_c.functions.dims import ATOM, CMP, MUL, SUM, TERNARY, UNARY, DimPrinter, wrap
from sdk.codegen_c.functions.instructions.lookup import instruction_text
from sdk.codegen_c.functions.names import scalar_name
from sdk.codegen_c.functions.unit import Unit
from sdk.codegen_c.rescaled import clamped, rescaled
from sdk.compiler.ir.intrinsics import INTRINSICS
from sdk.compiler.ir.loops import Idx, Imm, Load, Op, Ref, ValueExpr
from sdk.compiler.ir.types import BOOL, F16, F32, I8, I16, I32, U8, DType
from sdk.compiler.sym import Dim
from sdk.errors import BuildError

__all__ = ["CValue", "ValuePrinter", "literal"]

_SHIFT: Final = 60
_BITS: Final = 40
_AND: Final = 30
_OR: Final = 20
# Symbol, how tightly it binds, what its left and right sides must bind at least (compilers warn about
# shifts, bit operations and mixed && || without parentheses).
_OPERATORS: Final = {
    "add": ("+", SUM, SUM, SUM + 1),
    "sub": ("-", SUM, SUM, SUM + 1),
    "mul": ("*", MUL, MUL, MUL + 1),
    "tdiv": ("/", MUL, MUL, MUL + 1),
    "shl": ("<<", _SHIFT, UNARY, UNARY),
    "shr": (">>", _SHIFT, UNARY, UNARY),
    "and": ("&", _BITS, UNARY, UNARY),
    "or": ("|", _BITS, UNARY, UNARY),
    "xor": ("^", _BITS, UNARY, UNARY),
    "lt": ("<", CMP, SUM, SUM),
    "le": ("<=", CMP, SUM, SUM),
    "gt": (">", CMP, SUM, SUM),
    "ge": (">=", CMP, SUM, SUM),
    "eq": ("==", CMP, SUM, SUM),
    "ne": ("!=", CMP, SUM, SUM),
}
_ON_BOOLS: Final = {"and": ("&&", _AND, _AND, CMP), "or": ("||", _OR, CMP, CMP), "xor": ("!=", CMP, SUM, SUM)}
_COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")
_TESTS: Final = ("isnan", "isinf")
_ON_BITS: Final = ("cast", "select", "broadcast", "bits", "zip_lo", "zip_hi")  # all that a 16-bit float takes part in
_WRAPPING: Final = ("add", "sub", "mul", "tdiv", "neg", "shl")
_WHOLE: Final = {type.limits: type for type in (I8, U8, I16)}  # types of which a clamp keeps all values


class CValue(NamedTuple):
    """C text, how tightly it binds, and whether its C type is the value's own, not a promoted ``int``."""

    text: str
    binds: int
    exact: bool = True


def literal(value: int | float, type: DType) -> CValue:
    """A scalar literal of ``type``.

    Raises:
        BuildError: C99 has no such type.
    """
    if type == BOOL:
        return CValue("true" if value else "false", ATOM)
    if type.is_float:
        return _float_literal(float(value), type)
    number = int(value)
    if type.bits < 32:
        return CValue(str(number), ATOM if number >= 0 else UNARY, exact=False)
    if type.kind == "u":
        return CValue(f"{number}u" if type.bits == 32 else f"UINT64_C({number})", ATOM)
    if number == type.limits[0]:
        return CValue(f"INT{type.bits}_MIN", ATOM)
    return CValue(
        str(number) if type.bits == 32 else f"INT64_C({number})",
        ATOM if number >= 0 or type.bits > 32 else UNARY,
    )


def _float_literal(value: float, type: DType) -> CValue:
    if type == F16:
        with np.errstate(over="ignore"):
            return CValue(f"0x{np.float16(value).view(np.uint16):04X}u", ATOM)
    suffix = {"float": "f", "double": ""}[scalar_name(type)]
    if math.isnan(value):
        return CValue(f'__builtin_nan{suffix}("")', ATOM)
    if math.isinf(value):
        return CValue(f"{'-' if value < 0 else ''}__builtin_inf{suffix}()", UNARY)
    text = str(np.float32(value)) if suffix else repr(value)
    if not re.search(r"[.en]", text):
        text += ".0"
    return CValue(text + suffix, UNARY if text.startswith("-") else ATOM)


class ValuePrinter:
    """Prints values; ``load`` gives the text of a read of a buffer, ``name`` that of a bound scalar."""

    def __init__(
        self, unit: Unit, dims: DimPrinter, load: Callable[[Load], CValue], name: Callable[[str], str]
    ) -> None:
        self._unit = unit
        self._dims = dims
        self._load = load
        self._name = name
        self.bound: dict[str, ValueExpr] = {}
        self.masks: dict[str, int] = {}  # registers that hold lanes of bool: the bits of a lane

    def text(self, expr: ValueExpr, minimum: int = TERNARY) -> str:
        """``expr`` in C for use inside a larger expression that converts as C does."""
        value = self.value(expr)
        return wrap((value.text, value.binds), minimum)

    def assigned(self, expr: ValueExpr) -> str:
        """``expr`` in C with exactly its type, to store or to pass on."""
        value = self.value(expr)
        if value.exact or expr.dtype.lanes > 1 or isinstance(expr, Imm):
            return value.text
        return f"({scalar_name(expr.dtype)}){wrap((value.text, value.binds), UNARY)}"

    def type_of(self, expr: ValueExpr) -> str:
        """The C type of ``expr``; lanes of bool have the mask type of the comparison that made them."""
        if expr.dtype.kind == "b" and expr.dtype.lanes > 1:
            return self._unit.vector_type(f"i{self.mask_bits(expr)}x{expr.dtype.lanes}")
        return self._unit.value_type(expr.dtype)

    def value(self, expr: ValueExpr) -> CValue:
        """``expr`` in C."""
        if expr.dtype.is_float:
            self._unit.floats_used = True
        match expr:
            case Imm():
                return (
                    literal(expr.value, expr.dtype)
                    if expr.dtype.lanes == 1
                    else self._splat(expr, expr.dtype)
                )
            case Idx():
                return CValue(*self._dims.printed(expr.dim))
            case Ref():
                return CValue(self._name(expr.name), ATOM)
            case Load():
                return self._load(expr)
            case Op():
                return self._op(expr)

    def _op(self, expr: Op) -> CValue:
        if any(a.dtype.scalar == F16 for a in expr.args) and expr.name not in _ON_BITS:
            raise BuildError(f"{expr.name} on {expr.args[0].dtype} has no instruction: convert to f32 first")
        known = self._clamp(expr) or self._instruction(expr)
        if known:
            return known
        match expr.name:
            case "cast":
                return self._cast(expr.args[0], expr.dtype)
            case "select":
                return self._select(expr)
            case "broadcast":
                return self._splat(expr.args[0], expr.dtype)
            case "not":
                return self._not(expr)
            case "first":
                helper = self._unit.helper(f"first_i32x{expr.dtype.lanes}")
                return CValue(f"{helper}({self.text(expr.args[0])})", ATOM)
        if self._unit.is_word(expr.dtype) and expr.name not in ("and", "or", "xor"):
            return self._on_word(expr)
        if expr.name in ("min", "max"):
            a, b = (self.text(x) for x in expr.args)
            return CValue(f"{self._unit.helper(f'{expr.name}_{expr.dtype}')}({a}, {b})", ATOM)
        if expr.name == "neg" or expr.name in _OPERATORS:
            return self._vector_operator(expr) if expr.args[0].dtype.lanes > 1 else self._operator(expr)
        listed = "" if expr.name in INTRINSICS else ": it is not in the intrinsic table"
        raise BuildError(
            f"{expr.name} on {', '.join(str(a.dtype) for a in expr.args)} has no instruction{listed}"
        )

    def _instruction(self, expr: Op) -> CValue | None:
        """As one instruction, where one is declared for these types."""
        types = (expr.dtype, *(a.dtype for a in expr.args))
        small = bool(expr.args) and self.is_small(expr.args[0])
        template = instruction_text(expr.name, types, self._unit.features, small)
        if template is None:
            return None

        def argument(match: re.Match[str]) -> str:
            arg = expr.args[int(match[1])]
            if match[2]:
                return str(_constant(arg, expr.name))
            bare = template[: match.start()].endswith(("(", ", "))
            return self.text(arg, TERNARY if bare else ATOM)

        text = self._unit.expand(re.sub(r"\{(\d)(:int)?\}", argument, template))
        binds = ATOM if template.startswith("@") else UNARY if template.startswith("(") else SUM
        return CValue(text, binds)

    def is_small(self, expr: ValueExpr) -> bool:
        """Whether |expr| <= 2**30 follows from how it was made."""
        if isinstance(expr, Ref):
            return expr.name in self.bound and self.is_small(self.bound[expr.name])
        return isinstance(expr, Op) and expr.name == "srdhm30"

    def _clamp(self, expr: Op) -> CValue | None:
        """``min(max(x, lo), hi)`` on an i32 with literal bounds: one helper, at best one instruction."""
        found = clamped(expr)
        if found is None:
            return None
        x, lo, hi = found
        by, text = self._rescaled(x, lo)
        kind = _WHOLE.get((lo, hi))
        saturated = kind and self._own(f"clamp_shr_{kind}" if by else f"clamp_{kind}", 2 if by else 1)
        if saturated:
            return CValue(self._unit.expand(saturated.replace("{1:int}", str(by)).format(text)), ATOM)
        value = f"{text} >> {by}" if by else text
        bounds = f"{literal(lo, I32).text}, {literal(hi, I32).text}"
        return CValue(f"{self._unit.helper('clamp_i32')}({value}, {bounds})", ATOM)

    def _rescaled(self, x: ValueExpr, lo: int) -> tuple[int, str]:
        """(by how much it is to be shifted right, text) of what is to be clamped."""
        found = rescaled(x, lo, self.is_small)
        match x:
            case Op("shr", (high, Imm(int(by)))) if found is None and 0 < by < x.dtype.bits:
                return by, self.text(high, UNARY)
        if found is None:
            return 0, self.text(x)
        joined = self._own("rescale_product", 4)
        if joined and found.up and found.bounded and isinstance(found.high, Op):
            factors = (self.text(arg) for arg in (*found.high.args, found.right))
            return 1, self._unit.expand(joined.format(*factors, found.twice))
        helper = self._unit.helper("rescale_up" if found.up else "rescale")
        return 1, f"{helper}({self.text(found.high)}, {self.text(found.right)}, {found.twice})"

    def _own(self, op: str, arity: int) -> str | None:
        """The instruction for an operation of the printer's own on integers of 32 bits, where there is one."""
        return instruction_text(op, (I32,) * (arity + 1), self._unit.features)

    # --- scalars ------------------------------------------------------------------------------------------

    def _operator(self, expr: Op) -> CValue:
        of = expr.args[0].dtype
        narrow = of.bits < 32 and not of.is_float
        if expr.name == "neg":
            zero = "" if of.kind != "u" or narrow else "0u "
            value = CValue(f"{zero}-{self.text(expr.args[0], UNARY + 1)}", SUM if zero else UNARY, not narrow)
        elif of == BOOL and expr.name == "and" and _is_empty_range(*expr.args):
            return literal(False, BOOL)  # of an extent of 0: compilers warn about the comparisons
        elif of == BOOL and expr.name in _ON_BOOLS:
            return self._infix(expr, _ON_BOOLS[expr.name])
        elif expr.name == "shl" and of.kind == "i":
            unsigned = "uint64_t" if of.bits == 64 else "uint32_t"
            left, right = self.text(expr.args[0], UNARY), self.text(expr.args[1], UNARY)
            return CValue(f"({scalar_name(of)})(({unsigned}){left} << {right})", UNARY)
        elif expr.name == "mul" and of.kind == "u" and of.bits == 16:
            left, right = (
                self.text(a, UNARY) for a in expr.args
            )  # promoted to int the product could overflow
            value = CValue(f"(uint32_t){left} * (uint32_t){right}", MUL, exact=False)
        else:
            value = self._infix(expr, _OPERATORS[expr.name])
        if expr.name in _COMPARISONS:
            return value
        if narrow and expr.name in _WRAPPING:
            return CValue(f"({scalar_name(of)})({value.text})", UNARY)
        return value._replace(exact=not narrow)

    def _infix(self, expr: Op, row: tuple[str, int, int, int]) -> CValue:
        symbol, binds, left, right = row
        second = expr.args[1]
        if symbol == "+" and isinstance(second, Imm) and second.dtype.kind == "i" and second.value < 0:
            opposite = literal(-second.value, second.dtype).text
            return CValue(f"{self.text(expr.args[0], left)} - {opposite}", binds)
        a = (
            self._guarded(expr.args[:1], expr.args[1], right)
            if symbol == "&&"
            else self.text(expr.args[1], right)
        )
        return CValue(f"{self.text(expr.args[0], left)} {symbol} {a}", binds)

    def _guarded(self, conditions: tuple[ValueExpr, ...], expr: ValueExpr, minimum: int) -> str:
        """``expr`` where the conditions hold: what they say of dims may be used."""
        known = [dim for c in conditions for dim in checked_nonnegative(c)]
        self._dims.nonnegative += known
        text = self.text(expr, minimum)
        del self._dims.nonnegative[len(self._dims.nonnegative) - len(known) :]
        return text

    def _select(self, expr: Op) -> CValue:
        cond, a, b = expr.args
        if cond.dtype.lanes > 1:
            if expr.dtype.kind == "b":
                bits = self.mask_bits(expr)
                masks = ", ".join(self.mask(arg, bits) for arg in expr.args)
                return CValue(f"{self._unit.helper(f'select_i{bits}x{expr.dtype.lanes}')}({masks})", ATOM)
            if self._unit.is_word(expr.dtype):
                return self._on_word(expr)
            helper = self._unit.helper(f"select_{expr.dtype}")
            return CValue(
                f"{helper}({self.mask(cond, expr.dtype.bits)}, {self.text(a)}, {self.text(b)})", ATOM
            )
        if expr.dtype.kind == "b" and expr.dtype.lanes > 1:
            own = self.type_of(expr)
            arms = (f"({own})({self.mask(arg, self.mask_bits(expr))})" for arg in (a, b))
            return CValue(f"{self.text(cond, _OR)} ? {' : '.join(arms)}", TERNARY)
        exact = expr.dtype.bits >= 32 or expr.dtype.lanes > 1
        minimum, same = TERNARY + 1, ""
        if expr.dtype.lanes > 1 and not self._unit.is_word(expr.dtype):
            # a read has the type for unaligned access, which gcc wants converted here to that of the other arm
            minimum, same = UNARY, f"({self._unit.vector_type(str(expr.dtype))})"
        then, other = same + self._guarded((cond,), a, minimum), same + self.text(b, minimum)
        return CValue(f"{self.text(cond, _OR)} ? {then} : {other}", TERNARY, exact)

    def _not(self, expr: Op) -> CValue:
        (arg,) = expr.args
        if arg.dtype.lanes == 1:
            return CValue(f"!{self.text(arg, UNARY + 1)}", UNARY)
        return CValue(f"~{wrap((self.mask(arg, self.mask_bits(arg)), UNARY), UNARY)}", UNARY)

    def _cast(self, arg: ValueExpr, to: DType) -> CValue:
        if F16 in (arg.dtype.scalar, to.scalar) and arg.dtype != to:
            return self._half(arg, to)
        if arg.dtype.is_float and to.kind in "iu" and not self._unit.is_word(to):
            return CValue(f"{self._unit.helper(f'hold_{to}_{arg.dtype}')}({self.text(arg)})", ATOM)
        if to.lanes > 1 or arg.dtype.lanes > 1:
            return self._vector_cast(arg, to)
        if arg.dtype == to:
            return self.value(arg)
        if to == BOOL:
            return CValue(f"{self.text(arg, SUM)} != {literal(0, arg.dtype).text}", CMP)
        if to == I32 and not arg.dtype.is_float and arg.dtype.bits < 32:
            return self.value(arg)._replace(exact=True)  # C promotes it by itself
        return CValue(f"({scalar_name(to)}){self.text(arg, UNARY)}", UNARY)

    def _half(self, arg: ValueExpr, to: DType) -> CValue:
        """To or from a 16-bit float, by way of f32."""
        middle = F32.with_lanes(to.lanes)
        if arg.dtype.scalar == F16 and to != middle:
            return self._cast(Op("cast", (arg,), middle), to)
        if to.scalar == F16 and arg.dtype != middle:
            arg = Op("cast", (arg,), middle)
        return CValue(f"{self._unit.helper(f'half_{to}_{arg.dtype}')}({self.text(arg)})", ATOM)

    # --- lanes --------------------------------------------------------------------------------------------

    def _splat(self, arg: ValueExpr, to: DType) -> CValue:
        """One value, or one group of four bytes, in all lanes of ``to``."""
        if arg.dtype == to:
            return self.value(arg)
        if to.kind == "b":
            signs = self._unit.helper(f"splat_i8x{to.lanes}")
            return CValue(f"{signs}((int8_t)-{self.text(arg, UNARY + 1)})", ATOM)
        if isinstance(arg, Imm):
            return self._splat_literal(arg.value, to)
        if arg.dtype.lanes == 1:
            return CValue(f"{self._unit.helper(f'splat_{to}')}({self.assigned(arg)})", ATOM)
        if arg.dtype.nbytes != 4 or to.nbytes % 4:
            raise BuildError(f"broadcast of {arg.dtype} to {to} has no instruction")
        word = self.text(arg) if self._unit.is_word(arg.dtype) else f"(uint32_t){self.text(arg, UNARY)}"
        return CValue(f"{self._unit.helper(f'repeat4_{to}')}({word})", ATOM)

    def _splat_literal(self, value: int | float, to: DType) -> CValue:
        if self._unit.is_word(to):
            lane = int(value) & ((1 << to.bits) - 1)
            return CValue(f"0x{sum(lane << to.bits * k for k in range(to.lanes)):08X}u", ATOM)
        if value == 0 and math.copysign(1, value) > 0:
            return CValue(f"({self._unit.value_type(to)}){{0}}", UNARY)
        return CValue(f"{self._unit.helper(f'splat_{to}')}({literal(value, to.scalar).text})", ATOM)

    def _vector_operator(self, expr: Op) -> CValue:
        if expr.name == "neg":
            return CValue(f"-{self.text(expr.args[0], UNARY + 1)}", UNARY)
        symbol, binds, left, right = _OPERATORS[expr.name]
        texts = [
            self.mask(a, self.mask_bits(expr)) if a.dtype.kind == "b" else self.text(a, minimum)
            for a, minimum in zip(expr.args, (left, right), strict=True)
        ]
        value = CValue(f"{texts[0]} {symbol} {texts[1]}", binds)
        if expr.name in _COMPARISONS:
            mask = f"({self.type_of(expr)})({value.text})"
            if self._unit.compares_apart(str(expr.args[0].dtype)):
                return CValue(f"{self._unit.helper('lanes_mve_i32x4')}({mask})", ATOM)
            return CValue(mask, UNARY)
        return value

    def mask_bits(self, expr: ValueExpr) -> int:
        """The bits of a lane of the mask that lanes of bool are computed as."""
        if isinstance(expr, Ref):
            return self.mask_bits(self.bound[expr.name])
        if isinstance(expr, Load):
            return self.masks.get(expr.buffer, 8)
        if isinstance(expr, Imm):
            return 8
        if isinstance(expr, Op):
            if expr.name in ("broadcast", "first"):
                return 8 if expr.name == "broadcast" else 32
            if expr.name in (*_COMPARISONS, *_TESTS, "cast") and expr.args[0].dtype.kind != "b":
                return expr.args[0].dtype.bits
            if expr.name in (*_COMPARISONS, *_ON_BOOLS, "not", "cast"):
                return self.mask_bits(expr.args[0])
            if expr.name == "select":
                return self.mask_bits(expr.args[1])
        raise BuildError(f"lanes of bool from {type(expr).__name__} have no instruction")

    def mask(self, cond: ValueExpr, bits: int) -> str:
        """A vector condition as a mask of lanes of ``bits``."""
        if self.mask_bits(cond) == bits:
            return self.text(cond, UNARY)
        wanted = self._unit.vector_type(f"i{bits}x{cond.dtype.lanes}")
        return f"__builtin_convertvector({self.text(cond)}, {wanted})"

    def bytes_of(self, cond: ValueExpr) -> str:
        """Lanes of bool as bytes of 0 and 1, to store."""
        return f"{wrap((self.mask(cond, 8), UNARY), UNARY)} & 1"

    def _vector_cast(self, arg: ValueExpr, to: DType) -> CValue:
        if arg.dtype.lanes != to.lanes:
            raise BuildError(f"a cast from {arg.dtype} to {to} changes the number of lanes")
        if to.kind == "b":
            if arg.dtype.kind == "b":
                return self.value(arg)
            mask = self._unit.vector_type(f"i{arg.dtype.bits}x{to.lanes}")
            zero = f"({self._unit.value_type(arg.dtype)}){{0}}"
            return CValue(f"({mask})({self.text(arg, SUM)} != {zero})", UNARY)
        if arg.dtype.kind == "b":
            signed = DType("i", to.bits, to.lanes)
            ones = CValue(f"-{wrap((self.mask(arg, to.bits), UNARY), UNARY + 1)}", UNARY)  # a mask may begin with "-"
            if to.kind == "u":
                return CValue(f"({self._unit.vector_type(str(to))}){wrap((ones.text, ones.binds), UNARY)}", UNARY)
            return ones if not to.is_float else CValue(self._convert(ones.text, to), ATOM, signed == to)
        source = self._as_vector(arg)
        same = arg.dtype.bits == to.bits and not arg.dtype.is_float and not to.is_float
        if self._unit.is_word(arg.dtype) and self._unit.is_word(to):
            return self.value(arg)
        if same:
            return CValue(
                f"({self._unit.vector_type(str(to))}){wrap((source.text, source.binds), UNARY)}", UNARY
            )
        text = self._convert(source.text, to)
        return CValue(f"(uint32_t){text}", UNARY) if self._unit.is_word(to) else CValue(text, ATOM)

    def _convert(self, text: str, to: DType) -> str:
        return f"__builtin_convertvector({text}, {self._unit.vector_type(str(to))})"

    def _as_vector(self, arg: ValueExpr) -> CValue:
        """A value with lanes as a GNU vector, whatever it lives in."""
        value = self.value(arg)
        if self._unit.is_word(arg.dtype):
            return CValue(
                f"({self._unit.vector_type(str(arg.dtype))}){wrap((value.text, value.binds), UNARY)}", UNARY
            )
        return value

    def _on_word(self, expr: Op) -> CValue:
        """An operation on a word that has no form of its own: as a GNU vector of its bytes, and back."""
        texts = [wrap((v.text, v.binds), UNARY) for v in (self._as_vector(a) for a in expr.args)]
        if expr.name in ("min", "max", "select"):
            inner = f"{self._unit.helper(f'{expr.name}_{expr.dtype}')}({', '.join(texts)})"
        elif expr.name in _OPERATORS:
            inner = f"({f' {_OPERATORS[expr.name][0]} '.join(texts)})"
        else:
            raise BuildError(f"{expr.name} on {expr.dtype} has no instruction")
        return CValue(f"(uint32_t){inner}", UNARY)


def _constant(expr: ValueExpr, op: str) -> int:
    value: int | float | Dim = (
        expr.value if isinstance(expr, Imm) else expr.dim if isinstance(expr, Idx) else 0.5
    )
    if not isinstance(value, int):
        raise BuildError(f"the lane number of {op} is not a constant")
    return value


def _is_empty_range(first: ValueExpr, second: ValueExpr) -> bool:
    """Whether the two conditions are ``x >= 0`` and ``x < 0``."""
    match first, second:
        case Op("ge", (x, Imm(0))), Op("lt", (y, Imm(0))):
            return x == y
    return False


def checked_nonnegative(cond: ValueExpr) -> list[Dim]:
    """The dims that are >= 0 wherever ``cond`` is true."""
    if isinstance(cond, Op) and cond.name == "and":
        return [d for c in cond.args for d in checked_nonnegative(c)]
    if isinstance(cond, Op) and cond.name == "ge" and isinstance(cond.args[0], Idx):
        bound = cond.args[1]
        if isinstance(bound, Imm | Idx):
            value = bound.value if isinstance(bound, Imm) else bound.dim
            return [cond.args[0].dim] if isinstance(value, int) and value >= 0 else []
    return []
