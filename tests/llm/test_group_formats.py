"""Weights in groups: what the ops read of a file's blocks, against each format's description written out on its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import sdk
from sdk.codegen_c.functions.stmt import emit_loops
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.types import F32, I8, I32, U8, TensorType
from sdk.compiler.ops import OPS
from sdk.compiler.ops.group_formats import FORMATS, GROUP
from sdk.compiler.ops.group_products import products_loops
from sdk.compiler.schedules.group_panels import Factors, group_panels
from sdk.errors import BuildError
from sdk.graph import ModuleBuilder, f32, i64
from sdk.graph.quantised import group_dense, group_embedding, group_shape

Decode = Callable[[bytes], list[float]]


def half(block: bytes, at: int) -> float:
    return float(np.frombuffer(block[at : at + 2], "<f2")[0])


def q8_0(b: bytes) -> list[float]:
    return [half(b, 0) * (x - 256 if x > 127 else x) for x in b[2:]]


def nibbles(qs: bytes) -> list[int]:
    return [x % 16 for x in qs] + [x // 16 for x in qs]


def super_block(b: bytes) -> list[tuple[float, float]]:
    """(scale, minimum) of each of eight groups: 6 bits each in 12 bytes."""
    packed = b[4:16]
    found = []
    for j in range(8):
        if j < 4:
            scale, minimum = packed[j] & 63, packed[j + 4] & 63
        else:
            scale = (packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4)
            minimum = (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4)
        found.append((half(b, 0) * scale, half(b, 2) * minimum))
    return found


def q4_k(b: bytes) -> list[float]:
    numbers = [n for k in range(4) for n in nibbles(b[16 + 32 * k : 48 + 32 * k])]
    scales = super_block(b)
    return [scales[i // 32][0] * n - scales[i // 32][1] for i, n in enumerate(numbers)]


def q5_k(b: bytes) -> list[float]:
    numbers = [n for k in range(4) for n in nibbles(b[48 + 32 * k : 80 + 32 * k])]
    numbers = [n + 16 * (b[16 + i % 32] >> i // 32 & 1) for i, n in enumerate(numbers)]
    scales = super_block(b)
    return [scales[i // 32][0] * n - scales[i // 32][1] for i, n in enumerate(numbers)]


def q6_k(b: bytes) -> list[float]:
    low, high, scales = b[:128], b[128:192], np.frombuffer(b[192:208], np.int8)
    out = [0.0] * 256
    for part in range(2):
        for i in range(32):
            first, second, above = low[64 * part + i], low[64 * part + 32 + i], high[32 * part + i]
            four = first % 16, second % 16, first // 16, second // 16
            for k, n in enumerate(four):
                at = 128 * part + 32 * k + i
                number = n + 16 * (above >> 2 * k & 3) - 32
                out[at] = half(b, 208) * int(scales[at // 16]) * number
    return out


def fifths(b: bytes, at: int) -> list[int]:
    """Numbers of 5 bits behind four bytes with the fifth ones: of each byte those of every fourth number."""
    return [n + 16 * (b[at + i % 4] >> i // 4 & 1) for i, n in enumerate(nibbles(b[at + 4 :]))]


PLAIN: dict[str, Decode] = {
    "Q8_0": q8_0,
    "Q4_0": lambda b: [half(b, 0) * (n - 8) for n in nibbles(b[2:])],
    "Q4_1": lambda b: [half(b, 0) * n + half(b, 2) for n in nibbles(b[4:])],
    "Q4_Z": lambda b: [half(b, 0) * (n - b[2]) for n in nibbles(b[4:])],
    "Q5_0T": lambda b: [half(b, 0) * (n - 16) for n in fifths(b, 2)],
    "Q5_1T": lambda b: [half(b, 0) * n + half(b, 2) for n in fifths(b, 4)],
    "Q4_K": q4_k,
    "Q5_K": q5_k,
    "Q6_K": q6_k,
}


PRODUCTS = ("Q8_0", "Q4_0", "Q6_K")  # of a whole model; tests/schedules/test_group_panels.py has the others


def blocks(name: str, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Rows of random blocks with scales of ordinary size."""
    rng, form = np.random.default_rng(seed), FORMATS[name]
    out = rng.integers(0, 256, (rows * columns // form.size, form.nbytes), dtype=np.uint8)
    for first, count, unit in form.fields:
        if unit == 2:
            values = (rng.standard_normal((len(out), count)) / 64).astype("<f2")
            out[:, first : first + 2 * count] = values.view(np.uint8).reshape(len(out), -1)
    return out.reshape(group_shape(name, rows, columns))


def plain(name: str, rows: np.ndarray) -> np.ndarray:
    """The weights of rows of blocks, by the description of the format."""
    width = FORMATS[name].nbytes
    cut = [[row[k : k + width].tobytes() for k in range(0, len(row), width)] for row in rows]
    return np.array([[w for block in row for w in PLAIN[name](block)] for row in cut])


def quantised(x: np.ndarray) -> np.ndarray:
    """Activations as a device sees them: 8 bits in groups of 32."""
    groups = x.reshape(len(x), x.shape[1] // GROUP, GROUP)
    scale = np.abs(groups).max(axis=2, keepdims=True) / np.float32(127)
    used = np.where(scale > 0, scale, np.float32(1))
    return (np.rint(groups * (np.float32(1) / used)) * scale.astype(np.float64)).reshape(x.shape)


def test_all_formats_are_described() -> None:
    assert set(PLAIN) == set(FORMATS)


@pytest.mark.parametrize("name", PLAIN)
def test_weights_are_those_of_the_description(name: str) -> None:
    rows = blocks(name, 3, 512)
    np.testing.assert_array_equal(FORMATS[name].decode(rows), plain(name, rows))
    found = OPS["lookup_groups"].reference(rows, np.array([2, -3, 3]), format=name)
    np.testing.assert_array_equal(found, np.vstack([plain(name, rows[[2, 0]]), np.zeros((1, 512))]).astype(np.float32))


@pytest.mark.parametrize("name", PLAIN)
def test_products_are_those_of_quantised_activations(name: str) -> None:
    rows, form = blocks(name, 5, 256), FORMATS[name]
    x = np.random.default_rng(1).standard_normal((3, 256)).astype(np.float32)
    made = OPS["quantize_groups"].reference(x, run=form.run, zero=form.zero)
    found = OPS["dense_groups"].reference(*made, rows, format=name)
    wanted = quantised(x) @ plain(name, rows).T
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-5)
    assert np.abs(found - x @ plain(name, rows).T).max() < 0.02 * np.abs(wanted).max()


def test_scales_of_activations_in_f16() -> None:
    x = np.random.default_rng(2).standard_normal((2, 64)).astype(np.float32) * 8
    whole, scale, sums = OPS["quantize_groups"].reference(x, run=32, zero=0)
    more = OPS["quantize_groups"].reference(x, run=32, zero=0, half=True)
    np.testing.assert_array_equal(more[0], whole)
    np.testing.assert_array_equal(more[1], scale.astype(np.float16).astype(np.float32))
    np.testing.assert_allclose(more[2], sums, rtol=1e-3)
    builder = ModuleBuilder("m")
    rows = blocks("Q8_0", 5, 64)
    w = builder.const("w", rows)
    with builder.entry("run") as e:
        given = e.input("x", f32, (2, 64))
        e.output("y", group_dense(e, given, w, "Q8_0", half_scales=True))
    found = run_graph(builder.module(), "run", {"x": x})["y"]
    wanted = (more[0] * np.repeat(more[1], 32, axis=1)) @ plain("Q8_0", rows).T
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_activations_at_the_edges() -> None:
    x = np.zeros((6, 64), np.float32)
    x[0, :32] = -3.5  # the other group is zeros
    x[1, 5] = 1e-38  # counts as zero
    x[2, 1], x[3, 40], x[4, 63] = np.inf, np.nan, -np.inf
    x[5, :4] = 127, 0.5, 1.5, -2.5  # halves to even
    q, scale, starts = OPS["quantize_groups"].reference(x, run=32, zero=8)
    assert list(q[0]) == [-127] * 32 + [0] * 32
    assert (scale[0, 1], starts[0, 0]) == (0, 8 * 127 * 32)
    assert not np.concatenate([q[1], scale[1]]).any()
    for row, group in ((2, 0), (3, 1), (4, 1)):
        assert np.isnan(scale[row, group])
        assert not q[row].any()
        assert scale[row, 1 - group] == 0
    assert list(q[5, :4]) == [127, 0, 2, -2]
    y = OPS["dense_groups"].reference(q, scale, starts, blocks("Q4_0", 4, 64), format="Q4_0")
    assert list(np.isnan(y).any(axis=1)) == [False, False, True, True, True, False]
    assert np.isnan(y[2:5]).all()


def test_what_does_not_fit_is_refused() -> None:
    g = ModuleBuilder("m")
    e = g.entry("main")
    x = e.input("x", f32, (2, 64))
    w = g.const("w", blocks("Q4_0", 4, 64))
    for wrong, why in (
        (lambda: group_dense(e, x, w, "Q9_0"), "no format 'Q9_0'"),
        (lambda: group_dense(e, x, w, "Q8_0"), "no whole blocks"),
        (lambda: group_dense(e, e.input("y", f32, (2, 96)), w, "Q4_0"), "columns of dense_groups"),
        (lambda: group_dense(e, e.input("z", f32, (2, 48)), w, "Q4_0"), "multiple of 32"),
        (lambda: group_dense(e, e.input("k", f32, (2, g.dim("k", 1, 64))), w, "Q4_0"), "fixed length"),
        (lambda: group_shape("Q4_K", 4, 64), "no whole blocks"),
        (lambda: e.dense_groups(*e.quantize_groups(x, run=16, zero=8), w, format="Q4_0"), "run=32, zero=8"),
    ):
        with pytest.raises(BuildError, match=why):
            wrong()


EMULATED = ("aarch64-linux", "aarch64-linux-neon", "wasm32")


@pytest.mark.some(2)
@pytest.mark.parametrize("board", ["host", *(pytest.param(b, marks=pytest.mark.emulator) for b in EMULATED)])
def test_a_model_of_all_formats(board: str) -> None:
    """Products and rows as C, of any number of rows, those with infinities among them."""
    g = ModuleBuilder("groups")
    n = g.dim("n", 0, 7)
    e = g.entry("main")
    x, ids = e.input("x", f32, (1, n, 256)), e.input("ids", i64, (n,))
    held = {name: blocks(name, 37, 256) for name in FORMATS}
    for name, data in held.items():
        w = g.const(f"w{name}", data)
        if name in PRODUCTS:
            e.output(f"y{name}", group_dense(e, x, w, name) + 1.0)
        e.output(f"r{name}", group_embedding(e, w, ids, name))
    rng = np.random.default_rng(5)
    with sdk.compile(g.module(), board=board) as model:
        for rows in (0, 1, 2, 7):
            given = rng.standard_normal((1, rows, 256)).astype(np.float32)
            if rows == 7:
                given[0, 3, 100] = np.inf
            at = rng.integers(-40, 40, rows)
            found = model(x=given, ids=at)
            inside = np.where(at < 0, at + 37, at)
            for name, data in held.items():
                weights = plain(name, data)
                kept = (inside >= 0) & (inside < 37)
                want = np.where(kept[:, None], weights[np.where(kept, inside, 0)], 0).astype(np.float32)
                np.testing.assert_array_equal(found[f"r{name}"], want, err_msg=name)
                if name not in PRODUCTS:
                    continue
                with np.errstate(invalid="ignore"):
                    wanted = quantised(given[0]) @ weights.T + 1
                y = found[f"y{name}"][0].copy()
                if rows == 7:
                    assert np.isnan(y[3]).all()
                    y[3] = wanted[3] = 0
                np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    ("tokens", "isa", "asks"),
    [(1, "avx2", True), (8, "avx2", False), (1, "avxvnni avx2", False), (1, "neon dotprod", False)],
)
def test_weights_read_once_are_asked_for_ahead(tokens: int, isa: str, asks: bool) -> None:
    """Where a token reads each record once; not where tiles of a prompt read it again, nor on cores not measured."""
    columns, rows, form = 256, 64, FORMATS["Q4_0"]
    types = [
        TensorType(I8, (tokens, columns)), TensorType(F32, (tokens, columns // GROUP)),
        TensorType(I32, (tokens, columns // GROUP)), TensorType(U8, (rows, columns // form.size * form.nbytes)),
    ]  # fmt: skip
    nest = products_loops("f", types, [TensorType(F32, (tokens, rows))], {"format": "Q4_0"})
    factors: Factors = "lane" if "neon" in isa else "word" if "vnni" in isa else "pairs"
    made = group_panels(nest, 4 if "neon" in isa else 8, factors, 16, (4, 1))
    lines = [x for x in emit_loops(Unit("m", frozenset(isa.split())), made, {}).text.split("\n") if "m_prefetch(" in x]
    places = ["", *(f" + {at}" for at in range(64, 576, 64))]  # each line of a cache once
    wanted = [f"m_prefetch(&w[panel * 2304 + record * 576{at}], 1280u);" for at in places if asks]
    assert sorted(line.strip() for line in lines) == sorted(wanted)
