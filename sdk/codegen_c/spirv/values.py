"""Dims and values in SPIR-V: every value is a list of identities, one for each lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sdk.codegen_c.spirv.code import Code
from sdk.codegen_c.spirv.powers import REALS
from sdk.codegen_c.spirv.reals import Real
from sdk.codegen_c.spirv.scalars import Scalars
from sdk.compiler.ir.loops import Idx, Imm, Load, Op, Ref, ValueExpr
from sdk.compiler.ir.types import F16, F32, I32, U32, DType
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Dim, Func, Var, prove_ge
from sdk.errors import BuildError

__all__ = ["Lanes", "Values"]

Lanes = list[int]
_COMPARISONS: Final = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_MOVES: Final = frozenset({"broadcast", "zip_lo", "zip_hi", "evens", "odds", "first"})
_SUMS: Final = frozenset({"dot", "dot_small", "dot_narrow", "dot_lane", "dot_2x2", "mac_lane", "mac_pair"})


class Values:
    """Emits values into ``code``; ``load`` emits a read, ``names`` holds what variables and scalars are bound to."""

    def __init__(self, code: Code, load: Callable[[Load], Lanes]) -> None:
        self.code, self.scalars, self._load = code, Scalars(code), load
        self.names: dict[str, tuple[Lanes, DType]] = {}

    # --- dims ------------------------------------------------------------------------------------------------

    def dim(self, dim: Dim) -> int:
        """A dim as a word.

        Raises:
            BuildError: it divides by what may be negative or 0.
        """
        s = self.scalars
        if isinstance(dim, int):
            return s.u32(dim)
        total = None
        for factors, coefficient in dim.terms:
            product = None
            for factor, power in factors:
                for _ in range(power):
                    one = self._factor(factor)
                    product = one if product is None else s.op("IMul", U32, product, one)
            assert product is not None
            if coefficient != 1:
                product = s.op("IMul", U32, product, s.u32(coefficient))
            total = product if total is None else s.op("IAdd", U32, total, product)
        assert total is not None
        return s.op("IAdd", U32, total, s.u32(dim.const)) if dim.const else total

    def _factor(self, factor: Var | Func) -> int:
        s = self.scalars
        if isinstance(factor, Var):
            lanes, kind = self.names[factor.name]
            return s.op("UConvert", U32, lanes[0]) if kind.bits == 64 else lanes[0]
        a, b = self.dim(factor.a), self.dim(factor.b)
        if factor.name in ("min", "max"):
            return s.glsl("SMin" if factor.name == "min" else "SMax", U32, a, b)
        if prove_ge(factor.b, 1) is not True:
            raise BuildError(f"the quotient {factor.a} / {factor.b} has a divisor that may not be positive")
        if prove_ge(factor.a, 0) is True:
            return s.op("UDiv", U32, a, b)
        quotient = s.op("SDiv", U32, a, b)
        rest = s.op("ISub", U32, a, s.op("IMul", U32, quotient, b))
        return s.op("ISub", U32, quotient, s.word_of(s.compare("lt", I32, rest, s.u32(0))))

    # --- values ----------------------------------------------------------------------------------------------

    def value(self, expr: ValueExpr) -> Lanes:
        """A value.

        Raises:
            BuildError: an operation without a form.
        """
        match expr:
            case Imm():
                return [self.scalars.imm(expr.value, expr.dtype.scalar)] * expr.dtype.lanes
            case Idx():
                return [self.dim(expr.dim)]
            case Ref():
                return self.names[expr.name][0]
            case Load():
                return self._load(expr)
            case Op():
                return self._op(expr)

    def one(self, expr: ValueExpr) -> int:
        """A value of one lane."""
        (found,) = self.value(expr)
        return found

    def _op(self, expr: Op) -> Lanes:
        name, to, source = expr.name, expr.dtype, expr.args[0].dtype
        if name == "select":
            return self._select(expr)
        args = [self.value(a) for a in expr.args]
        s = self.scalars
        if name == "cast":
            return [s.cast(source.scalar, to.scalar, x) for x in args[0]]
        if name == "bits":
            return self._bits(args[0], source, to)
        if name in _MOVES:
            return self._moved(name, args, source, to)
        if name in _SUMS:
            return self._sum(name, args, [a.dtype for a in expr.args], to)
        if name.startswith("fold_"):
            return self._fold(name.removeprefix("fold_"), args[0], to.scalar)
        rows = zip(*(x * (max(map(len, args)) // len(x)) for x in args), strict=True)
        return [self._lane(expr, source.scalar, list(row)) for row in rows]

    def _lane(self, expr: Op, kind: DType, row: list[int]) -> int:
        """One lane of an operation that takes lanes one by one."""
        name, s = expr.name, self.scalars
        if name in _COMPARISONS:
            if kind == F16:
                row, kind = [s.from_half(x) for x in row], F32
            return s.compare(name, kind, *row)
        if name == "isnan":
            return s.is_nan(kind, *row)
        if name == "isinf":
            return s.is_inf(kind, *row)
        if name == "mulq64":
            return s.mulq64(*row)
        if name in REALS and kind.is_float:
            return self._real(name, kind, row)
        if name in ("shl", "shr") and expr.args[1].dtype.bits == 64 and kind.bits < 64:
            row = [row[0], s.op("UConvert", U32, row[1])]
        return s.apply(name, kind, row)

    def _real(self, name: str, kind: DType, row: list[int]) -> int:
        """A function of real numbers, whose steps are not rearranged."""
        if kind == F16:
            raise BuildError(f"{name} on f16, in which values are stored and not computed")
        was, self.code.exact = self.code.exact, True
        found = REALS[name](Real(self.scalars, kind), *row)
        self.code.exact = was
        return found

    def _select(self, expr: Op) -> Lanes:
        """Lane by lane; an arm that reads or divides is run only where it is taken."""
        cond, (yes, no) = self.value(expr.args[0]), expr.args[1:]
        kind = expr.dtype.scalar
        if len(cond) > 1 or not (_careful(yes) or _careful(no)):
            arms = [self.value(arm) for arm in (yes, no)]
            rows = zip(cond * (expr.dtype.lanes // len(cond)), *arms, strict=True)
            return [self.scalars.select(c, kind, a, b) for c, a, b in rows]
        type = self.scalars.type(kind)
        held = [self.code.variable(type) for _ in range(expr.dtype.lanes)]

        def put(arm: ValueExpr) -> Callable[[], None]:
            def run() -> None:
                for place, value in zip(held, self.value(arm), strict=True):
                    self.code.store(place, value)

            return run

        self.code.branch(cond[0], put(yes), put(no))
        return [self.code.load(type, place) for place in held]

    # --- lanes -----------------------------------------------------------------------------------------------

    def _moved(self, name: str, args: list[Lanes], source: DType, to: DType) -> Lanes:
        s, first = self.scalars, args[0]
        half = to.lanes // 2
        match name:
            case "broadcast":
                return first * (to.lanes // len(first))
            case "first":
                return [s.compare("lt", I32, s.u32(k), first[0]) for k in range(to.lanes)]
            case "zip_lo" | "zip_hi":
                start = 0 if name == "zip_lo" else half
                return [x for pair in zip(*(a[start : start + half] for a in args), strict=True) for x in pair]
            case _:
                return [s.cast(source.scalar, to.scalar, x) for x in first[0 if name == "evens" else 1 :: 2]]

    def _fold(self, name: str, lanes: Lanes, kind: DType) -> Lanes:
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [self.scalars.apply(name, kind, list(p)) for p in zip(lanes[:half], lanes[half:], strict=True)]
        return lanes

    def _sum(self, name: str, args: list[Lanes], kinds: list[DType], to: DType) -> Lanes:
        """Sums of products in the type of the accumulator, which wraps."""
        s, kind = self.scalars, to.scalar
        acc = args[0]
        a, b = ([s.cast(k.scalar, kind, x) for x in lanes] for k, lanes in zip(kinds[1:3], args[1:3], strict=True))
        picked = [self._number(lanes[0]) for lanes in args[3:]]

        def plus(total: int, pairs: list[tuple[int, int]]) -> int:
            for x, y in pairs:
                total = s.apply("add", kind, [total, s.apply("mul", kind, [x, y])])
            return total

        match name:
            case "mac_lane":
                picked = [*picked, *picked]
                return [plus(x, [(a[picked[0]], b[picked[1]])]) for x in acc]
            case "mac_pair":
                return [plus(x, [(a[picked[0]], b[picked[1]])]) for x in acc]
            case "dot" | "dot_small" | "dot_narrow":
                n = len(a) // to.lanes
                groups = [list(zip(a[k * n : k * n + n], b[k * n : k * n + n], strict=True)) for k in range(to.lanes)]
            case "dot_lane":
                n = len(b) // to.lanes
                row = a[picked[0] * n : picked[0] * n + n]
                groups = [list(zip(row, b[k * n : k * n + n], strict=True)) for k in range(to.lanes)]
            case _:
                n = len(a) // 2
                groups = [
                    list(zip(a[i * n : i * n + n], b[j * n : j * n + n], strict=True)) for i in (0, 1) for j in (0, 1)
                ]
        return [plus(x, group) for x, group in zip(acc, groups, strict=True)]

    def _number(self, lane: int) -> int:
        found = self.code.words.value_of(lane)
        if found is None:
            raise BuildError("the lane of a product is not a number")
        return found

    def _bits(self, lanes: Lanes, source: DType, to: DType) -> Lanes:
        """The same bytes as another type: words are taken apart or put together where the sizes differ."""
        s = self.scalars
        words = [s.bits_of(x, source.scalar) for x in lanes]
        if source.bits == to.bits:
            return [self._of_bits(x, to.scalar) for x in words]
        small, large = sorted((source.bits, to.bits))
        wide = DType("u", max(large, 32))
        if source.bits > to.bits:
            parts = []
            for x in words:
                for k in range(large // small):
                    part = s.op("ShiftRightLogical", wide, x, s.imm(k * small, wide)) if k else x
                    parts.append(self._of_bits(s.op("UConvert", U32, part) if large == 64 else part, to.scalar))
            return parts
        joined = []
        for k in range(0, len(words), large // small):
            total = None
            for j, x in enumerate(words[k : k + large // small]):
                part = s.op("UConvert", wide, x) if large == 64 else x
                if small < 32:
                    part = s.op("BitwiseAnd", wide, part, s.imm((1 << small) - 1, wide))
                part = s.op("ShiftLeftLogical", wide, part, s.imm(j * small, wide)) if j else part
                total = part if total is None else s.op("BitwiseOr", wide, total, part)
            assert total is not None
            joined.append(self._of_bits(total, to.scalar))
        return joined

    def _of_bits(self, word: int, to: DType) -> int:
        """A word, whose upper bits may be anything, as a value of its lower ones."""
        if to.is_float and to != F16:
            return self.scalars.op("Bitcast", to, word)
        return self.scalars.wrap(DType("u", 16) if to == F16 else to, word)


def _careful(expr: ValueExpr) -> bool:
    """Whether a value may only be computed where it is wanted: it reads a buffer."""
    return any(isinstance(node, Load) and node.index for node in walk(expr))


