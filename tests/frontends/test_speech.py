"""AudioSpectrogram and Mfcc against LiteRT's kernels: frames, rates and limits of all kinds, as imported and in C."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import litert_outputs
from tflite_files import ModelFile as Writer

from sdk.boards import load_board
from sdk.compiler.interp.graph import run_graph
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "passes"))
from as_c import Library, close

WINDOWS = [((64, 1), 16, 8, True), ((100, 2), 20, 7, False), ((33, 1), 33, 5, True), ((400, 3), 100, 90, True)]
SPEECH = {
    "upper_frequency_limit": 4000.0, "lower_frequency_limit": 20.0, "filterbank_channel_count": 40,
    "dct_coefficient_count": 13,
}  # fmt: skip


def spectrogram(m: Writer, x: int, shape: tuple[int, int], window: int, step: int, squared: bool) -> int:
    """The number of the tensor of spectra."""
    bins, frames = (1 << (window - 1).bit_length()) // 2 + 1, 1 + (shape[0] - window) // step
    y = m.tensor("spectra", (shape[1], frames, bins), "float32")
    flags = {"window_size": window, "stride": step, "magnitude_squared": squared}
    m.op("CUSTOM", [x], [y], custom="AudioSpectrogram", flags=flags)
    return y


@pytest.mark.parametrize(("shape", "window", "step", "squared"), WINDOWS)
def test_spectra(shape: tuple[int, int], window: int, step: int, squared: bool) -> None:
    m, rng = Writer(), np.random.default_rng(window)
    m.outputs.append(spectrogram(m, m.input("x", shape, "float32"), shape, window, step, squared))
    data = m.build()
    for run in range(3):
        x = rng.normal(0, 10.0**run, shape).astype(np.float32)
        ((want,),) = litert_outputs(data, [[x]])
        (got,) = run_graph(import_tflite(data, "m"), "main", {"x": x}).values()
        close(got, want, f"run {run}", 1e-5)


def coefficients(shape: tuple[int, int, int], rate: int | None = None, **flags: Any) -> bytes:
    """Mfcc of any spectra; a ``rate`` that is None is an input."""
    m = Writer()
    x = m.input("x", shape, "float32")
    hertz = m.input("rate", (1,), "int32") if rate is None else m.const("rate", [rate])
    given = SPEECH | flags
    y = m.output("y", (*shape[:2], given["dct_coefficient_count"]), "float32")
    m.op("CUSTOM", [x, hertz], [y], custom="Mfcc", flags=given)
    return m.build()


# 8,000 Hz at 257 bins puts the upper limit on the last bin; 7,968 and 4,000 leave no room for it.
@pytest.mark.parametrize("rate", [16000, 8000, 44100, 11025, 7968, 4000])
def test_coefficients(rate: int) -> None:
    rng = np.random.default_rng(rate)
    for shape, flags in (
        ((1, 3, 257), {}),
        ((2, 2, 129), {"filterbank_channel_count": 20, "dct_coefficient_count": 20, "lower_frequency_limit": 0.0}),
        ((1, 1, 100), {"upper_frequency_limit": 3500, "lower_frequency_limit": 125}),
        ((1, 2, 17), {"filterbank_channel_count": 1, "dct_coefficient_count": 1}),
    ):
        x = rng.random(shape).astype(np.float32) ** 2 * 100
        x[0, 0, :] *= rng.random() < 0.5
        want = litert_outputs(coefficients(shape, **flags), [[x, np.asarray([rate], np.int32)]])[0][0]
        given = {"x": x, "rate": np.asarray([rate], np.int32)}
        for data in (coefficients(shape, **flags), coefficients(shape, rate, **flags)):
            module = import_tflite(data, "m")
            names = [p.name for p in module.graphs["main"].params]
            (got,) = run_graph(module, "main", {name: given[name] for name in names}).values()
            close(got, want, f"{shape} {flags}", 1e-4)


def test_both_in_c(tmp_path: Path) -> None:
    m, rng, shape = Writer(), np.random.default_rng(4), (800, 1)
    x, rate = m.input("x", shape, "float32"), m.input("rate", (1,), "int32")
    y = m.output("y", (1, 7, 13), "float32")
    m.op("CUSTOM", [spectrogram(m, x, shape, 320, 80, True), rate], [y], custom="Mfcc", flags=SPEECH)
    data = m.build()
    runs = [(rng.normal(0, 1, shape).astype(np.float32), np.asarray([hz], np.int32)) for hz in (16000, 8000, 44100)]
    wanted = litert_outputs(data, runs)
    low = lower_module(import_tflite(data, "m"), default_passes(load_board("host"), BuildOptions()))
    found = Library({"m": low}, tmp_path).runs("m", low, [{"x": a, "rate": b} for a, b in runs], {})
    for got, want in zip(found, wanted, strict=True):
        close(next(iter(got.values())), want[0], "as C", 1e-4)


@pytest.mark.parametrize(("flags", "why"), [
    ({"dct_coefficient_count": 41}, "it must be an integer of 1 to 40"),
    ({"upper_frequency_limit": 20.0}, "bands of 20 to 20 Hz"),
    ({"lower_frequency_limit": -1.0}, "not a frequency"),
    ({"upper_frequency_limit": 1e12}, "not a frequency"),
])  # fmt: skip
def test_what_is_refused(flags: dict[str, Any], why: str) -> None:
    with pytest.raises(BuildError, match=why):
        import_tflite(coefficients((1, 1, 257), **flags), "m")


def test_frames_that_do_not_fit() -> None:
    for shape, window in (((10, 1), 11), ((10, 1), 1)):
        m = Writer()
        m.outputs.append(spectrogram(m, m.input("x", shape, "float32"), shape, window, 1, True))
        with pytest.raises(BuildError, match=r"no \[count, channels\] with a frame of 11|it must be an integer of 2"):
            import_tflite(m.build(), "m")
