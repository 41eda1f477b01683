"""SignalRfft and SignalIrfft: spectra of real samples and back, in the fixed point of the kernels or in floats.

Two samples make a complex number, so a transform of half the length does; what its numbers say of even and odd
samples is then taken apart. Each stage joins 4 transforms of a quarter of the length (the last one 2 where the length
is no power of 4), and divides by as much so that sums stay in range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from sdk.compiler.ir.types import F32, I16, I32, I64, DType
from sdk.errors import BuildError
from sdk.frontends.moves import padded, part
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.flexbuffers import read_flags
from sdk.frontends.tflite.operators.custom.terms import Term, given, whole

__all__ = ["TABLE"]

_KINDS: Final = {0: F32, 2: I32, 7: I16}  # by the number of the type in files
_WIDE: Final = {F32: F32, I32: I64, I16: I32}  # the type that holds products
_LONGEST: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class _Pair:
    """Complex numbers of one type."""

    re: Term
    im: Term

    def __add__(self, other: _Pair) -> _Pair:
        return _Pair(self.re + other.re, self.im + other.im)

    def __sub__(self, other: _Pair) -> _Pair:
        return _Pair(self.re - other.re, self.im - other.im)

    def part(self, axis: int, begin: int, size: int) -> _Pair:
        """Some elements of an axis."""
        return _Pair(*(Term(t.emit, part(t.emit, t.value, axis, begin, size)) for t in (self.re, self.im)))

    def call(self, op: str, **options: str | int | bool | tuple[int, ...]) -> _Pair:
        """The result of an op on both parts."""
        return _Pair(self.re.call(op, **options), self.im.call(op, **options))

    def at(self, places: list[int], axis: int) -> _Pair:
        """The elements at these places of an axis."""
        table = self.re.table(places, I32, "places")
        return _Pair(self.re.call("gather", table, axis=axis), self.im.call("gather", table, axis=axis))


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Numbers of ``kind`` with all but one of its bits after the point; of floats, plain ones. ``sign`` is the sign of
    angles: -1 to a spectrum, 1 from one."""

    kind: DType
    sign: int

    @property
    def one(self) -> int:
        return (1 << self.kind.bits - 1) - 1

    def wide(self, x: _Pair) -> _Pair:
        """In the type of products, from the low bits that the kernel stores."""
        kind = _WIDE[self.kind]
        return _Pair(*(t.to(self.kind).to(kind) for t in (x.re, x.im)))

    def _rounded(self, x: Term) -> Term:
        bits = self.kind.bits - 1
        return x if self.kind.is_float else (x + (1 << bits - 1)) >> bits

    def divided(self, x: _Pair, by: int) -> _Pair:
        """By a small integer, of floats not at all."""
        if self.kind.is_float:
            return x
        return _Pair(*(self._rounded(t * (self.one // by)) for t in (x.re, x.im)))

    def turned(self, x: _Pair, angles: np.ndarray) -> _Pair:
        """Times the numbers of these angles on the unit circle."""
        re, im = (
            x.re.table(v if self.kind.is_float else np.floor(0.5 + self.one * v), self.kind, "turns").to(
                _WIDE[self.kind]
            )
            for v in (np.cos(self.sign * angles), np.sin(self.sign * angles))
        )
        return self.wide(_Pair(self._rounded(x.re * re - x.im * im), self._rounded(x.re * im + x.im * re)))

    def halved(self, x: Term) -> Term:
        return x * 0.5 if self.kind.is_float else x >> 1


def _factors(n: int) -> list[int]:
    found = []
    while n % 4 == 0:
        found.append(4)
        n //= 4
    return found + [2] * (n == 2)


def _order(n: int, factors: list[int]) -> list[int]:
    """Which number each place has before the first stage."""
    found, step = np.zeros(1, np.int64), 1
    for p in factors:
        found = (found[..., None] + np.arange(p) * step).reshape(-1)
        step *= p
    return [int(k) for k in found]


def _joined(fixed: _Fixed, x: _Pair, n: int, p: int, m: int) -> _Pair:
    """A stage: from [b, blocks, p, m] transforms of m numbers to those of p * m."""
    x = fixed.divided(fixed.wide(x), p)
    first, rest = x.part(2, 0, 1), x.part(2, 1, p - 1)
    steps = np.outer(np.arange(1, p), np.arange(m)) * (n // (p * m))
    turned = fixed.turned(rest, 2 * math.pi * steps / n)
    if p == 2:
        rows = [first + turned, first - turned]
    else:
        one, two, three = (turned.part(2, k, 1) for k in range(3))
        even, odd, low, cross = first + two, first - two, one + three, one - three
        turns = [_Pair(odd.re + cross.im, odd.im - cross.re), _Pair(odd.re - cross.im, odd.im + cross.re)]
        after, before = turns[:: -fixed.sign]
        rows = [even + low, after, even - low, before]
    return _Pair(*(_stack([t.to(fixed.kind) for t in side]) for side in ([r.re for r in rows], [r.im for r in rows])))


def _stack(terms: list[Term], axis: int = 2) -> Term:
    return terms[0].call("concat", *terms[1:], axis=axis)


def _transform(fixed: _Fixed, x: _Pair, batch: int, n: int) -> _Pair:
    """The spectra of ``x[batch, n]``."""
    factors = _factors(n)
    x, m = x.at(_order(n, factors), 1), 1
    for p in reversed(factors):
        blocks = x.call("reshape", shape=(batch, n // (p * m), p, m))
        x, m = _joined(fixed, blocks, n, p, m), m * p
    return x.call("reshape", shape=(batch, n))


def _mirrored(fixed: _Fixed, x: _Pair, n: int) -> tuple[_Pair, _Pair]:
    """Of the numbers 1 to n / 2 and their mirror images: half the sums, and half the differences, turned."""
    half = n // 2
    here, there = x.part(1, 1, half), x.at([n - k for k in range(1, half + 1)], 1)
    there = fixed.wide(_Pair(there.re, -there.im))
    here, there = fixed.divided(here, 2), fixed.divided(there, 2)
    sums, rests = fixed.wide(here + there), fixed.wide(here - there)
    return sums, fixed.turned(rests, math.pi * (np.arange(1, half + 1) / n + 0.5))


def _apart(fixed: _Fixed, x: _Pair, n: int) -> Term:
    """The spectrum [b, n + 1, 2] of 2 n real samples from that of their pairs."""
    x = fixed.wide(x)
    ends = fixed.divided(x.part(1, 0, 1), 2)
    sides = ends.re + ends.im, ends.re - ends.im
    half = n // 2
    sums, turned = _mirrored(fixed, x, n)
    low = _Pair(fixed.halved(sums.re + turned.re), fixed.halved(sums.im + turned.im))
    high = _Pair(fixed.halved(sums.re - turned.re), fixed.halved(turned.im - sums.im))
    # the number in the middle is written from below, then from above
    back = [n - k for k in range(half, n)]
    upper = high.at([k - 1 for k in back], 1)
    lower = low.part(1, 0, half - 1) if half > 1 else None
    nothing = ends.re.table(np.zeros(ends.re.value.type.static_shape), fixed.kind, "nothing")
    re = [sides[0], *([lower.re] if lower else []), upper.re, sides[1]]
    im = [nothing, *([lower.im] if lower else []), upper.im, nothing]
    flat = [_stack([t.to(fixed.kind) for t in side], 1) for side in (re, im)]
    return _stack([t.call("reshape", shape=(*t.value.type.static_shape, 1)) for t in flat])


def _together(fixed: _Fixed, x: _Pair, n: int) -> _Pair:
    """The spectrum [b, n] of pairs of samples from that of 2 n samples [b, n + 1]."""
    x = fixed.wide(x)
    first, last = (x.part(1, k, 1).re for k in (0, n))
    ends = fixed.divided(fixed.wide(_Pair(first + last, first - last)), 2)
    half = n // 2
    sums, turned = _mirrored(fixed, x, n)
    low, high = sums + turned, sums - turned
    upper = _Pair(high.re, -high.im).at([n - k - 1 for k in range(half, n)], 1)
    rows = [ends, *([low.part(1, 0, half - 1)] if half > 1 else []), upper]
    return _Pair(
        *(_stack([t.to(fixed.kind) for t in side], 1) for side in ([r.re for r in rows], [r.im for r in rows]))
    )


def _options(node: OpNode) -> tuple[int, DType]:
    """The length of the transform and the type of its samples."""
    whole(node, 1, 1)
    flags = read_flags(node.operator.custom_options)
    length, number = flags.integer("fft_length", 4, _LONGEST), flags.integer("T", 0, 1 << 8)
    kind = _KINDS.get(number)
    if kind is None:
        raise BuildError(f"the type T is {number}, not 0 (float32), 2 (int32) or 7 (int16)")
    if length & (length - 1):
        raise BuildError(f"the option fft_length is {length}, not a power of two")
    return length, kind


def _halves(x: Term, batch: int, n: int) -> _Pair:
    """The pairs of ``x[batch, n, 2]`` as two tensors."""
    return _Pair(*(Term(x.emit, part(x.emit, x.value, 2, k, 1)).call("reshape", shape=(batch, n)) for k in (0, 1)))


def real_transform(node: OpNode) -> None:
    """SignalRfft: samples [..., up to ``fft_length``] to the pairs (real, imaginary) of their spectrum
    [..., fft_length + 2]."""
    length, kind = _options(node)
    x = given(node, 0, kind)
    shape = x.value.type.static_shape
    if not shape or 0 in shape or shape[-1] > length:
        raise BuildError(f"samples {list(shape)} are no frames of 1 to {length}")
    batch, n, fixed = math.prod(shape[:-1]), length // 2, _Fixed(kind, -1)
    frames = x.call("reshape", shape=(batch, shape[-1])).value
    zero = 0.0 if kind.is_float else 0
    longer = Term(x.emit, padded(x.emit, frames, [(0, 0), (0, length - shape[-1])], value=zero))
    pairs = _halves(longer.call("reshape", shape=(batch, n, 2)), batch, n)
    spectrum = _apart(fixed, _transform(fixed, pairs, batch, n), n)
    node.call("reshape", spectrum.value, shape=(*shape[:-1], length + 2))


def real_inverse(node: OpNode) -> None:
    """SignalIrfft: the pairs of a spectrum [..., fft_length + 2] to samples [..., fft_length]."""
    length, kind = _options(node)
    x = given(node, 0, kind)
    shape = x.value.type.static_shape
    if not shape or 0 in shape or shape[-1] != length + 2:
        raise BuildError(f"spectra {list(shape)} have no {length // 2 + 1} pairs")
    batch, n, fixed = math.prod(shape[:-1]), length // 2, _Fixed(kind, 1)
    pairs = _halves(x.call("reshape", shape=(batch, n + 1, 2)), batch, n + 1)
    samples = _transform(fixed, _together(fixed, pairs, n), batch, n)
    sides = [t.call("reshape", shape=(batch, n, 1)) for t in (samples.re, samples.im)]
    joined = _stack(sides)
    if kind.is_float:  # where stages do not divide
        joined = joined * (1 / length)
    node.call("reshape", joined.value, shape=(*shape[:-1], length))


TABLE: Table = {"SignalRfft": real_transform, "SignalIrfft": real_inverse}
