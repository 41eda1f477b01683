"""Attention, scheduled: in the lanes of every machine, interpreted and as C, against the reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c.c_harness import HOST_ISA, build

from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Loops, Store
from sdk.compiler.ir.types import F16, F32, I8, DType, TensorType
from sdk.compiler.ir.walk import rewrite
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS
from sdk.compiler.schedules.attention_lanes import attention_lanes, shape_of_attention
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.rules import rule_for
from sdk.compiler.schedules.rules.attention import AttentionLanes
from sdk.compiler.sym import Dim, Var
from sdk.compiler.verify.loops import verify_loops

N, POS = Var("n", 1, 13), Var("pos", 0, 99)
# tokens, heads, heads of keys, numbers, slots, type of these; what is given otherwise; positions to start from
CASES: tuple[tuple[Dim, int, int, int, int, DType, dict[str, Any], tuple[int, ...]], ...] = (
    (1, 6, 2, 16, 112, F32, {}, (0, 15, 99)),
    (N.expr, 4, 2, 32, 112, F32, {"cap": 3.0}, (0, 60)),
    (N.expr, 3, 3, 16, 112, F32, {"window": 5}, (0, 3, 77)),
    (N.expr, 2, 1, 16, 32, F32, {"window": 20, "ring": True}, (0, 11, 25, 70, 98)),
    (1, 7, 1, 16, 16, F32, {"window": 16, "ring": True}, (3, 15, 16, 31, 97)),
    (1, 6, 2, 16, 112, F16, {}, (0, 15, 99)),
    (N.expr, 2, 1, 16, 32, F16, {"window": 20, "ring": True}, (0, 25, 98)),
    (1, 6, 2, 16, 112, I8, {"cap": 3.0}, (0, 15, 99)),
    (N.expr, 4, 2, 32, 112, I8, {}, (0, 60)),
    (N.expr, 2, 1, 16, 32, I8, {"window": 20, "ring": True}, (0, 25, 98)),
)
BLOCK = 16  # slots
INPUTS = ("q", "keys", "values", "keys_scale", "values_scale")


def plain(case: int) -> Loops:
    """The nest of ``attend``, or of ``attend_bytes``."""
    n, heads, kv, size, slots, kind, given, _ = CASES[case]
    blocked = (kv, slots // BLOCK, size, BLOCK)
    types = [TensorType(F32, (n, heads, size)), *(TensorType(kind, s) for s in (blocked, (kv, slots, size)))]
    types += [TensorType(F32, (kv, slots))] * (2 if kind == I8 else 0)
    loops = OPS[op_of(case)].loops
    assert loops is not None
    return drop_single_trips(loops("f", types, types[:1], attributes(given, POS.expr)))


def op_of(case: int) -> str:
    return "attend_bytes" if CASES[case][5] == I8 else "attend"


def attributes(given: dict[str, Any], start: Dim) -> dict[str, Any]:
    return {"start": start, "window": 0, "ring": False, "scale": 0.3, "cap": 0.0, **given}


def arguments(case: int, n: int, start: int) -> list[np.ndarray]:
    """Queries, keys and values; slots that were never written hold no numbers where that must not matter."""
    _, heads, kv, size, slots, kind, given, _ = CASES[case]
    rng = np.random.default_rng(start)
    shapes = (n, heads, size), (kv, slots // BLOCK, size, BLOCK), (kv, slots, size)
    q, keys, values = (rng.standard_normal(s).astype(np.float32) * 2 for s in shapes)
    if kind != I8:
        keys, values = keys.astype(kind.numpy), values.astype(kind.numpy)
        if not given.get("ring"):
            keys.transpose(0, 1, 3, 2)[:, np.arange(slots).reshape(-1, BLOCK) >= start + n] = np.nan
            values[:, start + n :] = np.nan
        return [q, keys, values]
    wide = [rng.integers(-127, 128, shape).astype(np.int8) for shape in shapes[1:]]
    scales = [(rng.random((kv, slots)) / 20).astype(np.float32) for _ in wide]
    if not given.get("ring"):
        scales[0][:, start + n :] = scales[1][:, start + n :] = np.nan
    return [q, *wide, *scales]


def wanted(case: int, args: list[np.ndarray], start: int) -> np.ndarray:
    rest = (np.nan_to_num(a) for a in args[1:])
    found: np.ndarray = OPS[op_of(case)].reference(args[0], *rest, **attributes(CASES[case][6], start))
    return found


def findings(loops: Loops) -> list[str]:
    found: list[str] = []
    verify_loops(loops, lambda _, text: found.append(text))
    return found


@pytest.mark.some(5)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_lanes_compute_the_reference(case: int) -> None:
    nest = plain(case)
    for lanes, sums, tokens in ((4, 8, [4, 1]), (16, 16, [8, 4, 1])):
        made = attention_lanes(nest, lanes, sums, tokens)
        assert findings(made) == []
        n = 11 if CASES[case][0] is N.expr else 1
        start = CASES[case][7][-1]
        args = arguments(case, n, start)
        out = np.full(args[0].shape, 85, np.float32)
        kv = CASES[case][2]
        for part in ((0, 1), (1, kv)):
            arrays = dict(zip((*INPUTS[: len(args)], "o"), [*args, out], strict=True))
            run_loops(made, arrays, {"n": n, "pos": start}, part)
        np.testing.assert_allclose(out, wanted(case, args, start), atol=2e-5, rtol=1e-5)


def test_as_c(tmp_path: Path) -> None:
    machine, functions = machine_for(HOST_ISA), []
    for case in range(len(CASES)):
        rule, made = rule_for(Nest(plain(case)), machine)
        assert isinstance(rule, AttentionLanes)
        functions.append(replace(made, name=f"g{case}"))
    kernels = build(functions, tmp_path, HOST_ISA)
    for case, (n, _, kv, _, _, _, _, starts) in enumerate(CASES):
        for start, count in ((s, c) for s in starts for c in ((1,) if n == 1 else (1, 8, 13)) if s + c <= 112):
            args = arguments(case, count, start)
            out = np.full(args[0].shape, 85, np.float32)
            dims = [start] if n == 1 else [count, start]
            kernels.call(f"g{case}", [*args, out], dims, (0, kv))
            np.testing.assert_allclose(out, wanted(case, args, start), atol=2e-5, rtol=1e-5)


def test_what_is_no_attention_or_no_whole_vectors_is_refused() -> None:
    nest = plain(1)
    assert shape_of_attention(nest) is not None

    def other(node: Any) -> Any:
        return replace(node, index=(0, *node.index[1:])) if isinstance(node, Store) and node.buffer == "o" else node

    with pytest.raises(ScheduleError, match="no attention"):
        attention_lanes(replace(nest, body=rewrite(nest.body, other)), 4, 8, [1])
    for lanes, tokens in ((32, [1]), (1, [1]), (4, [2])):
        with pytest.raises(ScheduleError, match="no vectors"):
            attention_lanes(nest, lanes, 8, tokens)
