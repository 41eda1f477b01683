"""Products along staged rows: pointwise ones of few channels, and windows of taps, dilated or strides apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from whole_and_rows import computes

from sdk.compiler.analysis.row_calls import drop_single_trips, loops_of_product
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.machines.lookup import MACHINES
from sdk.compiler.machines.nest import Nest
from sdk.compiler.machines.thumb import GATHERED
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.rules import rule_for
from sdk.compiler.schedules.trace import replay

DSP = next(m for m in MACHINES if m.name == "dsp")


SINGLE = ("pair-window", "direct-window")  # for images of one channel
SOME = {5: (1, 9), 24: (3, 20), 31: (1, 20)}  # channels of the result, by the width of the image


def check(x_shape: tuple[int, ...], w_shape: tuple[int, ...], *rules: str, **window: Any) -> None:
    """A rule of these takes a convolution, replays to the same loops, and computes whole images and some rows
    rightly."""
    attrs: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "pad": (0,) * 4, "pad_value": 0, "x_offset": 0}
    attrs |= window
    types = (TensorType(I8, x_shape), TensorType(I8, w_shape), TensorType(I32, w_shape[:1]))
    rng = np.random.default_rng(x_shape[2] * w_shape[3])
    x, weights = (rng.integers(-128, 128, t.static_shape).astype(np.int8) for t in types[:2])
    bias, op = rng.integers(-999, 999, w_shape[0]).astype(np.int32), OPS["conv2d"]
    assert op.loops is not None
    loops = op.loops("f", types, infer("conv2d", types, tuple(attrs.items())), attrs)
    loops = drop_single_trips(loops, loops_of_product(loops, channels=True))
    want = op.reference(x, weights, bias, **attrs)
    rule, done = rule_for(Nest(loops), DSP)
    assert rule is not None
    assert rule.name in rules
    assert replay(loops, done.trace) == done
    computes(done, {"x": x, "w": weights, "b": bias}, want)


def unequal(pixels: int, stride: int, dilation: int) -> bool:
    """Whether the phases of a dilation have different numbers of the pixels of a row."""
    return pixels % (dilation // math.gcd(dilation, stride)) != 0


@pytest.mark.some(16)
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("depth", [1, 2, 3, 7])
@pytest.mark.parametrize("width", [4, 7, 13, 61])
def test_channels_of_pixels_are_taps(width: int, depth: int, stride: Any) -> None:
    check((1, 61, width, depth), (6, 1, 1, depth), "point-rows", stride=stride)
    check((1, 61, width, depth), (2, 1, 1, depth), "point-rows" if depth > 1 else "direct-points", stride=stride)
    check((1, 91, width, depth), (1, 1, 1, depth), "direct-points", stride=stride)


@pytest.mark.parametrize("depth", [8, 9, 12, 31])
def test_longer_sums_into_one_channel(depth: int) -> None:
    """In small layers; larger ones take the code of those with more channels."""
    check((1, 1, 8, depth), (1, 1, 1, depth), "direct-points")
    check((1, 3, 7, depth), (1, 1, 1, depth), "direct-points" if depth < 31 else "word-tiles", stride=(1, 2))
    check((1, 3, 9, depth), (1, 1, 1, depth), "direct-points" if depth < 12 else "word-tiles")
    check((1, 7, 150, depth), (1, 1, 1, depth), "word-tiles")


@pytest.mark.some(22)
@pytest.mark.parametrize("width", [5, 24, 31])
@pytest.mark.parametrize("kernel", [(3, 3), (5, 5), (10, 4), (3, 1), (1, 7), (2, 2)], ids=str)
@pytest.mark.parametrize(
    ("stride", "dilation"), [((1, 1), (1, 1)), ((2, 2), (1, 1)), ((3, 1), (1, 2)), ((2, 3), (2, 1))]
)
def test_windows_of_one_channel(width: int, kernel: Any, stride: Any, dilation: Any) -> None:
    """They serve all channels of the result, few and many: of each width some."""
    one_channel(width, kernel, stride, dilation, SOME[width])


@pytest.mark.slow
@pytest.mark.parametrize("width", [5, 24, 31])
@pytest.mark.parametrize("kernel", [(3, 3), (5, 5), (10, 4), (3, 1), (1, 7), (2, 2)], ids=str)
@pytest.mark.parametrize(
    ("stride", "dilation"), [((1, 1), (1, 1)), ((2, 2), (1, 1)), ((3, 1), (1, 2)), ((2, 3), (2, 1))]
)
def test_windows_of_one_channel_of_other_numbers(width: int, kernel: Any, stride: Any, dilation: Any) -> None:
    one_channel(width, kernel, stride, dilation, sorted({1, 3, 9, 20} - set(SOME[width])))


def one_channel(width: int, kernel: Any, stride: Any, dilation: Any, outputs: Sequence[int]) -> None:
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    pad = (reach[0] // 2, reach[1] // 2, reach[0] // 3, (reach[1] + 1) // 2)
    for channels in outputs:
        window = {"stride": stride, "dilation": dilation, "pad": pad, "pad_value": 11}
        short = kernel in ((3, 3), (1, 7), (2, 2)) and stride[1] == dilation[1] == 1 and channels > 8
        others = ("row-windows", "row-taps", "column-taps") if width == 5 or kernel[1] == 1 or short else ()
        check((1, 25, width, 1), (channels, *kernel, 1), *SINGLE, *others, **window)


@pytest.mark.parametrize("height", [1, 5])
@pytest.mark.parametrize(("taps", "depth"), [(3, 1), (4, 2), (7, 3)])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, 2), (3, 2), (4, 6)])
def test_windows_of_one_row(height: int, taps: int, depth: int, stride: int, dilation: int) -> None:
    reach = dilation * (taps - 1)
    window = {"stride": (1, stride), "dilation": (1, dilation), "pad": (0, reach // 2, 0, reach // 3), "pad_value": 5}
    for width in (61, 72):
        pixels = (width + reach // 2 + reach // 3 - reach - 1) // stride + 1
        rule = "row-windows" if unequal(pixels, stride, dilation) else "row-taps"
        rules = SINGLE if depth == 1 and height > 1 and max(stride, dilation) > 1 else (rule,)
        check((1, height, width, depth), (8, 1, taps, depth), *rules, **window)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 2), (2, 3), (2, 4)])
def test_dilated_windows_of_several_rows(stride: int, dilation: int) -> None:
    for depth, width in ((1, 19), (3, 30)):
        window = {"stride": (2, stride), "dilation": (2, dilation), "pad": (2, dilation, 1, 2), "pad_value": -7}
        pixels = (width + dilation + 2 - 2 * dilation - 1) // stride + 1
        rule = "row-windows" if unequal(pixels, stride, dilation) else "row-taps"
        check((1, 9, width, depth), (5, 3, 3, depth), *(SINGLE if depth == 1 else (rule,)), **window)


@pytest.mark.parametrize("width", [2, 5, 14, 150])
@pytest.mark.parametrize(("taps", "depth"), [(3, 1), (9, 1), (5, 2), (3, 3), (7, 3), (3, 4), (5, 5)])
@pytest.mark.parametrize(("stride", "dilation", "pad"), [(1, 1, 1), (2, 1, 0), (1, 2, 2), (3, 1, 1)])
def test_windows_of_one_column(width: int, taps: int, depth: int, stride: int, dilation: int, pad: int) -> None:
    """The channels of a pixel, or a single element, are the taps of a row; parts of long rows are staged."""
    window = {"stride": (stride, 1), "dilation": (dilation, 1), "pad": (pad, 0, pad + 1, 0), "pad_value": 3}
    rules = SINGLE if depth == 1 and taps * 8 <= GATHERED else ("column-taps",)
    check((1, 21, width, depth), (8, taps, 1, depth), *rules, **window)


@pytest.mark.parametrize("window", [(2, 2), (3, 2), (2, 3)])
@pytest.mark.parametrize("width", [9, 40])
def test_small_windows_that_share_nothing(window: tuple[int, int], width: int) -> None:
    x, weights = (1, 12, width, 5), (24, *window, 5)
    check(x, weights, "row-windows", stride=window)
    check(x, weights, "row-windows", stride=(3, 1), pad=(1, 2, 0, 1), pad_value=-128)


def test_rows_longer_than_the_region_are_read_where_they_lie() -> None:
    check((1, 12, 2000, 9), (8, 3, 1, 9), "row-windows", pad=(1, 0, 1, 0))


def test_long_rows_of_one_column_are_staged_in_parts() -> None:
    check((1, 12, 2000, 3), (8, 3, 1, 3), "column-taps", pad=(1, 0, 1, 0))
    check((1, 12, 1999, 3), (8, 3, 1, 3), "row-windows", pad=(1, 0, 1, 0))  # that are no parts of as many pixels


def test_long_sums_are_left() -> None:
    check((1, 21, 9, 9), (8, 5, 1, 9), "word-tiles", pad=(1, 0, 1, 0))
    check((1, 21, 9, 8), (9, 5, 1, 8), "word-tiles", pad=(1, 0, 1, 0))


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
@pytest.mark.parametrize("stride", [(1, 1), (1, 2), (2, 1)], ids=str)
def test_windows_of_one_column_with_borders_beside_rows(depth: int, stride: Any) -> None:
    """Pixels at the sides of the image read none of it."""
    rules = ("column-taps", "row-windows", *SINGLE)
    check((1, 9, 11, depth), (8, 5, 1, depth), *rules, stride=stride, pad=(1, 2, 0, 1), pad_value=-128)
