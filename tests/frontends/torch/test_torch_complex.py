"""Complex numbers inside a program, as pairs of real ones, against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_harness import compare

from sdk.errors import BuildError

torch.manual_seed(7)
BATCH = torch.export.Dim("batch", min=1, max=8)


def r(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def parts(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(x.resolve_conj())


def pair(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.complex(x, y)


X, Y = r(3, 6), r(3, 6)
WINDOW = torch.hann_window(32)
TRANSFORMS: dict[str, tuple[Any, ...]] = {
    "real": (lambda x: parts(torch.fft.rfft(x)), r(3, 20)),
    "f64": (lambda x: parts(torch.fft.rfft(x.double(), n=9)), r(3, 20)),
    "images": (lambda x: torch.fft.fft2(x).abs(), r(2, 6, 10)),
    "and back": (lambda x: torch.fft.ifft(torch.fft.fft(x, norm="ortho") * 2j).real, r(2, 3, 12)),
    "convolution": (lambda x: torch.fft.irfft(torch.fft.rfft(x, n=32) * torch.fft.rfft(x, n=32), n=32), r(2, 20)),
    "odd": (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=21), r(2, 21)),
    "scaled": (lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho"), s=(8, 6), norm="forward"), r(2, 3, 8, 6)),
    "hermitian": (lambda x, y: torch.fft.hfft(pair(x, y), n=10), X, Y),
    "of half": (lambda x: parts(torch.fft.ihfft(x)), X),
    "shifted": (lambda x: torch.fft.fftshift(torch.fft.fft(x, dim=0)).abs().pow(2), r(16, 2)),
    "frames": (lambda x: torch.stft(x, 32, 8, window=WINDOW, return_complex=True).abs(), r(2, 160)),
    "from frames": (
        lambda x: torch.istft(torch.stft(x, 32, 8, window=WINDOW, return_complex=True), 32, 8, window=WINDOW), r(2, 160)
    ),
}  # fmt: skip
ARITHMETIC: dict[str, tuple[Any, ...]] = {
    "quotients": (lambda x, y: parts(pair(x, y) / pair(y, x) / 3 / (x + 2j)), X, Y),
    "powers": (lambda x, y: parts(torch.exp(pair(x, y)) + pair(x, y).conj() ** 3 - 1j), X, Y),
    "logarithms": (lambda x, y: parts(torch.log(pair(x, y)).reciprocal()), X, Y),
    "angles": (lambda x, y: pair(x, y).angle() + x.angle(), X, Y),
    "absolute": (lambda x: pair(x * 0, x * 0).abs() + pair(x * 1e30, x * 1e30).abs() * 1e-30, X),
    "infinite": (lambda x: pair(x / 0, x).abs(), X),
    "products": (lambda x, y: parts(pair(x, y) @ pair(y, x).mT + torch.outer(x[0, :3], pair(*x[:2, :3]))), X, Y),
    "layers": (lambda x, w: parts(F.linear(pair(x, x * 2), pair(w, -w), pair(w[:, 0], w[:, 1]))), X, r(4, 6)),
    "numbers": (lambda x: parts((1j * x) / (2 - 1j) + torch.zeros(3, 6, dtype=torch.cfloat)), X),
    "types": (lambda x: (x.to(torch.cfloat) * (1 + 2j)).imag + pair(x, x).to(torch.cdouble).real, X),
    "of reals": (lambda x: x.conj() + torch.real(x), X),
    "joined": (lambda x, y: parts(torch.cat([pair(x, y), x], 1)), X, Y),
    "stacked": (lambda x, y: torch.stack([pair(x, y), pair(y, y) * 1j], -1).abs().sum(-1), X, Y),
    "chosen": (lambda x, y: parts(torch.where(x > 0, pair(x, y), pair(y, y))), X, Y),
    "summed": (lambda x, y: parts(pair(x, y).sum(1).cumsum(0)).mean(), X, Y),
    "moved": (lambda x, y: parts(F.pad(pair(x, y), (1, 2)).roll(1, -1).flip(0)[:, [1, 3]]), X, Y),
    "einsum": (lambda x, w: parts(torch.einsum("bixy,ioxy->boxy", torch.view_as_complex(x), torch.view_as_complex(w))),
               r(2, 3, 4, 5, 2), r(3, 6, 4, 5, 2)),
}  # fmt: skip


@pytest.mark.parametrize("cases", [TRANSFORMS, ARITHMETIC], ids=["transforms", "arithmetic"])
def test_as_pytorch(cases: dict[str, tuple[Any, ...]]) -> None:
    for name, (function, *args) in cases.items():
        try:
            compare(function, *args)
        except Exception as err:
            err.add_note(name)
            raise


class Rotary(nn.Module):
    """Places of a language model, as the first ones had them: a table of complex numbers is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(8.0), 1 / 100 ** (torch.arange(4) / 4))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[: x.shape[1]]).flatten(-2)


class Spectral(nn.Module):
    """The layer of a Fourier neural operator: its weights are complex, and some bins are written."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 3, 3, dtype=torch.cfloat))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bins = torch.fft.rfft2(x)
        out = torch.zeros(x.shape[0], 4, x.shape[-2], x.shape[-1] // 2 + 1, dtype=torch.cfloat)
        out[:, :, :3, :3] = torch.einsum("bixy,ioxy->boxy", bins[:, :, :3, :3], self.weight)
        return torch.fft.irfft2(out, s=(x.shape[-2], x.shape[-1]))


def test_modules_with_open_sizes() -> None:
    length = torch.export.Dim("length", min=2, max=8)
    compare(Rotary(), r(2, 5, 8), shapes=({0: BATCH, 1: length},), more=[(r(1, 8, 8),)])
    compare(Spectral(), r(2, 4, 8, 10), shapes=({0: BATCH},), more=[(r(5, 4, 8, 10),)])


def test_what_is_refused() -> None:
    for function, why in (
        (lambda x: torch.fft.fft(x), "of type complex64"),
        (lambda x: torch.fft.fft(x) == 0, "not supported for complex numbers"),
        (lambda x: F.conv1d(pair(x, x), pair(x, x)).abs(), "not supported for complex numbers"),
        (lambda x: (pair(x, x) ** 0.5).abs(), "to the power of 0.5"),
        (lambda x: pair(x, x).tan().real, "complex"),
    ):
        with pytest.raises(BuildError) as caught:
            compare(function, r(2, 2, 6))
        assert why in f"{caught.value.message} {caught.value.where}"
    with pytest.raises(BuildError) as caught:
        compare(lambda x: torch.fft.rfft(x).abs(), r(2, 6), shapes=({1: torch.export.Dim("n", min=2, max=9)},))
    assert "an open size" in str(caught.value.where)
    with pytest.raises(BuildError, match="of type complex64"):
        compare(lambda x: x.real * math.pi, pair(X, Y))
