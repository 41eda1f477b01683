"""AudioSpectrogram and Mfcc, of the speech commands of TensorFlow: samples to spectra, and these to coefficients."""

from __future__ import annotations

import math

import numpy as np

from sdk.compiler.ir.types import F32, I32, I64
from sdk.errors import BuildError
from sdk.frontends.moves import part
from sdk.frontends.spectra import spectrum
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.flexbuffers import Flags, read_flags
from sdk.frontends.tflite.operators.custom.terms import Term, given, whole

__all__ = ["TABLE"]

_LONGEST = 1 << 16
_MAX_BANDS = 1 << 10
_MAX_HZ = 1 << 24
_MIN = 1e-12  # of a band before its logarithm


def audio_spectrogram(node: OpNode) -> None:
    """AudioSpectrogram: samples [n, channels] to the magnitudes [channels, frames, bins] of frames times a Hann window,
    squared or not, transformed at the next power of two."""
    whole(node, 1, 1)
    flags = read_flags(node.operator.custom_options)
    window, step = flags.integer("window_size", 2, _LONGEST), flags.integer("stride", 1, _LONGEST)
    x = given(node, 0, F32)
    shape = x.value.type.static_shape
    if len(shape) != 2 or shape[0] < window or shape[1] < 1:
        raise BuildError(f"samples {list(shape)} are no [count, channels] with a frame of {window}")
    channels, frames, length = shape[1], 1 + (shape[0] - window) // step, 1 << (window - 1).bit_length()
    emit = x.emit
    starts = Term(emit, emit.call("iota", extent=frames, start=0, step=1, dtype="i64")) * step
    inside = Term(emit, emit.call("iota", extent=window, start=0, step=1, dtype="i64"))
    at = starts.call("reshape", shape=(frames, 1)) + inside
    cut = x.call("transpose", perm=(1, 0)).call("gather", at, axis=1)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    rows = (cut * x.table(hann, F32, "hann")).call("reshape", shape=(channels * frames, 1, window))
    both = spectrum(emit, rows.value, length, False, True)
    re, im = (Term(emit, part(emit, both, 1, k, 1)) for k in (0, 1))
    power = re * re + im * im
    found = power if flags.number("magnitude_squared", 0) else power.call("sqrt")
    node.call("reshape", found.value, shape=(channels, frames, length // 2 + 1))


def _hertz(flags: Flags, name: str) -> int:
    """A frequency, whose part after the point the kernel leaves out."""
    value = flags.number(name)
    if not 0 <= value < _MAX_HZ:
        raise BuildError(f"the option {name} is {value}, not a frequency up to {_MAX_HZ} Hz")
    return int(value)


def mfcc(node: OpNode) -> None:
    """Mfcc: squared magnitudes [channels, frames, bins] and the rate of the samples, an int32 that the run may give, to
    coefficients: the cosine transform of the logarithms of bands that are even on the mel scale. Where the rate leaves
    no room for the upper limit all is 0."""
    whole(node, 2, 1)
    flags = read_flags(node.operator.custom_options)
    low, high = _hertz(flags, "lower_frequency_limit"), _hertz(flags, "upper_frequency_limit")
    bands = flags.integer("filterbank_channel_count", 1, _MAX_BANDS)
    count = flags.integer("dct_coefficient_count", 1, bands)
    x, rate = given(node, 0, F32), given(node, 1, I32)
    shape = x.value.type.static_shape
    if len(shape) != 3 or not 2 <= shape[2] <= _LONGEST or 0 in shape or rate.value.type.size != 1:
        rates = rate.value.type.size
        raise BuildError(f"spectra {list(shape)} and {rates} rates, not [channels, frames, bins] and one")
    if high <= low:
        raise BuildError(f"bands of {low} to {high} Hz")
    bins, hertz = shape[2], rate.call("reshape", shape=(1, 1))
    weights = _tents(hertz, bins, low, high, bands)
    rows = x.call("reshape", shape=(shape[0] * shape[1], bins)).call("sqrt")
    logs = rows.call("matmul", weights).maximum(_MIN).call("log")
    angles = np.pi / bands * np.outer(np.arange(bands) + 0.5, np.arange(count))
    cosines = x.table(math.sqrt(2.0 / bands) * np.cos(angles), F32, "cosines")
    room = hertz.to(I64) * bins > 2 * high * (bins - 1)
    found = room.where(logs.call("matmul", cosines), 0.0)
    node.call("reshape", found.value, shape=(*shape[:2], count))


def _mel(hertz: float) -> float:
    return 1127.0 * math.log1p(hertz / 700.0)


def _tents(rate: Term, bins: int, low: int, high: int, bands: int) -> Term:
    """The share [bins, bands] of each bin of a spectrum in each band. On the mel scale bands stand a ``step`` apart,
    and a share falls from 1 at its middle to 0 at those beside it. Bins outside of the limits have none: these are
    compared in integers, so that a bin on a limit is where the kernel has it."""
    emit, step = rate.emit, (_mel(high) - _mel(low)) / (bands + 1)
    places = Term(emit, emit.call("iota", extent=bins, start=0, step=1, dtype="i64")).call("reshape", shape=(bins, 1))
    hertz = places.to(F32) * rate.to(F32) * (0.5 / (bins - 1))
    mels = ((hertz * (1 / 700.0) + 1.0).call("log") * 1127.0 - _mel(low)) * (1 / step)
    middles = mels.table(np.arange(1, bands + 1, dtype=np.float32).reshape(1, bands), F32, "middles")
    shares = (-((mels - middles).call("abs")) + 1.0).maximum(0.0)
    wide = rate.to(I64)
    place = places * wide  # of each bin, in units of rate / (2 * (bins - 1)) hertz
    first = place * 2 + wide * 2 > wide * 3 + 4 * low * (bins - 1)  # from floor(1.5 + low) on
    last = place < 2 * high * (bins - 1) + 1
    return first.where(last.where(shares, 0.0), 0.0)


TABLE: Table = {"AudioSpectrogram": audio_spectrogram, "Mfcc": mfcc}
