"""What tests of GPUs do in other processes: functions of files and numbers, and small models."""

from __future__ import annotations

import ctypes
import os
import traceback
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu.host import Host, hosted, input_types

MIXED = """module net imported

const @w: f32[24, 10] = blob
const @b: f32[10] = [0.5, -1.0, 2.0, 0.25, 0.0, -0.5, 1.5, 3.0, -2.0, 1.0]

graph @main<n in 1..70>(%x: f32[n, 24], %y: f32[n, 10]) {
  %h = matmul(%x, @w) : f32[n, 10]
  %c = add(%h, @b) : f32[n, 10]
  %d = relu(%c) : f32[n, 10]
  %e = mul(%d, %y) : f32[n, 10]
  %s = softmax(%e) : f32[n, 10]
  %t = transpose(%s) {perm = (1, 0)} : f32[10, n]
  %g = matmul(%t, %x) : f32[10, 24]
  return %e, %g
}
""".replace("blob", "[" + ", ".join(str(round(k * 0.37 % 2 - 1, 3)) for k in range(240)) + "]")
STATES = """module net imported

state @cache<cap in 1..16>: f32[cap, 8] ring(0) = 2
state @count: f32[1, 8] = 0

graph @main<pos in 0..1000, cap in 1..16>(%k: f32[1, 8]) {
  %two = add(%k, %k) : f32[1, 8]
  write @cache[pos] = %two
  %rows = read @cache : f32[cap, 8]
  %old = read @count : f32[1, 8]
  %new = add(%old, %two) : f32[1, 8]
  write @count = %new
  %sum = add(%rows, %new) : f32[cap, 8]
  return %sum, %new
}
"""


def called(function: Callable[..., Any], *given: Any) -> Any:
    """What a function returns, or the text of what it raises, which may not go from process to process."""
    try:
        return True, function(*given)
    except BaseException:
        return False, traceback.format_exc()


def model(text: str, folder: Path) -> Path:
    """A file of the model ``text``."""
    path = folder / "net.ir"
    path.write_text(text)
    return path


def both(host: Host, cases: list[tuple[dict[str, np.ndarray], dict[str, int]]]) -> list[list[float]]:
    """How far the device's results are from the processor's, by case and output, relative to the largest or 1; -1 where
    a status is no success. Both begin at reset."""
    got = [host.run(inputs, dims) for inputs, dims in cases]
    host.close()
    assert host.first.call("reset") == 0
    want = [host.run(inputs, dims) for inputs, dims in cases]
    return [
        [-1.0] if a[0] or b[0] else [_apart(a[1][name], b[1][name]) for name in b[1]]
        for a, b in zip(got, want, strict=True)
    ]


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    x, y = a.astype(np.float64), b.astype(np.float64)
    if x.shape != y.shape or not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return float("inf")
    ok = np.isfinite(y)
    return float(np.abs(x - y)[ok].max(initial=0) / max(1.0, np.abs(y[ok]).max(initial=0)))


def drawn(host: Host, seed: int, dims: dict[str, int]) -> dict[str, np.ndarray]:
    """Inputs of an entry."""
    rng = np.random.default_rng(seed)
    out = {}
    for name, (kind, shape) in input_types(host, dims).items():
        if kind.kind == "f":
            out[name] = rng.standard_normal(shape).astype(kind)
        elif kind.itemsize == 1:
            out[name] = rng.integers(0, 256, shape).astype(np.uint8).view(kind)
        else:
            out[name] = rng.integers(0, 2, shape).astype(kind)
    return out


def compare(path: Path, folder: Path, dims: list[dict[str, int]], options: dict[str, Any] | None = None):
    """A model on the device against itself on the processor: (status, what was said, differences, recordings)."""
    host = hosted(path, folder, **(options or {}))
    status = host.open()
    if status != 0:
        return status, host.told, [], 0
    cases = [(drawn(host, k, one), one) for k, one in enumerate(dims)]
    told, apart = host.told, []
    for inputs, one in cases:
        assert host.run(inputs, one)[0] == 0
    recorded = host.recorded
    for inputs, one in cases[-4:]:
        assert host.run(inputs, one)[0] == 0
    again = host.recorded
    host.first.call("reset")
    apart = both(host, cases)
    return status, told, apart, (recorded, again)


def objects(path: Path, folder: Path, dims: list[dict[str, int]], options: dict[str, Any]) -> list[tuple[int, int]]:
    """How often a program asked the host for memory, and how many objects it had the driver create: (of the former, of
    the latter) while it was opened, and then in a run at each of ``dims``. For a driver that lies, which counts."""
    loader = ctypes.CDLL("libvulkan.so.1" if options["gpu"] == "vulkan" else "libOpenCL.so.1")
    host = hosted(path, folder, counted=True, **options)
    counts = [(0, 0)]

    def count() -> None:
        counts.append((host.allocated, int(loader.lying_created())))

    assert host.open() == 0, host.told
    count()
    for k, one in enumerate(dims):
        assert host.run(drawn(host, k, one), one)[0] == 0
        count()
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(counts)]


def left(path: Path, folder: Path, lies: list[str], counted: list[dict[str, int]]) -> list[tuple[str, bool, int, int]]:
    """Of each lie: whether the model was opened, how many of the driver's objects there were then, and after it was
    closed, run at sizes before where it was opened. For a Vulkan driver that lies, which counts."""
    loader = ctypes.CDLL("libvulkan.so.1")
    host, found = hosted(path, folder, gpu="vulkan", counted=True), []
    for lie in lies:
        os.environ["LIE"] = lie
        loader.lying_again()
        opened = host.open() == 0
        for k, one in enumerate(counted if opened else []):
            host.run(drawn(host, k, one), one)
        held = int(loader.lying_live())
        host.close()
        found.append((lie, opened, held, int(loader.lying_live())))
    return found


def copies(path: Path, folder: Path, dims: list[dict[str, int]], options: dict[str, Any]):
    """What was said of a model on the device, the bytes that its runs at ``dims`` copied, how often they had the driver
    copy, differences. For a driver that lies, which counts."""
    loader = ctypes.CDLL("libvulkan.so.1" if options["gpu"] == "vulkan" else "libOpenCL.so.1")
    host = hosted(path, folder, **options)
    assert host.open() == 0, host.told
    told, before = host.told, int(loader.lying_copies())
    cases = [(drawn(host, k, one), one) for k, one in enumerate(dims)]
    for inputs, one in cases:
        assert host.run(inputs, one)[0] == 0
    copied, asked = host.copied, int(loader.lying_copies()) - before
    assert host.first.call("reset") == 0
    return told, copied, asked, both(host, cases)


def divided(path: Path, folder: Path, parts: list[frozenset[int]], gpu: str) -> list[Any]:
    """For each choice of operations that stay on the processor: status, what was said, differences."""
    found = []
    for k, part in enumerate(parts):
        own = folder / f"part{k}"
        own.mkdir()
        host = hosted(path, own, gpu, on_processor=part)
        status, told = host.open(), host.told
        dims = [{"n": 3, "pos": 1}, {"n": 70, "pos": 2}]
        cases = [(drawn(host, n, one), one) for n, one in enumerate(dims)]
        found.append((status, told, both(host, cases) if status == 0 else []))
    return found


def statuses(
    path: Path, folder: Path, runs: int, options: dict[str, Any] | None = None
) -> tuple[int, str, list[int], str]:
    """The status of opening, what was said, the statuses of runs, the last message."""
    host = hosted(path, folder, **(options or {}))
    status = host.open()
    told = host.told
    after = []
    if status == 0:
        after = [host.run(drawn(host, k, {}), {})[0] for k in range(runs)]
    return status, told, after, host.message


def converse(path: Path, folder: Path, prompt: int, steps: int, options: dict[str, Any]):
    """A decoder's prefill of a prompt and steps after it, on the device and on the processor: (status, what was said,
    the largest difference of each, recordings)."""
    host = hosted(path, folder, **options)
    status = host.open()
    if status != 0:
        return status, host.told, [], 0
    ids = np.random.default_rng(3).integers(0, 96, prompt + steps)

    def talk() -> list[np.ndarray]:
        entries = ("prefill", {"n": prompt}, ids[:prompt]), *(
            ("decode", {"pos": k}, ids[k : k + 1]) for k in range(prompt, prompt + steps)
        )
        found = [host.run({"ids": given}, dims, entry) for entry, dims, given in entries]
        assert all(one == 0 for one, _ in found)
        return [out["logits"] for _, out in found]

    got, recorded, told = talk(), host.recorded, host.told
    host.close()
    assert host.first.call("reset") == 0
    return status, told, [_apart(a, b) for a, b in zip(got, talk(), strict=True)], recorded


def kept(path: Path, folder: Path, keep: Path, options: dict[str, Any]) -> tuple[int, str, list[list[float]]]:
    """A model put on the device with its kernels kept in ``keep``: status, what was said, differences."""
    os.environ["TEST_KEEP_IN"] = str(keep)
    host = hosted(path, folder, **options)
    status = host.open()
    if status != 0:
        return status, host.told, []
    told = host.told
    host.first.call("reset")
    return status, told, both(host, [(drawn(host, 1, {"n": 12}), {"n": 12})])


def damaged(path: Path, folder: Path, keep: Path, count: int, options: dict[str, Any]) -> list[Any]:
    """What is wrong after each of ``count`` damages to what is kept of a model."""
    kept(path, folder, keep, options)
    (file,) = keep.glob("*.gpu")
    whole, rng, wrong = file.read_bytes(), np.random.default_rng(5), []
    for k in range(count):
        data = bytearray(whole)
        at = int(rng.integers(0, len(data)) if k % 2 else rng.integers(0, min(len(data), 120)))
        match k % 4:
            case 0 | 1:
                data[at] ^= 1 << int(rng.integers(0, 8))
            case 2:
                del data[at:]
            case 3:
                data += bytes(at)
        file.write_bytes(data)
        got = kept(path, folder, keep, options)
        if got[0] != 0 or got[1] or max(got[2][0]) > 1e-4 or len(file.read_bytes()) < len(whole) // 2:
            wrong.append((k, at, got))
        if [one.name for one in keep.iterdir()] != [file.name]:
            wrong.append((k, sorted(keep.iterdir())))
    return wrong
