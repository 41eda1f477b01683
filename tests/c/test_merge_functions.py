"""Functions shared by run-time numbers are the functions they stand for: proved, interpreted, and as C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_harness import build

from sdk.codegen_c.functions.kernel_cost import kernel_cost
from sdk.compiler.analysis.instances import instance, same, specialised
from sdk.compiler.analysis.work import Cost, cost, length, work
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall
from sdk.compiler.ir.text import parse_module
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import registry
from sdk.compiler.ops.registry import get_op, infer
from sdk.compiler.passes.merging import Different, Limits, generalise, grouped, proved, unrolled
from sdk.compiler.passes.pipeline import parse_pipeline, run_pipeline
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.verify.module import verify
from sdk.compiler.verify.plan import check_plan, verify_plan
from tests.ir.round_trip import check_round_trip

DSP = machine_for({"dsp", "thumb2"})
T = TensorType

NET = """module net typed

const @w1: i8[6, 10] = [{w1}]
const @w2: i8[9, 6] = [{w2}]
const @w3: i8[5, 9] = [{w3}]
const @b1: i32[6] = [1, 2, 3, 4, 5, 6]
const @b2: i32[9] = [1, -2, 3, -4, 5, -6, 7, -8, 9]
const @b3: i32[5] = [100, 200, -300, 400, 0]
const @m: i32[1] = [1584502200]
const @s: i32[1] = [-7]

graph @main(%x: i8[4, 10]) {{
  %a = dense(%x, @w1, @b1) {{w_offset = 0, x_offset = 3}} : i32[4, 6]
  %c = requantize(%a, @m, @s) {{acc_bits = 20, hi = 127, lo = -128, out = "i8",
    shift_hi = -7, shift_lo = -7, zp = 5}} : i8[4, 6]
  %d = dense(%c, @w2, @b2) {{w_offset = 0, x_offset = -5}} : i32[4, 9]
  %e = requantize(%d, @m, @s) {{acc_bits = 20, hi = 127, lo = -128, out = "i8",
    shift_hi = -7, shift_lo = -7, zp = 1}} : i8[4, 9]
  %f = dense(%e, @w3, @b3) {{w_offset = 0, x_offset = -1}} : i32[4, 5]
  %y = requantize(%f, @m, @s) {{acc_bits = 20, hi = 127, lo = 0, out = "i8",
    shift_hi = -7, shift_lo = -7, zp = 0}} : i8[4, 5]
  return %y
}}
"""


def net(pipeline: str) -> Module:
    rng = np.random.default_rng(5)
    weights = {f"w{k}": ", ".join(map(str, rng.integers(-128, 128, n))) for k, n in ((1, 60), (2, 54), (3, 45))}
    return run_pipeline(parse_module(NET.format(**weights), {}, registry), parse_pipeline(pipeline))


@pytest.mark.parametrize("opt", ["time", "size"])
def test_a_net_with_shared_layers_gives_the_same(opt: str) -> None:
    plain = net("lower,fuse,simplify-loops,schedule{isa=dsp},plan-memory")
    shared = net(f"lower,fuse,simplify-loops,schedule{{isa=dsp}},plan-memory,merge-functions{{opt={opt}}}")
    assert verify(shared, registry) == []
    check_plan(shared, shared.plans["main"])
    check_round_trip(shared)
    assert shared.plans["main"].buffers == plain.plans["main"].buffers
    if opt == "size":
        assert len(shared.loops) < len(plain.loops) == 3
    x = np.random.default_rng(1).integers(-128, 128, (4, 10), dtype=np.int8)
    got, want = (run_plan(m, "main", {"x": x})["y"] for m in (shared, plain))
    np.testing.assert_array_equal(got, want)


def test_calls_are_of_instances() -> None:
    module = net("lower,fuse,simplify-loops,schedule{isa=dsp},plan-memory,merge-functions{opt=size}")
    plan = module.plans["main"]
    alone, specialised_plan = specialised(module, plan)
    assert len(alone.loops) > len(module.loops)
    assert all(not s.dims for s in specialised_plan.body if isinstance(s, PlanCall))
    body = [replace(s, dims=(*s.dims[:-1], 1)) if isinstance(s, PlanCall) and s.dims else s for s in plan.body]
    wrong = replace(plan, body=tuple(body))
    assert any("which is no instance of" in d.message for d in verify_plan(module, wrong))


def test_an_instance_outside_the_bounds_is_found() -> None:
    module = net("lower,fuse,simplify-loops,schedule{isa=dsp},plan-memory,merge-functions{opt=size}")
    f = next(f for f in module.loops.values() if f.instances)
    beyond = tuple(v.hi + 1 for v in f.dims)
    found = verify(replace(module, loops={f.name: replace(f, instances=(*f.instances, beyond))}), registry)
    assert any("outside the bounds" in d.message for d in found)


def test_what_is_wrong_in_one_instance_is_found() -> None:
    """Nothing is proved of a shared function as such: each of its instances is."""
    text = """module m scheduled

loops @copy<n in 2..9>(read %x: i8[9], write %o: i8[n])
    instances [4], [9] {
  for i in 0..9 {
    if i < 9 {
      %o[i] = %x[i]
    }
  }
}
"""
    found = verify(parse_module(text), registry)
    assert found
    assert all("[4]" in d.where for d in found)


def layers(op: str, rng: np.random.Generator, count: int) -> list[Loops]:
    """Layers of one kind and of any sizes, scheduled for packed words."""
    out = []
    for k in range(count):
        h, w, c, n = (int(rng.integers(lo, hi)) for lo, hi in ((3, 9), (3, 9), (2, 40), (2, 30)))
        attrs = {
            "stride": (1, 1),
            "dilation": (1, 1),
            "pad": (1, 1, 1, 1),
            "x_offset": 0,
            "pad_value": int(rng.integers(-9, 9)),
        }
        if op == "depthwise_conv2d":
            types, attrs = (T(I8, (1, h, w, c)), T(I8, (3, 3, c)), T(I32, (c,))), {**attrs, "multiplier": 1}
        elif op == "conv2d":
            types = T(I8, (1, h, w, c)), T(I8, (n, 3, 3, c)), T(I32, (n,))
        else:
            attrs = {**attrs, "pad": (0, 0, 0, 0)}
            types = T(I8, (1, h, w, c)), T(I8, (n, 1, 1, c)), T(I32, (n,))
        name = "conv2d" if op == "pointwise" else op
        plain = get_op(name).loops(f"f{k}", types, infer(name, types, tuple(sorted(attrs.items()))), attrs)
        out.append(unrolled(schedule_nest(Nest(plain), DSP)))
    return out


def joined(functions: Sequence[Loops]) -> list[tuple[list[Loops], Loops, tuple[tuple[int, ...], ...]]]:
    """The functions in groups, each with one for all of it."""
    groups: list[tuple[list[Loops], Loops, tuple[tuple[int, ...], ...]]] = []
    for f in functions:
        for k, (members, _, _) in enumerate(groups):
            try:
                made = generalise([*members, f], f"shared{k}")
            except Different:
                continue
            if not proved([*members, f], made):
                continue
            groups[k] = [*members, f], made.loops, made.values
            break
        else:
            groups.append(([f], f, ((),)))
    return [g for g in groups if len(g[0]) > 1]


def arguments(f: Loops, rng: np.random.Generator) -> list[np.ndarray]:
    out = []
    for p in f.params:
        shape = p.buffer.type.static_shape
        lo, hi = p.buffer.dtype.limits if p.mode == "read" and p.buffer.dtype.bits < 32 else (-999, 999)
        out.append(rng.integers(lo, hi, shape, endpoint=True).astype(p.buffer.dtype.numpy))
    return out


@pytest.mark.parametrize("op", ["pointwise", "conv2d", "depthwise_conv2d"])
def test_layers_of_any_size_share(op: str, tmp_path: Path) -> None:
    """The shared function itself, not its instances: in the interpreter, and as C."""
    rng = np.random.default_rng(11)
    groups = joined(layers(op, rng, 12))
    assert sum(len(members) for members, _, _ in groups) >= 4
    library = build([shared for _, shared, _ in groups], tmp_path, isa=frozenset())
    for members, shared, values in groups:
        for f, dims in zip(members, values, strict=True):
            assert same(f, instance(shared, dims))
            assert all(v.holds(d) for v, d in zip(shared.dims, dims, strict=True))
            args = arguments(f, rng)
            names = [p.buffer.name for p in f.params]
            rows = (0, f.rows.extent) if f.rows is not None and isinstance(f.rows.extent, int) else None
            results = []
            for run in range(3):
                mine = [a.copy() for a in args]
                given = dict(zip(names, mine, strict=True))
                if run == 0:
                    run_loops(f, given, {}, rows)
                elif run == 1:
                    there = dict(zip((p.buffer.name for p in shared.params), mine, strict=True))
                    run_loops(shared, there, {v.name: d for v, d in zip(shared.dims, dims, strict=True)}, rows)
                else:
                    library.call(shared.name, mine, dims, rows)
                results.append(mine[-1])
            np.testing.assert_array_equal(results[1], results[0])
            np.testing.assert_array_equal(results[2], results[0])


def test_what_differs_in_more_than_numbers_is_not_shared() -> None:
    rng = np.random.default_rng(2)
    a, b = layers("pointwise", rng, 1)[0], layers("depthwise_conv2d", rng, 1)[0]
    with pytest.raises(Different):
        generalise([a, b], "no")


def test_work_counts_turns() -> None:
    text = """module m scheduled

loops @twice<n in 1..100>(read %x: i8[n], write %o: i8[n]) {
  for i in 0..n {
    %o[i] = %x[i]
  }
}
"""
    (f,) = parse_module(text).loops.values()
    assert work(f).at((100,)) > 9 * work(f).at((10,))
    assert length(f.body) < work(f).at((10,))


STAGED = """module m planned

loops @staged(read %x: i8[8, 4], write %o: i8[8, 4])
    rows lo, hi of 8 {
  for i in lo..hi {
    alloc %t: i8[4] in scratch
    for j in 0..4 {
      %t[j] = %x[i, j]
    }
    for j in 0..4 {
      %o[i, j] = %t[j]
    }
  }
}

loops @plain(read %x: i8[9, 5], write %o: i8[9, 5])
    rows lo, hi of 9 {
  for i in lo..hi {
    for j in 0..5 {
      %o[i, j] = %x[i, j]
    }
  }
}
"""


def test_what_has_scratch_shares_with_nothing_without() -> None:
    """A call of a function without scratch has none to give."""
    functions = list(parse_module(STAGED, {}, registry).loops.values())
    assert len(functions) == 2
    assert grouped(functions, {f.name: 1 for f in functions}, Limits(100.0, 100.0), cost) == []


def test_no_function_loses_more_than_its_limit() -> None:
    """Whatever sharing costs all together: each has a limit of its own."""
    functions = layers("pointwise", np.random.default_rng(11), 12)
    calls = {f.name: 1 for f in functions}
    alone = {f.name: cost(f).work.at() for f in functions}

    def dear(f: Loops) -> Cost:
        """What is shared costs a fifth more, and all code is as long."""
        found = cost(f)
        pieces = tuple((6 * one if f.dims else 5 * one, trips) for one, trips in found.work.pieces)
        return Cost(replace(found.work, pieces=pieces), 1000)

    loose, tight = Limits(math.inf, math.inf), Limits(math.inf, 0.1)
    assert grouped(functions, calls, loose, dear)
    assert grouped(functions, calls, tight, dear) == []
    for limit in (0.02, 0.1, 0.5):
        for group in grouped(functions, calls, Limits(math.inf, limit), cost):
            assert group.shared is not None
            found = cost(group.shared.loops).work
            for f, values in zip(group.functions, group.shared.values, strict=True):
                assert found.at(values) <= alone[f.name] * (1 + limit)


def test_work_in_assembly_is_counted() -> None:
    """A kernel with its numbers takes fewer instructions than with parameters in their place, whose loops it cannot
    write out."""
    isa = frozenset({"thumb", "thumb2", "dsp", "unaligned"})
    rng = np.random.default_rng(3)
    groups = joined(layers("depthwise_conv2d", rng, 6)) + joined(layers("pointwise", rng, 6))
    assert groups
    for members, shared, values in groups:
        found = kernel_cost(shared, isa).work
        for f, dims in zip(members, values, strict=True):
            alone = kernel_cost(f, isa).work
            assert 0.95 * alone.at() <= found.at(dims) <= 3 * alone.at()
