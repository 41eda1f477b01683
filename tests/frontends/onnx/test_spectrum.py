"""Fourier transforms, against onnxruntime, ONNX's reference and numpy."""

from __future__ import annotations

import numpy as np
import pytest
from harness import Array, compare, one_node, reference, run

RNG = np.random.default_rng(3)


def signal(*shape: int, kind: str = "float32") -> Array:
    return RNG.standard_normal(shape).astype(kind)


@pytest.mark.parametrize("size", [1, 2, 7, 12, 17, 34, 60, 100, 400, 512])
def test_dft_of_any_length(size: int) -> None:
    x = signal(2, size, 2)
    model = one_node("DFT", {"x": x}, opset=20)
    _, got = run(model, {"x": x})
    want = np.fft.fft(x[..., 0].astype(np.float64) + 1j * x[..., 1])
    found = got["y"][..., 0] + 1j * got["y"][..., 1]
    assert np.abs(found - want).max() <= 2e-6 * np.abs(want).max() * max(np.log2(size), 1)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("length", [None, 5, 24])
def test_dft_cut_and_filled(parts: int, inverse: int, length: int | None) -> None:
    given = {"x": signal(2, 18, 3, parts)} | ({} if length is None else {"n": np.array(length)})
    compare("DFT", given, opset=17, constants=["n"] if length else [], against="onnx" if inverse else "ort",
            axis=1, inverse=inverse)  # fmt: skip


@pytest.mark.parametrize("length", [None, 8, 9, 40])
def test_half_spectra_and_back(length: int | None) -> None:
    n = {} if length is None else {"n": np.array(length)}
    how = {"opset": 20, "constants": [*n, "axis"], "onesided": 1}
    order = ["x", "n" if n else "", "axis"]
    compare("DFT", {"x": signal(2, 3, 20, 1), **n, "axis": np.array(-2)}, order=order, **how)
    compare(
        "DFT", {"x": signal(2, 11, 3, 2), **n, "axis": np.array(1)}, order=order, inverse=1, against="onnx", **how
    )


def test_dft_of_many_rows_of_an_open_number() -> None:
    compare("DFT", {"x": signal(3, 32, 1)}, opset=17, shapes={"x": ["n", 32, 1]}, dims={"n": (1, 6)}, onesided=1)
    compare("DFT", {"x": signal(3, 30, 1, kind="float64")}, opset=17)


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(onesided: int) -> None:
    window = np.hanning(16).astype(np.float32)
    given = {"x": signal(2, 100, 1), "step": np.array(6), "window": window, "length": np.array(16)}
    compare("STFT", given, opset=17, constants=["step", "window", "length"], onesided=onesided)
    shapes = {"x": [2, "n", 1]}
    compare(
        "STFT", given, opset=17, constants=["step", "window", "length"], shapes=shapes, dims={"n": (16, 128)},
        onesided=onesided,
    )  # fmt: skip


@pytest.mark.parametrize("numbers", [(8, 64, 8000, 0.0, 4000.0), (20, 512, 16000, 20.0, 7600.0), (40, 32, 16000, 0, 0)])
def test_mel_weight_matrix(numbers: tuple[float, ...]) -> None:
    kinds = [np.int64] * 3 + [np.float32] * 2
    given = {name: np.array(v, k) for name, v, k in zip("abcde", numbers, kinds, strict=True)}
    model = one_node("MelWeightMatrix", given, constants=list(given))
    _, got = run(model, {})
    np.testing.assert_allclose(got["y"], reference(model, {}, "onnx")["y"], atol=1e-6)
