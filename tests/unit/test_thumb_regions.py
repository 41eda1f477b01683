"""Straight code as instructions of Thumb-2: its order, registers and addresses, run by an interpreter of them."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Mapping

import pytest

from sdk.codegen_c.c99.thumb import Access, Code, Emitted, Leaf, Path, Read, Step, Write, emit
from sdk.codegen_c.c99.thumb.code import Item, Node, Width
from sdk.codegen_c.c99.thumb.execute import Memory, execute, signed
from sdk.codegen_c.c99.thumb.issue import REGISTERS
from sdk.compiler.ir.intrinsics import imm

LOADS = {"ldr": "<I", "ldrb": "<B", "ldrsb": "<b", "ldrh": "<H", "ldrsh": "<h"}
STORES = {"str": 4, "strb": 1, "strh": 2}
WIDTHS: list[Width] = ["sb", "b", "sh"]


def leaf(text: str, variable: bool) -> Leaf:
    return Leaf(text, variable, imm(0))


def halves(word: int) -> tuple[int, int]:
    return struct.unpack("<hh", struct.pack("<I", word & 0xFFFFFFFF))


def computed(name: str, args: list[int]) -> int:
    """What an instruction that computes makes of its arguments."""
    if name == "smlad":
        (a, b), (c, d) = halves(args[0]), halves(args[1])
        return signed(a * c + b * d + args[2])
    if match := re.fullmatch("smla([bt])([bt])", name):
        a, b = (halves(arg)[half == "t"] for arg, half in zip(args, match.groups(), strict=False))
        return signed(a * b + args[2])
    if name == "sxtb16":
        low, high = (struct.unpack("<4b", struct.pack("<I", args[0] & 0xFFFFFFFF))[k] for k in (0, 2))
        return signed(low & 0xFFFF | (high & 0xFFFF) << 16)
    simple = {
        "mla": lambda a, b, c: a * b + c,
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "asr": lambda a, by: a >> by,
        "lsl": lambda a, by: a << by,
    }
    return signed(simple[name](*args))


# --- what code means --------------------------------------------------------------------------------------

STRIDE = 68


def meant(
    code: Code, paths: list[Path], starts: list[int], leaves: dict[Leaf, int], memory: bytearray, turns: int
) -> dict[str, int]:
    """The results of code, statement by statement; what it writes is in ``memory`` then."""
    before = dict(leaves)
    for turn in range(turns):
        at = [s + turn * (p.step + p.places * STRIDE) for s, p in zip(starts, paths, strict=True)]
        made: dict[Node, int] = {}

        def value(node: Node, at: list[int] = at, made: dict[Node, int] = made) -> int:
            if isinstance(node, Leaf):
                return before[node]
            if isinstance(node, Step):
                return made[node]
            a = node.access
            kind = LOADS[f"ldr{a.width}"]
            return signed(struct.unpack_from(kind, memory, at[a.stream] + a.offset + a.place * STRIDE)[0])

        for item in code.items:
            if isinstance(item, Step):
                name, rest = item.text.split(" ", 1)
                given = [value(a) for a in item.args]
                _, *args = rest.split(", ")
                made[item] = computed(name, [int(a[1:]) if a[0] == "#" else given[int(a[1:-1])] for a in args])
            else:
                a, size = item.access, STORES[f"str{item.access.width.removeprefix('s')}"]
                place = at[a.stream] + a.offset + a.place * STRIDE
                memory[place : place + size] = (value(item.value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        for name, step in code.results.items():
            before[leaf(name, True)] = made[step]
    return {name: before[leaf(name, True)] for name in code.results}


def operands(code: Code) -> tuple[dict[str, str], dict[Leaf, str]]:
    names = dict.fromkeys([*code.results, *(leaf.text for leaf in code.leaves)])
    registers = {name: f"%[{name}]" for name in names}
    return {name: registers[name] for name in code.results}, {at: registers[at.text] for at in code.leaves}


def checked(
    code: Code, paths: list[Path], starts: list[int], turns: int, spent: frozenset[Leaf] = frozenset()
) -> Emitted | None:
    """The instructions of ``code``, after a run of them that did what it means."""
    homes, leaves = operands(code)
    emitted = emit(code, homes, leaves, paths, turns > 1, spent)
    if emitted is None:
        return None
    rng = random.Random(len(emitted.lines))
    memory = bytearray(rng.randbytes(40_000))
    values = {leaf: signed(rng.getrandbits(32)) for leaf in code.leaves}
    wanted, there = bytearray(memory), dict(values)
    results = meant(code, paths, starts, there, wanted, turns)
    registers = {leaves[leaf]: value for leaf, value in values.items()}
    registers |= {f"%[p{k}]": start + emitted.bases[k] for k, start in enumerate(starts)} | {"%[w]": STRIDE}
    walking = {f"%[p{k}]" for k, path in enumerate(paths) if path.step or path.stride or k in emitted.several}
    temporaries = {f"%[t{k}]" for k in range(emitted.temps)}
    changing = {*homes.values(), *walking, *temporaries, *(leaves[leaf] for leaf in spent)}
    used = len({r for line in emitted.lines for r in re.findall(r"%\[\w+\]", line)}) + (turns > 1)
    assert used <= REGISTERS
    after = execute(emitted.lines * turns, registers, Memory(memory, [(0, len(memory))]), changing)
    assert {name: after[home] for name, home in homes.items()} == results
    assert memory == wanted
    return emitted


def sums(words: int, count: int, step: int, whole: bool = True) -> tuple[Code, list[Path]]:
    """``count`` sums of products of so many words of two streams."""
    items: list[Item] = []
    results = {}
    for n in range(count):
        total: Node = leaf(f"acc{n}", True)
        for k in range(words):
            a, b = (Read(Access(s, 4 * (k + s * n), "", whole)) for s in (0, 1))
            total = Step("smlad {d}, {0}, {1}, {2}", (a, b, total), 2)
            items.append(total)
        assert isinstance(total, Step)
        results[f"acc{n}"] = total
    return Code(tuple(items), results), [Path(step), Path(step)]


# --- what is emitted --------------------------------------------------------------------------------------


def test_words_beside_each_other_are_read_together() -> None:
    emitted = checked(*sums(4, 2, 16), [1000, 2000], 5)
    assert emitted
    assert any(line.startswith(("ldrd", "ldmia")) for line in emitted.lines)
    unknown = checked(*sums(4, 2, 16, whole=False), [1001, 2002], 5)
    assert unknown
    assert not any(line.startswith(("ldrd", "ldmia")) for line in unknown.lines)


def test_pointers_move_with_an_access_where_one_can() -> None:
    near = checked(*sums(1, 1, 252, whole=False), [1000, 2000], 3)
    far = checked(*sums(1, 1, 256, whole=False), [1000, 2000], 3)
    assert near
    assert far
    assert "#252" in near.lines[0]
    assert any(line.startswith("add %[p0]") for line in far.lines)
    assert emit(sums(1, 1, 5001)[0], *operands(sums(1, 1, 0)[0]), [Path(5001), Path(4)], True) is None


def test_two_variables_of_one_value_and_a_sum_that_goes_on_from_another() -> None:
    first = Step("smlad {d}, {0}, {1}, {2}", (leaf("x", False), leaf("y", False), leaf("a", True)), 2)
    second = Step("smlad {d}, {0}, {1}, {2}", (leaf("y", False), leaf("y", False), first), 2)
    assert checked(Code((first, second), {"a": first, "b": second}), [], [], 1)
    same = Code((first,), {"a": first, "b": first})
    assert emit(same, *operands(same), [], False) is None


def test_variables_that_change_places_are_refused() -> None:
    a, b = leaf("a", True), leaf("b", True)
    steps = [Step("add {d}, {0}, {1}", (v, leaf("x", False))) for v in (b, a)]
    code = Code(tuple(steps), dict(zip("ab", steps, strict=True)))
    assert emit(code, *operands(code), [], False) is None


def test_variables_are_overwritten_after_their_last_use() -> None:
    old = leaf("a", True)
    grown = Step("add {d}, {0}, {1}", (old, leaf("x", False)))
    other = Step("sub {d}, {0}, {1}", (old, leaf("x", False)))
    assert checked(Code((grown, other), {"a": grown, "b": other}), [], [], 1)


def test_more_values_than_registers_are_refused() -> None:
    leaves = [leaf(f"x{k}", False) for k in range(REGISTERS)]
    step = Step("mla {d}, {0}, {1}, {2}", (leaves[0], leaves[1], leaves[2]))
    items = (step, *(Write(Access(0, 4 * k, "", True), leaf) for k, leaf in enumerate(leaves)))
    assert emit(Code(items, {"a": step}), *operands(Code(items, {"a": step})), [Path()], False) is None


def random_code(rng: random.Random, variables: int) -> tuple[Code, list[Path], list[int]]:
    """Sums, scratch steps and stores over streams of words, halves and bytes; what is written lies apart."""
    looped = rng.random() < 0.6
    unit = rng.choice([4, 8, 16, 260, 1020])
    paths = [Path(unit if looped else 0), Path(rng.choice([-4, 12, 32]) if looped else 0)]
    paths.append(Path(0, "%[w]", rng.randint(1, 3) if looped else 0))
    names = [f"acc{k}" for k in range(variables)]
    state: dict[str, Node] = {name: leaf(name, True) for name in names}
    items: list[Item] = []
    constant = leaf("c", False)

    def read() -> Node:
        stream = rng.choice([0, 0, 0, 1, 2])
        width: Width = rng.choice(WIDTHS) if stream == 1 else ""
        offset = rng.randint(0, 300) if stream == 1 else 4 * rng.randint(0, rng.choice([6, 6, 200]))
        return Read(Access(stream, offset, width, not width, rng.randint(0, 3) if stream == 2 else 0))

    for _ in range(rng.randint(1, 40)):
        name = rng.choice(names)
        a: Node = read()
        if rng.random() < 0.4:
            a = Step(rng.choice(["sxtb16 {d}, {0}", "lsl {d}, {0}, #1", "sub {d}, {0}, {0}"]), (a,))
            items.append(a)
        b = rng.choice([read(), a, constant])
        state[name] = Step(rng.choice(["smlad", "smlabt", "mla"]) + " {d}, {0}, {1}, {2}", (a, b, state[name]), 2)
        items.append(state[name])
    results = {name: node for name, node in state.items() if isinstance(node, Step)}
    if rng.random() < 0.7:
        paths.append(Path(32 if looped else 0))
        whole = rng.random() < 0.5
        made = [n for n in items if isinstance(n, Step)]
        for k in range(rng.randint(1, 8)):
            item = rng.choice([*made[-3:], constant])
            items.append(Write(Access(len(paths) - 1, 4 * k, "" if whole else rng.choice(["", "b", "h"]), whole), item))
    used = sorted({a.stream for item in items for a in accesses(item)})
    renamed = {old: new for new, old in enumerate(used)}
    code = Code(tuple(items), results)
    return streams(code, renamed), [paths[k] for k in used], [8000 * k + 4000 for k in range(len(used))]


def accesses(item: Item) -> list[Access]:
    args = item.args if isinstance(item, Step) else (item.value,)
    return [a.access for a in args if isinstance(a, Read)] + ([item.access] if isinstance(item, Write) else [])


def streams(code: Code, renamed: Mapping[int, int]) -> Code:
    """The same code with streams of other numbers."""
    made: dict[Node, Node] = {}

    def access(a: Access) -> Access:
        return Access(renamed[a.stream], a.offset, a.width, a.whole, a.place)

    def node(n: Node) -> Node:
        return made.get(n) or (Read(access(n.access)) if isinstance(n, Read) else n)

    items: list[Item] = []
    for item in code.items:
        if isinstance(item, Step):
            made[item] = step = Step(item.text, tuple(map(node, item.args)), item.sum)
            items.append(step)
        else:
            items.append(Write(access(item.access), node(item.value)))
    return Code(tuple(items), {k: v for k, n in code.results.items() if isinstance(v := made[n], Step)})


@pytest.mark.parametrize("variables", [1, 2, 4, 6])
def test_random_code_does_what_it_means(variables: int) -> None:
    rng = random.Random(variables)
    done = 0
    for _ in range(60):
        code, paths, starts = random_code(rng, variables)
        looped = any(p.step or p.places for p in paths)
        kept = looped or rng.random() < 0.5
        spent = frozenset(n for n in code.leaves if n.variable and not kept and n.text not in code.results)
        done += checked(code, paths, starts, rng.randint(2, 5) if looped else 1, spent) is not None
    assert done > 15
