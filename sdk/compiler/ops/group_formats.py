"""Formats of weights in groups, as data: where a block of bytes holds the bits of each weight, and what scales them.

The blocks are those of GGUF files (``Q4_0`` ... ``Q8_0``, described in the documentation of that format), and ``Q4_Z``,
into which AWQ's and GPTQ's groups of 4 bits with an integer zero point go without loss: a scale in f16, the zero point,
a byte that is not used, then nibbles as in Q4_0. ``Q5_0T`` and ``Q5_1T`` are Q5_0 and Q5_1 but for the order of the
fifth bits: that of weight ``4 * k + i`` is bit ``k`` of byte ``i`` of their four. Numbers of several bytes are
little-endian.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import apply, cast, imm, op
from sdk.compiler.ir.loops import Imm, Op, ValueExpr
from sdk.compiler.ir.types import F16, F32, I32, U16, U32
from sdk.errors import BuildError

__all__ = ["FORMATS", "GROUP", "Bits", "Format", "Reader", "Run", "Scales", "format_of", "literal"]

Array = NDArray[Any]
GROUP: Final = 32  # activations that share a scale
Reader = Callable[[int, int], ValueExpr]  # (first byte, 2 or 4 bytes) of a block: u16 or u32


@dataclass(frozen=True, slots=True)
class Bits:
    """So many bits of each byte from ``first`` on, those above the lowest ``shift``."""

    first: int
    shift: int
    bits: int


@dataclass(frozen=True, slots=True)
class Run:
    """So many weights of a block, one behind the other: ``low``, and above it ``high``."""

    count: int
    low: Bits
    high: Bits | None = None


@dataclass(frozen=True, slots=True)
class Scales:
    """What a group of 32 weights is multiplied by: a weight is ``step * factor * number + least``, with one factor, an
    integer, for each run of the group (none: all are 1) and without ``minimum`` where that is None."""

    step: ValueExpr
    factors: tuple[ValueExpr, ...] = ()
    minimum: ValueExpr | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """Blocks of ``size`` weights in ``nbytes`` bytes. The numbers in ``runs`` are ``zero`` too large; with ``signed``
    their lowest bit patterns are negative (as ``zero``, but in two's complement). ``fields`` are (first byte, count,
    bytes of one) of what is read as numbers; ``scales`` makes the scales of each group of a block from them."""

    name: str
    size: int
    nbytes: int
    zero: int
    runs: tuple[Run, ...]
    fields: tuple[tuple[int, int, int], ...]
    scales: Callable[[Reader], tuple[Scales, ...]]
    signed: bool = False
    apart: bool = False  # each run of a group has a factor of its own

    @property
    def run(self) -> int:
        """Weights whose products are one sum of integers."""
        return self.runs[0].count if self.apart else GROUP

    @property
    def groups(self) -> int:
        """Groups of 32 weights in a block."""
        return self.size // GROUP

    @property
    def per_group(self) -> int:
        """Runs in a group."""
        return len(self.runs) // self.groups

    def columns(self, nbytes: int) -> int:
        """The weights of a row of so many bytes.

        Raises:
            BuildError: these are no whole blocks.
        """
        if nbytes % self.nbytes:
            raise BuildError(f"{nbytes} bytes are no whole blocks of {self.name}, which has {self.nbytes} in each")
        return nbytes // self.nbytes * self.size

    def parts(self, rows: Array) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Rows of bytes [N, bytes] exactly: their numbers [N, weights], ``zero`` too large, a step for each ``run`` of
        them, and a least value for each group.

        Raises:
            BuildError: rows that are no whole blocks.
        """
        columns = self.columns(rows.shape[1])
        blocks = np.ascontiguousarray(rows).reshape(-1, self.nbytes)
        numbers = np.concatenate([_numbers(self, run, blocks) for run in self.runs], axis=1)
        scales = self.scales(_field)
        with np.errstate(invalid="ignore", over="ignore"):
            wide = [(_run(s.step, blocks).astype(np.float64), s.factors or (1.0,)) for s in scales]
            steps = [step * _run(factor, blocks) for step, factors in wide for factor in factors]
            minimum = [_run(s.minimum, blocks) if s.minimum else np.zeros(len(blocks)) for s in scales]
        width = columns // self.size
        whole = ((numbers, self.size), (np.stack(steps, 1), self.size // self.run), (np.stack(minimum, 1), self.groups))
        first, second, third = (a.astype(np.float64).reshape(len(rows), width * n) for a, n in whole)
        return first, second, third

    def decode(self, rows: Array) -> NDArray[np.float64]:
        """The weights of rows of bytes, [N, bytes] to [N, weights], exactly.

        Raises:
            BuildError: rows that are no whole blocks.
        """
        numbers, steps, minimum = self.parts(rows)
        with np.errstate(invalid="ignore"):
            return np.repeat(steps, self.run, axis=1) * (numbers - self.zero) + np.repeat(minimum, GROUP, axis=1)


def _field(first: int, count: int) -> ValueExpr:
    """A field of any block, for ``_run``."""
    return Op("field", (imm(first), imm(count)), U16 if count == 2 else U32)


def _numbers(form: Format, run: Run, blocks: Array) -> Array:
    value = _taken(blocks, run.low, run.count)
    if run.high:
        value = value | _taken(blocks, run.high, run.count) << run.low.bits
    return value ^ form.zero if form.signed else value


def _taken(blocks: Array, bits: Bits, count: int) -> Array:
    return (blocks[:, bits.first : bits.first + count].astype(np.int64) >> bits.shift) & ((1 << bits.bits) - 1)


def _run(expr: ValueExpr | float, blocks: Array) -> Array:
    """What an expression over fields is for each block."""
    if isinstance(expr, float):
        return np.full(len(blocks), expr)
    if isinstance(expr, Imm):
        return np.full(len(blocks), expr.value, expr.dtype.numpy)
    assert isinstance(expr, Op)
    if expr.name == "field":
        first, count = (int(a.value) for a in expr.args if isinstance(a, Imm))
        parts = [blocks[:, first + k].astype(np.uint32) << 8 * k for k in range(count)]
        return np.asarray(sum(parts)).astype(expr.dtype.numpy)
    args = [_run(a, blocks)[:, None] for a in expr.args]
    return apply(expr.name, args, expr.dtype).reshape(-1)


# --- scales -------------------------------------------------------------------------------------------------------


def literal(value: int, like: ValueExpr) -> ValueExpr:
    """A number in all lanes of another value."""
    one = imm(value, like.dtype.scalar)
    return one if like.dtype.lanes == 1 else op("broadcast", one, dtype=like.dtype)


def _half(read: Reader, first: int) -> ValueExpr:
    """A number in f16, as f32."""
    word = read(first, 2)
    lanes = word.dtype.lanes
    return cast(op("bits", word, dtype=F16.with_lanes(lanes)), F32.with_lanes(lanes))


def _float(value: ValueExpr) -> ValueExpr:
    """An unsigned number below 2**31, as f32."""
    lanes = value.dtype.lanes
    return cast(op("bits", value, dtype=I32.with_lanes(lanes)), F32.with_lanes(lanes))


def _byte(word: ValueExpr, k: int) -> ValueExpr:
    """Byte ``k`` of words of four."""
    shifted = op("shr", word, literal(8 * k, word)) if k else word
    return op("and", shifted, literal(255, word)) if k < 3 else shifted


def _one_scale(read: Reader) -> tuple[Scales, ...]:
    return (Scales(_half(read, 0)),)


def _scale_and_min(read: Reader) -> tuple[Scales, ...]:
    return (Scales(_half(read, 0), minimum=_half(read, 2)),)


def _scale_and_zero(read: Reader) -> tuple[Scales, ...]:
    """least = -scale * zero: exact in f32, of 11 bits by 8."""
    step = _half(read, 0)
    zero = _float(cast(op("and", read(2, 2), literal(255, read(2, 2))), U32.with_lanes(step.dtype.lanes)))
    return (Scales(step, minimum=op("mul", op("neg", step), zero)),)


def _super_scales(read: Reader) -> tuple[Scales, ...]:
    """Eight factors and eight minima of 6 bits in 12 bytes: the first four whole, of the others four bits behind
    them, and two in the upper bits of those before."""
    step, minimum = _half(read, 0), op("neg", _half(read, 2))
    first, second, third = (read(at, 4) for at in (4, 8, 12))

    def masked(word: ValueExpr, shift: int, mask: int) -> ValueExpr:
        return op("and", op("shr", word, literal(shift, word)) if shift else word, literal(mask * 0x01010101, word))

    factors = masked(first, 0, 63), op("or", masked(third, 0, 15), masked(first, 2, 48))
    minima = masked(second, 0, 63), op("or", masked(third, 4, 15), masked(second, 2, 48))
    return tuple(
        Scales(
            op("mul", step, _float(_byte(factors[k // 4], k % 4))),
            minimum=op("mul", minimum, _float(_byte(minima[k // 4], k % 4))),
        )
        for k in range(8)
    )


def _sixteen_scales(read: Reader) -> tuple[Scales, ...]:
    """Sixteen signed factors of 8 bits behind 192 bytes, and one scale."""
    step, words = _half(read, 208), [read(192 + 4 * k, 4) for k in range(4)]

    def factor(k: int) -> ValueExpr:
        word = op("bits", words[k // 4], dtype=I32.with_lanes(step.dtype.lanes))
        top = op("shl", word, literal(24 - 8 * (k % 4), word)) if k % 4 < 3 else word
        return cast(op("shr", top, literal(24, word)), step.dtype)

    return tuple(Scales(step, factors=(factor(2 * k), factor(2 * k + 1))) for k in range(8))


# --- formats ------------------------------------------------------------------------------------------------------


def _nibbles(first: int) -> tuple[Run, ...]:
    return Run(16, Bits(first, 0, 4)), Run(16, Bits(first, 4, 4))


def _fours(fifth: int) -> tuple[Run, ...]:
    """Nibbles as in Q4_0 behind four bytes of fifth bits, those of run ``k`` the bits ``k``."""
    return tuple(Run(4, Bits(fifth + 4 + 4 * (k % 4), 4 * (k // 4), 4), Bits(fifth, k, 1)) for k in range(8))


def _five_bits() -> tuple[Run, ...]:
    """Pairs of runs share bytes of nibbles; the fifth bits of run ``k`` are bits ``k`` of the same 32 bytes."""
    return tuple(Run(32, Bits(48 + 32 * (k // 2), 4 * (k % 2), 4), Bits(16, k, 1)) for k in range(8))


def _six_bits() -> tuple[Run, ...]:
    """Two halves: 64 bytes of nibbles, of which 32 share 32 bytes of upper bits, two bits of each."""
    return tuple(
        Run(16, Bits(64 * half + 32 * (k % 2) + part, 4 * (k // 2), 4), Bits(128 + 32 * half + part, 2 * k, 2))
        for half in range(2)
        for k in range(4)
        for part in (0, 16)
    )


_SUPER: Final = ((0, 1, 2), (2, 1, 2), (4, 3, 4))
FORMATS: Final[Mapping[str, Format]] = {
    form.name: form
    for form in (
        Format("Q8_0", 32, 34, 128, (Run(32, Bits(2, 0, 8)),), ((0, 1, 2),), _one_scale, signed=True),
        Format("Q4_0", 32, 18, 8, _nibbles(2), ((0, 1, 2),), _one_scale),
        Format("Q4_1", 32, 20, 0, _nibbles(4), ((0, 1, 2), (2, 1, 2)), _scale_and_min),
        Format("Q4_Z", 32, 20, 0, _nibbles(4), ((0, 1, 2), (2, 1, 2)), _scale_and_zero),
        Format("Q5_0T", 32, 22, 16, _fours(2), ((0, 1, 2),), _one_scale),
        Format("Q5_1T", 32, 24, 0, _fours(4), ((0, 1, 2), (2, 1, 2)), _scale_and_min),
        Format(
            "Q4_K", 256, 144, 0, tuple(Run(32, Bits(16 + 32 * (k // 2), 4 * (k % 2), 4)) for k in range(8)),
            _SUPER, _super_scales,
        ),
        Format("Q5_K", 256, 176, 0, _five_bits(), _SUPER, _super_scales),
        Format("Q6_K", 256, 210, 32, _six_bits(), ((192, 4, 4), (208, 1, 2)), _sixteen_scales, apart=True),
    )
}  # fmt: skip


def format_of(name: str) -> Format:
    """The format of a name.

    Raises:
        BuildError: there is none.
    """
    if name not in FORMATS:
        raise BuildError(f"no format {name!r} of weights in groups", hint=f"one of {', '.join(FORMATS)}")
    return FORMATS[name]
