"""The sampler of devices against the one in numpy, and both against what they promise."""

from __future__ import annotations

import ctypes
from dataclasses import astuple

import numpy as np
import pytest

from sdk.driver.host_c import kept_library
from sdk.errors import UsageError
from sdk.llm.text.sampler import Sampler, Sampling
from sdk.resources import data_dir

NONE = 0xFFFFFFFF


class _State(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_float) for name in ("temperature", "top_p", "min_p", "repetition", "presence", "frequency")),
        ("top_k", ctypes.c_uint32), ("state", ctypes.c_uint64),
    )  # fmt: skip


class Device:
    def __init__(self, sampling: Sampling, seed: int) -> None:
        self.library = kept_library(data_dir("c_runtime") / "llm" / "sample.c")
        self.function = ctypes.CDLL(str(self.library)).sdk_sample
        self.function.restype = ctypes.c_uint32
        temperature, top_k, top_p, min_p, *penalties = astuple(sampling)
        self.state = _State(temperature, top_p, min_p, *penalties, top_k, seed)

    def next(self, logits: np.ndarray, last: list[int], allowed: np.ndarray | None = None) -> int:
        past = np.array(last, dtype=np.uint32)
        work = np.full(len(logits) * 12, 0xA5, dtype=np.uint8)
        found = self.function(
            ctypes.byref(self.state), ctypes.c_void_p(logits.ctypes.data), ctypes.c_uint32(len(logits)),
            ctypes.c_void_p(past.ctypes.data), ctypes.c_size_t(len(past)),
            ctypes.c_void_p(None if allowed is None else allowed.ctypes.data), ctypes.c_void_p(work.ctypes.data),
        )  # fmt: skip
        return int(found)


SAMPLINGS = [
    Sampling(),
    Sampling(repetition=1.3, presence=0.5, frequency=0.2),
    Sampling(temperature=0.7),
    Sampling(temperature=1.5, top_k=5),
    Sampling(temperature=1, top_p=0.9),
    Sampling(temperature=2, min_p=0.05),
    Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.02, repetition=1.1, presence=-0.3),
    Sampling(temperature=1, top_k=1),
    Sampling(temperature=0.01, top_p=1e-9),
]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_device_chooses_as_numpy(sampling: Sampling) -> None:
    rng = np.random.default_rng(3)
    host, device = Sampler(sampling, 42), Device(sampling, 42)
    for size in (1, 2, 33, 700, 700, 5000):
        for spread in (0.0, 1.0, 8.0):
            logits = (rng.standard_normal(size) * spread).astype(np.float32)
            if size > 30:
                logits[rng.integers(size, size=20)] = rng.choice([np.nan, -np.inf, np.inf if spread > 5 else 2.0])
            last = [int(n) for n in rng.integers(size, size=30)]
            assert host.next(logits, last) == device.next(logits, last)


def test_draws_follow_the_distribution() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], dtype=np.float32))
    wants = {
        Sampling(temperature=1): [0.5, 0.3, 0.15, 0.05],
        Sampling(temperature=1, top_k=2): [0.625, 0.375, 0, 0],
        Sampling(temperature=1, top_p=0.9): [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0],
        Sampling(temperature=1, min_p=0.5): [0.625, 0.375, 0, 0],
        Sampling(temperature=0.5): list(np.array([0.25, 0.09, 0.0225, 0.0025]) / 0.365),
    }
    for sampling, want in wants.items():
        device = Device(sampling, 7)
        counts = np.bincount([device.next(logits, []) for _ in range(4000)], minlength=4)
        assert np.abs(counts / 4000 - want).max() < 0.04, sampling


def test_masks_and_nothing_to_choose() -> None:
    logits = np.arange(70, dtype=np.float32)
    allowed = np.zeros(3, dtype=np.uint32)
    assert Device(Sampling(), 0).next(logits, [], allowed) == NONE
    allowed[1] = 1 << 7
    assert Device(Sampling(temperature=3), 0).next(logits, [], allowed) == 39
    nothing = np.full(5, np.nan, dtype=np.float32)
    assert Device(Sampling(temperature=1), 0).next(nothing, []) == NONE
    with pytest.raises(UsageError, match="no token may come next"):
        Sampler().next(nothing)
    with pytest.raises(UsageError, match="which is no way to choose tokens"):
        Sampling(top_p=1.5)
