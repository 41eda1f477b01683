"""The smallest plan: no larger than one of whole tensors or within a limit, and with a bound that can be checked."""

from __future__ import annotations

import numpy as np
import pytest
from memory_nets import Net

from sdk.compiler.ir.graph import Call, Graph, Value, attrs
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.memory.problem import Block, Placement
from sdk.compiler.memory.stream.timeline import Timeline
from sdk.compiler.ops.registry import infer
from sdk.compiler.passes.accumulate import Accumulate
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.verify.plan import verify_plan
from sdk.errors import BuildError


def chain() -> Module:
    """Convolutions of one shape: each stream may write over its input some rows further down, and all add up."""
    net = Net()
    value = net.input("x", 1, 16, 6, 3)
    for _ in range(4):
        value = net.conv(value, 32)
    return net.module(net.op("max_pool2d", value, kernel=(16, 6), stride=(16, 6), pad=(0, 0, 0, 0)))


def test_least_is_no_more_than_a_limit_that_can_be_kept() -> None:
    module = chain()
    minimum = peak(PlanMemory(memory="min").run(module).plans["main"])
    for limit in range(minimum // 2, minimum - minimum // 32, minimum // 16):
        with pytest.raises(BuildError, match="limit"):
            PlanMemory(limit=limit).run(module)
    assert peak(PlanMemory(limit=minimum).run(module).plans["main"]) <= minimum


def test_a_bound_that_a_search_proves_is_not_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of the plan sees its largest live set, not the search."""

    def proved(blocks: tuple[Block, ...]) -> Placement:
        offsets, at = {}, 0
        for block in blocks:
            offsets[block.name], at = at, at + -(-block.size // 16) * 16
        return Placement(offsets, at, at)

    monkeypatch.setattr("sdk.compiler.memory.layout.plan_offsets", proved)
    module = PlanMemory(overlap=False).run(chain())
    assert verify_plan(module, module.plans["main"]) == []


def test_a_lag_is_no_more_than_its_output() -> None:
    """Rounded up to where blocks may begin it could be."""
    blocks = (Block("a", 64, 0, 1, 16), Block("b", 5, 1, 2, 16))
    used = {b.name: np.ones(2, dtype=np.bool_) for b in blocks}
    (separation,), bound = Timeline(()).problem(blocks, used, {("b", "a"): 16})
    assert (separation.low, separation.high) == (-5, 64)
    assert bound == 69


def test_the_pool_of_a_turned_image_reads_it_where_it_lies() -> None:
    x = Value("x", TensorType(F32, (1, 8, 9, 6)))
    body, value = [], x
    window = {"kernel": (9, 6), "stride": (9, 6), "pad": (0, 0, 0, 0)}
    for op, given in (("transpose", {"perm": (0, 2, 3, 1)}), ("max_pool2d", window)):
        (type_,) = infer(op, [value.type], given)
        body.append(Call((Value(f"{op}_out", type_),), "op", op, (value,), attrs(**given)))
        value = body[-1].out
    module = Module("net", "typed", graphs={"main": Graph("main", (), (x,), tuple(body), (value,))})
    assert Accumulate().run(module) is module


def peak(plan: Plan) -> int:
    return plan.region("arena").bytes
