"""The declared instructions: whole, each C function once, no two that nothing puts in an order, one for each dot."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import product

import numpy as np
import pytest

from sdk.boards import board_names, load_board, with_implied
from sdk.boards.board import CAPABILITIES
from sdk.codegen_c.functions.helpers import helper_text
from sdk.codegen_c.functions.instructions.lookup import (
    INSTRUCTION_SETS,
    assembly_line,
    fits,
    in_order,
    instruction_text,
)
from sdk.codegen_c.functions.instructions.model import Instruction, filled
from sdk.codegen_c.functions.instructions.operations import MEMORY, OWN
from sdk.codegen_c.functions.thumb.execute import Memory, execute, signed
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.ir.intrinsics import INTRINSICS, has_meaning
from sdk.compiler.ir.types import I32, DType, dtype
from sdk.compiler.machines.lookup import MACHINES
from sdk.compiler.machines.machine import Machine

MEANINGS = {**INTRINSICS, **OWN}
ALL = [one for own in INSTRUCTION_SETS.values() for one in own.instructions]
TYPES = [dtype(f"{kind}{lanes}") for kind in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "f16", "f32", "f64")
         for lanes in ("", "x2", "x4", "x8", "x16", "x32", "x64")]  # fmt: skip
TARGETS = sorted({frozenset(load_board(name).core.capabilities) for name in board_names()}, key=sorted)


def features(capabilities: frozenset[str]) -> frozenset[str]:
    return Unit("m", capabilities).features


def arity(one: Instruction) -> int:
    return 0 if one.ops[0] in MEMORY else MEANINGS[one.ops[0]].arity


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
    numbers = [{1: n, 3: i, 4: j} for n, i, j in product(range(1, 32), range(4), range(2))]
    texts = {re.sub(r"\{(\d):int\}", lambda m, n=n: str(n[int(m[1])]), text) for n in numbers}
    names = {name for one in texts for name in re.findall(r"@(\w+)", one)}
    return {name for name in names if not re.match(r"mac[23]\d", name)}  # pairs have halves 0 and 1 only


def test_every_architecture_has_its_file() -> None:
    assert set(INSTRUCTION_SETS) >= {"scalar", "lanes", "words", "real", "thumb", "mve", "neon", "x86"}


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.ops[0]}-{one.types[0]}-{'+'.join(sorted(one.needs))}")
def test_an_instruction_is_whole(one: Instruction) -> None:
    assert set(one.ops) <= {*MEANINGS, *MEMORY}
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
            said = (one.text, one.assembly), (other.text, other.assembly)
            if alike and said[0] != said[1] and ":" not in one.assembly:
                assert not any(fits(other, types) for types in examples(one)), (one, other)


@pytest.mark.parametrize("machine", [m for m in MACHINES if m.dot], ids=lambda m: m.name)
def test_the_dot_of_a_machine_is_an_instruction(machine: Machine) -> None:
    """One that needs what tells the machine from others, and that is the one taken."""
    have = features(with_implied(machine.needs))
    assert machine.dot
    own = {one.text for one in ALL if "dot" in one.ops and fits(one, machine.dot.types) and one.needs & machine.needs}
    assert instruction_text("dot", machine.dot.types, have) in own


def test_small_arguments_have_their_own() -> None:
    none = frozenset[str]()
    assert instruction_text("rdbpot1", (I32,) * 3, none, small=True) == "@rdbpot1({0}, {1})"
    assert instruction_text("rdbpot1", (I32,) * 3, none) == "@rdbpot({0}, {1})"


LINES = [one for one in ALL if one.assembly]
LITERALS = [None, 0, 1, 7, 31, 4095]
WORDS = [0, 1, -1, 2**31 - 1, -(2**31), 0x7FFF, -0x8000, 0x7F80FF80, 255]


def words(rng: random.Random, literals: tuple[int | None, ...]) -> list[int]:
    """What arguments hold: literals, and words in registers."""
    return [rng.choice([rng.choice(WORDS), signed(rng.getrandbits(32))]) if n is None else n for n in literals]


def lanes(word: int, type: DType) -> np.ndarray:
    return np.array([word], np.int32).view(type.numpy) if type.lanes > 1 else np.array([word], type.numpy)


@pytest.mark.parametrize("one", LINES, ids=lambda one: one.assembly)
def test_a_line_of_assembly_computes_its_operation(one: Instruction) -> None:
    """The operation's meaning in numpy beside the interpreter of instructions, which test_execute.py checks."""
    rng, tried = random.Random(one.assembly), 0
    row = MEANINGS[one.ops[0]]
    types = next(t for t in examples(one))
    for literals in product(LITERALS, repeat=row.arity):
        line = filled(one, literals)
        if line is None:
            continue
        for _ in range(40):
            given = words(rng, literals)
            if one.ops[0] in ("shl", "shr") and literals[1] is None:
                given[1] &= 31
            args = [lanes(word, type) for word, type in zip(given, types[1:], strict=True)]
            if not has_meaning(one.ops[0], args, types[0]):
                continue
            registers = {f"%[a{k}]": word for k, word in enumerate(given)} | {"%[d]": 0}
            text = line.text.format(*(f"%[a{k}]" for k in line.args), d="%[d]")
            got = execute([text], registers, Memory(bytearray(), []), {"%[d]"})["%[d]"]
            wanted = np.ascontiguousarray(row.fn(args, types[0])).view(np.int32)[0]
            assert got == wanted, (text, given)
            tried += 1
    assert tried >= 40


def test_a_literal_that_has_no_place_takes_a_register() -> None:
    have = features(frozenset({"thumb", "thumb2", "dsp"}))
    by = {n: assembly_line("shr", (I32,) * 3, have, (None, n)) for n in (None, 0, 1, 31, 32)}
    assert {n: line and (line.text, line.args) for n, line in by.items()} == {
        **dict.fromkeys((None, 0, 32), ("asr {d}, {0}, {1}", (0, 1))),
        **{n: (f"asr {{d}}, {{0}}, #{n}", (0,)) for n in (1, 31)},
    }
    assert assembly_line("shr", (I32,) * 3, frozenset({"thumb"}), (None, 1)) is None
