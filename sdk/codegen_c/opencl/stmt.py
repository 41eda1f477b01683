"""A loops function as one OpenCL C kernel: loops bound to a hardware axis become the index of the work item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sdk.codegen_c.exacting import is_exacting
from sdk.codegen_c.functions.dims import DimPrinter
from sdk.codegen_c.functions.expr import checked_nonnegative
from sdk.codegen_c.functions.names import Scope, identifier
from sdk.codegen_c.functions.unit import Unit
from sdk.codegen_c.opencl.expr import HEAD, WORDS, Values, c_type
from sdk.compiler.ir.loops import (
    Alloc,
    Atomic,
    Barrier,
    Block,
    Buffer,
    Eval,
    For,
    If,
    Let,
    Load,
    Loops,
    Stmt,
    Store,
)
from sdk.compiler.ir.types import DType
from sdk.compiler.ir.walk import dims_used, statements, walk
from sdk.compiler.sym import Dim, Var, flat_index, free_vars, grain
from sdk.errors import BuildError

__all__ = ["AXES", "Kernel", "emit_kernel"]

_VECTORS: Final = (4, 8, 16)  # bytes of vectors that are one access where they are aligned
_HINT: Final = "without --backend the model is printed as C, which has everything"
# What a hardware axis is called in the IR, and the function that tells where on it a work item stands.
AXES: Final = {
    f"{level}.{axis}": f"get_{level}_id({k})" for level in ("global", "group", "local") for k, axis in enumerate("xyz")
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A printed kernel: its name, text, and the extent of each hardware axis it uses, in the dims and the row range
    of the function."""

    name: str
    text: str
    extents: Mapping[str, Dim]


def emit_kernel(loops: Loops, prefix: str, aligned: frozenset[str] = frozenset()) -> Kernel:
    """The kernel of ``loops``. Arguments: for each buffer its region's base and a byte offset, then the dims, then
    the row range; offsets and dims are ``int``. Parameters that are ``aligned`` begin at multiples of 16 bytes.

    Raises:
        BuildError: a construct that is not printed, named with the function.
    """
    try:
        return _Printer(loops, prefix, aligned).kernel()
    except BuildError as error:
        hint = error.hint or _HINT
        raise BuildError(error.message, where=f"loops @{loops.name}", why=error.why, hint=hint) from error


class _Printer:
    def __init__(self, loops: Loops, prefix: str, aligned: frozenset[str]) -> None:
        self.loops, self.aligned = loops, aligned
        self.name = identifier(f"{prefix}_{loops.name}")
        self.unit = Unit(self.name, frozenset())
        self.scope = Scope(self.name)
        for word in WORDS:
            self.scope.declare(("word", word), word)
        self.buffers: dict[str, Buffer] = {p.buffer.name: p.buffer for p in loops.params}
        self.modes = {p.buffer.name: p.mode for p in loops.params}
        self.extents: dict[str, Dim] = {}
        self.indices: dict[str, set[Var]] = {}  # that stand in indices, by name
        for var in (v for d in dims_used(loops.body) for v in free_vars(d)):
            self.indices.setdefault(var.name, set()).add(var)
        self.lines: list[str] = []
        self.depth = 1
        self.dims = DimPrinter(self.unit, self.scope.lookup)
        self.values = Values(self.unit, self.dims, self._load, lambda name: self.scope.lookup(("let", name)))

    def kernel(self) -> Kernel:
        """The text of the function with what it calls, and its axes."""
        parameters = []
        for p in self.loops.params:
            name, const = self.scope.declare(("buffer", p.buffer.name), p.buffer.name), "const " * (p.mode == "read")
            base, at = (self.scope.declare((end, p.buffer.name), f"{name}_{end}") for end in ("base", "at"))
            kind = c_type(p.buffer.dtype.scalar)
            parameters += [f"__global {const}uchar *{base}", f"const int {at}"]
            self._line(f"__global {const}{kind} *const {name} = (__global {const}{kind} *)({base} + {at});")
        rows = (self.loops.rows.lo, self.loops.rows.hi) if self.loops.rows else ()
        parameters += [f"const int {self.scope.declare(v, v.name)}" for v in (*self.loops.dims, *rows)]
        for stmt in walk(self.loops.body):
            if isinstance(stmt, Alloc) and stmt.buffer.space == "local":
                self._declare(stmt.buffer, "__local ")
        self.block(self.loops.body)
        head = f"__kernel void {self.name}({', '.join(parameters)})"
        text = f"{head}\n{{\n" + "\n".join(self.lines) + "\n}"
        # what is rounded must be rounded as in C wherever an integer is made of it
        pragma = f"#pragma OPENCL FP_CONTRACT {'OFF' if is_exacting(self.loops) else 'ON'}"
        wide = ["#pragma OPENCL EXTENSION cl_khr_fp64 : enable"] if "double" in text else []
        helpers = self.unit.helpers()
        return Kernel(self.name, "\n\n".join(["\n".join([*wide, HEAD, pragma]), *helpers, text]), self.extents)

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def block(self, block: Block) -> None:
        """The statements in order, in a scope of their own."""
        self.scope.push()
        for stmt in block.body:
            self.statement(stmt)
        self.scope.pop()

    def _braced(self, head: str, body: Block, last: str = "") -> None:
        self._line(f"{head} {{".lstrip())
        self.depth += 1
        self.scope.push()
        for stmt in body.body:
            self.statement(stmt)
        if last:
            self._line(last)
        self.scope.pop()
        self.depth -= 1
        self._line("}")

    def statement(self, stmt: Stmt) -> None:
        """One statement."""
        match stmt:
            case Block():
                self._braced("", stmt)
            case For():
                self._for(stmt)
            case If():
                self._if(stmt)
            case Let():
                value = self.values.text(stmt.value)
                self.values.scalars.bound[stmt.name] = stmt.value
                name = self.scope.declare(("let", stmt.name), stmt.name)
                kind = stmt.value.dtype
                if kind.kind in "iu" and kind.lanes == 1:  # it may stand in an index
                    for var in {Var(stmt.name, *kind.limits), *self.indices.get(stmt.name, ())}:
                        self.scope.alias(var, name)
                self._line(f"const {c_type(kind)} {name} = {value};")
            case Alloc():
                if stmt.buffer.space == "scratch":
                    raise BuildError(f"scratch buffer {stmt.buffer.name}: a work item has registers and local memory")
                if stmt.buffer.space == "register":
                    self._declare(stmt.buffer, "")
            case Store():
                self._store(stmt)
            case Barrier():
                fence = "CLK_LOCAL_MEM_FENCE" if stmt.scope == "group" else "CLK_GLOBAL_MEM_FENCE"
                self._line(f"barrier({fence});")
            case Atomic():
                self._atomic(stmt)
            case Eval():
                raise BuildError(f"a kernel cannot call the library symbol {stmt.symbol}")

    def _if(self, stmt: If) -> None:
        known = checked_nonnegative(stmt.cond)
        head, count = f"if ({self.values.text(stmt.cond)})", len(self.dims.nonnegative)
        self.dims.nonnegative += known
        self._braced(head, stmt.then)
        del self.dims.nonnegative[count:]
        if stmt.orelse:
            self._braced("else", stmt.orelse)

    def _for(self, stmt: For) -> None:
        lo, hi = self.dims.text(stmt.lo), self.dims.text(stmt.hi, 51)
        if stmt.kind == "vector":
            raise BuildError(f"loop {stmt.var.name} is to become lanes, which has not happened")
        self.scope.push()
        var = self.scope.declare(stmt.var, stmt.var.name)
        if stmt.kind != "bind":
            last = "" if stmt.until is None else f"if ({self.values.text(stmt.until)}) break;"
            self._braced(f"for (int {var} = {lo}; {var} < {hi}; ++{var})", stmt.body, last)
            self.scope.pop()
            return
        if stmt.axis not in AXES:
            raise BuildError(f"loop {var} is bound to {stmt.axis!r}", hint=f"one of {', '.join(AXES)}")
        extent = stmt.hi - stmt.lo
        if self.extents.setdefault(stmt.axis, extent) != extent:
            raise BuildError(f"two loops of unlike extent are bound to {stmt.axis}")
        inner = {s.var for s in statements(self.loops.body) if isinstance(s, For)}
        if free_vars(extent) & inner:
            raise BuildError(f"the extent {extent} of {var} on {stmt.axis} depends on a loop")
        self._line("{")
        self.depth += 1
        at = f"(int){AXES[stmt.axis]}"
        self._line(f"const int {var} = {at}{'' if stmt.lo == 0 else f' + {lo}'};")
        if stmt.axis.startswith("global"):  # launches are rounded up to whole groups
            self._braced(f"if ({var} < {hi})", stmt.body)
        else:
            self.block(stmt.body)
        self.depth -= 1
        self._line("}")
        self.scope.pop()

    def _declare(self, buffer: Buffer, space: str) -> None:
        self.buffers[buffer.name] = buffer
        size = buffer.type.size
        if not isinstance(size, int):
            raise BuildError(f"the size {size} of {buffer.name} is not a number")
        name = self.scope.declare(("buffer", buffer.name), buffer.name)
        self._line(f"{space}{c_type(buffer.dtype)} {name}[{max(size, 1)}];")

    # --- accesses -----------------------------------------------------------------------------------------

    def _place(self, name: str, index: tuple[Dim, ...], dtype: DType) -> tuple[str, bool]:
        """The element's text, and whether it is a run of lanes in memory rather than one element."""
        buffer = self.buffers[name]
        if buffer.ring is not None:
            raise BuildError(f"buffer {name} keeps its last {buffer.ring} rows, which OpenCL C has no form of yet")
        at = self.dims.text(flat_index(index, buffer.shape))
        run = dtype.lanes > buffer.dtype.lanes
        c_name = self.scope.lookup(("buffer", name))
        return (f"{c_name} + {at}" if run else f"{c_name}[{at}]"), run

    def _load(self, load: Load) -> str:
        if load.count is not None:
            raise BuildError(f"a read of some lanes of {load.buffer} has no form in OpenCL C")
        place, run = self._place(load.buffer, load.index, load.dtype)
        if run and (whole := self._whole(load.buffer, load.index, load.dtype, place)):
            return whole
        return f"vload{load.dtype.lanes}(0, {place})" if run else place

    def _whole(self, name: str, index: tuple[Dim, ...], dtype: DType, place: str) -> str:
        """A run of lanes as one vector in memory, where it begins at a multiple of its size; else nothing."""
        buffer, lanes = self.buffers[name], dtype.lanes
        if name not in self.aligned or lanes * dtype.bits // 8 not in _VECTORS or dtype.scalar != buffer.dtype:
            return ""
        if grain(flat_index(index, buffer.shape)) % lanes:
            return ""
        const = "const " * (self.modes[name] == "read")
        return f"(*(__global {const}{c_type(dtype)} *)({place}))"

    def _store(self, stmt: Store) -> None:
        if stmt.count is not None:
            raise BuildError(f"a write of some lanes of {stmt.buffer} has no form in OpenCL C")
        place, run = self._place(stmt.buffer, stmt.index, stmt.value.dtype)
        value = self.values.text(stmt.value)
        if run and (whole := self._whole(stmt.buffer, stmt.index, stmt.value.dtype, place)):
            self._line(f"{whole} = {value};")
            return
        self._line(f"vstore{stmt.value.dtype.lanes}({value}, 0, {place});" if run else f"{place} = {value};")

    def _atomic(self, stmt: Atomic) -> None:
        kind = stmt.value.dtype
        if stmt.op not in ("add", "min", "max", "and", "or", "xor") or kind.bits != 32 or kind.is_float:
            raise BuildError(f"an atomic {stmt.op} on {kind} is no intrinsic of OpenCL C")
        place, _ = self._place(stmt.buffer, stmt.index, kind)
        self._line(f"atomic_{stmt.op}(&{place}, {self.values.text(stmt.value)});")
