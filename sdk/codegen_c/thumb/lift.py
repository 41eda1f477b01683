"""Which statements of the loops level are straight code: sums of products in registers, and copies to scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from sdk.codegen_c.thumb.code import Access, Code, Item, Leaf, Node, Read, Step, Width, Write
from sdk.compiler.ir.dependence import linear
from sdk.compiler.ir.loops import Block, For, Imm, Load, Op, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, U8, DType
from sdk.compiler.sym import Dim

__all__ = ["Lifted", "Memory", "Names", "Stream", "lift", "straight"]

_REACH: Final = 1020  # bytes that the accesses of one stream are apart, at most
_HALVES: Final = I16.with_lanes(2)
_WORDS: Final = (I8.with_lanes(4), U8.with_lanes(4))
_WIDTHS: Final[dict[DType, Width]] = {I8: "sb", U8: "b", I16: "sh", I32: ""}
_UNPACK: Final = {
    ("evens", "i"): "sxtb16 {d}, {0}",
    ("odds", "i"): "sxtb16 {d}, {0}, ror #8",
    ("evens", "u"): "uxtb16 {d}, {0}",
    ("odds", "u"): "uxtb16 {d}, {0}, ror #8",
}


@dataclass(frozen=True, slots=True)
class Memory:
    """Where an element lies: ``offset`` bytes behind the start of ``buffer``. ``apart``: scratch, which no parameter
    overlaps; ``whole``: at a multiple of 4."""

    buffer: str
    offset: Dim
    apart: bool
    whole: bool


@dataclass(frozen=True, slots=True)
class Stream:
    """Accesses a fixed distance apart, from ``start`` (bytes) of ``buffer`` on; ``step`` bytes further each turn."""

    buffer: str
    start: Dim
    step: int
    whole: bool
    stored: bool


@dataclass(frozen=True, slots=True)
class Lifted:
    """The code of some turns, its streams, and how many products it adds."""

    code: Code
    streams: tuple[Stream, ...]
    products: int


class NotStraight(Exception):
    """A statement has no form as straight code."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the C around knows: ``register`` gives the variable of an element of a register buffer, None for one in
    memory; ``place`` where that lies; ``text`` an expression."""

    register: Callable[[str, tuple[Dim, ...]], str | None]
    place: Callable[[str, tuple[Dim, ...]], Memory | None]
    text: Callable[[ValueExpr], str]


def lift(body: Iterable[Stmt], names: Names, loop: For | None = None, turns: int = 1) -> Lifted | None:
    """``body``, ``turns`` times for that many values of the variable of ``loop`` in a row (of no loop: once), as
    straight code; None when something in it has no such form."""
    lifter = _Lifter(names, loop, turns)
    statements = tuple(body)
    try:
        for turn in range(turns):
            lifter.turn = turn
            for stmt in statements:
                lifter.statement(stmt)
        return lifter.lifted()
    except NotStraight:
        return None


def straight(stmt: Stmt, names: Names) -> bool:
    """Whether a statement alone has a form as straight code, or sets a variable before one that has."""
    try:
        _Lifter(names, None, 1).statement(stmt)
    except NotStraight:
        return False
    return True


@dataclass
class _Lifter:
    names: Names
    loop: For | None
    turns: int
    turn: int = 0
    items: list[Item] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    values: dict[str, Node] = field(default_factory=dict)
    made: dict[tuple[str, tuple[int, ...]], Step] = field(default_factory=dict)
    reads: dict[Access, Read] = field(default_factory=dict)
    known: dict[Leaf, Leaf] = field(default_factory=dict)
    products: int = 0
    reads_apart: bool = False

    def lifted(self) -> Lifted:
        """What was found.

        Raises:
            NotStraight: a variable ends as something that no instruction made; what is written may be read.
        """
        if self.reads_apart and any(isinstance(item, Write) for item in self.items):
            raise NotStraight
        results = {}
        for name, node in self.values.items():
            if not isinstance(node, Step):
                raise NotStraight
            results[name] = node
        return Lifted(Code(tuple(self.items), results), tuple(self.streams), self.products)

    def statement(self, stmt: Stmt) -> None:
        """Adds a statement."""
        match stmt:
            case Block(body) if all(isinstance(s, Store | Block) for s in body):
                for inner in body:
                    self.statement(inner)
            case Store(buffer, index, value, None):
                name = self.names.register(buffer, index)
                if name is None:
                    self._write(stmt)
                elif value.dtype == I32:
                    self.values[name] = self.node(value)
                else:
                    raise NotStraight
            case _:
                raise NotStraight

    def _write(self, stmt: Store) -> None:
        memory = self.names.place(stmt.buffer, stmt.index)
        if memory is None or not memory.apart:
            raise NotStraight
        value = self.node(stmt.value)
        kind = stmt.value.dtype
        width: Width
        if kind.nbytes == 4 and kind.kind in "iu":
            width = ""
        elif kind in (I8, U8, I16):
            width = "h" if kind == I16 else "b"
        else:
            raise NotStraight
        self.items.append(Write(self._access(memory, width, True), value))

    # --- values -------------------------------------------------------------------------------------------

    def node(self, value: ValueExpr) -> Node:
        """A value."""
        match value:
            case Load(count=None):
                return self._load(value)
            case Imm():
                return self._leaf(value)
            case Op("cast", (arg,)) if value.dtype in (I16, I32) and arg.dtype in (I8, U8, I16):
                return self.node(arg)  # loads extend what they read
            case Op("bits", (arg,)) if value.dtype in (_HALVES, *_WORDS) and arg.dtype in (_HALVES, *_WORDS):
                return self.node(arg)
            case Op("broadcast", (Imm(),)) if value.dtype == _HALVES:
                return self._leaf(value)
            case Op("evens" | "odds", (arg,)) if value.dtype == _HALVES and arg.dtype in _WORDS:
                return self._step(_UNPACK[value.name, arg.dtype.kind], (self.node(arg),))
            case Op("dot", (total, a, b)) if value.dtype == I32 and a.dtype == b.dtype == _HALVES:
                return self._sum("smlad {d}, {0}, {1}, {2}", a, b, total, 2)
            case Op("dot", (total, a, b)) if value.dtype == I32 and a.dtype in _WORDS and b.dtype in _WORDS:
                halves = [[Op(half, (word,), _HALVES) for half in ("evens", "odds")] for word in (a, b)]
                for left, right in zip(*halves, strict=True):
                    total = Op("dot", (total, left, right), I32)
                return self.node(total)
            case Op("mac_pair", (total, a, b, Imm(i), Imm(j))) if a.dtype == b.dtype == _HALVES:
                return self._sum(f"smla{'bt'[int(i)]}{'bt'[int(j)]} {{d}}, {{0}}, {{1}}, {{2}}", a, b, total, 1)
            case Op("add", (total, Op("mul", (a, b)))) if value.dtype == I32:
                return self._sum("mla {d}, {0}, {1}, {2}", a, b, total, 1)
            case _:
                raise NotStraight

    def _sum(self, text: str, a: ValueExpr, b: ValueExpr, total: ValueExpr, products: int) -> Step:
        self.products += products
        start = self.node(total)  # what is added first is computed first
        return self._step(text, (self.node(a), self.node(b), start), 2)

    def _step(self, text: str, args: tuple[Node, ...], sum: int = -1) -> Step:
        key = (text, tuple(map(id, args)))
        if key not in self.made:
            self.made[key] = step = Step(text, args, sum)
            self.items.append(step)
        return self.made[key]

    def _leaf(self, value: ValueExpr) -> Leaf:
        if isinstance(value, Imm) and value.dtype.lanes == 1 and value.dtype.kind in "iu":
            value = replace(value, dtype=I32)  # operands of assembly fill a register
        elif value.dtype.lanes == 1 and value.dtype.bits < 32:
            value = Op("cast", (value,), I32)
        leaf = Leaf(self.names.text(value), False)
        return self.known.setdefault(leaf, leaf)

    def _load(self, load: Load) -> Node:
        name = self.names.register(load.buffer, load.index)
        if name is not None:
            leaf = Leaf(name, True)
            return self.values.get(name) or self.known.setdefault(leaf, leaf)
        memory = self.names.place(load.buffer, load.index)
        if memory is None:
            raise NotStraight
        self.reads_apart |= memory.apart
        if load.dtype == I32 and self.loop is None or self._moves(memory) == 0:
            return self._leaf(load)
        if load.dtype in _WIDTHS:
            width = _WIDTHS[load.dtype]
        elif load.dtype in (_HALVES, *_WORDS):
            width = ""
        else:
            raise NotStraight
        access = self._access(memory, width, False)
        return self.reads.setdefault(access, Read(access))

    def _moves(self, memory: Memory) -> int | None:
        """How far an access moves with the loop; None outside of one."""
        return None if self.loop is None else self._linear(memory)[0]

    def _linear(self, memory: Memory) -> tuple[int, Dim]:
        """How far an access moves with the loop, and where it starts."""
        if self.loop is None:
            return 0, memory.offset
        found = linear(memory.offset, self.loop.var)
        if found is None:
            raise NotStraight
        step, rest = found
        return step, rest + step * self.loop.lo

    def _access(self, memory: Memory, width: Width, stored: bool) -> Access:
        step, start = self._linear(memory)
        for k, stream in enumerate(self.streams):
            apart = start + step * self.turn - stream.start
            if (
                (stream.buffer, stream.whole, stream.stored) == (memory.buffer, memory.whole, stored)
                and stream.step == step * self.turns
                and isinstance(apart, int)
                and abs(apart) <= _REACH // 2
            ):
                return Access(k, apart, width, memory.whole)
        self.streams.append(Stream(memory.buffer, start + step * self.turn, step * self.turns, memory.whole, stored))
        return Access(len(self.streams) - 1, 0, width, memory.whole)
