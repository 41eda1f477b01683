"""Pools over whole images in two steps: the same values, row by row, in plans that are checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sdk.boards import load_board
from sdk.compiler import ops
from sdk.compiler.analysis.accumulate import accumulators
from sdk.compiler.analysis.rows import row_granule
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.graph import Call, Graph, Value, attrs
from sdk.compiler.ir.loops import For, If, Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall, Repeat
from sdk.compiler.ir.types import F16, F32, I8, I16, DType, TensorType
from sdk.compiler.ir.walk import rewrite
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops.registry import get_op, infer
from sdk.compiler.passes.accumulate import Accumulate
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.sym import Var
from sdk.compiler.verify.module import check
from sdk.compiler.verify.plan import verify_plan

SETS = (
    frozenset({"sse2", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512vnni"}),
    frozenset({"neon"}),
    load_board("nucleo_l4r5zi").capabilities,
    frozenset[str](),
)
WHOLE = {"kernel": (5, 4), "stride": (5, 4), "pad": (0, 0, 0, 0)}


def pooled(op: str, kind: DType, shape: tuple[int, ...] = (1, 5, 4, 16), **given: object) -> Module:
    x = Value("x", TensorType(kind, shape))
    given = {**WHOLE, **given}
    (type_,) = infer(op, [x.type], given)
    y = Value("y", type_)
    graph = Graph("main", (), (x,), (Call((y,), "op", op, (x,), attrs(**given)),), (y,))
    return Module("m", "typed", graphs={"main": graph})


def image(kind: DType, shape: tuple[int, ...] = (1, 5, 4, 16)) -> np.ndarray:
    rng = np.random.default_rng(3)
    if kind.is_float:
        return rng.standard_normal(shape).astype(kind.numpy)
    return rng.integers(*kind.limits, shape, endpoint=True).astype(kind.numpy)


CASES = [
    ("avg_pool2d", I8, {"lo": -128, "hi": 127}),
    ("avg_pool2d", I8, {"lo": -100, "hi": 3}),
    ("avg_pool2d", I16, {"lo": -32768, "hi": 32767}),
    ("avg_pool2d", F32, {}),
    ("avg_pool2d", F16, {}),
    ("sum_pool2d", F32, {}),
    ("max_pool2d", I8, {"lo": -128, "hi": 60}),
    ("max_pool2d", F32, {}),
]


@pytest.mark.parametrize(("op", "kind", "given"), CASES)
def test_two_steps_give_every_bit_of_the_pool(op: str, kind: DType, given: dict[str, object]) -> None:
    before = pooled(op, kind, **given)
    after = Accumulate().run(before)
    assert [n.callee for n in after.graphs["main"].body][:1] == ["pool_rows"]
    check(after, ops)
    x = image(kind)
    (want,), (got,) = (run_graph(Lower().run(m), "main", {"x": x}).values() for m in (before, after))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "given",
    [{"kernel": (4, 4)}, {"pad": (1, 0, 0, 0), "kernel": (6, 4)}, {"kernel": (3, 4), "dilation": (2, 1)}],
)
def test_other_windows_stay(given: dict[str, object]) -> None:
    module = pooled("avg_pool2d", F32, **given)
    assert Accumulate().run(module) is module


def test_the_sum_over_an_image() -> None:
    x = Value("x", TensorType(I8, (1, 5, 4, 16)))
    given = {"axes": (1, 2), "x_offset": 128}
    y = Value("y", infer("reduce_sum", [x.type], given)[0])
    graph = Graph("main", (), (x,), (Call((y,), "op", "reduce_sum", (x,), attrs(**given)),), (y,))
    before = Module("m", "typed", graphs={"main": graph})
    after = Accumulate().run(before)
    assert [n.callee for n in after.graphs["main"].body] == ["pool_rows"]
    check(after, ops)
    (want,), (got,) = (run_graph(Lower().run(m), "main", {"x": image(I8)}).values() for m in (before, after))
    np.testing.assert_array_equal(got, want)


def test_an_image_of_one_row_stays() -> None:
    module = pooled("max_pool2d", F32, (1, 1, 4, 16), kernel=(1, 4))
    assert Accumulate().run(module) is module


def gathering(kind: DType, by: str, channels: int = 16) -> Loops:
    types = [TensorType(kind, (1, 5, 4, channels))]
    loops = get_op("pool_rows").loops
    assert loops is not None
    return loops("f", types, infer("pool_rows", types, {"by": by}), {"by": by})


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("by", ["sum", "max"])
@pytest.mark.parametrize("kind", [I8, F32])
def test_the_rule_of_every_core_keeps_what_row_0_does(kind: DType, by: str, isa: frozenset[str]) -> None:
    loops = schedule_nest(Nest(gathering(kind, by)), machine_for(isa))
    assert accumulators(loops) == {"o"}
    assert row_granule(loops) is None  # threads may not share it
    x = image(kind)
    out = infer("pool_rows", [TensorType(kind, x.shape)], {"by": by})[0]
    found = np.full(out.static_shape, 85, out.dtype.numpy)
    for row in range(5):
        run_loops(loops, {"x": x, "o": found}, {}, (row, row + 1))
    want = get_op("pool_rows").reference(x, by=by)
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("channels", [1, 3, 5, 8, 15, 17, 33])
def test_the_rule_of_every_core_sets_odd_channels_too(channels: int, isa: frozenset[str]) -> None:
    for kind, by in ((I8, "sum"), (I16, "sum"), (F32, "max")):
        assert accumulators(schedule_nest(Nest(gathering(kind, by, channels)), machine_for(isa))) == {"o"}


def test_what_is_not_set_at_row_0_is_no_accumulator() -> None:
    loops = gathering(I8, "sum")
    shorter = rewrite(loops, lambda n: replace(n, hi=15) if isinstance(n, For) and n.var.name == "c" else n)
    never = rewrite(loops, lambda n: n.then if isinstance(n, If) else n)
    late = rewrite(
        loops,
        lambda n: (
            replace(n, body=tuple(reversed(n.body)))
            if hasattr(n, "body") and isinstance(n.body, tuple) and len(n.body) == 2
            else n
        ),
    )
    for wrong in (shorter, never, late, replace(loops, rows=None)):
        assert accumulators(wrong) == frozenset()


def planned() -> Module:
    return PlanMemory().run(Lower().run(Accumulate().run(pooled("avg_pool2d", I8, lo=-128, hi=127))))


def by_rows(module: Module, lo: int) -> Module:
    """The plan with the rows from ``lo`` on one after the other."""
    plan = module.plans["main"]
    k = Var("k", 0, 4)
    first = plan.body[0]
    assert isinstance(first, PlanCall)
    body = (Repeat(k, lo, 5, (replace(first, rows=(k.expr, k.expr + 1)),)), *plan.body[1:])
    return replace(module, plans={"main": replace(plan, body=body)})


def test_plans_by_rows_are_sound_and_run() -> None:
    module, x = planned(), image(I8)
    want = run_plan(module, "main", {"x": x})["y"]
    apart = by_rows(module, 0)
    assert verify_plan(apart, apart.plans["main"]) == []
    np.testing.assert_array_equal(run_plan(apart, "main", {"x": x})["y"], want)


def test_a_plan_that_leaves_out_row_0_is_refused() -> None:
    module = by_rows(planned(), 1)
    assert any("holds nothing" in d.message for d in verify_plan(module, module.plans["main"]))
