"""Basic blocks as instructions of Thumb-2: its order, registers and addresses, run by an interpreter of them."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Mapping

import pytest

from sdk.codegen_c.functions.thumb import Access, BasicBlock, Emitted, LiveIn, Path, Read, Step, Write, emit
from sdk.codegen_c.functions.thumb.basic_block import Item, Node, Width
from sdk.codegen_c.functions.thumb.execute import Fault, Memory, execute, signed
from sdk.codegen_c.functions.thumb.list_scheduling import REGISTERS
from sdk.compiler.ir.intrinsics import imm

LOADS = {"ldr": "<I", "ldrb": "<B", "ldrsb": "<b", "ldrh": "<H", "ldrsh": "<h"}
STORES = {"str": 4, "strb": 1, "strh": 2}
WIDTHS: list[Width] = ["sb", "b", "sh"]


def live_in(text: str, variable: bool) -> LiveIn:
    return LiveIn(text, variable, imm(0))


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
    code: BasicBlock, paths: list[Path], starts: list[int], live_ins: dict[LiveIn, int], memory: bytearray, turns: int
) -> dict[str, int]:
    """The results of code, statement by statement; what it writes is in ``memory`` then."""
    before = dict(live_ins)
    for turn in range(turns):
        at = [s + turn * (p.step + p.places * STRIDE) for s, p in zip(starts, paths, strict=True)]
        made: dict[Node, int] = {}

        def value(node: Node, at: list[int] = at, made: dict[Node, int] = made) -> int:
            if isinstance(node, LiveIn):
                return before[node]
            if isinstance(node, Step):
                return made[node]
            a = node.access
            kind = LOADS[f"ldr{a.width}"]
            return signed(struct.unpack_from(kind, memory, at[a.pointer] + a.offset + a.place * STRIDE)[0])

        for item in code.items:
            if isinstance(item, Step):
                name, rest = item.text.split(" ", 1)
                given = [value(a) for a in item.args]
                _, *args = rest.split(", ")
                made[item] = computed(name, [int(a[1:]) if a[0] == "#" else given[int(a[1:-1])] for a in args])
            else:
                a, size = item.access, STORES[f"str{item.access.width.removeprefix('s')}"]
                place = at[a.pointer] + a.offset + a.place * STRIDE
                memory[place : place + size] = (value(item.value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        for name, step in code.results.items():
            before[live_in(name, True)] = made[step]
    return {name: before[live_in(name, True)] for name in code.results}


def operands(code: BasicBlock) -> tuple[dict[str, str], dict[LiveIn, str]]:
    names = dict.fromkeys([*code.results, *(live_in.text for live_in in code.live_ins)])
    registers = {name: f"%[{name}]" for name in names}
    return {name: registers[name] for name in code.results}, {at: registers[at.text] for at in code.live_ins}


def checked(
    code: BasicBlock, paths: list[Path], starts: list[int], turns: int, killed: frozenset[LiveIn] = frozenset()
) -> Emitted | None:
    """The instructions of ``code``, after a run of them that did what it means."""
    operand_of, live_ins = operands(code)
    emitted = emit(code, operand_of, live_ins, paths, turns > 1, killed)
    if emitted is None:
        return None
    rng = random.Random(len(emitted.lines))
    memory = bytearray(rng.randbytes(40_000))
    values = {live_in: signed(rng.getrandbits(32)) for live_in in code.live_ins}
    wanted, there = bytearray(memory), dict(values)
    results = meant(code, paths, starts, there, wanted, turns)
    registers = {live_ins[live_in]: value for live_in, value in values.items()}
    registers |= {f"%[p{k}]": start + emitted.bases[k] for k, start in enumerate(starts)} | {"%[w]": STRIDE}
    walking = {f"%[p{k}]" for k, path in enumerate(paths) if path.step or path.stride or k in emitted.several}
    temporaries = {f"%[t{k}]" for k in range(emitted.temps)}
    changing = {*operand_of.values(), *walking, *temporaries, *(live_ins[live_in] for live_in in killed)}
    used = len({r for line in emitted.lines for r in re.findall(r"%\[\w+\]", line)}) + (turns > 1)
    assert used <= REGISTERS
    after = execute(emitted.lines * turns, registers, Memory(memory, [(0, len(memory))]), changing)
    assert {name: after[operand] for name, operand in operand_of.items()} == results
    assert memory == wanted
    return emitted


def sums(words: int, count: int, step: int, whole: bool = True) -> tuple[BasicBlock, list[Path]]:
    """``count`` sums of products of so many words of two pointers."""
    items: list[Item] = []
    results = {}
    for n in range(count):
        total: Node = live_in(f"acc{n}", True)
        for k in range(words):
            a, b = (Read(Access(s, 4 * (k + s * n), "", whole)) for s in (0, 1))
            total = Step("smlad {d}, {0}, {1}, {2}", (a, b, total), 2)
            items.append(total)
        assert isinstance(total, Step)
        results[f"acc{n}"] = total
    return BasicBlock(tuple(items), results), [Path(step), Path(step)]


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


def strided(places: int) -> BasicBlock:
    """Bytes that lie strides apart, as halves beside each other."""
    copies = (Write(Access(1, 2 * k, "h", False), Read(Access(0, 0, "sb", False, k))) for k in range(places))
    return BasicBlock(tuple(copies))


def test_a_register_is_added_to_addresses_that_lie_strides_apart() -> None:
    looped = checked(strided(6), [Path(0, "%[w]", 6), Path(12)], [1000, 3000], 3)
    once = checked(strided(6), [Path(0, "%[w]"), Path()], [1000, 3000], 1)
    assert looped
    assert once
    assert sum(line.startswith("add") for line in looped.lines) == 3
    assert sum(line.startswith("add") for line in once.lines) == 2, "the pointer need not come back"
    assert any("%[w], lsl #1]" in line for line in once.lines)


def test_the_processor_adds_no_register_for_two_words_or_to_a_pointer_that_moves() -> None:
    for line in ("ldrd %[a], %[b], [%[p], %[w]]", "ldr %[a], [%[p], %[w], lsl #4]", "ldr %[a], [%[p], %[w]], #4"):
        with pytest.raises(Fault):
            execute([line], {"%[a]": 0, "%[b]": 0, "%[p]": 0, "%[w]": 4}, Memory(bytearray(64), [(0, 64)]), {"%[a]"})


def test_two_variables_of_one_value_and_a_sum_that_goes_on_from_another() -> None:
    first = Step("smlad {d}, {0}, {1}, {2}", (live_in("x", False), live_in("y", False), live_in("a", True)), 2)
    second = Step("smlad {d}, {0}, {1}, {2}", (live_in("y", False), live_in("y", False), first), 2)
    assert checked(BasicBlock((first, second), {"a": first, "b": second}), [], [], 1)
    same = BasicBlock((first,), {"a": first, "b": first})
    assert emit(same, *operands(same), [], False) is None


def test_variables_that_change_places_are_refused() -> None:
    a, b = live_in("a", True), live_in("b", True)
    steps = [Step("add {d}, {0}, {1}", (v, live_in("x", False))) for v in (b, a)]
    code = BasicBlock(tuple(steps), dict(zip("ab", steps, strict=True)))
    assert emit(code, *operands(code), [], False) is None


def test_variables_are_overwritten_after_their_last_use() -> None:
    old = live_in("a", True)
    grown = Step("add {d}, {0}, {1}", (old, live_in("x", False)))
    other = Step("sub {d}, {0}, {1}", (old, live_in("x", False)))
    assert checked(BasicBlock((grown, other), {"a": grown, "b": other}), [], [], 1)


def test_more_values_than_registers_are_refused() -> None:
    live_ins = [live_in(f"x{k}", False) for k in range(REGISTERS)]
    step = Step("mla {d}, {0}, {1}, {2}", (live_ins[0], live_ins[1], live_ins[2]))
    items = (step, *(Write(Access(0, 4 * k, "", True), live_in) for k, live_in in enumerate(live_ins)))
    assert emit(BasicBlock(items, {"a": step}), *operands(BasicBlock(items, {"a": step})), [Path()], False) is None


def random_code(rng: random.Random, variables: int) -> tuple[BasicBlock, list[Path], list[int]]:
    """Sums, scratch steps and stores over pointers of words, halves and bytes; what is written lies apart."""
    looped = rng.random() < 0.6
    unit = rng.choice([4, 8, 16, 260, 1020])
    paths = [Path(unit if looped else 0), Path(rng.choice([-4, 12, 32]) if looped else 0)]
    paths.append(Path(0, "%[w]", rng.randint(1, 3) if looped else 0))
    names = [f"acc{k}" for k in range(variables)]
    state: dict[str, Node] = {name: live_in(name, True) for name in names}
    items: list[Item] = []
    constant = live_in("c", False)
    level = rng.random() < 0.5  # what lies whole strides apart, and nothing else of that pointer

    def read() -> Node:
        pointer = rng.choice([0, 0, 0, 1, 2])
        width: Width = rng.choice(WIDTHS) if pointer == 1 else ""
        offset = rng.randint(0, 300) if pointer == 1 else 4 * rng.randint(0, rng.choice([6, 6, 200]))
        offset = 8 if pointer == 2 and level else offset
        return Read(Access(pointer, offset, width, not width, rng.randint(0, 9) if pointer == 2 else 0))

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
    used = sorted({a.pointer for item in items for a in accesses(item)})
    renamed = {old: new for new, old in enumerate(used)}
    code = BasicBlock(tuple(items), results)
    return pointers(code, renamed), [paths[k] for k in used], [8000 * k + 4000 for k in range(len(used))]


def accesses(item: Item) -> list[Access]:
    args = item.args if isinstance(item, Step) else (item.value,)
    return [a.access for a in args if isinstance(a, Read)] + ([item.access] if isinstance(item, Write) else [])


def pointers(code: BasicBlock, renamed: Mapping[int, int]) -> BasicBlock:
    """The same code with pointers of other numbers."""
    made: dict[Node, Node] = {}

    def access(a: Access) -> Access:
        return Access(renamed[a.pointer], a.offset, a.width, a.whole, a.place)

    def node(n: Node) -> Node:
        return made.get(n) or (Read(access(n.access)) if isinstance(n, Read) else n)

    items: list[Item] = []
    for item in code.items:
        if isinstance(item, Step):
            made[item] = step = Step(item.text, tuple(map(node, item.args)), item.sum)
            items.append(step)
        else:
            items.append(Write(access(item.access), node(item.value)))
    return BasicBlock(tuple(items), {k: v for k, n in code.results.items() if isinstance(v := made[n], Step)})


@pytest.mark.parametrize("variables", [1, 2, 4, 6])
def test_random_code_does_what_it_means(variables: int) -> None:
    rng = random.Random(variables)
    done = 0
    for _ in range(80):
        code, paths, starts = random_code(rng, variables)
        looped = any(p.step or p.places for p in paths)
        kept = looped or rng.random() < 0.5
        killed = frozenset(n for n in code.live_ins if n.variable and not kept and n.text not in code.results)
        done += checked(code, paths, starts, rng.randint(2, 5) if looped else 1, killed) is not None
    assert done > 15
