"""What a kernel takes as it is printed: the instructions of its assembly are counted, those of its C are guessed.

The same layer with its numbers and with parameters in their place differs in what becomes assembly, in how often loops
are unrolled and in how addresses are made, which is what tells what sharing a kernel costs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sdk.codegen_c.functions.asm_statement import COUNTER, Operand, Pointer, Statement
from sdk.codegen_c.functions.stmt import emit_loops
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.analysis.work import Cost, Trips, Work
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, If, Let, Load, Loops, Op, Stmt, Store, ValueExpr
from sdk.compiler.ir.walk import walk
from sdk.compiler.memory.scratch import scratch_layout
from sdk.compiler.sym import Expr, Func, Var, flat_index, free_vars

__all__ = ["kernel_cost"]

ITERATION: Final = 3  # instructions of a loop of C for each iteration
# instructions of operations, where they are not one; a lower bound and an upper one are one saturation
OPERATIONS: Final = {"cast": 0, "bits": 0, "broadcast": 0, "max": 0, "srdhm": 8, "rdbpot": 5}
CROWDED: Final = 10  # operands of a statement, at least, around which compilers keep what they need in memory
DEEP: Final = 4  # loops of C around such a statement, at least, for which there are no registers left
KEPT: Final = 2  # instructions more of those loops for each iteration
ENTERED: Final = 5  # of the innermost of them before it begins
MOVED: Final = 1  # of a value that is put where assembly wants it
TERM: Final = 1  # of a part of an address that moves
GIVEN: Final = 1  # of each number of the call that such a part is multiplied by
FETCHED: Final = 3  # of each number of the call that is in memory, and moved, where it is used
LIMIT: Final = 2  # of min, max or a division in it


@lru_cache(maxsize=256)  # plans of one model for several memories or boards have most functions in common
def kernel_cost(loops: Loops, isa: frozenset[str]) -> Cost:
    """Instructions of a call, and of the code, as the C99 backend prints it for a core with these capabilities.

    Raises:
        BuildError: the function cannot be printed.
    """
    constant = frozenset(p.buffer.name for p in loops.params if p.mode == "read")
    printed = emit_loops(Unit("m", isa), loops, scratch_layout(loops).offsets, constant, tried=False)
    pieces = _Pieces(loops, {id(stmts[0]): (len(stmts), made) for stmts, made in printed.assembly})
    assert printed.body is not None  # a function that was printed has one
    pieces.block(printed.body, ())
    return Cost(Work(loops, tuple(pieces.found)), sum(one for one, _ in pieces.found))


class _Pieces:
    """Collects instructions with the iterations of the loops around them. ``assembly`` has, by the first of the
    statements, how many of them a statement of assembly stands for."""

    def __init__(self, loops: Loops, assembly: dict[int, tuple[int, Statement]]) -> None:
        self.assembly = assembly
        self.found: list[tuple[int, Trips]] = []
        self.dims = frozenset(loops.dims)
        self.buffers: dict[str, Buffer] = {p.buffer.name: p.buffer for p in loops.params}
        self.constant = {p.buffer.name for p in loops.params if p.mode == "read"}
        self.loops: list[Var] = []

    def block(self, block: Block, trips: Trips) -> None:
        at, cost, places = 0, 0, dict[object, int]()
        while at < len(block.body):
            stmt = block.body[at]
            count, made = self.assembly.get(id(stmt), (1, None))
            if made is not None:
                self.statement(made, trips)
            else:
                cost += self.c(stmt, trips, places)
            at += count
        self.found.append((cost + sum(places.values()), trips))

    def statement(self, made: Statement, trips: Trips) -> None:
        """A statement of assembly, and what C does for its operands."""
        lines = sum(not line.endswith(":") for line in made.lines)
        self.found.append((lines, trips if made.count is None else (*trips, made.count)))
        around = sum(map(self.operand, made.operands)) + 2 * bool(made.guard)
        if _is_crowded(made) and len(self.loops) >= DEEP:
            around += sum(o.constraint == "r" and not isinstance(o.holds, Pointer) for o in made.operands)
            given = self.dims & {v for o in made.operands for v in _dims_of(o)}
            around += FETCHED * len(given)
        self.found.append((around, trips))

    def operand(self, operand: Operand) -> int:
        """What is computed for an operand that is an address, or counts."""
        if isinstance(operand.holds, Pointer):
            return MOVED + self.address(operand.holds.offset)
        return MOVED + self.address(operand.holds) if operand.name == COUNTER else 0

    def c(self, stmt: Stmt, trips: Trips, places: dict[object, int]) -> int:
        """Instructions of a statement of C; what is inside of loops and arms is put where it belongs."""
        match stmt:
            case Alloc(buffer):
                self.buffers[buffer.name] = buffer
            case Block():
                self.block(stmt, trips)
            case For():
                inner = (*trips, stmt.hi - stmt.lo)
                crowded = len(self.loops) + 1 >= DEEP and self.is_crowded(stmt)
                given = len(self.dims & free_vars(stmt.hi - stmt.lo))
                self.found.append((ITERATION + crowded * (KEPT + FETCHED * given), inner))
                self.loops.append(stmt.var)
                self.block(stmt.body, inner)
                self.loops.pop()
                return ENTERED if crowded else 1
            case If():
                for arm in (stmt.then, stmt.orelse):
                    if arm is not None:
                        self.block(arm, trips)
                return 2 + self.value(stmt.cond, places)
            case Let():
                return self.value(stmt.value, places)
            case Store():
                self.place(stmt, places)
                return self.value(stmt.value, places) + (self.buffers[stmt.buffer].space != "register")
        return 0

    def value(self, value: ValueExpr, places: dict[object, int]) -> int:
        """Operations and reads of a value; what is only read is read once in a block."""
        match value:
            case Op(name, args):
                return OPERATIONS.get(name, 1) + sum(self.value(a, places) for a in args)
            case Load():
                known = value in places
                places[value] = 0
                self.place(value, places)
                again = known and value.buffer in self.constant
                return int(self.buffers[value.buffer].space != "register" and not again)
            case _:
                return 0

    def place(self, node: Load | Store, places: dict[object, int]) -> None:
        """What must be added up for an access: those that lie a fixed distance apart share an address."""
        buffer = self.buffers[node.buffer]
        if buffer.space != "register":
            offset = flat_index(node.index, buffer.shape)
            places[node.buffer, tuple(offset.terms) if isinstance(offset, Expr) else ()] = self.address(offset)

    def is_crowded(self, loop: For) -> bool:
        """Whether a loop of C has assembly in it that leaves no registers for what is around."""
        made = (self.assembly.get(id(n)) for n in walk(loop.body))
        return any(found is not None and _is_crowded(found[1]) for found in made)

    def address(self, dim: object) -> int:
        """Instructions of a dim that is another in every iteration of the innermost loop: what moves with outer
        ones alone is known before it, and is added."""
        if not isinstance(dim, Expr):
            return 0
        inner = self.loops[-1] if self.loops else None
        cost, outer = 0, False
        for factors, _ in dim.terms:
            moving = any(_moves(f, inner) for f, _ in factors)
            outer = outer or not moving
            if moving:
                given = sum(f in self.dims for f, _ in factors)
                cost += TERM + GIVEN * given + LIMIT * sum(_limits(f) for f, _ in factors)
        return cost + (TERM if outer else 0)


def _dims_of(operand: Operand) -> frozenset[Var]:
    """The variables in an operand."""
    held = operand.holds.offset if isinstance(operand.holds, Pointer) else operand.holds
    return free_vars(held) if isinstance(held, Expr) else frozenset()


def _is_crowded(made: Statement) -> bool:
    return len(made.operands) >= CROWDED


def _moves(factor: Var | Func, var: Var | None) -> bool:
    return factor == var if isinstance(factor, Var) else var in factor.free


def _limits(factor: Var | Func) -> int:
    return 0 if isinstance(factor, Var) else 1
