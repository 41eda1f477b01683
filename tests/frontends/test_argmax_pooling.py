"""MaxPoolingWithArgmax2D and MaxUnpooling2D against plain loops over their definition, and what is refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from tflite_files import ModelFile

from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]
RNG = np.random.default_rng(0)
# Shape, window and strides down and across, and 1 for SAME or 2 for VALID.
CASES = [
    ((2, 6, 8, 3), (2, 2), (2, 2), 1),
    ((1, 7, 5, 2), (2, 3), (2, 2), 1),
    ((1, 7, 9, 2), (3, 2), (2, 3), 2),
    ((1, 5, 5, 1), (3, 3), (1, 1), 1),
]


def options(kind: int, stride: Pair, window: Pair, activation: int = 0) -> bytes:
    return struct.pack("<6i", kind, *stride[::-1], *window[::-1], activation) + bytes(16)


def model(name: str, raw: bytes, inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> bytes:
    m = ModelFile()
    ins = [m.input(f"x{k}", shape, "float32") for k, shape in enumerate(inputs)]
    m.op("CUSTOM", ins, [m.output(f"y{k}", s, "float32") for k, s in enumerate(outputs)], custom=name, flags=raw)
    return m.build()


def pooled(x: Array, window: Pair, stride: Pair, kind: int) -> tuple[Array, Array]:
    """Maxima, and of each which tap it is: of equal ones the first."""
    sizes, before = [], []
    for n, k, s in zip(x.shape[1:3], window, stride, strict=True):
        out = -(-n // s) if kind == 1 else (n - k + s) // s
        sizes.append(out)
        before.append(max((out - 1) * s + k - n, 0) // 2)
    best = np.full((x.shape[0], *sizes, x.shape[3]), np.finfo(np.float32).min, np.float32)
    taps = np.zeros(best.shape, np.float32)
    for at in np.ndindex(*best.shape):
        for a in range(window[0]):
            for b in range(window[1]):
                row, col = at[1] * stride[0] - before[0] + a, at[2] * stride[1] - before[1] + b
                if 0 <= row < x.shape[1] and 0 <= col < x.shape[2] and x[at[0], row, col, at[3]] > best[at]:
                    best[at], taps[at] = x[at[0], row, col, at[3]], a * window[1] + b
    return best, taps + np.float32(0.1)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("values", ["noise", "equal ones", "the lowest"])
def test_maxima_and_taps(case: tuple[Any, ...], values: str) -> None:
    shape, window, stride, kind = case
    x = RNG.standard_normal(shape).astype(np.float32)
    if values != "noise":
        x = np.round(x) if values == "equal ones" else np.full(shape, -np.inf, np.float32)
    best, taps = pooled(x, window, stride, kind)
    data = model("MaxPoolingWithArgmax2D", options(kind, stride, window), [shape], [best.shape, taps.shape])
    got = run_graph(import_tflite(data, "m"), "main", {"x0": x})
    np.testing.assert_array_equal(got["y0"], best)
    np.testing.assert_array_equal(got["y1"], taps)


@pytest.mark.parametrize("window", [(2, 2), (3, 2), (1, 4)])
def test_unpooling(window: Pair) -> None:
    small = (2, 3, 4, 5)
    large = (2, 3 * window[0], 4 * window[1], 5)
    x = RNG.standard_normal(small).astype(np.float32)
    taps = RNG.integers(0, window[0] * window[1], small)
    want = np.zeros(large, np.float32)
    for n, h, w, c in np.ndindex(*small):
        a, b = divmod(int(taps[n, h, w, c]), window[1])
        want[n, h * window[0] + a, w * window[1] + b, c] = x[n, h, w, c]
    data = model("MaxUnpooling2D", options(1, window, window), [small, small], [large])
    given = {"x0": x, "x1": (taps + 0.1).astype(np.float32)}
    np.testing.assert_array_equal(run_graph(import_tflite(data, "m"), "main", given)["y0"], want)


@pytest.mark.parametrize("name", ["LiteRtMaxUnpooling2D", "MaxUnpooling2D"])
@pytest.mark.parametrize(
    ("kind", "stride", "window", "size"), [(1, (2, 3), (2, 2), (6, 12)), (2, (2, 3), (2, 2), (6, 11))]
)
def test_unpooling_by_position(name: str, kind: int, stride: Pair, window: Pair, size: Pair) -> None:
    small, large = (2, 3, 4, 5), (2, *size, 5)
    m = ModelFile()
    ins = [m.input("x0", small, "float32"), m.input("x1", small, "int32")]
    stated = large if kind == 2 else small  # the kernel decides
    m.op("CUSTOM", ins, [m.output("y0", stated, "float32")], custom=name, flags=options(kind, stride, window))
    x = RNG.standard_normal(small).astype(np.float32)
    count = int(np.prod(large[1:]))
    places = RNG.integers(0, count, small).astype(np.int32)
    places[0, 0, 0] = [7, 7, 7, count, -1]  # of equal ones the last; outside of an image is not in the next one
    want = np.zeros((2, count), np.float32)
    for at in np.ndindex(*small):
        if 0 <= places[at] < count:
            want[at[0], places[at]] = x[at]
    got = run_graph(import_tflite(m.build(), "m"), "main", {"x0": x, "x1": places})["y0"]
    np.testing.assert_array_equal(got, want.reshape(large))


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        ("MaxUnpooling2D", bytes(20), "its options are 20 bytes"),
        ("MaxUnpooling2D", options(0, (2, 2), (2, 2)), "a padding 0"),
        ("MaxUnpooling2D", options(1, (0, 2), (2, 2)), "strides 0, 2"),
        ("MaxUnpooling2D", options(1, (2, 2), (2, 2), 1), "the fused activation 1"),
        ("MaxUnpooling2D", options(1, (1, 2), (2, 2)), "windows that stand side by side"),
        ("MaxPoolingWithArgmax2D", options(1, (2, 2), (2, 2)), "it has 2 inputs and 1 outputs"),
    ],
)
def test_what_is_refused(name: str, raw: bytes, why: str) -> None:
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(model(name, raw, [(1, 2, 2, 1)] * 2, [(1, 4, 4, 1)]), "m")
    assert why in str(error.value)
