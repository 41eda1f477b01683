"""The text of modules reads back to the same module, whatever is in them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modules import Maker

from sdk.compiler import ops
from sdk.compiler.ir.graph import Call, Graph, Value
from sdk.compiler.ir.loops import Block, Idx, Imm, Let, Load, Loops, Op, Param, Store
from sdk.compiler.ir.loops import Buffer as B
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.text import collect_blobs, parse_module, print_module
from sdk.compiler.ir.types import F32, I8, I32, U8, TensorType
from sdk.compiler.sym import Var
from sdk.errors import BuildError
from tests.ir.round_trip import check_round_trip


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32 - 1).map(Random))
def test_any_module(rng: Random) -> None:
    check_round_trip(Maker(rng).module())


def test_the_loops_of_every_op() -> None:
    loops, graphs = {}, {}
    for name, op in ops.OPS.items():
        for k, sample in enumerate(op.samples):
            outs = ops.infer(name, sample.inputs, sample.attrs)
            if op.loops is not None:
                loops[f"{name}_{k}"] = op.loops(f"{name}_{k}", sample.inputs, outs, dict(sample.attrs))
    check_round_trip(Module("ops", "scheduled", graphs=graphs, loops=loops))


def test_constants_keep_their_bits() -> None:
    odd = np.array([0x7FC00001, 0x80000000, 0x00000001, 0x3DCCCCCD], np.uint32).view(np.float32)
    consts = [
        Const("nan", TensorType(F32, (4,)), odd),
        Const("few", TensorType(F32, (3,)), odd[1:]),
        Const("many", TensorType(I8, (17,)), np.arange(17)),
    ]
    module = Module("m", consts={c.name: c for c in consts})
    text = check_round_trip(module)
    assert "[-0.0, 1e-45, 0.1]" in text
    assert set(collect_blobs(module)) == {consts[0].digest, consts[2].digest}


def body(*stmts: Store | Let) -> Loops:
    buffers = [B("x", I8, (4, 4)), B("o", I32, (4,))]
    return Loops("f", (), (Param(buffers[0], "read"), Param(buffers[1], "write")), Block(stmts))


def text_of(*stmts: Store | Let) -> str:
    return check_round_trip(Module("m", loops={"f": body(*stmts)})).split("{\n", 1)[1].rsplit("}", 1)[0]


def test_expressions_are_spelled_as_in_c() -> None:
    x = Op("cast", (Load("x", (0, 1), I8),), I32)
    one, two = Imm(1, I32), Imm(2, I32)
    total = Op("add", (x, Op("mul", (one, two), I32)), I32)
    scaled = Op("mul", (Op("sub", (one, x), I32), two), I32)
    nested = Op("sub", (one, Op("sub", (two, x), I32)), I32)
    shifted = Op("shr", (total, one), I32)
    lines = text_of(*(Store("o", (0,), e) for e in (total, scaled, nested, shifted))).splitlines()
    assert lines == [
        "  %o[0] = i32(%x[0, 1]) + 1 * 2",
        "  %o[0] = (1 - i32(%x[0, 1])) * 2",
        "  %o[0] = 1 - (2 - i32(%x[0, 1]))",
        "  %o[0] = (i32(%x[0, 1]) + 1 * 2) >> 1",
    ]


def test_a_scalar_as_an_index_goes_by_its_name() -> None:
    at = Var("t", 0, 255)
    text = text_of(Let("t", Imm(3, U8)), Store("o", (at.expr,), Idx(at.expr, I32)))
    assert "%o[t] = t" in text


def test_types_that_do_not_follow_are_written() -> None:
    text = text_of(
        Store("o", (0,), Load("x", (0, 0), I8.with_lanes(4))),
        Store("o", (0,), Op("add", (Imm(1, I8), Imm(1, I8)), I32)),
    )
    assert "%x[0, 0]:i8x4" in text
    assert "add(1:i8, 1:i8):i32" in text


def test_a_value_used_with_another_type_shows() -> None:
    x = Value("x", TensorType(I8, (4,)))
    odd = Value("x", TensorType(I8, (5,)))
    text = check_round_trip(Module("m", graphs={"g": Graph("g", (), (x,), (), (odd,))}))
    assert "return %x: i8[5]" in text


def test_attributes_of_other_types_are_refused() -> None:
    bad = Value("x", TensorType(I8, (4,)))
    node = Call((bad,), "op", "f", (), (("k", [1]),))  # type: ignore[arg-type]
    with pytest.raises(BuildError, match="an attribute holds"):
        print_module(Module("m", graphs={"g": Graph("g", (), (), (node,), ())}))


def test_readme_of_the_format(root: Path) -> None:
    """The example that shows every construct once parses, and prints as it stands."""
    text = (root / "tests" / "ir" / "everything.ir").read_text(encoding="utf-8")
    module = parse_module(text)
    assert print_module(module) == text
