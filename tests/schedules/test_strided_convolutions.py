"""Float convolutions of any stride, at sizes open or not: each schedule is proved to stay inside its buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from schedules.float_machines import FLOATS

from sdk.compiler.analysis.path_conditions import PathConditions
from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.sym import Dim, Var, evaluate, floordiv
from sdk.compiler.verify.loops import verify_loops

NONE, SAME = (0, 0, 0, 0), (1, 1, 1, 1)
B = Var("b", 1, 4).expr


def v(name: str, lo: int, hi: int, multiple: int = 1) -> Dim:
    return Var(name, lo, hi, multiple).expr


# batch, height, width, channels, filters, taps, stride, padding, dilation, vectors, threads
Case = tuple[Dim, Dim, Dim, int, int, tuple[int, int], tuple[int, int], tuple[int, ...], int, str, int]
WIDTHS: tuple[Case, ...] = (
    (B, 32, v("w", 16, 2416, 8), 64, 128, (5, 5), (2, 2), (0, 0, 1, 1), 1, "sse2", 2),
    (1, floordiv(v("h", 224, 728, 8), 4), 8, 1, 16, (7, 7), (3, 3), (0, 0, 1, 1), 1, "sse2", 1),
    (2, v("h", 64, 364), v("h", 64, 364), 64, 128, (5, 5), (4, 4), (2, 2, 2, 2), 1, "neon", 1),
    (B, v("h", 224, 1424, 4) + 3, v("w", 1, 2), 8, 24, (3, 1), (2, 2), NONE, 1, "avx512f", 2),
    (2, 28, v("w", 64, 364), 64, 128, (7, 7), (3, 3), (1, 1, 0, 0), 1, "sse2", 1),
    (1, 28, 2 * v("w", 32, 9632, 32), 64, 128, (5, 5), (2, 2), (0, 1, 0, 1), 1, "avx2fma", 1),
    (1, 224, 7, 32, 33, (7, 7), (2, 1), NONE, 1, "neon", 4),
    (1, v("h", 8, 308), floordiv(v("w", 224, 9824, 32), 2), 64, 128, (7, 7), (4, 4), (3, 3, 3, 3), 1, "avx512f", 1),
    (2, v("h", 32, 9632, 32), v("h", 32, 9632, 32), 64, 128, (5, 5), (4, 4), NONE, 1, "sse2", 1),
    (1, v("h", 32, 672, 32) + 3, 14, 16, 64, (7, 7), (4, 4), (1, 1, 0, 0), 2, "neon", 1),
    (1, v("h", 8, 2408, 8), 1, 3, 32, (3, 3), (2, 2), SAME, 1, "neon", 1),
    *((1, v("h", 64, 256, m), v("w", 64, 256, m), 3, 32, (3, 3), (2, 2), SAME, 1, core, 1) for m in (1, 32)
      for core in FLOATS),
    *((1, v("h", 3, 17), v("w", 3, 17), 8, 24, (3, 3), (2, 2), pad, 1, core, 2) for pad in (SAME, NONE)
      for core in FLOATS),
)  # fmt: skip
PIXELS: tuple[Case, ...] = (
    (1, v("h", 32, 95) + 3, 224, 64, 128, (3, 3), (2, 2), NONE, 1, "avx512f", 1),
    (1, 28, v("w", 8, 48, 8), 32, 33, (3, 1), (1, 2), NONE, 2, "avx512f", 2),
    (1, floordiv(v("h", 8, 2408, 8), 4), 2 * v("w", 8, 88, 4), 32, 33, (3, 1), (1, 2), NONE, 1, "avx512f", 1),
    (1, v("h", 224, 9824, 32), 224, 16, 64, (7, 7), (2, 2), NONE, 2, "sse2", 4),
    (1, floordiv(v("h", 64, 104, 8), 4), floordiv(v("h", 64, 104, 8), 4), 8, 24, (2, 2), (1, 2), NONE, 1, "sse2", 4),
    (1, v("h", 32, 2048, 32), 7, 16, 64, (2, 2), (4, 4), NONE, 1, "neon", 4),
    (1, 2 * v("h", 32, 332), 32, 64, 128, (3, 3), (3, 3), NONE, 2, "avx2fma", 1),
    (1, 112, 14, 1, 16, (2, 2), (1, 2), NONE, 1, "neon", 2),
    (B, v("h", 224, 288, 32), v("h", 224, 288, 32), 8, 24, (3, 1), (1, 2), NONE, 1, "avx2fma", 1),
    (1, v("h", 3, 64), 32, 16, 64, (3, 3), (2, 2), NONE, 1, "neon", 1),
)


def made(case: Case) -> tuple[Loops, list[TensorType], dict[str, Any]]:
    n, h, w, channels, filters, taps, stride, pad, dilation, _, _ = case
    shapes: tuple[tuple[Dim, ...], ...] = ((n, h, w, channels), (filters, *taps, channels), (filters,))
    types = [TensorType(F32, shape) for shape in shapes]
    given: dict[str, Any] = {"stride": stride, "dilation": (dilation,) * 2, "pad": pad}
    loops = OPS["conv2d"].loops
    assert loops is not None
    return drop_single_trips(loops("f", types, infer("conv2d", types, tuple(given.items())), given)), types, given


def proved(case: Case) -> Loops:
    done = schedule_nest(Nest(made(case)[0], frozenset({"w", "b"}), case[-1]), FLOATS[case[-2]])
    found: list[str] = []
    verify_loops(done, lambda where, what: found.append(f"{where}: {what}"))
    assert found == []
    return done


@pytest.mark.parametrize("case", [*WIDTHS, *PIXELS], ids=str)
def test_a_schedule_with_vectors_is_proved(case: Case) -> None:
    assert "vectorize" in proved(case).trace


@pytest.mark.parametrize(("case", "minimum"), [(WIDTHS[-1], 3), (PIXELS[-1], 3), (PIXELS[7], 1)], ids=str)
def test_it_computes_the_convolution(case: Case, minimum: int) -> None:
    done = proved(case)
    _, types, given = made(case)
    rng = np.random.default_rng(8)
    for size in (minimum, 16, 17):
        env = dict.fromkeys(done.dims, size)
        x, w, b = (rng.integers(-4, 5, [evaluate(d, env) for d in t.shape]).astype(np.float32) for t in types)
        want = OPS["conv2d"].reference(x, w, b, **given)
        arrays = {"x": x, "w": w, "b": b, "o": np.full(want.shape, 99, np.float32)}
        arrays |= {name: pack_array(arrays[name], layout) for name, layout in done.layouts.items()}
        assert done.rows is not None
        run_loops(done, arrays, {d.name: size for d in done.dims}, (0, evaluate(done.rows.extent, env)))
        np.testing.assert_array_equal(arrays["o"], want)


def test_a_condition_holds_as_often_as_it_is_taken() -> None:
    n, i = Var("n", 1, 1 << 20), Var("i", 0, 1 << 20)
    half = floordiv(n.expr, 2)
    inside = PathConditions(((i, 0, half),), (half - i.expr - 3,))
    assert inside.nonnegative(2 * half - 2 * i.expr - 6) is True
    assert inside.nonnegative(2 * half - 2 * i.expr - 7) is not True
