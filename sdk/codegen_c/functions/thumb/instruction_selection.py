"""Instructions for statements of the loops level: sums of products in registers, and copies to scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from sdk.codegen_c.functions.instructions.lookup import assembly_line
from sdk.codegen_c.functions.instructions.model import Line
from sdk.codegen_c.functions.instructions.operations import operation
from sdk.codegen_c.functions.thumb.basic_block import Access, BasicBlock, Item, LiveIn, Node, Read, Step, Width, Write
from sdk.codegen_c.rescaled import Rescaled, clamped, rescaled
from sdk.compiler.ir.intrinsics import imm, op
from sdk.compiler.ir.loops import Alloc, Block, For, Imm, Load, Op, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, U8, DType
from sdk.compiler.ir.walk import dims_used, walk
from sdk.compiler.sym import Dim, free_vars, prove_ge, slope, substitute

__all__ = ["InductionPointer", "Memory", "Names", "Selected", "select", "selectable", "units"]

STRIDES: Final = 32  # strides that a pointer makes, at most
_REACH: Final = 4095  # bytes that the accesses of one pointer are apart, at most
_PAIR_REACH: Final = 1020  # the same where two words may be accessed at once
_HALVES: Final = I16.with_lanes(2)
_WORDS: Final = (I8.with_lanes(4), U8.with_lanes(4))
_WIDTHS: Final[dict[DType, Width]] = {I8: "sb", U8: "b", I16: "sh", I32: ""}


@dataclass(frozen=True, slots=True)
class Memory:
    """Where an element lies: ``offset`` bytes behind the start of ``buffer``. ``scratch`` is overlapped by no
    parameter, and nothing is written where it is ``constant``; ``whole``: at a multiple of 4."""

    buffer: str
    offset: Dim
    scratch: bool
    constant: bool
    whole: bool


@dataclass(frozen=True, slots=True)
class InductionPointer:
    """Accesses a fixed distance apart, from ``start`` (bytes) of ``buffer`` on; ``step`` bytes further each iteration,
    or ``places`` of ``stride`` (bytes; 0: none)."""

    buffer: str
    start: Dim
    step: int
    whole: bool
    stored: bool
    stride: Dim = 0
    places: int = 0


@dataclass(frozen=True, slots=True)
class Selected:
    """The code of some iterations, its pointers, how many products it adds and how many values it writes, whether some
    of them outside of scratch (``shared``). Nothing needs the variables ``killed`` later."""

    code: BasicBlock
    pointers: tuple[InductionPointer, ...]
    products: int
    writes: int
    shared: bool
    killed: frozenset[LiveIn]


class NotSelected(Exception):
    """No instructions do what a statement does."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the C around knows: ``register`` gives the variable that holds an element, None for one in memory;
    ``place`` where that lies; ``text`` an expression as C of 32 bits, all of which count; ``is_small`` tells values of
    at most 2**30; ``features`` are those of the target's instructions."""

    register: Callable[[str, tuple[Dim, ...]], str | None]
    place: Callable[[str, tuple[Dim, ...]], Memory | None]
    text: Callable[[ValueExpr], str]
    is_small: Callable[[ValueExpr], bool]
    features: frozenset[str]


def select(
    body: Iterable[Stmt],
    names: Names,
    loop: For | None = None,
    iterations: int = 1,
    dead: Set[str] = frozenset(),
    units: Mapping[str, Dim] | None = None,
) -> Selected | None:
    """``body``, ``iterations`` times for that many values of the variable of ``loop`` in a row (of no loop: once), as
    a basic block; None where no instructions do something of it. Nothing uses what registers of
    the buffers ``dead`` hold at the end. One pointer walks over what is a multiple of ``units``
    apart, by buffer: numbers of bytes that are known at run time."""
    selector = _Selector(names, loop, iterations, units or {})
    statements = tuple(body)
    try:
        for iteration in range(iterations):
            selector.iteration = iteration
            for stmt in statements:
                selector.statement(stmt)
        return selector.selected(dead)
    except NotSelected:
        return None


def selectable(stmt: Stmt, names: Names) -> bool:
    """Whether instructions do a statement alone, or it sets a variable before one that has."""
    try:
        _Selector(names, None, 1).statement(stmt)
    except NotSelected:
        return False
    return True


@dataclass
class _Selector:
    names: Names
    loop: For | None
    iterations: int
    units: Mapping[str, Dim] = field(default_factory=dict)
    iteration: int = 0
    items: list[Item] = field(default_factory=list)
    pointers: list[InductionPointer] = field(default_factory=list)
    alike: dict[tuple[object, ...], list[int]] = field(default_factory=dict)  # pointers, by all of them but the start
    reach: list[tuple[int, int]] = field(default_factory=list)
    values: dict[str, Node] = field(default_factory=dict)
    buffers: dict[str, str] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    made: dict[tuple[str, tuple[int, ...]], Step] = field(default_factory=dict)
    reads: dict[Access, Read] = field(default_factory=dict)
    known: dict[LiveIn, LiveIn] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)  # register buffers of an iteration, and what is in them
    inside: dict[tuple[str, tuple[Dim, ...]], Node] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    stored: list[tuple[str, Dim, int]] = field(default_factory=list)
    products: int = 0
    writes: int = 0
    reads_scratch: bool = False
    reads_shared: bool = False
    writes_shared: bool = False
    writes_scratch: bool = False

    def selected(self, dead: Set[str]) -> Selected:
        """What was found; variables of the buffers ``dead`` are left alone.

        Raises:
            NotSelected: a variable ends as something that no instruction made; what is written may be read, in scratch
                or in parameters that a call may give one address; what is computed before reads a variable that
                changes.
        """
        if (self.writes_scratch and self.reads_scratch) or (self.writes_shared and self.reads_shared):
            raise NotSelected
        if not self.held.isdisjoint(self.values):
            raise NotSelected
        results = {}
        for name, node in self.values.items():
            if self.buffers[name] in dead:
                continue
            if not isinstance(node, Step):
                raise NotSelected
            results[name] = node
        code = BasicBlock(tuple(self.items), results)
        variables = (live_in for live_in in code.live_ins if live_in.variable and live_in.text not in results)
        killed = frozenset(live_in for live_in in variables if self.own.get(live_in.text) in dead)
        return Selected(code, tuple(self.pointers), self.products, self.writes, self.writes_shared, killed)

    def statement(self, stmt: Stmt) -> None:
        """Adds a statement."""
        match stmt:
            case Block(body) if all(isinstance(s, Store | Block | Alloc) for s in body):
                for inner in body:
                    self.statement(inner)
            case Alloc(buffer) if self.loop is not None and buffer.space == "register":
                self.private.add(buffer.name)
            case Store(buffer, index, value, None) if buffer in self.private and _numbers(index):
                if value.dtype != I32:
                    raise NotSelected
                self.inside[buffer, index] = self.node(value)
            case Store(buffer, index, value, None):
                name = self.names.register(buffer, index)
                if name is None:
                    self._write(stmt)
                elif value.dtype == I32:
                    self.values[name] = self.node(value)
                    self.buffers[name] = buffer
                else:
                    raise NotSelected
            case _:
                raise NotSelected

    def _write(self, stmt: Store) -> None:
        memory = self.names.place(stmt.buffer, stmt.index)
        if memory is None:
            raise NotSelected
        value = self.node(stmt.value)
        self.writes += 1
        self.writes_shared |= not memory.scratch
        self.writes_scratch |= memory.scratch
        kind = stmt.value.dtype
        width: Width
        if kind.nbytes == 4 and kind.kind in "iu":
            width = ""
        elif kind in (I8, U8, I16):
            width = "h" if kind == I16 else "b"
        else:
            raise NotSelected
        path = self._path(memory)
        self._apart(memory.buffer, path[1] + path[0] * self.iteration, kind.nbytes)
        self.items.append(Write(self._access(memory, path, width, True), value))

    def _apart(self, buffer: str, at: Dim, size: int) -> None:
        """Notes that ``size`` bytes are written at ``at``. What is ready is written first, so no two stores may meet.

        Raises:
            NotSelected: they are not proved to lie apart.
        """
        for other, start, length in self.stored:
            below, above = at - start - length, start - at - size
            if other == buffer and prove_ge(below, 0) is not True and prove_ge(above, 0) is not True:
                raise NotSelected
        self.stored.append((buffer, at, size))

    # --- values -------------------------------------------------------------------------------------------

    def node(self, value: ValueExpr) -> Node:
        """A value."""
        match value:
            case Load(count=None):
                return self._load(value)
            case Imm():
                return self._live_in(value)
            case Op("cast", (arg,)) if value.dtype in (I16, I32) and arg.dtype in (I8, U8, I16):
                return self.node(arg)  # loads extend what they read
            case Op("bits", (arg,)) if value.dtype in (_HALVES, *_WORDS) and arg.dtype in (_HALVES, *_WORDS):
                return self.node(arg)
            case Op("broadcast", (Imm(),)) if value.dtype in (_HALVES, *_WORDS):
                return self._live_in(value)
            case Op("dot", (total, a, b)) if value.dtype == I32 and a.dtype in _WORDS and b.dtype in _WORDS:
                halves = [[Op(half, (word,), _HALVES) for half in ("evens", "odds")] for word in (a, b)]
                for left, right in zip(*halves, strict=True):
                    total = Op("dot", (total, left, right), I32)
                return self.node(total)
            case Op("cast", (arg,)) if value.dtype == I8 and arg.dtype == I32:
                return self._byte(arg)
            case Op("shr" | "shl", (Imm(), by)) if not isinstance(by, Imm):
                raise NotSelected
            case Op():
                return self._operation(value)
            case _:
                raise NotSelected

    def _operation(self, value: Op) -> Step:
        """What an instruction does by its meaning: what is added to, its first argument, is computed first."""
        name, args = operation(value)
        literals = tuple(a.value if isinstance(a, Imm) and isinstance(a.value, int) else None for a in args)
        types = (value.dtype, *(a.dtype for a in args))
        found = assembly_line(name, types, self.names.features, literals)
        if found is None:
            raise NotSelected
        if name == "mac_pair" and literals[3] == 0:
            args = (args[0], _first_lane(args[1]), *args[2:])
        nodes = {k: self.node(args[k]) for k in sorted(found.args)}
        self.products += found.products
        return self._step(found, [nodes[k] for k in found.args])

    def _made(self, name: str, *args: Node | int) -> Step:
        """An operation on i32 that the selection itself asks for; integers are literals."""
        literals = tuple(a if isinstance(a, int) else None for a in args)
        found = assembly_line(name, (I32,) * (len(args) + 1), self.names.features, literals)
        if found is None:
            raise NotSelected
        return self._step(found, [a for a in (args[k] for k in found.args) if not isinstance(a, int)])

    def _byte(self, value: ValueExpr) -> Node:
        """A sum brought to eight bits."""
        found = clamped(value)
        if found is None or found[1:] != I8.limits:
            raise NotSelected
        scaled = rescaled(*found[:2], self.names.is_small)
        match scaled:
            case None:
                return self._clamped(found[0])
            case Rescaled(Op("srdhm30", (total, mult)), right, twice, up, bounded):
                pass
            case _:
                raise NotSelected
        scale, by = self.node(mult), self._less(right)
        node = self._made("shl", self.node(total), 1)
        if up and bounded:
            add: Node = self._live_in(op("shl", imm(twice), op("sub", right, imm(1))))
            if isinstance(by, Step):
                add = self._made("shl", self._live_in(imm(twice)), by)
            node = self._made("mac_high_rounded", node, scale, add)
            node = self._made("shr", node, by)
        else:
            node = self._made("mul_high", node, scale)
            if not up:
                node = self._made("add_sign", node)
            node = self._made("shr", node, by)
            node = self._made("add" if twice > 0 else "sub", node, abs(twice))
        return self._made("clamp_shr_i8", node, 1)

    def _clamped(self, value: ValueExpr) -> Node:
        match value:
            case Op("shr", (high, Imm(int(by)))) if 0 < by < value.dtype.bits:
                return self._made("clamp_shr_i8", self.node(high), by)
            case _:
                return self._made("clamp_i8", self.node(value))

    def _less(self, right: ValueExpr) -> Node:
        """One bit less than a shift; computed here where that is read from memory."""
        less = op("sub", right, imm(1))
        match right:
            case Op("neg", (Load() as load,)) if isinstance(self._load(load), Read):
                return self.node(less)
        return self._live_in(less)

    def _step(self, line: Line, args: Sequence[Node]) -> Step:
        key = (line.text, tuple(map(id, args)))
        if key not in self.made:
            total = line.args.index(0) if line.products else -1
            self.made[key] = step = Step(line.text, tuple(args), total)
            self.items.append(step)
        return self.made[key]

    def _live_in(self, value: ValueExpr) -> LiveIn:
        """What the C around computes once, before the code: an integer that fills a register.

        Raises:
            NotSelected: it is another value in every iteration of the loop, or none of 32 bits.
        """
        if self.loop is not None and any(self.loop.var in free_vars(dim) for dim in dims_used(value)):
            raise NotSelected
        if isinstance(value, Imm) and value.dtype.lanes == 1 and value.dtype.kind in "iu":
            value = replace(value, dtype=I32)  # operands of assembly fill a register
        elif value.dtype.lanes == 1 and value.dtype.bits < 32 and not value.dtype.is_float:
            value = Op("cast", (value,), I32)
        if value.dtype.nbytes != 4 or value.dtype.kind not in "iu":
            raise NotSelected
        for load in (n for n in walk(value) if isinstance(n, Load)):
            name = self.names.register(load.buffer, load.index)
            if name is not None:
                self.held.add(name)
                continue
            memory = self.names.place(load.buffer, load.index)
            self.reads_scratch |= memory is not None and memory.scratch
            self.reads_shared |= memory is not None and not memory.scratch and not memory.constant
        live_in = LiveIn(self.names.text(value), False, value)
        return self.known.setdefault(live_in, live_in)

    def _load(self, load: Load) -> Node:
        if load.buffer in self.private:
            if (load.buffer, load.index) not in self.inside:
                raise NotSelected
            return self.inside[load.buffer, load.index]
        name = self.names.register(load.buffer, load.index)
        if name is not None:
            live_in = LiveIn(name, True, load)
            self.own[name] = load.buffer
            return self.values.get(name) or self.known.setdefault(live_in, live_in)
        memory = self.names.place(load.buffer, load.index)
        if memory is None:
            raise NotSelected
        path = self._path(memory)
        if (load.dtype == I32 and not memory.constant) or (self.loop is not None and path[0] == 0):
            return self._live_in(load)
        self.reads_scratch |= memory.scratch
        self.reads_shared |= not memory.scratch and not memory.constant
        if load.dtype in _WIDTHS:
            width = _WIDTHS[load.dtype]
        elif load.dtype in (_HALVES, *_WORDS):
            width = ""
        else:
            raise NotSelected
        access = self._access(memory, path, width, False)
        return self.reads.setdefault(access, Read(access))

    def _path(self, memory: Memory) -> tuple[Dim, Dim]:
        """How far an access moves with the loop, and where it starts."""
        if self.loop is None:
            return 0, memory.offset
        step = slope(memory.offset, self.loop.var)
        if step is None:
            raise NotSelected
        return step, substitute(memory.offset, {self.loop.var: self.loop.lo})

    def _access(self, memory: Memory, path: tuple[Dim, Dim], width: Width, stored: bool) -> Access:
        step, start = path
        whole = memory.whole and width == ""
        stride, walked, places, place = self.units.get(memory.buffer, 0), 0, 0, 0
        if isinstance(step, int):
            start, walked = start + step * self.iteration, step * self.iterations
        elif memory.buffer not in self.units:
            stride, places, place = step, self.iterations, self.iteration
        else:
            start, places = start + step * self.iteration, _whole_strides(step * self.iterations, stride)
        alike = self.alike.setdefault((memory.buffer, walked, whole, stored, stride, places), [])
        for k in alike:
            apart, at = start - self.pointers[k].start, place
            if memory.buffer in self.units:
                at, apart = _apart(apart, stride)
            if isinstance(apart, int) and self._reached(k, apart):
                return Access(k, apart, width, whole, at)
        alike.append(len(self.pointers))
        self.pointers.append(InductionPointer(memory.buffer, start, walked, whole, stored, stride, places))
        self.reach.append((0, 0))
        return Access(len(self.pointers) - 1, 0, width, whole, place)

    def _reached(self, pointer: int, offset: int) -> bool:
        """Whether one pointer serves an access at ``offset`` too."""
        low, high = self.reach[pointer]
        low, high = min(low, offset), max(high, offset)
        if high - low > (_PAIR_REACH if self.pointers[pointer].whole else _REACH):
            return False
        self.reach[pointer] = low, high
        return True


def _first_lane(pair: ValueExpr) -> ValueExpr:
    """What a register holds whose lower half is the first lane of ``pair``: of one element twice, that element."""
    match pair:
        case Op("broadcast", (Op("cast", (Load(),)) as element,)):
            return element
        case _:
            return pair


def _numbers(index: tuple[Dim, ...]) -> bool:
    return all(isinstance(d, int) for d in index)


def _whole_strides(apart: Dim, stride: Dim) -> int:
    """How many strides ``apart`` is.

    Raises:
        NotSelected: it is no whole number of them.
    """
    count, rest = _apart(apart, stride)
    if rest != 0:
        raise NotSelected
    return count


def _apart(apart: Dim, stride: Dim) -> tuple[int, Dim]:
    """(strides, bytes) that make ``apart``; no strides where no number of them does."""
    for count in range(STRIDES + 1):
        if isinstance(apart - count * stride, int):
            return count, apart - count * stride
    return 0, apart


def units(selected: Selected) -> dict[str, Dim]:
    """The distance, known at run time, between neighbouring pointers of a buffer, where there is one."""
    found: dict[str, Dim] = {}
    for one, other in pairwise(selected.pointers):
        apart = other.start - one.start
        if one.buffer == other.buffer and not isinstance(apart, int):
            found.setdefault(one.buffer, apart)
    return found
