"""A loops function as one SPIR-V kernel: loops bound to a hardware axis become indices of work items.

Operand k is binding k of set 0, or one that it shares with others. Push constants are words: for each operand how
many bytes behind the start of what is bound it begins, then the dims, then the row range: the order of
``sdk_gpu_code_t``. A loop on a ``global`` or ``group`` axis takes as many steps as it needs with the items or groups
that were launched, so that no launch is too large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from sdk.codegen_c.exacting import is_exacting
from sdk.codegen_c.spirv.code import Code
from sdk.codegen_c.spirv.memory import Features, Memory
from sdk.codegen_c.spirv.scalars import Scalars
from sdk.codegen_c.spirv.values import Values
from sdk.codegen_c.spirv.words import BUILTINS, Words
from sdk.compiler.ir.loops import Alloc, Atomic, Barrier, Block, Eval, For, If, Let, Load, Loops, Stmt, Store
from sdk.compiler.ir.types import I32, U32
from sdk.compiler.ir.walk import allocated, statements, walk
from sdk.compiler.sym import Dim, free_vars, max_value
from sdk.errors import BuildError

__all__ = ["GROUP", "MAX_WORDS", "Kernel", "Printer", "make_kernel"]

MAX_WORDS: Final = 32  # of push constants: what every device has room for
MAX_STEPS: Final = 65000  # of all loops of an item: llvmpipe ends loops after 65,535 in all, without a word
MAX_PARTS: Final = 64  # elements of an array of an item that are variables of their own
GROUP: Final = 64  # usual work items of a group, on axis x
_HINT: Final = "without --backend the model is printed as C, which has everything"
_ATOMICS: Final = {
    "add": ("AtomicIAdd", "AtomicIAdd"), "min": ("AtomicSMin", "AtomicUMin"), "max": ("AtomicSMax", "AtomicUMax"),
    "and": ("AtomicAnd", "AtomicAnd"), "or": ("AtomicOr", "AtomicOr"), "xor": ("AtomicXor", "AtomicXor"),
}  # fmt: skip
_DEVICE, _WORKGROUP, _ACQUIRE_RELEASE, _WORKGROUP_MEMORY = 1, 2, 8, 256


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its function's name, the module, the extent of each hardware axis in dims and row range of the
    function, the usual size of a group, which operands it writes, and what the device must have."""

    name: str
    module: bytes
    extents: Mapping[str, Dim]
    group: tuple[int, int, int]
    written: tuple[bool, ...]
    words: int
    local_bytes: int
    capabilities: tuple[str, ...]


def make_kernel(
    loops: Loops,
    features: Features | None = None,
    aligned: frozenset[str] = frozenset(),
    bindings: Sequence[int] = (),
) -> Kernel:
    """The kernel of ``loops`` for devices with ``features`` (None: all). Parameters that are ``aligned`` begin at
    multiples of 16 bytes: vectors of 4, 8 or 16 bytes in them that begin at multiples of as many are read and written
    at once. Where operands share bindings, ``bindings`` are those of each (none: each has its own).

    Raises:
        BuildError: a construct without a form, named with the function.
    """
    try:
        made = partial(Memory, features=features or Features(), aligned=aligned, bindings=bindings)
        return Printer(loops, Code(Words()), made).kernel()
    except BuildError as error:
        raise BuildError(
            error.message, where=f"loops @{loops.name}", why=error.why, hint=error.hint or _HINT
        ) from error


class Printer:
    """Emits a function into ``code``; ``memory`` makes what emits its accesses. Groups have ``group`` items by axis
    where the kernel does not say it."""

    def __init__(
        self,
        loops: Loops,
        code: Code,
        memory: Callable[[Code, Scalars], Memory],
        group: tuple[int, int, int] = (GROUP, 1, 1),
    ) -> None:
        self.loops, self.code, self.words, self.group = loops, code, code.words, group
        self.values = Values(self.code, self._load)
        self.scalars = self.values.scalars
        self.memory = memory(self.code, self.scalars)
        self.extents = _extents(loops)

    def kernel(self) -> Kernel:
        """The module and what launches it."""
        usual, count = self.emit()
        main, function = self.code.function()
        return Kernel(
            self.loops.name,
            self.words.module(main, function, usual),
            self.extents,
            usual,
            tuple(p.mode != "read" for p in self.loops.params),
            count,
            self.memory.local_bytes,
            self.words.capabilities,
        )

    def emit(self) -> tuple[tuple[int, int, int], int]:
        """Emits all statements: how large groups are, and how many words the kernel is given."""
        numbers = [*self.loops.dims, *((self.loops.rows.lo, self.loops.rows.hi) if self.loops.rows else ())]
        count = len(self.loops.params) + len(numbers)
        if count > MAX_WORDS:
            raise BuildError(f"{count} numbers are given to it, {MAX_WORDS} fit the push constants of every device")
        if (steps := _steps(self.loops.body)) is None or steps > MAX_STEPS:
            told = "an unknown number of" if steps is None else f"{steps}"
            why = "drivers end longer ones early, or take the device for hung"
            raise BuildError(f"a work item of {told} steps of loops, at most {MAX_STEPS} are sure to be done", why=why)
        self.code.exact = is_exacting(self.loops)
        # unrolled around arrays of an item, the compilers of drivers take minutes for a recurrent layer
        parts = self.memory.parts = _in_parts(self.loops.body)
        arrays = allocated(self.loops.body)
        self.code.rolled = any(b.shape and b.name not in parts for b in arrays)
        sizes = (self._fixed("x"), self._fixed("y"), self._fixed("z"))
        x, y, z = (size or usual for size, usual in zip(sizes, self.group, strict=True))
        usual = (x, y, z)
        self.sizes = self.words.group_size(sizes, usual)
        push = self.memory.push(count)
        for k, param in enumerate(self.loops.params):
            self.memory.operand(param, k, push(k))
        for k, var in enumerate(numbers):
            self.values.names[var.name] = ([push(len(self.loops.params) + k)], I32)
        for buffer in arrays:
            if buffer.space == "local":
                if any(axis.startswith("global") for axis in self.extents):
                    raise BuildError(f"the array {buffer.name} of a group among items that are of none")
                self.memory.temporary(buffer)
        self.block(self.loops.body)
        return usual, count

    def _fixed(self, axis: str) -> int | None:
        """The size of a group on an axis where the kernel says it; None where the launch may."""
        if f"local.{axis}" in self.extents:
            size = self.extents[f"local.{axis}"]
            if not isinstance(size, int):
                raise BuildError(f"the extent {size} of local.{axis} is not a number")
            return size
        return None if f"global.{axis}" in self.extents else 1

    # --- statements ------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """The statements in order; what they bind holds to their end."""
        names = dict(self.values.names)
        for stmt in block.body:
            self.statement(stmt)
        self.values.names = names

    def statement(self, stmt: Stmt) -> None:
        """One statement."""
        match stmt:
            case Block():
                self.block(stmt)
            case For():
                self._for(stmt)
            case If():
                orelse = stmt.orelse
                self.code.branch(
                    self.values.one(stmt.cond),
                    lambda: self.block(stmt.then),
                    None if orelse is None else lambda: self.block(orelse),
                )
            case Let():
                self.values.names[stmt.name] = (self.values.value(stmt.value), stmt.value.dtype)
            case Alloc():
                if stmt.buffer.space != "local":
                    self.memory.temporary(stmt.buffer)
            case Store():
                self._store(stmt)
            case Barrier():
                if stmt.scope != "group" or any(axis.startswith("global") for axis in self.extents):
                    raise BuildError(f"a barrier of the {stmt.scope} among items that are not all of a group's")
                meaning = self.scalars.u32(_ACQUIRE_RELEASE | _WORKGROUP_MEMORY)
                group = self.scalars.u32(_WORKGROUP)
                self.code.effect("ControlBarrier", group, group, meaning)
            case Atomic():
                self._atomic(stmt)
            case Eval():
                raise BuildError(f"a kernel cannot call the library symbol {stmt.symbol}")

    def _for(self, stmt: For) -> None:
        if stmt.kind == "vector":
            raise BuildError(f"loop {stmt.var.name} is to become lanes, which has not happened")
        lo, hi = self.values.dim(stmt.lo), self.values.dim(stmt.hi)
        step, done = self.scalars.u32(1), None
        if stmt.kind == "bind":
            level, _, axis = stmt.axis.partition(".")
            at = self._builtin(level, axis)
            lo = at if stmt.lo == 0 else self.scalars.op("IAdd", U32, lo, at)
            if level == "local":  # as many items as iterations
                self._bound(stmt, lo)
                return
            step = self._builtin("groups", axis)
            if level == "global":
                step = self.scalars.op("IMul", U32, step, self.sizes["xyz".index(axis)])
        if stmt.until is not None:
            done = self.code.variable(self.words.bool_type())
            self.code.store(done, self.words.truth(False))

        def goes_on(at: int) -> int:
            more = self.scalars.compare("lt", I32, at, hi)
            if done is None:
                return more
            ended = self.code.load(self.words.bool_type(), done)
            return self.code.fresh(
                "LogicalAnd", self.words.bool_type(), more, self.code.fresh("LogicalNot", self.words.bool_type(), ended)
            )

        def body(at: int) -> None:
            self._bound(stmt, at)
            if done is not None and stmt.until is not None:
                self.code.store(done, self._until(stmt, at))

        self.code.loop(lo, goes_on, body, step, unroll=stmt.kind == "unroll")

    def _until(self, stmt: For, at: int) -> int:
        names = dict(self.values.names)
        self.values.names[stmt.var.name] = ([at], I32)
        assert stmt.until is not None
        found = self.values.one(stmt.until)
        self.values.names = names
        return found

    def _bound(self, stmt: For, at: int) -> None:
        """The body of a loop with its variable at a word."""
        names = dict(self.values.names)
        self.values.names[stmt.var.name] = ([at], I32)
        self.block(stmt.body)
        self.values.names = names

    def _builtin(self, name: str, axis: str) -> int:
        return self.memory.builtin(BUILTINS[name], "xyz".index(axis))

    # --- accesses --------------------------------------------------------------------------------------------

    def _load(self, load: Load) -> list[int]:
        if load.count is None and self.memory.is_vector(load.buffer, load.index, load.dtype):
            return self.memory.load_vector(load.buffer, load.index, load.dtype, self.values.dim)
        first = self.memory.place(load.buffer, load.index, load.dtype.lanes, self.values.dim)
        kind = load.dtype.scalar
        count = None if load.count is None else self.values.dim(load.count)
        found = []
        for k in range(load.dtype.lanes):
            at = self.memory.after(first, k)
            if count is None:
                found.append(self.memory.load(load.buffer, at, kind))
                continue
            wanted = self.scalars.compare("gt", I32, count, self.scalars.u32(k))
            found.append(
                self.code.choose(
                    wanted,
                    self.scalars.type(kind),
                    lambda at=at: self.memory.load(load.buffer, at, kind),  # type: ignore[misc]
                    lambda: self.scalars.imm(0, kind),
                )
            )
        return found

    def _store(self, stmt: Store) -> None:
        values = self.values.value(stmt.value)
        kind = stmt.value.dtype.scalar
        if stmt.count is None and self.memory.is_vector(stmt.buffer, stmt.index, stmt.value.dtype):
            self.memory.store_vector(stmt.buffer, stmt.index, stmt.value.dtype, values, self.values.dim)
            return
        first = self.memory.place(stmt.buffer, stmt.index, len(values), self.values.dim)
        count = None if stmt.count is None else self.values.dim(stmt.count)
        for k, value in enumerate(values):
            at = self.memory.after(first, k)
            if count is None:
                self.memory.store(stmt.buffer, at, kind, value)
                continue
            wanted = self.scalars.compare("gt", I32, count, self.scalars.u32(k))

            def put(at: int = at, value: int = value) -> None:
                self.memory.store(stmt.buffer, at, kind, value)

            self.code.branch(wanted, put)

    def _atomic(self, stmt: Atomic) -> None:
        kind = stmt.value.dtype
        if stmt.op not in _ATOMICS or kind.bits != 32 or kind.is_float:
            raise BuildError(f"an atomic {stmt.op} on {kind} has no form in SPIR-V")
        pointer = self.memory.pointer(stmt.buffer, self.memory.place(stmt.buffer, stmt.index, 1, self.values.dim))
        name = _ATOMICS[stmt.op][kind.kind == "u"]
        value = self.values.one(stmt.value)
        device, relaxed = self.scalars.u32(_DEVICE), self.scalars.u32(0)
        self.code.fresh(name, self.words.uint(), pointer, device, relaxed, value)


def _steps(block: Block) -> int | None:
    """The most steps that the loops of one work item take in all; None where there is no bound."""
    total = 0
    for stmt in block.body:
        parts = []
        extent: int | None = 1
        match stmt:
            case For():
                extent = 1 if stmt.kind == "bind" else max_value(stmt.hi - stmt.lo)
                inside = _steps(stmt.body)
                parts = [None if inside is None else inside + 1]
            case If():
                parts = [_steps(arm) for arm in (stmt.then, stmt.orelse) if arm is not None]
            case Block():
                parts = [_steps(stmt)]
            case _:
                continue
        known = [part for part in parts if part is not None]
        if extent is None or len(known) < len(parts):
            return None
        total += max(extent, 0) * max(known, default=0)
    return total


def _in_parts(block: Block) -> frozenset[str]:
    """The arrays of an item that are small and only read and written at numbers: variables of their own."""
    held = {b.name: b for b in allocated(block) if b.space == "register"}
    named = {n.buffer for n in walk(block) if isinstance(n, Load | Store | Atomic)
             and not all(isinstance(d, int) for d in n.index)}  # fmt: skip
    return frozenset(
        name for name, b in held.items()
        if name not in named and isinstance(b.type.size, int) and b.type.size * b.dtype.lanes <= MAX_PARTS
    )  # fmt: skip


def _extents(loops: Loops) -> dict[str, Dim]:
    """The extent of each hardware axis that loops are bound to.

    Raises:
        BuildError: an axis that there is none of, or without one extent that is known before the launch.
    """
    found: dict[str, Dim] = {}
    inner = {stmt.var for stmt in statements(loops.body) if isinstance(stmt, For)}
    for stmt in walk(loops.body):
        if not isinstance(stmt, For) or stmt.kind != "bind":
            continue
        level, _, axis = stmt.axis.partition(".")
        if level not in ("global", "group", "local") or axis not in ("x", "y", "z"):
            hint = "one of global, group and local, then .x, .y or .z"
            raise BuildError(f"loop {stmt.var.name} is bound to {stmt.axis!r}", hint=hint)
        extent = stmt.hi - stmt.lo
        if found.setdefault(stmt.axis, extent) != extent:
            raise BuildError(f"two loops of unlike extent are bound to {stmt.axis}")
        if free_vars(extent) & inner:
            raise BuildError(f"the extent {extent} of {stmt.var.name} on {stmt.axis} depends on a loop")
    return found
