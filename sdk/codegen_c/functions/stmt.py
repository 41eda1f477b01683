"""A loops function as one static C function: loops stay loops, statements become lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

from sdk.codegen_c.functions.access import Accesses
from sdk.codegen_c.functions.asm_statement import Statement
from sdk.codegen_c.functions.dims import UNARY, DimPrinter
from sdk.codegen_c.functions.expr import checked_nonnegative
from sdk.codegen_c.functions.function import CFunction, has_scratch
from sdk.codegen_c.functions.hoist import invariant_reads
from sdk.codegen_c.functions.names import Scope, identifier, scalar_name
from sdk.codegen_c.functions.places import Addresses, Index, Place
from sdk.codegen_c.functions.prefetch import Stream, streamed_record
from sdk.codegen_c.functions.regions import Regions
from sdk.codegen_c.functions.samples import Around, Branch, KernelCall
from sdk.codegen_c.functions.thumb import Memory, Names
from sdk.codegen_c.functions.unit import Unit
from sdk.codegen_c.functions.unroll import unrolled, without_zeros
from sdk.codegen_c.functions.validate import Region, Validator
from sdk.codegen_c.functions.wide import wide_registers
from sdk.compiler.ir.layout import Widen
from sdk.compiler.ir.loops import (
    Alloc,
    Atomic,
    Barrier,
    Block,
    Eval,
    For,
    If,
    Let,
    Load,
    Loops,
    Op,
    Ref,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.types import I32
from sdk.compiler.ir.walk import dims_used, statements, walk
from sdk.compiler.sym import Dim, Var, evaluate, free_vars, max_value, product
from sdk.errors import BuildError

__all__ = ["emit_loops"]

_WINDOW_BYTES: Final = 512  # of scratch, that no compiler keeps in registers


def emit_loops(
    unit: Unit,
    loops: Loops,
    scratch: Mapping[str, int],
    constant: frozenset[str] = frozenset(),
    small: bool = False,
    body: bool = False,
    calls: Sequence[KernelCall] = (),
    tried: bool = True,
) -> CFunction:
    """The static function of ``loops``; ``scratch`` gives the byte offset of each of its scratch buffers.

    Parameters: the buffers in order, ``scratch`` if any, the dims, then the row range if any. ``constant`` are the
    parameters that no call writes anything to: compilers keep what they hold over stores to others. ``small``: it is
    worth no more code than it must have. ``body``: it is the body of another function, called nowhere else. ``calls``
    are what its assembly is tried with; code that is only looked at need not be ``tried``.

    Raises:
        BuildError: a construct that C99 on one core has not, or an operation without an instruction, named with the
            function.
    """
    try:
        return _Printer(unit, loops, scratch, constant, small, calls if tried else None).function(body)
    except BuildError as error:
        raise BuildError(error.message, where=f"loops @{loops.name}", why=error.why, hint=error.hint) from error


class _Printer:
    def __init__(
        self,
        unit: Unit,
        loops: Loops,
        scratch: Mapping[str, int],
        constant: frozenset[str],
        small: bool,
        calls: Sequence[KernelCall] | None,
    ) -> None:
        self.unit = unit
        self.loops = loops
        self.constant = constant
        self.small = small
        self.scope = Scope()
        self.lines: list[str] = []
        self.depth = 1
        self.dims = DimPrinter(unit, self._var)
        self.addresses = Addresses(self.dims, scratch, frozenset(loops.layouts))
        self.accesses = Accesses(unit, self.dims, self.addresses, self.scope, scratch, self._line)
        self.values = self.accesses.values
        names = Names(self._register, self._memory, self._operand, self.values.is_small, unit.features)
        how = unit.machine.assembly
        at = replace(names, register=self._variable)
        self.regions = how and Regions(loops, self.dims, names, at, self._element, self._fresh, small, how, self._holds)
        self.validator = None if calls is None else Validator(loops, scratch, calls, unit.check)
        self.assembly: list[tuple[tuple[Stmt, ...], Statement]] = []
        self.around: list[Around] = []
        self.stream: Stream | None = None
        rows = (loops.rows.lo, loops.rows.hi) if loops.rows else ()
        self.given = (*loops.dims, *rows)

    # --- the function -------------------------------------------------------------------------------------

    def function(self, inner: bool) -> CFunction:
        name = identifier(f"{self.unit.prefix}_op_{self.loops.name}{'_body' if inner else ''}")
        scratch = has_scratch(self.loops)
        parameters: list[tuple[str, str]] = []
        for p in self.loops.params:
            c_name = self.scope.declare(("buffer", p.buffer.name), p.buffer.name)
            const = "const " if p.mode == "read" else ""
            alone = "restrict " if p.buffer.name in self.constant else ""
            parameters.append((f"{const}{scalar_name(p.buffer.dtype)} *{alone}", c_name))
            self.accesses.places[p.buffer.name] = Place(p.buffer, c_name)
        if scratch:
            parameters.append((f"uint8_t *{self._alone()}", "scratch"))
        parameters += [("int32_t ", self.scope.declare(v, v.name)) for v in self.given]
        whole = unrolled(without_zeros(self.loops.body))
        self.accesses.wide = wide_registers(whole)
        self.block(whole)
        body = "\n".join(self.lines)
        unused = [c for _, c in parameters if not re.search(rf"\b{c}\b", body)]
        head = "".join(f"    (void){c};\n" for c in unused)
        listed = ", ".join(f"{t}{c}" for t, c in parameters) or "void"
        macro = self.unit.prefix.upper()
        inline = f"{macro}_INLINE" if inner else f"{macro}_NOINLINE{f' {macro}_SMALL' if self.small else ''}"
        text = f"static {inline} void {name}({listed}) {{\n{head}{body}\n}}"
        names = tuple(c for _, c in parameters)
        return CFunction(name, text, scratch, self.small, names, whole, tuple(self.assembly))

    def _alone(self) -> str:
        """``restrict`` for scratch of a window too large for registers. What many tiles read of less, or of 16-bit
        rows, compilers would keep over the stores of results, in more registers than there are."""
        buffers = (
            n.buffer for n in statements(self.loops.body) if isinstance(n, Alloc) and n.buffer.space == "scratch"
        )
        size = sum(b.dtype.nbytes * (max_value(product(b.shape)) or 0) for b in buffers)
        wide = any(isinstance(s, Widen) for p in self.loops.params for s in p.layout.steps)
        return "restrict " if size >= _WINDOW_BYTES and not wide else ""

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _var(self, var: Var) -> str:
        if var in self.addresses.slots:
            return self.addresses.slots[var]
        try:
            return self.scope.lookup(var)
        except KeyError:
            raise BuildError(f"the symbol {var.name} has no value in the function") from None

    # --- statements ---------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        self.scope.push()
        places, cursors, around = dict(self.accesses.places), dict(self.accesses.cursors), len(self.around)
        self.accesses.point(block)
        at, own = 0, {s.buffer.name for s in block.body if isinstance(s, Alloc)}
        while at < len(block.body):
            count, lines = self.regions.run(block.body[at:], own) if self.regions else (0, [])
            if count:
                self._region(lines, block.body[at : at + count])
            else:
                self.statement(block.body[at], block.body[at + 1 :])
            self.around += (s for s in block.body[at : at + max(count, 1)] if isinstance(s, Alloc | Let))
            at += max(count, 1)
        self.accesses.places, self.accesses.cursors = places, cursors
        del self.around[around:]
        self.scope.pop()

    def _braced(self, head: str, body: Block, tail: str = "}") -> None:
        self._line(f"{head} {{" if head else "{")
        self.depth += 1
        self.block(body)
        self.depth -= 1
        self._line(tail)

    def statement(self, stmt: Stmt, rest: tuple[Stmt, ...]) -> None:
        """Prints ``stmt``; ``rest`` is what follows it in its block."""
        match stmt:
            case Block():
                self._braced("", stmt)
            case For() | If():
                outside, self.accesses.cursors = self.accesses.cursors, {}  # they walk over what is read once, in order
                self._for(stmt) if isinstance(stmt, For) else self._if(stmt)
                self.accesses.cursors = outside
            case Let():
                self._ask_ahead(stmt)
                self._let(stmt, rest)
            case Alloc():
                self.accesses.declare(stmt.buffer, rest)
            case Store():
                self._ask_ahead(stmt)
                self.accesses.store(stmt)
            case Atomic():
                old = Load(stmt.buffer, stmt.index, stmt.value.dtype)
                self.accesses.store(Store(stmt.buffer, stmt.index, Op(stmt.op, (old, stmt.value), stmt.value.dtype)))
            case Eval():
                self._eval(stmt)
            case Barrier():
                raise BuildError("a barrier has no meaning in code for one thread")

    def _ask_ahead(self, stmt: Stmt) -> None:
        """Asks for the lines of a later record that lie where those lie that ``stmt`` reads."""
        for line in self.stream.new_lines(stmt) if self.stream else ():
            first = self.accesses.load(line).text
            self._line(f"{self.unit.helper('prefetch')}(&{first}, {self.unit.machine.prefetch}u);")

    def _for(self, stmt: For) -> None:
        if stmt.kind not in ("serial", "parallel"):
            why = "vector loops become lanes before C is written, and bound loops belong to GPU kernels"
            raise BuildError(f"loop {stmt.var.name} of kind {stmt.kind} is no loop of C99", why=why)
        lines = self.regions.loop(stmt) if self.regions else []
        if lines:
            self._region(lines, (stmt,))
            return
        outside, declared = dict(self.accesses.hoisted), []
        for read in invariant_reads(stmt, self.constant, set(self.given)) if self.regions else ():
            if (read.buffer, read.index) not in self.accesses.hoisted:
                text = self.values.assigned(read)
                name = self.scope.declare(("hoisted", read), f"{read.buffer}_now")
                self.accesses.hoisted[read.buffer, read.index] = name
                declared.append((len(self.lines), name))
                self._line(f"const int32_t {name} = {text};")
        self.scope.push()
        lo, hi = self.dims.text(stmt.lo), self.dims.text(stmt.hi, 70)
        var = self.scope.declare(stmt.var, stmt.var.name)
        self._line(f"for (int32_t {var} = {lo}; {var} < {hi}; ++{var}) {{")
        self.depth += 1
        outer = self.stream
        if self.unit.machine.prefetch:
            self.stream = streamed_record(stmt, self.around, self.loops) or outer
        self._inside(stmt, stmt.body)
        self.stream = outer
        if stmt.until is not None:
            self._line(f"if ({self.values.text(stmt.until)}) {{")
            self._line("    break;")
            self._line("}")
        self.depth -= 1
        self._line("}")
        for at, name in reversed(declared):  # what assembly reads itself is no variable
            if not any(re.search(rf"\b{name}\b", line) for line in self.lines[at + 1 :]):
                del self.lines[at]
        self.accesses.hoisted = outside
        self.scope.pop()

    def _region(self, lines: list[str], stmts: tuple[Stmt, ...]) -> None:
        """Assembly in place of ``stmts``; what they would declare is declared before it."""
        for node in walk(stmts):
            declared = self.accesses.pending.pop((node.buffer, node.index), None) if isinstance(node, Store) else None
            if isinstance(node, Store) and declared:
                name = self.accesses.places[node.buffer].scalars[node.index]
                if any(f"({name})" in line for line in lines):  # others are only steps on the way
                    self._line(f"{declared} {name};")
        self.lines.extend("    " * self.depth + line for line in lines)

    def _inside(self, around: Around, block: Block) -> None:
        self.around.append(around)
        self.block(block)
        self.around.pop()

    def _holds(self, statement: Statement, stmts: Sequence[Stmt], dead: Set[str]) -> bool:
        """Whether assembly does what the statements do, after which nothing reads the register buffers ``dead``."""
        nodes = list(walk(tuple(stmts)))
        inside = dead | {n.buffer.name for n in nodes if isinstance(n, Alloc)}
        stored = [n for n in nodes if isinstance(n, Store) and n.buffer not in inside]
        names = {(n.buffer, n.index): self.accesses.places[n.buffer].scalars.get(n.index) for n in stored}
        live = {name: (buffer, tuple(evaluate(d, {}) for d in at)) for (buffer, at), name in names.items() if name}
        elements = {place.c_name: place.buffer.dtype.scalar.bits for place in self.accesses.places.values()}
        region = Region(statement, tuple(stmts), self.around, live, elements)
        holds = self.validator is None or self.validator.holds(region)
        self.assembly += [(region.stmts, statement)] if holds else []
        return holds

    def _register(self, buffer: str, index: Index) -> str | None:
        """The variable that holds an element of 32 bits."""
        return self.accesses.hoisted.get((buffer, index)) or self._variable(buffer, index)

    def _variable(self, buffer: str, index: Index) -> str | None:
        """The same for an element of a register buffer."""
        place = self.accesses.places[buffer]
        return place.scalars.get(index) if place.element == I32 else None

    def _memory(self, buffer: str, index: Index) -> Memory | None:
        """Where an element lies, if not in a register."""
        return self.addresses.memory(self.accesses.places[buffer], index, buffer in self.constant)

    def _operand(self, expr: ValueExpr) -> str:
        """A value of 32 bits as an operand of assembly. C widens no operand: what is read from a byte is converted in
        words, since compilers hand a narrower value over with anything above its width."""
        if isinstance(expr, Op) and expr.name == "cast":
            return f"({self.values.type_of(expr)}){self.values.text(expr, UNARY)}"
        return self.values.text(expr)

    def _element(self, buffer: str, offset: Dim) -> str:
        """The element so many bytes behind the start of a buffer."""
        return self.addresses.element(self.accesses.places[buffer], offset)

    def _fresh(self, name: str) -> str:
        """A name for something that ends before anything else is declared."""
        self.scope.push()
        fresh = self.scope.declare(("region", name), name)
        self.scope.pop()
        return fresh

    def _if(self, stmt: If) -> None:
        cond = self.values.text(stmt.cond)
        known = checked_nonnegative(stmt.cond)
        count = len(self.dims.nonnegative)
        self.dims.nonnegative += known
        self.around.append(Branch(stmt, True))
        self._braced(f"if ({cond})", stmt.then, "} else {" if stmt.orelse else "}")
        self.around.pop()
        del self.dims.nonnegative[count:]
        if stmt.orelse:
            self.depth += 1
            self._inside(Branch(stmt, False), stmt.orelse)
            self.depth -= 1
            self._line("}")

    def _let(self, stmt: Let, rest: tuple[Stmt, ...]) -> None:
        kind = stmt.value.dtype
        # an integer may stand in an index, as the variable of its name over the range of its type
        var = Var(stmt.name, *kind.limits) if kind.kind in "iu" and kind.lanes == 1 else None
        read = any(isinstance(n, Ref) and n.name == stmt.name for n in walk(rest))
        if not read and not (var and any(var in free_vars(d) for d in dims_used(rest))):
            return  # values are pure; C compilers warn about names nobody reads
        text, type = self.values.assigned(stmt.value), self.values.type_of(stmt.value)
        name = self.scope.declare(("let", stmt.name), stmt.name)
        if var:
            self.scope.alias(var, name)
        self.values.bound[stmt.name] = stmt.value
        self._line(f"const {type} {name} = {text};")

    def _eval(self, stmt: Eval) -> None:
        types, texts = [], []
        for arg in stmt.args:
            if isinstance(arg, Load):
                place = self.accesses.places[arg.buffer]
                const = (
                    "const " if any(p.mode == "read" and p.buffer is place.buffer for p in self.loops.params) else ""
                )
                types.append(f"{const}{scalar_name(arg.dtype)} *")
                texts.append(f"&{place.c_name}[{self.addresses.offset(place, arg.index)}]")
            else:
                types.append(self.values.type_of(arg))
                texts.append(self.values.assigned(arg))
        self._line(f"{self.unit.extern(stmt.symbol, tuple(types))}({', '.join(texts)});")
