"""Products of floats scheduled for each kind of vectors: same results at any dims, proofs hold, traces replay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from schedules.float_machines import FLOATS

from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.analysis.rows import row_granule
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Alloc, Buffer, For, Load, Loops, Op, Param, Store
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.ir.walk import rewrite, walk
from sdk.compiler.machines.common import PANELS
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.schedules.rules.tiles import Product, tile_for
from sdk.compiler.schedules.trace import replay
from sdk.compiler.sym import Dim, Var, evaluate, floordiv
from sdk.compiler.verify.loops import verify_loops

WIDEST = FLOATS["avx512f"]
M, N, K = Var("m", 1, 40).expr, Var("n", 1, 70).expr, Var("kk", 1, 33).expr
H, W, B = Var("h", 8, 24, 8).expr, Var("w", 8, 16).expr, Var("b", 1, 2).expr
Shape = tuple[Dim, ...]
DIMS = [{"m": 1, "n": 1, "kk": 1, "h": 8, "w": 8, "b": 1}, {"m": 37, "n": 63, "kk": 33, "h": 24, "w": 13, "b": 2}]
PRODUCTS: dict[str, tuple[Shape, Shape, bool]] = {
    "constant": ((M, 24), (24, 40), True),
    "inputs": ((M, 24), (24, N), False),
    "heads": ((1, 3, M, 8), (1, 3, 8, N), False),
    "long": ((2, 2, M, K), (2, 2, K, 24), False),
    "row": ((1, 100), (100, 50), True),
    "column": ((M, 40), (40, 3), True),
    "shared": ((2, 3, M, 8), (8, 20), True),
}
# x, output channels, taps, stride, padding, dilation
CONVOLUTIONS: dict[str, tuple[Shape, int, int, int, int, int]] = {
    "3x3": ((1, 9, 8, 5), 7, 3, 1, 1, 1),
    "first": ((1, H, W, 3), 20, 3, 2, 1, 1),
    "1x1": ((1, H, W, 8), 40, 1, 1, 0, 1),
    "1x1 strided": ((B, H, W, 8), 17, 1, 2, 0, 1),
    "1x1 of every other": ((1, 28, 28, 8), 72, 1, 2, 0, 1),
    "columns past the end": ((1, H, W, 8), 1000, 1, 1, 0, 1),
    "short rows": ((1, 7, 7, 16), 33, 3, 1, 1, 1),
    "halves": ((1, floordiv(H, 2), floordiv(W, 2), 8), 33, 1, 1, 0, 1),
    "ends inside": ((1, 14, 14, 8), 33, 3, 2, 1, 1),  # no window passes the last row, a whole block of rows would
    "7x7": ((1, 12, 11, 3), 16, 7, 2, 3, 1),
    "dilated": ((1, 9, 9, 4), 16, 3, 1, 2, 2),
    "no padding": ((2, 6, 7, 4), 8, 3, 1, 0, 1),
}


def f32(*shape: Dim) -> TensorType:
    return TensorType(F32, shape)


def product(left: Shape, right: Shape) -> Loops:
    types = (f32(*left), f32(*right))
    loops = OPS["matmul"].loops
    assert loops is not None
    return drop_single_trips(loops("f", types, infer("matmul", types, ()), {}))


def convolution(name: str) -> tuple[Loops, list[TensorType], dict[str, Any]]:
    x, channels, taps, stride, pad, dilation = CONVOLUTIONS[name]
    types = [f32(*x), f32(channels, taps, taps, x[-1]), f32(channels)]
    attrs: dict[str, Any] = {"stride": (stride,) * 2, "dilation": (dilation,) * 2, "pad": (pad,) * 4}
    loops = OPS["conv2d"].loops
    assert loops is not None
    made = loops("f", types, infer("conv2d", types, tuple(attrs.items())), attrs)
    return drop_single_trips(made), types, attrs


def scheduled(loops: Loops, floats: Machine, packable: set[str], threads: int = 1) -> Loops:
    done = schedule_nest(Nest(loops, packable, threads), floats)
    assert done.trace, "the plain nest was kept"
    assert replay(loops, done.trace) == done
    found: list[str] = []
    verify_loops(done, lambda where, what: found.append(f"{where}: {what}"))
    assert found == []
    return done


def with_epilogue(loops: Loops) -> Loops:
    """``o = a @ b + c``, the sum at the store."""

    def one(node: Any) -> Any:
        if isinstance(node, Store) and node.buffer == "o":
            return replace(node, value=op("add", node.value, Load("c", node.index[-1:], F32)))
        return node

    a, b, o = loops.params
    bias = Param(Buffer("c", F32, o.buffer.shape[-1:]), "read")
    return replace(loops, params=(a, b, bias, o), body=rewrite(loops.body, one))


def whole(rng: np.random.Generator, shape: Shape, env: dict[Var, int]) -> np.ndarray:
    return rng.integers(-4, 5, [evaluate(d, env) for d in shape]).astype(np.float32)


def run(done: Loops, arrays: dict[str, np.ndarray], want: np.ndarray, env: dict[Var, int]) -> None:
    """Runs the rows in two calls and compares; what is packed is laid out first."""
    given = dict(arrays)
    for name, layout in done.layouts.items():
        given[name] = pack_array(given[name], layout)
    given["o"] = np.full(want.shape, 99, np.float32)
    assert done.rows is not None
    extent = evaluate(done.rows.extent, env)
    for rows in ((extent // 3, extent), (0, extent // 3)):
        run_loops(done, given, {v.name: n for v, n in env.items()}, rows)
    np.testing.assert_array_equal(given["o"], want)


def cases(names: Iterable[str], everywhere: set[str]) -> list[Any]:
    """All on the widest vectors; those that differ most on the others too (the C tests run them as well)."""
    return [
        pytest.param(name, floats, id=f"{name}-{key}")
        for key, floats in FLOATS.items()
        for name in names
        if floats is WIDEST or name in everywhere
    ]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("name", "floats"), cases(PRODUCTS, {"inputs", "long"}))
def test_products(name: str, floats: Machine, threads: int) -> None:
    left, right, constant = PRODUCTS[name]
    loops = product(left, right)
    done = scheduled(loops, floats, {"b"} if constant else set(), threads)
    assert bool(done.layouts) == constant
    assert threads == 1 or row_granule(done) is not None
    rng = np.random.default_rng(3)
    for values in DIMS:
        env = {v: values[v.name] for v in done.dims}
        a, b = whole(rng, left, env), whole(rng, right, env)
        run(done, {"a": a, "b": b}, a @ b, env)


@pytest.mark.some(20)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("name", "floats"), cases(CONVOLUTIONS, {"first", "short rows"}))
def test_convolutions(name: str, floats: Machine, threads: int) -> None:
    loops, types, attrs = convolution(name)
    done = scheduled(loops, floats, {"w", "b"}, threads)
    assert threads == 1 or row_granule(done) is not None
    rng = np.random.default_rng(4)
    for values in DIMS:
        env = {v: values[v.name] for v in done.dims}
        x, w, b = (whole(rng, t.shape, env) for t in types)
        run(done, {"x": x, "w": w, "b": b}, OPS["conv2d"].reference(x, w, b, **attrs), env)


def test_sums_stay_in_vector_registers_and_join_their_product() -> None:
    done = scheduled(product((M, 24), (24, 40)), WIDEST, {"b"})
    sums = [n.buffer for n in walk(done.body) if isinstance(n, Alloc)]
    assert all(b.space == "register" and b.dtype.lanes == 16 for b in sums)
    tile = tile_for(WIDEST.floats, PANELS.costs, Product(None, 40, 24))
    assert sums[0].shape == (tile.rows, tile.vectors)
    assert len(sums) == 1 + len(tile.tails)
    assert any(isinstance(n, Op) and n.name == "fma" for n in walk(done.body))


def test_without_fused_products_none_is_used() -> None:
    done = scheduled(product((M, 24), (24, 40)), FLOATS["sse2"], {"b"})
    assert not any(isinstance(n, Op) and n.name == "fma" for n in walk(done.body))


@pytest.mark.parametrize("rows", [1, 7, 49, 64, 3136, None])
@pytest.mark.parametrize("columns", [1, 24, 32, 144, 1000, None])
@pytest.mark.parametrize("core", FLOATS.values(), ids=FLOATS)
def test_a_tile_leaves_registers_for_its_operands(core: Machine, rows: int | None, columns: int | None) -> None:
    tile = tile_for(core.floats, PANELS.costs, Product(rows, columns))
    assert tile.rows * tile.vectors + tile.vectors + 1 <= core.floats.registers
    sizes = (tile.rows, *tile.tails)
    assert sizes[-1] == 1
    assert all(b < a for a, b in pairwise(sizes))


def test_an_epilogue_runs_on_the_registers() -> None:
    loops = with_epilogue(product((M, 24), (24, 40)))
    done = scheduled(loops, WIDEST, {"b"})
    stores = [n for n in walk(done.body) if isinstance(n, Store) and n.buffer == "o"]
    assert stores
    assert all(n.value.dtype.lanes == 16 and isinstance(n.value, Op) and n.value.name == "add" for n in stores)
    rng = np.random.default_rng(5)
    env = {v: 37 for v in done.dims}
    a, b, c = whole(rng, (M, 24), env), whole(rng, (24, 40), env), whole(rng, (40,), env)
    run(done, {"a": a, "b": b, "c": c}, a @ b + c, env)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("floats", [FLOATS["avx512f"], FLOATS["avx2fma"]], ids=["avx512f", "avx2fma"])
def test_an_epilogue_that_no_lanes_can_run_reads_sums_from_scratch(floats: Machine, constant: bool) -> None:
    plain = product((M, 24), (24, 40))

    def turned(node: Any) -> Any:
        return replace(node, index=node.index[::-1]) if isinstance(node, Store) and node.buffer == "o" else node

    a, b, o = plain.params
    out = replace(o, buffer=replace(o.buffer, shape=(40, M)))
    loops = replace(plain, params=(a, b, out), body=rewrite(plain.body, turned))
    done = scheduled(loops, floats, {"b"} if constant else set())
    assert "fission" in done.trace
    rng = np.random.default_rng(6)
    env = {v: 37 for v in done.dims}
    left, right = whole(rng, (M, 24), env), whole(rng, (24, 40), env)
    given = {"a": left, "b": right, "o": np.zeros((40, 37), np.float32)}
    given |= {name: pack_array(right, layout) for name, layout in done.layouts.items()}
    run_loops(done, given, rows=(0, 37))
    np.testing.assert_array_equal(given["o"], (left @ right).T)


def test_padding_is_copied_once_for_rows_that_share_weights() -> None:
    loops, _, _ = convolution("short rows")
    done = scheduled(loops, WIDEST, {"w", "b"})
    regions = [n.buffer for n in walk(done.body) if isinstance(n, Alloc) and n.buffer.space == "scratch"]
    assert [b.shape for b in regions] == [(9, 9, 16)]
    inner = [n for n in walk(done.body) if isinstance(n, For) and n.var.name.startswith("run")]
    assert inner
    assert not any(isinstance(n, Op) and n.name == "select" for n in walk(tuple(inner)))
    assert not any(isinstance(n, Load) and n.buffer == "x" for n in walk(tuple(inner)))


def test_threads_divide_what_they_would_read_twice() -> None:
    weights = scheduled(product((M, 384), (384, 1536)), WIDEST, {"b"}, threads=2)
    row = scheduled(product((1, 384), (384, 1000)), WIDEST, {"b"}, threads=2)
    pixels, _, _ = convolution("1x1")
    image = scheduled(pixels, WIDEST, {"w", "b"}, threads=2)
    # panels of 64 columns, panels of 128, pixels
    assert [f.rows.extent for f in (weights, row, image) if f.rows] == [24, 8, H * W]
    assert [row_granule(f) for f in (weights, row)] == [1, 1]


def test_tiles_of_a_part_are_even() -> None:
    core = WIDEST.floats
    tile = tile_for(core, PANELS.costs, Product(49, 160, 960), threads=2, axes=("rows", "columns"))
    panels = -(-160 // (tile.vectors * core.lanes))
    assert tile.axis == "columns"
    assert panels % 2 == 0
    assert tile_for(core, PANELS.costs, Product(3136, 24, 96), threads=2, axes=("rows", "columns")).axis == "rows"
