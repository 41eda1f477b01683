"""The audio front end of tflite-micro: from windowed samples to logarithms of the energies of filters, in the integers
of its kernels."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.types import F64, I16, I32, U32, U64
from sdk.errors import BuildError
from sdk.frontends.moves import padded, part
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.flexbuffers import read_flags
from sdk.frontends.tflite.operators.custom.streams import Kept
from sdk.frontends.tflite.operators.custom.terms import Term, given, row, whole

__all__ = ["TABLE"]

_MAX_TERMS: Final = 1 << 20
_WORD: Final = (1 << 32) - 1
_LN2: Final = 45426  # the natural logarithm of 2 in 16 fractional bits
_SEGMENTS: Final = 128
_GAINS: Final = 125  # entries of a table of gains: three below 3, and four for each power of two
_SNR_BITS, _OUTPUT_BITS = 12, 6


def _size(term: Term) -> int:
    (found,) = term.value.type.shape
    assert isinstance(found, int)
    return found


def _put(node: OpNode, term: Term, to: int = 0) -> None:
    """Makes a term an output of the operator."""
    node.call("reshape", term.value, to=to, shape=term.value.type.shape)


def window(node: OpNode) -> None:
    """SignalWindow: frames of n samples, in any shape, times weights [n], shifted down and held to 16 bits."""
    whole(node, 2, 1)
    shift = read_flags(node.operator.custom_options).integer("shift", 0, 31)
    x, weights = given(node, 0, I16), row(node, 1, I16)
    shape, n = x.value.type.static_shape, _size(weights)
    count = math.prod(shape)
    if not count or count % n:
        raise BuildError(f"frames {list(shape)} are no multiple of the window of {n}")
    framed = x.call("reshape", shape=(count // n, n))
    scaled = (framed.to(I32) * weights.to(I32)) >> shift
    held = scaled.maximum(-(1 << 15)).minimum((1 << 15) - 1).to(I16)
    node.call("reshape", held.value, shape=shape)


def _bits(x: Term) -> Term:
    """How many bits numbers of u32 have, 0 of 0: a binary search."""
    found = (x > _WORD >> 16).where(x.number(16), 0)
    for step in (8, 4, 2, 1):
        rest = x >> found
        found = found + (rest > (1 << step) - 1).where(x.number(step), 0)
    return found + (x > 0).where(x.number(1), 0)


def _largest(x: Term, n: int) -> Term:
    """The largest magnitude of i16 as the kernel finds it, 0 where it finds none above 0.

    It compares in 16 bits, where the lowest number has no opposite: that one makes it forget what came before, and
    after it rising numbers below 0 do not count.
    """
    wide, lowest = x.to(I32), -(1 << 15)
    place = Term(x.emit, x.emit.call("iota", extent=n, start=0, step=1, dtype=str(I32)))
    last = wide.same(lowest).where(place, -1).call("reduce_max", axes=(0,))
    before = wide.call("gather", place.table([max(k - 1, 0) for k in range(n)], I32, "before"), axis=0)
    counts = (wide < 0).where((wide > before).where(place.number(n), place), place)
    first = (place > last).where(counts, n).call("reduce_min", axes=(0,))
    first = (last < 0).where(first.number(0), first)
    size = (place >= first).where(wide.maximum(-wide), 0)
    return size.call("reduce_max", axes=(0,))


def auto_scale(node: OpNode) -> None:
    """SignalFftAutoScale: samples [n] shifted up as far as the largest allows, and by how many bits."""
    whole(node, 1, 2)
    x = row(node, 0, I16)
    maximum = _largest(x, _size(x))
    spare = (maximum.number(15) - _bits(maximum.to(U32)).to(I32)).maximum(0)
    up = maximum.same(0).where(spare.number(0), spare)
    node.cast((x.to(I32) * (up.number(1) << up)).value, I16)
    node.call("reshape", up.value, to=1, shape=())


def energy(node: OpNode) -> None:
    """SignalEnergy: the squared magnitudes of the numbers ``start_index`` to ``end_index`` of a complex spectrum
    [2 n] (real, imaginary, ...); 0 beside them, where the kernel leaves what memory held."""
    whole(node, 1, 1)
    flags = read_flags(node.operator.custom_options)
    x = row(node, 0, I16)
    count = _size(x) // 2
    end = flags.integer("end_index", 0, count)
    start = flags.integer("start_index", 0, end)
    shape = node.output().shape
    if len(shape) != 1 or not max(end, 1) <= shape[0] <= count:
        raise BuildError(f"energies {start} to {end} of {count} numbers do not fit the output {list(shape)}")
    if start == end:
        node.call("full", shape=shape, value=0, dtype=str(U32))
        return
    used = Term(x.emit, part(x.emit, x.value, 0, 2 * start, 2 * (end - start))).to(I32).to(U32)
    squares = (used * used).call("reshape", shape=(end - start, 2)).value
    re, im = (Term(x.emit, part(x.emit, squares, 1, k, 1)) for k in (0, 1))
    total = (re + im).call("reshape", shape=(end - start,)).value
    node.call("reshape", padded(x.emit, total, [(start, shape[0] - end)], value=0), shape=shape)


def _constant(node: OpNode, k: int) -> NDArray[np.int16]:
    """The numbers of a constant of i16."""
    data = node.constant(k).reshape(-1)
    if data.dtype != np.int16:
        raise BuildError(f"input {k} ({node.tensor(k).title}) is of {data.dtype}, not of int16")
    return data


def filter_bank(node: OpNode) -> None:
    """SignalFilterBank: energies [n] summed with the weights of the filters; a filter also gets what the one before it
    does not take. Inputs (energies, weights, unweights, first energies, first weights, widths), constants but one."""
    whole(node, 6, 1)
    count = read_flags(node.operator.custom_options).integer("num_channels", 1, 1 << 15)
    x = row(node, 0, U32)
    weights, rests, *places_of = (_constant(node, k) for k in range(1, 6))
    starts, firsts, widths = (found[: count + 1].tolist() for found in places_of)
    if {len(starts), len(firsts), len(widths)} != {count + 1}:
        raise BuildError(f"{count} filters need {count + 1} starts and widths")
    places: list[int] = []
    factors: list[int] = []
    ends = [0]
    mine: tuple[list[int], list[int]] = ([], [])  # what the filter before leaves: energies and weights
    for start, first, width in zip(starts, firsts, widths, strict=True):
        span, inside = max(width, 0), min(len(weights), len(rests))
        if span and (min(start, first) < 0 or start + span > _size(x) or first + span > inside):
            there = f"there are {_size(x)} and {inside}"
            raise BuildError(f"a filter takes {span} energies from {start} with weights from {first}, {there}")
        if len(places) + span * 2 > _MAX_TERMS:
            raise BuildError(f"the filters have more than {_MAX_TERMS} weights")
        here = list(range(start, start + span))
        places += [*mine[0], *here]
        factors += [*mine[1], *weights[first : first + span].tolist()]
        mine = here, rests[first : first + span].tolist()
        ends.append(len(places))
    _put(node, _sums(x, places, factors, ends[1:]))


def _sums(x: Term, places: list[int], factors: list[int], ends: list[int]) -> Term:
    """For each two neighbours of ``ends`` the sum of the products from one to the other, in 64 bits that wrap."""
    if not places:
        return Term(x.emit, x.emit.call("full", shape=(len(ends) - 1,), value=0, dtype=str(U64)))
    scaled = x.at(x.table(places, I32, "places")).to(U64) * x.table(factors, I16, "weights").to(I32).to(U64)
    running = scaled.call("cumsum", exclusive=False, reverse=False)
    whole_sums = Term(x.emit, padded(x.emit, running.value, [(1, 0)], value=0))
    after, before = (whole_sums.at(x.table(e, I32, "ends")) for e in (ends[1:], ends[:-1]))
    return after - before


def square_root(node: OpNode) -> None:
    """SignalFilterBankSquareRoot: rounded roots of sums [n], shifted down by bits that are an input."""
    whole(node, 2, 1)
    x, shift = row(node, 0, U64), given(node, 1, I32)
    if shift.value.type.size != 1:
        raise BuildError(f"input 1 ({node.tensor(1).title}) must be one number")
    # a root in double precision is at most 1 off, either way
    near = x.to(F64).call("sqrt").to(U64).minimum(_WORD)
    floor = (near * near > x).where(near - 1, near)
    more = (x - floor * floor > floor * 2).where(floor.number(1), 0)
    root = (floor + more).minimum(_WORD)
    up = (x - root * root > root).where(root.number(1), 0)
    # the kernel holds roots of 32 bits to 16 bits, and those of 64 to 32
    top = (x > _WORD).where(x.number(_WORD), (1 << 16) - 1)
    rounded = (root + up).minimum(top).to(U32)
    _put(node, rounded >> shift.call("reshape", shape=(1,)).to(U32))


def spectral_subtraction(node: OpNode) -> None:
    """SignalFilterBankSpectralSubtraction: signals [n] without the noise, and the noise estimated up to now, which is
    kept from run to run."""
    whole(node, 1, 2)
    flags = read_flags(node.operator.custom_options)
    count = flags.integer("num_channels", 1, 1 << 15)
    up, down = flags.integer("smoothing_bits", 0, 31), flags.integer("spectral_subtraction_bits", 0, 63)
    names = ("smoothing", "alternate_smoothing", "one_minus_smoothing", "alternate_one_minus_smoothing")
    new, odd_new, old, odd_old = (flags.integer(k, 0, (1 << 31) - 1) for k in names)
    minimum = flags.integer("min_signal_remaining", 0, (1 << 31) - 1)
    x = row(node, 0, U32, count)
    news, olds = (
        x.table([pair[k & 1] for k in range(count)], U64, "smoothing") for pair in ((new, odd_new), (old, odd_old))
    )
    noise = Kept(node, 1, U32, (count,))
    raised = x << up
    estimate = ((raised.to(U64) * news + noise.before.to(U64) * olds) >> down).to(U32)
    held = estimate.minimum(raised)
    lowest = ((x.to(U64) * x.number(minimum).to(U64)) >> down).to(U32)
    _put(node, ((raised - held) >> up).maximum(lowest))
    kept = held if flags.number("clamping", 0) else estimate
    noise.becomes(kept)
    _put(node, kept, 1)


def gain_control(node: OpNode) -> None:
    """SignalPCAN: signals [n] normalised by a gain that a table [125 or more] has for the noise [n]."""
    whole(node, 3, 1)
    shift = read_flags(node.operator.custom_options).integer("snr_shift", 0, 63)
    x = row(node, 0, U32)
    noise, gains = row(node, 1, U32, _size(x)), row(node, 2, I16)
    if _size(gains) < _GAINS:
        raise BuildError(f"the table of gains has {_size(gains)} entries, {_GAINS} are wanted")
    gain = _gain(noise, gains)
    ratio = ((x.to(U64) * gain.to(I32).to(U32).to(U64)) >> shift).to(U32)
    small = (ratio * ratio) >> (2 + 2 * _SNR_BITS - _OUTPUT_BITS)
    large = (ratio >> (_SNR_BITS - _OUTPUT_BITS)) - (1 << _OUTPUT_BITS)
    _put(node, (ratio < 2 << _SNR_BITS).where(small, large))


def _gain(noise: Term, gains: Term) -> Term:
    """A parabola for each power of two: its three numbers lie in the table, 4 from those of the next."""
    bits = _bits(noise)
    top = bits.maximum(2)  # up to 2 the entries themselves count
    down, up = ((top - 11).to(I32).maximum(0).to(U32), (-(top - 11)).to(I32).maximum(0).to(U32))
    place = ((noise << up) >> down & 0x3FF).to(I32)
    base = (top << 2).to(I32) - 6
    level, slope, bend = (gains.at(base + k).to(I32) for k in range(3))
    rise = (((bend * place) >> 5) + (slope << 5)) * place
    curve = ((rise + (1 << 14)) >> 15) + level
    return (noise > 2).where(curve, gains.at(noise.minimum(2).to(I32)).to(I32)).to(I16)


def logarithm(node: OpNode) -> None:
    """SignalFilterBankLog: natural logarithms of signals [n] in ``output_scale`` steps, from a table of segments."""
    whole(node, 1, 1)
    flags = read_flags(node.operator.custom_options)
    up, scale = flags.integer("input_correction_bits", 0, 31), flags.integer("output_scale", 0, (1 << 31) - 1)
    x = row(node, 0, U32) << up
    power = _bits(x.maximum(1)) - 1
    left, right = ((power.number(16) - power).to(I32).maximum(0), (power - 16).to(I32).maximum(0))
    rest = x.maximum(1) - (x.number(1) << power)
    part16 = ((rest << left.to(U32)) >> right.to(U32)).to(I32)
    segment = part16 >> 9
    steps = np.arange(_SEGMENTS + 1) / _SEGMENTS
    table = x.table(np.rint((np.log2(1 + steps) - steps) * 65536), I16, "segments")
    low, high = table.at(segment).to(I32), table.at(segment + 1).to(I32)
    bent = ((high - low) * (part16 - (segment << 9))) >> 16
    log2 = (power << 16) + (part16 + low + bent).to(U32)
    natural = ((log2.to(U64) * _LN2 + (1 << 15)) >> 16).to(U32)
    scaled = ((natural * scale + (1 << 15)) >> 16).minimum((1 << 15) - 1)
    _put(node, (x > 1).where(scaled, 0).to(I16))


TABLE: Table = {
    "SignalWindow": window,
    "SignalFftAutoScale": auto_scale,
    "SignalEnergy": energy,
    "SignalFilterBank": filter_bank,
    "SignalFilterBankSquareRoot": square_root,
    "SignalFilterBankSpectralSubtraction": spectral_subtraction,
    "SignalPCAN": gain_control,
    "SignalFilterBankLog": logarithm,
}
