"""Weights in a file of their own: the same results, and a status for every file that is not the model's."""

from __future__ import annotations

import ctypes
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from sdk.boards import load_board
from sdk.driver import build, run
from sdk.driver.model import Model
from sdk.driver.options import BuildOptions
from sdk.driver.program import save_program
from sdk.errors import UsageError
from sdk.graph import ModuleBuilder, f32

OPTIONS = BuildOptions(weights="file", name="net")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A model with constants of several sizes, one of which a state starts from."""
    weights = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
    g = ModuleBuilder("net")
    w, start = g.const("w", weights), g.const("start", np.arange(5, dtype=np.float32).reshape(1, 5))
    total = g.state("total", f32, (1, 5), init=start)
    with g.entry("step") as e:
        x = e.input("x", f32, (1, 8))
        e.write(total, e.read(total) + x @ w)
        e.output("y", e.read(total) + 0.5)
    path = tmp_path_factory.mktemp("net") / "net.ir"
    save_program(g.module(), path)
    return path, weights


def test_a_session(net: tuple[Path, np.ndarray]) -> None:
    path, weights = net
    x = np.ones((1, 8), np.float32)
    with Model(path, load_board("host"), OPTIONS) as model:
        want = np.arange(5) + weights.sum(axis=0) + 0.5
        np.testing.assert_allclose(model(x=x)["y"][0], want, rtol=1e-5)
    with pytest.raises(UsageError, match="the file of weights is not sent to other machines"):
        run(path, load_board("host"), "tcp://127.0.0.1:1", OPTIONS, {}, {"x": x})


def test_files_of_others(net: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    build(net[0], load_board("host"), OPTIONS, emit="lib", out=tmp_path)
    lib = ctypes.CDLL(str(tmp_path / "libnet.so"))
    header = (tmp_path / "net.h").read_text()
    [size] = map(int, re.findall(r"NET_WEIGHTS_FILE_BYTES (\d+)u", header))
    file = tmp_path / "net_weights.bin"
    whole = file.read_bytes()
    assert len(whole) == size
    assert f'NET_WEIGHTS_SHA256 "{hashlib.sha256(whole[64:]).hexdigest()}"' in header
    arena, state, instance = (np.zeros(1 << 12, np.uint64) for _ in range(3))
    place, length = ctypes.c_void_p(), ctypes.c_size_t()
    v, s = ctypes.c_void_p, ctypes.c_size_t
    lib.net_init.argtypes = (v, v, s, v, s, v, s)
    lib.net_weights_check.argtypes = lib.net_weights_unmap.argtypes = (v, s)

    def aligned(array: np.ndarray) -> int:
        return -(-array.ctypes.data // 64) * 64

    def opened(path: Path) -> tuple[int, int, int]:
        """What mapping a file, the quick check at init and the check of all of it say."""
        mapped = lib.net_weights_map(str(path).encode(), ctypes.byref(place), ctypes.byref(length))
        if mapped:
            return mapped, mapped, mapped
        given = (aligned(instance), aligned(arena), 1 << 14, aligned(state), 1 << 14)
        found = (0, lib.net_init(*given, place, length), lib.net_weights_check(place, length))
        assert lib.net_init(*given, place.value + 8, length.value - 8) == -6  # misaligned, and too short
        assert lib.net_init(*given, None, 0) == -6
        lib.net_weights_unmap(place, length)
        return found

    assert opened(file) == (0, 0, 0)
    other = tmp_path / "other.bin"
    for data, want in (
        (whole[:-1], (-6, -6, -6)),
        (whole + b"x", (-6, -6, -6)),
        (b"", (-6, -6, -6)),
        (whole[:20] + b"x" + whole[21:], (0, -6, -6)),  # of another model
        (b"X" + whole[1:], (0, -6, 0)),
        (whole[:90] + bytes([whole[90] ^ 1]) + whole[91:], (0, 0, -6)),  # damaged, which only the check of all sees
    ):
        other.write_bytes(data)
        assert opened(other) == want, data[:24]
    assert opened(tmp_path / "none.bin")[0] == -6
    assert opened(tmp_path)[0] == -6


def test_boards_without_files(net: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no files to keep weights in"):
        build(net[0], load_board("nucleo_l4r5zi"), OPTIONS, emit="c", out=tmp_path)
