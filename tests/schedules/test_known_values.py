"""What schedules of GPUs know of values without looking at each again is what looking at each says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest

from sdk.compiler.ir.loops import Idx, Let, Load, Loops, Op, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.walk import dims_used, instantiated, rename_buffers, rewrite, substitute_dims, walk
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.gpu.known import Values
from sdk.compiler.sym import Var, free_vars

NAMES = ("conv2d", "depthwise_conv2d", "matmul", "softmax", "attend", "gelu", "topk", "quantize")


def nests() -> Iterator[Loops]:
    for name in NAMES:
        for one in OPS[name].samples[:2]:
            attrs = dict(one.attrs)
            made = OPS[name].loops
            assert made is not None
            yield made("f", one.inputs, infer(name, one.inputs, attrs), attrs)


def test_known_is_what_is_below() -> None:
    count = 0
    for loops in nests():
        values = Values()
        numbers: dict[int, ValueExpr] = {}
        for node in walk(loops.body):
            if not isinstance(node, get_args(ValueExpr)):
                continue
            known, below = values.of(node), list(walk(node))
            assert known.vars == {v for d in dims_used(node) for v in free_vars(d)}
            assert known.buffers == {n.buffer for n in below if isinstance(n, Load)}
            assert known.varies == any(isinstance(n, Load | Ref) for n in below)
            assert known.indexes == any(isinstance(n, Idx) for n in below)
            assert known.chooses == any(isinstance(n, Op) and n.name == "select" for n in below)
            assert numbers.setdefault(values.number(node), node) == node
            wanted = values.operations(node, lambda one: one.dtype.is_float)
            assert wanted == {values.number(n) for n in below if isinstance(n, Op) and n.dtype.is_float}
            count += 1
        assert len(set(numbers.values())) == len(numbers)  # and equal values have one number
    assert count > 300


@pytest.mark.parametrize("shift", [0, 3])
def test_an_instance_is_three_passes_in_one(shift: int) -> None:
    changed = 0
    for loops in nests():
        env = {v: v.expr + shift for v in {n.var for n in walk(loops.body) if hasattr(n, "var")}} if shift else {}
        buffers = {n.buffer: f"{n.buffer}_1" for n in walk(loops.body) if isinstance(n, Store)}
        scalars = {n.name: f"{n.name}_1" for n in walk(loops.body) if isinstance(n, Let)}

        def renamed(node: Stmt | ValueExpr, scalars: dict[str, str] = scalars) -> Stmt | ValueExpr:
            match node:
                case Let(name, value):
                    return Let(scalars[name], value)
                case Ref(name, kind):
                    return Ref(scalars[name], kind)
                case _:
                    return node

        want = rewrite(substitute_dims(rename_buffers(loops.body, buffers), env), renamed)
        got = instantiated(loops.body, env, buffers, scalars)
        assert got == want
        changed += got != loops.body
    assert changed > len(NAMES)


def test_nothing_that_changes_is_the_same_object() -> None:
    for loops in nests():
        assert instantiated(loops.body, {Var("other", 0, 1): 0}, {}, {}) is loops.body
