"""The declared instructions: whole, each C function once, no two that nothing puts in an order, one for each dot."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product

import pytest

from sdk.boards import board_names, load_board
from sdk.boards.model import CAPABILITIES
from sdk.codegen_c.c99.helpers import helper_text
from sdk.codegen_c.c99.instructions.lookup import INSTRUCTION_SETS, fits, in_order, instruction_text
from sdk.codegen_c.c99.instructions.model import OWN, Instruction
from sdk.codegen_c.c99.unit import Unit
from sdk.compiler.ir.intrinsics import INTRINSICS
from sdk.compiler.ir.types import I32, DType, dtype

ALL = [one for own in INSTRUCTION_SETS.values() for one in own.instructions]
TYPES = [dtype(f"{kind}{lanes}") for kind in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "f16", "f32", "f64")
         for lanes in ("", "x2", "x4", "x8", "x16", "x32", "x64")]  # fmt: skip
TARGETS = sorted({frozenset(load_board(name).core.capabilities) for name in board_names()}, key=sorted)


def features(capabilities: frozenset[str]) -> frozenset[str]:
    return Unit("m", capabilities).features


def arity(one: Instruction) -> int:
    return INTRINSICS[one.ops[0]].arity if one.ops[0] in INTRINSICS else len(one.types) - 1


def examples(one: Instruction) -> list[tuple[DType, ...]]:
    """Some types that an instruction is for."""
    patterns = one.types + one.types[-1:] * (arity(one) + 1 - len(one.types))
    fitting = {p: [t for t in TYPES if fits(Instruction(("",), (p,), "", frozenset()), (t,))][:4] for p in patterns}
    chosen = product(*(fitting[p] for p in dict.fromkeys(patterns)))
    named = (dict(zip(dict.fromkeys(patterns), types, strict=True)) for types in chosen)
    return [tuple(own[p] for p in patterns) for own in named][:16]


def called(one: Instruction, types: tuple[DType, ...]) -> set[str]:
    """The C functions of an instruction's text for these types."""
    text = one.text.replace("$T", str(types[0]))
    for k, type in enumerate(types[1:]):
        text = text.replace(f"${k}", str(type))
    numbers = [{3: i, 4: j} for i, j in product(range(4), range(2))]
    texts = {re.sub(r"\{(\d):int\}", lambda m, n=n: str(n[int(m[1])]), text) for n in numbers}
    names = {name for one in texts for name in re.findall(r"@(\w+)", one)}
    return {name for name in names if not re.match(r"mac[23]\d", name)}  # pairs have halves 0 and 1 only


def test_every_architecture_has_its_file() -> None:
    assert set(INSTRUCTION_SETS) >= {"scalar", "lanes", "words", "real", "thumb", "mve", "neon", "x86"}


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.ops[0]}-{one.types[0]}-{'+'.join(sorted(one.needs))}")
def test_an_instruction_is_whole(one: Instruction) -> None:
    assert set(one.ops) <= {*INTRINSICS, *OWN}
    assert one.needs <= CAPABILITIES | {"words", "vectors"}
    assert examples(one), "for no types at all"
    assert set(one.functions) <= called(one, examples(one)[0])
    for types in examples(one):
        for name in called(one, types):
            assert helper_text(name)


def test_each_c_function_is_declared_once() -> None:
    declared = [functions for own in INSTRUCTION_SETS.values()
                for functions in (own.functions, *(one.functions for one in own.instructions))]  # fmt: skip
    names = [name for functions in declared for name in functions]
    assert [name for name, count in Counter(names).items() if count > 1] == []


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: "+".join(sorted(t)) or "none")
def test_what_comes_first_does_not_hang_on_files(target: frozenset[str]) -> None:
    """Of two that fit, one needs more than the other, or is for small arguments, or both say the same."""
    have = features(target)
    there = in_order(one for one in ALL if one.needs <= have)
    for k, one in enumerate(there):
        for other in there[k + 1 :]:
            alike = (len(one.needs), one.small) == (len(other.needs), other.small) and set(one.ops) & set(other.ops)
            if alike and one.text != other.text:
                assert not any(fits(other, types) for types in examples(one)), (one, other)


@pytest.mark.parametrize("board", board_names())
def test_the_dot_of_a_machine_is_an_instruction(board: str) -> None:
    unit = Unit("m", load_board(board).core.capabilities)
    dot = unit.machine.dot
    if dot is None:
        return
    types = (I32.with_lanes(dot.sums),) * 2 + tuple(t.with_lanes(dot.sums * dot.products) for t in (dot.a, dot.b))
    own = [one for one in ALL if "dot" in one.ops and fits(one, types) and one.needs & CAPABILITIES <= unit.features]
    assert any(one.needs & CAPABILITIES for one in own), f"{dot.name} is in no table"
    assert instruction_text("dot", types, unit.features) in {one.text for one in own if one.needs & CAPABILITIES}


def test_small_arguments_have_their_own() -> None:
    none = frozenset[str]()
    assert instruction_text("rdbpot1", (I32,) * 3, none, small=True) == "@rdbpot1({0}, {1})"
    assert instruction_text("rdbpot1", (I32,) * 3, none) == "@rdbpot({0}, {1})"
