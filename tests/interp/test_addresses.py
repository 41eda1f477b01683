"""Addresses that are kept while loops step are those that every access would find for itself."""

from __future__ import annotations

import numpy as np
import pytest

from sdk.compiler.interp import loops as interpreter
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Idx, If, Let, Load, Loops, Op, Param, Ref, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, I32
from sdk.compiler.sym import Dim, Var, dmax, dmin, floordiv
from sdk.errors import BuildError

SIZES = (5, 7, 16)
NETS = 150


def index_of(rng: np.random.Generator, loops: list[Var], size: int, past: int) -> Dim:
    """A sum over the loops, often with a division in it, at most ``past`` elements after the last."""
    out: Dim = int(rng.integers(0, 3))
    for var in loops:
        match int(rng.integers(0, 6)):
            case 0:
                out = out + floordiv(var.expr * int(rng.integers(1, 4)), int(rng.integers(1, 4)))
            case 1 | 2:
                out = out + var.expr * int(rng.integers(-2, 4))
            case 3:
                out = out + floordiv(var.expr + loops[0].expr, 2)
    return dmin(dmax(out, -past), size - 1 + past)


def nest(seed: int) -> Loops:
    """Loops around a temporary that is written and read, some of them with a sum that keeps them in order."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(rng.choice(SIZES)) for _ in range(int(rng.integers(1, 4))))
    loops = [Var(f"v{k}", 0, 4) for k in range(int(rng.integers(1, 5)))]
    past = int(rng.choice((0, 0, 0, 1, 9)))
    at = tuple(index_of(rng, loops, size, past) for size in shape)
    kept = tuple(index_of(rng, loops[-2:], size, 0) for size in shape[:1])
    lanes = int(rng.choice((1, 1, 2, 4)))
    kind = I32.with_lanes(lanes)
    count = loops[0].expr - 1 if lanes > 1 and rng.integers(0, 2) else None
    read: ValueExpr = Load("x", at, kind, count)
    if rng.integers(0, 3) == 0:  # what is not taken may be outside
        few: ValueExpr = Op("lt", (Idx(loops[-1].expr, I32), Idx(2, I32)), BOOL)
        none: ValueExpr = Idx(0, I32)
        if lanes > 1:
            few, none = Op("broadcast", (few,), BOOL.with_lanes(lanes)), Op("broadcast", (none,), kind)
        read = Op("select", (few, read, none), kind)
    if lanes > 1:
        read = Op("fold_add", (read,), I32)
    temporary = Buffer("t", I32, shape[:1], "scratch")
    place = loops[0].expr, loops[1].expr if len(loops) > 1 else 0
    total = Op("add", (Load("o", place, I32), Load("t", kept, I32)), I32)
    written = Store("t", kept, Ref("got", I32)), Store("o", place, total)
    block = Block((Alloc(temporary), Let("got", read), *written))
    if rng.integers(0, 3) == 0:
        block = Block((If(Op("lt", (Idx(loops[0].expr, I32), Idx(2, I32)), BOOL), block),))
    for var in reversed(loops):
        block = Block((For(var, 0, var.hi + 1, block),))
    params = (Param(Buffer("x", I32, shape), "read"), Param(Buffer("o", I32, (5, 5)), "write"))
    return Loops("f", (), params, block)


def outcome(loops: Loops, seed: int) -> str | list[list[int]]:
    """The results, or what the run ends with."""
    shape = loops.params[0].buffer.type.static_shape
    x = np.random.default_rng(seed).integers(-99, 99, shape).astype(np.int32)
    out = np.zeros((5, 5), np.int32)
    try:
        run_loops(loops, {"x": x, "o": out})
    except BuildError as error:
        return str(error)
    found: list[list[int]] = out.tolist()
    return found


def test_kept_addresses_are_those_of_each_access(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [outcome(nest(seed), seed) for seed in range(NETS)]
    monkeypatch.setattr(interpreter, "addresses", lambda *_: None)
    assert kept == [outcome(nest(seed), seed) for seed in range(NETS)]
    refused = sum(isinstance(one, str) for one in kept)
    assert 0 < refused < NETS / 2
