"""Layouts: what they make of shapes, indices and elements agrees; layouts of the field are values of the type."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from sdk.compiler.ir.layout import Fuse, Interleave, Join, Layout, Pad, Permute, Records, Scale, Step, Tile, Widen
from sdk.compiler.ir.packing import pack_array, unpack_array
from sdk.compiler.ir.types import F32, I8, I16, I32, U8, U16, U32, DType, TensorType
from sdk.compiler.sym import Var, ceildiv, evaluate, floordiv, mod
from sdk.errors import BuildError

# Layouts of the field; each is compared with what numpy makes of an array by hand.
BLOCKED = Layout((Tile(1, 16),))  # NCHWc: channels in blocks of 16
FILTERS = Layout((Tile(0, 16), Tile(1, 4)))  # OIHW16o4i
TEXELS = Layout((Tile(3, 4), Permute((0, 1, 3, 2, 4)), Fuse(0, 1), Fuse(1, 2), Pad(1, 8)))
PANELS = Layout((Permute((1, 0)), Fuse(1, -1), Tile(0, 8)))  # columns of a matrix, eight side by side
WORDS = Layout((Fuse(1, -1), Tile(1, 4), Join(2, 4, I32)))  # four bytes to a word


def made(shape: tuple[int, ...], dtype: DType = I8, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    lo, hi = (-127, 127) if dtype.kind == "i" else (0, 255)
    return rng.integers(lo, hi, shape).astype(dtype.numpy)


def check(layout: Layout, data: np.ndarray, dtype: DType = I8) -> np.ndarray:
    """The stored array, after it was compared with the stored type, with each index, and with what is read back."""
    stored = pack_array(data, layout)
    type = TensorType(dtype, data.shape)
    assert (stored.dtype, stored.shape) == (layout.stored(type).dtype.numpy, layout.stored(type).static_shape)
    assert stored.flags.c_contiguous
    np.testing.assert_array_equal(unpack_array(stored, layout, type), data)
    if not any(isinstance(s, Join) for s in layout.steps):
        for index in product(*map(range, data.shape)):
            assert stored[layout.index(index, data.shape)] == data[index]
        assert np.count_nonzero(stored) == np.count_nonzero(data)  # the rest is filled up with zeros
    return stored


def test_channels_in_blocks() -> None:
    data = made((2, 20, 3, 5))
    wide = np.pad(data, ((0, 0), (0, 12), (0, 0), (0, 0)))
    want = wide.reshape(2, 2, 16, 3, 5).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(check(BLOCKED, data), want)


def test_filters_in_blocks_of_outputs_and_inputs() -> None:
    data = made((16, 8, 3, 3))
    want = data.reshape(1, 16, 2, 4, 3, 3).transpose(0, 2, 4, 5, 1, 3)
    np.testing.assert_array_equal(check(FILTERS, data), want)


def test_an_image_of_texels() -> None:
    """[batch, rows, columns, channels] as a picture of batch * rows by channels / 4 * columns texels of four channels,
    its rows filled up to a pitch of eight."""
    data = made((2, 3, 5, 6))
    wide = np.pad(data, ((0, 0), (0, 0), (0, 0), (0, 2))).reshape(2, 3, 5, 2, 4)
    want = np.pad(wide.transpose(0, 1, 3, 2, 4).reshape(6, 10, 4), ((0, 0), (0, 6), (0, 0)))
    np.testing.assert_array_equal(check(TEXELS, data), want)


def test_panels_of_columns() -> None:
    data = made((5, 20))
    want = np.pad(data, ((0, 0), (0, 4))).reshape(5, 3, 8).transpose(1, 0, 2)
    np.testing.assert_array_equal(check(PANELS, data), want)


def test_bytes_in_words() -> None:
    data = made((3, 6))
    wide = np.pad(data, ((0, 0), (0, 2))).reshape(3, 2, 1, 4).astype(np.int64)
    np.testing.assert_array_equal(check(WORDS, data), (wide << [0, 8, 16, 24]).sum(axis=-1))
    unsigned = made((3, 8), U8)
    np.testing.assert_array_equal(check(Layout((Join(1, 4, U32),)), unsigned, U8), unsigned.view("<u4"))


def test_two_ways_of_four() -> None:
    data = made((3, 4))
    np.testing.assert_array_equal(check(Layout((Interleave(1, 2),)), data), data[:, [0, 2, 1, 3]])


def test_records_by_parts() -> None:
    """Two bytes of each record, then words of four, as numbers or where more axes follow."""
    data = made((2, 3, 10), U8)
    parts = [data[:, :, :2], data[:, :, 6:], data[:, :, 2:6]]
    want = np.concatenate([part.reshape(2, -1) for part in parts], axis=1)
    layout = Layout((Records(1, (0, 1, 2, 6, 1, 4, 2, 1, 4)),))
    np.testing.assert_array_equal(check(layout, data, U8), want)
    more = Layout((Records(0, (2, 1, 1, 0, 1, 2)),))
    assert check(more, made((2, 3, 5))).shape == (6, 5)


def test_a_vector_has_one_column() -> None:
    assert check(Layout((Fuse(1, -1), Tile(0, 4))), made((6,))).shape == (2, 1, 4)


def test_wider_elements() -> None:
    for dtype, wide in ((I8, I32), (U8, I16), (U8, U8)):
        assert check(Layout((Widen(wide),)), made((2, 3), dtype), dtype).dtype == wide.numpy


def test_rows_are_scaled() -> None:
    """By one power of 2, or by one less what a vector beside says."""
    data, less = made((4, 5)), np.asarray([3, 0, 6, 1], np.int32)
    layout = Layout((Fuse(1, -1), Widen(I16), Scale(8, "less")))
    stored = pack_array(data, layout, {"less": less})
    np.testing.assert_array_equal(stored, data.astype(np.int16) << (8 - less[:, None]))
    np.testing.assert_array_equal(unpack_array(stored, layout, TensorType(I8, data.shape), {"less": less}), data)
    one = pack_array(data, layout, {"less": less[:1]})
    np.testing.assert_array_equal(one, pack_array(data, Layout((Widen(I16), Scale(5)))))


@pytest.mark.parametrize(
    ("scale", "beside", "message"),
    [
        (Scale(9), {}, "9 bits do not scale these elements in i16"),
        (Scale(8, "less"), {}, "scaled by less, which is not known"),
        (Scale(8, "less"), {"less": [1, 2]}, "4 rows are not scaled by 8 less less, 2 numbers"),
        (Scale(8, "less"), {"less": [1, 2, 9, 3]}, "4 rows are not scaled"),
    ],
)
def test_rows_that_are_not_scaled(scale: Scale, beside: dict[str, list[int]], message: str) -> None:
    given = {name: np.asarray(numbers, np.int32) for name, numbers in beside.items()}
    with pytest.raises(BuildError, match=message):
        pack_array(np.full((4, 5), 127, np.int8), Layout((Widen(I16), scale)), given)


def test_no_steps_keep_the_array() -> None:
    for shape in ((), (0, 3), (2, 3)):
        assert check(Layout(), made(shape)).shape == shape


def test_empty_axes() -> None:
    for layout in (BLOCKED, TEXELS, WORDS, Layout((Interleave(1, 2),))):
        shape = (0, 4, 3, 4)
        assert check(layout, made(shape)).size == 0


def random_step(rng: Random, type: TensorType) -> Step:
    axis = rng.randrange(type.rank)
    size = rng.choice((1, 2, 3, 4))
    return rng.choice((
        Permute(tuple(rng.sample(range(type.rank), type.rank))),
        Fuse(axis, rng.choice((axis - 1, axis, -1))),
        Tile(axis, size),
        Pad(axis, size),
        Interleave(axis, size),
        Join(axis, 2, I32),
        Widen(rng.choice((I16, I32))),
        Records(axis, rng.choice(((0, 2, 2), (1, 3, 1, 0, 1, 1), (2, 1, 2, 0, 1, 2, 4, 1, 1)))),
    ))  # fmt: skip


@pytest.mark.parametrize("seed", range(200))
def test_any_steps(seed: int) -> None:
    rng = Random(seed)
    data = made(tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 4))), seed=seed)
    layout, type = Layout(), TensorType(I8, data.shape)
    for _ in range(rng.randint(0, 6)):
        step = random_step(rng, type)
        try:
            type = Layout((step,)).stored(type)
        except BuildError:
            continue
        layout = layout.then(step)
    check(layout, data)


def test_symbolic_dims() -> None:
    h, c = Var("h", 1, 64), Var("c", 4, 64, 4)
    i, j = Var("i", 0, 63), Var("j", 0, 63)
    shape = (h.expr, 7, c.expr)
    assert Layout((Tile(2, 16), Fuse(0, 1))).stored(TensorType(F32, shape)).shape == (
        7 * h.expr, ceildiv(c.expr, 16), 16,
    )  # fmt: skip
    layout = Layout((Interleave(2, 2), Tile(2, 8), Permute((2, 0, 1, 3))))
    run = floordiv(c.expr, 2)
    at = mod(j.expr, run) * 2 + floordiv(j.expr, run)
    assert layout.index((i.expr, 3, j.expr), shape) == (floordiv(at, 8), i.expr, 3, mod(at, 8))
    env = {h: 3, c: 12}
    data = made((3, 7, 12))
    stored = pack_array(data, layout)
    for index in product(range(3), range(12)):
        found = layout.index((i.expr, 3, j.expr), shape)
        place = tuple(evaluate(d, {**env, i: index[0], j: index[1]}) for d in found)
        assert stored[place] == data[index[0], 3, index[1]]


@pytest.mark.parametrize(
    ("step", "shape"),
    [
        (Permute((1, 0)), (2, 3, 4)),
        (Fuse(3, -1), (2, 3)),
        (Fuse(0, 2), (2, 3)),
        (Tile(2, 4), (2, 3)),
        (Interleave(1, 2), (2, 3)),
        (Join(1, 2, I16), (2, 3)),
        (Pad(5, 2), (2, 3)),
        (Interleave(0, 2), (Var("n", 1, 9).expr,)),
        (Records(0, (0, 1, 2)), (4, 3)),
        (Records(1, (0, 1, 3)), (4, 3)),
        (Scale(1), ()),
    ],
)
def test_steps_that_do_not_apply(step: Step, shape: tuple[int, ...]) -> None:
    with pytest.raises(BuildError, match=r"cannot store an array of shape \["):
        Layout((step,)).stored(TensorType(I8, shape))


@pytest.mark.parametrize(
    ("step", "dtype"),
    [
        (Join(0, 2, I16), I16),
        (Join(0, 2, I16), F32),
        (Widen(I8), I16),
        (Widen(F32), I8),
        (Widen(U16), I8),
        (Widen(I8), U8),
        (Scale(1), F32),
    ],
)
def test_elements_that_do_not_fit(step: Step, dtype: DType) -> None:
    with pytest.raises(BuildError, match=f"cannot store elements of type {dtype}"):
        Layout((step,)).stored(TensorType(dtype, (4,)))


@pytest.mark.parametrize(
    "step",
    [
        Permute((0, 0)), Permute((1, 2)), Fuse(-1, 2), Fuse(3, 1), Tile(0, 0), Pad(-1, 4), Interleave(0, 0),
        Join(0, 3, I32), Join(0, 2, F32), Join(0, 2, DType("i", 64)), Widen(I8.with_lanes(4)),
        Records(0, ()), Records(0, (0, 1)), Records(-1, (0, 1, 2)), Records(0, (1, 1, 2)),
        Records(0, (0, 2, 2, 3, 1, 1)),
    ],
    ids=str,
)  # fmt: skip
def test_steps_that_apply_to_nothing(step: Step) -> None:
    with pytest.raises(BuildError, match="is no step of a layout"):
        Layout((step,))


def test_words_that_do_not_hold_their_elements() -> None:
    assert pack_array(np.array([0, -128], np.int8), Layout((Join(0, 2, I16),))).tolist() == [-(1 << 15)]
    with pytest.raises(BuildError, match="2 elements joined in one do not fit i16"):
        pack_array(np.array([-1, -128], np.int8), Layout((Join(0, 2, I16),)))


def test_permutations() -> None:
    one, two = Permute((2, 0, 1)), Permute((1, 0, 2))
    data = made((2, 3, 4))
    both = pack_array(pack_array(data, Layout((one,))), Layout((two,)))
    np.testing.assert_array_equal(pack_array(data, Layout((one.then(two),))), both)
    assert one.then(one.inverse()).is_identity
    assert one.then(one.inverse()) == Permute.identity(3)
    assert one.shape((2, 3, 4)) == (4, 2, 3)


def test_layouts_as_text() -> None:
    assert str(Layout((*TEXELS.steps, Widen(I16)))) == (
        "tile(3, 4) permute(0, 1, 3, 2, 4) fuse(0, 1) fuse(1, 2) pad(1, 8) widen(i16)"
    )
    assert str(Layout((Join(0, 2, I32), Interleave(1, 2)))) == "join(0, 2, i32) interleave(1, 2)"
