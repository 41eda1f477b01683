"""An entry's run as one C function: checks, pointers to the buffers, then the plan's statements in order."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import replace

from sdk.codegen_c.functions.dims import CMP, DimPrinter
from sdk.codegen_c.functions.function import CFunction
from sdk.codegen_c.functions.names import Scope, scalar_name
from sdk.codegen_c.functions.unit import Unit
from sdk.codegen_c.program.banner import comment
from sdk.codegen_c.program.interface import DimInfo, Entry, Interface, Port
from sdk.codegen_c.program.parallel_calls import parts_of
from sdk.codegen_c.program.steps import StepKernel, runs_of
from sdk.codegen_c.program.weights import Weights
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.plan import (
    Bind,
    Check,
    Copy,
    Plan,
    PlanBuffer,
    PlanCall,
    PlanStmt,
    Repeat,
    Split,
    Wait,
    named,
    walk_plan,
)
from sdk.compiler.memory.effects import extern_outputs
from sdk.compiler.memory.rings import stored_type
from sdk.compiler.sym import Dim, Var, free_vars, prove_lt, substitute
from sdk.errors import BuildError

__all__ = ["RunPrinter"]

_WIDTH = 110
_MAX_ROWS = (1 << 31) - 1


class RunPrinter:
    """Prints the functions of one entry; ``kernels`` are the printed loops functions by name, ``steps`` those that a
    loop calls with rows of tables."""

    def __init__(
        self,
        unit: Unit,
        api: Interface,
        entry: Entry,
        weights: Weights,
        kernels: dict[str, CFunction],
        steps: dict[str, StepKernel],
    ) -> None:
        self.unit, self.api, self.entry, self.weights, self.kernels = unit, api, entry, weights, kernels
        self.plan: Plan = entry.plan
        self.steps = steps
        found = runs_of(self.plan) if steps else []
        self.runs = {run[0].index: run for run in found if all(c.callee in steps for c in run)}
        self.stepped = {c.index for run in self.runs.values() for c in run}
        self.m, self.macro = unit.prefix, unit.prefix.upper()
        self.scope = Scope(unit.prefix)
        more = [*(name for name, _, _ in api.more_arenas), *(["init"] if entry.init else [])]
        for name in ("self", "in", "out", "dims", "arena", "state", "status", *more):
            self.scope.declare(("own", name), name)
        for dim in (*entry.all_dims, *entry.init):
            self.scope.declare(dim.var, dim.c_name)
        for var, _ in self.plan.places:
            self.scope.declare(var, var.name)
        self.dims = DimPrinter(unit, self._dim_name)
        self.iterations = {s.var for s in self.plan.body if isinstance(s, Repeat)}
        self.used: set[Var] = set()  # the dims that the text has named
        self.lines: list[str] = []
        self.depth = 1

    def functions(self) -> list[str]:
        """The accessors of tensors in the arena, the arena's size, and the run."""
        small = [*self._check_dims(), *self._accessors(), self._arena_bytes()]
        return [*small, *self._tables(), self._run()]

    def _dim_name(self, var: Var) -> str:
        self.used.add(var)
        return self.scope.lookup(var)

    # --- small functions ----------------------------------------------------------------------------------

    def _dim_locals(self, dim: Dim, init: str = "self->init_dims.") -> str:
        """Locals for what a dim is made of; nothing but uses of the parameter of dims where none is of those."""
        places = self._places(free_vars(dim))
        used = free_vars(dim).union(*(free_vars(value) for _, value in places))
        sources = [(d, "dims->") for d in self.entry.dims] + [(d, init) for d in self.entry.init]
        given = "".join(
            f"    const int32_t {self.scope.lookup(d.var)} = {source}{d.c_name};\n"
            for d, source in sources
            if d.var in used
        )
        lines = [f"    const int32_t {self.scope.lookup(v)} = {self.dims.text(d)};\n" for v, d in places]
        return given + "".join(lines)

    def _places(self, used: Iterable[Var]) -> list[tuple[Var, Dim]]:
        """The places that dims use, and those that they are made of, in order."""
        wanted = set(used)
        out = []
        for var, value in reversed(self.plan.places):
            if var in wanted:
                wanted |= free_vars(value)
                out.append((var, value))
        return out[::-1]

    def _accessors(self) -> list[str]:
        return [self._accessor(p) for p in self.entry.ports if not p.caller]

    def _accessor(self, port: Port) -> str:
        """Where a tensor lies: NULL where nobody has said that, or for dims that no run has."""
        given = self.entry.dims_parameter if port.varies else ""
        offset = port.buffer.offset
        found = self._dim_locals(offset)
        checks = ""
        if "= self->" in found:
            checks = f"    if ({self._unready}) {{\n        return NULL;\n    }}\n"
        if given:
            checks += self._check_dims_or("NULL")
        place = f"{self.m}_place_{self._base(port.buffer)}(self, {self._unsigned(offset)})"
        cast = {"uint8_t": "", "int8_t": "(int8_t *)"}.get(port.c_type, f"({port.c_type} *)(void *)")
        head = f"{port.c_type} *{port.accessor}(const {self.m}_t *self{given})"
        return f"{head}\n{{\n{checks}{found}    return {cast}{place};\n}}"

    def _unsigned(self, size: Dim) -> str:
        return f"{size}u" if isinstance(size, int) else f"(uint32_t)({self.dims.text(size)})"

    @property
    def _unready(self) -> str:
        """When ``self`` is no instance that was initialised, in C."""
        return f"self == NULL || self->model != &{self.m}_mark"

    @property
    def _arena_first(self) -> bool:
        """Whether the place of the arena tells of itself whether there is an instance, which takes least code."""
        return "arena" in self.api.placed

    def _check_dims(self) -> list[str]:
        """The function that says whether the caller's dims are within their bounds."""
        e = self.entry
        if not e.dims:
            return []
        tests = [("dims == NULL", f"{self.macro}_E_ARG"), *((d.condition, d.error) for d in e.dims)]
        body = "".join(f"    if ({when}) {{\n        return {code};\n    }}\n" for when, code in tests)
        head = f"static int {e.name}_check_dims(const {e.name}_dims *dims)"
        return [f"{head}\n{{\n{body}    return {self.macro}_OK;\n}}"]

    def _check_dims_or(self, result: str) -> str:
        if not self.entry.dims:
            return "    (void)dims;\n"
        test = f"{self.entry.name}_check_dims(dims) != {self.macro}_OK"
        return f"    if ({test}) {{\n        return {result};\n    }}\n"

    def _arena_bytes(self) -> str:
        e = self.entry
        size = next((r.bytes for r in self.plan.regions if r.name == "arena"), 0)
        checks = ""
        if e.init:
            checks = f"    if ({self.m}_check_init(init) != {self.macro}_OK) {{\n        return 0u;\n    }}\n"
        if e.all_dims:
            checks += self._check_dims_or("0u")
        text = f"(size_t)({self.dims.text(size)})" if free_vars(size) else f"{size}u"
        body = f"{checks}{self._dim_locals(size, 'init->')}    return {text};"
        return f"size_t {e.name}_arena_bytes({e.arena_parameters})\n{{\n{body}\n}}"

    # --- the run ------------------------------------------------------------------------------------------

    def _run(self) -> str:
        self.used.clear()
        self._checks()
        head = self.lines
        self.lines = []
        self._body(self.plan.body)
        body = self.lines
        self.lines = []
        self._pointers()
        given = [(d, "dims->") for d in self.entry.dims] + [(d, "self->init_dims.") for d in self.entry.init]
        for d, source in given:
            if d.var in self.used:
                head.append(f"    const int32_t {self.scope.lookup(d.var)} = {source}{d.c_name};")
        text = "\n".join([*head, *self.lines, *body, f"    return {self.macro}_OK;"])
        return f"int {self.entry.name}_run({self.entry.run_parameters})\n{{\n{text}\n}}"

    def _line(self, text: str) -> None:
        indent = "    " * self.depth
        wrapped = textwrap.wrap(
            text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "    ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        self.lines += wrapped

    def _reject(self, condition: str, code: str) -> None:
        self._line(f"if ({condition}) {{")
        self.lines.append(f"        return {code};")
        self._line("}")

    def _checks(self) -> None:
        e = self.entry
        if self._arena_first:
            self._line(f"uint8_t *const arena = {self.m}_place_arena(self, 0u);")
            self._reject("arena == NULL", f"{self.macro}_E_STATE")
        else:
            self._reject(self._unready, f"{self.macro}_E_STATE")
        nulls = []
        for struct, ports in (("in", e.caller_inputs), ("out", e.caller_outputs)):
            if ports:
                nulls += [f"{struct} == NULL", *(f"{struct}->{p.c_name} == NULL" for p in ports)]
        if e.all_dims:
            nulls.append("dims == NULL")
        if nulls:
            self._reject(" || ".join(nulls), f"{self.macro}_E_ARG")
        if e.dims:
            status = self.scope.lookup(("own", "status"))
            self._line(f"const int {status} = {e.name}_check_dims(dims);")
            self._reject(f"{status} != {self.macro}_OK", status)
        if self.api.arena_varies:
            given = ", ".join([*(["&self->init_dims"] if e.init else []), *(["dims"] if e.all_dims else [])])
            self._reject(f"self->arena_bytes < {e.name}_arena_bytes({given})", f"{self.macro}_E_ARENA")

    def _check_bounds(self, d: DimInfo, value: str) -> None:
        steps = f" || {value} % {d.macro}_MULTIPLE != 0" if d.multiple > 1 else ""
        self._reject(f"{value} < {d.macro}_MIN || {value} > {d.macro}_MAX{steps}", d.error)

    def _used(self) -> list[PlanBuffer]:
        names: dict[str, None] = {}
        for stmt in walk_plan(self.plan.body):
            if not (isinstance(stmt, PlanCall) and stmt.index in self.stepped):
                names |= dict.fromkeys(named(stmt))
        return [b for b in self.plan.buffers if b.name in names]

    def _base(self, buffer: PlanBuffer) -> str:
        """The member of the context that a buffer's offset counts from."""
        region = self.plan.region(buffer.region)
        return region.name if region.kind == "arena" else region.kind

    def _pointers(self) -> None:
        """A named pointer for every buffer the body uses; constants go by their own names."""
        named = [b for b in self._used() if self.plan.region(b.region).kind != "const"]
        used = [b for b in named if not self._per_iteration(b)]
        for var, value in self._places(v for b in used for v in free_vars(b.offset)):
            self._line(f"const int32_t {self.scope.lookup(var)} = {self.dims.text(value)};")
        bases = {self._base(b) for b in named} | ({"arena"} if self.runs else set())
        for base in ("arena", *(name for name, _, _ in self.api.more_arenas), "state"):
            if base in bases and not (base == "arena" and self._arena_first):
                self._line(f"uint8_t *const {base} = self->{base};")
        for b in used:
            type = scalar_name(b.type.dtype)
            name = self.scope.lookup(b.name)
            if self.plan.region(b.region).kind == "caller":
                struct, member, const = self._caller(b)
                cast = "" if member.type.dtype == b.type.dtype else f"({const}{type} *)({const}void *)"
                self._line(f"{const}{type} *const {name} = {cast}{struct}->{member.c_name};")
            else:
                self._line(f"{type} *const {name} = {self._cast(type, self._base(b), b.offset)};")

    def _per_iteration(self, buffer: PlanBuffer) -> bool:
        """Whether the buffer is another one in each iteration."""
        return not free_vars(buffer.offset).isdisjoint(self.iterations)

    def _pointers_of_iteration(self, repeat: Repeat) -> None:
        """A pointer for what of the constants and states is another one in each iteration."""
        names = {name for stmt in repeat.body for name in named(stmt)}
        for b in (b for b in self.plan.buffers if b.name in names and self._per_iteration(b)):
            name, type = self.scope.declare(b.name, b.name), scalar_name(b.type.dtype)
            if self.plan.region(b.region).kind == "const":
                size = substitute(b.offset, {repeat.var: 1})
                assert isinstance(size, int)  # bytes from one iteration to the next
                at = f"(size_t){self.scope.lookup(repeat.var)} * {size // b.type.dtype.nbytes}u"
                self._line(f"const {type} *const {name} = {self.weights.symbols[b.name]} + {at};")
            else:
                self._line(f"{type} *const {name} = {self._cast(type, self._base(b), b.offset)};")

    def _caller(self, buffer: PlanBuffer) -> tuple[str, Port, str]:
        for struct, const, ports in (("in", "const ", self.entry.inputs), ("out", "", self.entry.outputs)):
            for p in ports:
                if p.buffer.region == buffer.region:
                    return struct, p, const
        raise BuildError(
            f"buffer {buffer.name} lies in region {buffer.region}, which holds no input or output"
        )

    def _cast(self, type: str, base: str, offset: Dim) -> str:
        place = base if offset == 0 else f"({base} + {self.dims.text(offset, 71)})"
        if type == "uint8_t":
            return place if offset == 0 else place[1:-1]
        return (
            f"({type} *)({place[1:-1]})" if type == "int8_t" and offset != 0 else f"({type} *)(void *){place}"
        )

    # --- statements ---------------------------------------------------------------------------------------

    def _body(self, body: tuple[PlanStmt, ...]) -> None:
        for stmt in body:
            match stmt:
                case PlanCall() if stmt.index in self.stepped:
                    if stmt.index in self.runs:
                        self._steps(self.runs[stmt.index])
                case PlanCall():
                    self._call(stmt)
                case Copy():
                    self._copy(stmt)
                case Repeat():
                    self._repeat(stmt)
                case Wait():
                    continue  # one place runs calls in order
                case Bind():
                    self._bind(stmt)
                case Check():
                    (info,) = [c for c in self.entry.checks if c.stmt is stmt]
                    self._reject(f"{self.dims.text(stmt.left, CMP)} != {self.dims.text(stmt.right, CMP)}", info.error)

    def _bind(self, stmt: Bind) -> None:
        """A value of a buffer is checked before it becomes an ``int32_t``, which it may not fit."""
        (d,) = [d for d in self.entry.fresh if d.var is stmt.var]
        local = self.scope.lookup(stmt.var)
        if isinstance(stmt.value, str):
            buffer = self.plan.buffer(stmt.value)
            text = f"{self._name(buffer)}[0]"
            if buffer.type.dtype.bits > 32:
                self._check_bounds(d, text)
            text = f"(int32_t){text}"
        else:
            text = self.dims.text(stmt.value)
        self._line(f"const int32_t {local} = {text};")
        self._check_bounds(d, local)
        self._line(f"dims->{d.c_name} = {local};")

    def _repeat(self, stmt: Repeat) -> None:
        lo, hi = self.dims.text(stmt.lo), self.dims.text(stmt.hi, 70)
        self.scope.push()
        var = self.scope.declare(stmt.var, stmt.var.name)
        self._line(f"for (int32_t {var} = {lo}; {var} < {hi}; ++{var}) {{")
        self.depth += 1
        self._pointers_of_iteration(stmt)
        self._body(stmt.body)
        self.depth -= 1
        self._line("}")
        self.scope.pop()

    def _call(self, call: PlanCall) -> None:
        index = self.entry.first_op + call.index
        what = ", ".join(call.ops)
        self._line(f"/* {index}: {comment(what or call.callee)} */")
        if self.depth > 1 and call.rows is not None and prove_lt(*call.rows) is not True:
            self._maybe_call(call, index, *call.rows)
        else:
            self._plain_call(call, index)

    def _steps(self, run: list[PlanCall]) -> None:
        """Calls in a row: a loop over what each gives its kernel."""
        first = self.entry.first_op + run[0].index
        table, count = f"{self.entry.name}_steps_{first}", len(run)
        self._line(f"for (int32_t k = 0; k < {count}; ++k) {{")
        self.depth += 1
        kernels = list(dict.fromkeys(c.callee for c in run))
        if any(self.steps[name].rows for name in kernels):
            self._line(f"const void *const call = {table}[k].call;")
        self._line(f"{self.macro}_HOOK_BEGIN(self, {first} + k);")
        self._line(f"switch ({table}[k].kernel) {{")
        for n, name in enumerate(kernels):
            self._line(f"case {n}:" if n + 1 < len(kernels) else "default:")
            self._line(f"    {self.steps[name].call()}")
            self._line("    break;")
        self._line("}")
        self._line(f"{self.macro}_HOOK_END(self, {first} + k);")
        self.depth -= 1
        self._line("}")

    def _tables(self) -> list[str]:
        """The steps of each run: which kernel, and its row."""
        return [self._table(run) for run in self.runs.values()]

    def _table(self, run: list[PlanCall]) -> str:
        kernels = list(dict.fromkeys(c.callee for c in run))
        first = self.entry.first_op + run[0].index
        lines = []
        for k, call in enumerate(run):
            kernel = self.steps[call.callee]
            row = f"&{kernel.rows}[{kernel.row[self.plan.name, call.index]}]" if kernel.rows else "NULL"
            what = comment(", ".join(call.ops) or call.callee)
            lines.append(f"    {{{row}, {kernels.index(call.callee)}}}, /* {first + k}: {what} */\n")
        fields = "    const void *call;\n    int32_t kernel;\n"
        return f"static const struct {{\n{fields}}} {self.entry.name}_steps_{first}[] = {{\n{''.join(lines)}}};"

    def _maybe_call(self, call: PlanCall, index: int, lo: Dim, hi: Dim) -> None:
        """A call for rows that there may be none of: it then does nothing, not even to its scratch."""
        self._line("{")
        self.depth += 1
        self.scope.push()
        names = [self.scope.declare((name, index), name) for name in ("row_lo", "row_hi")]
        self._line(f"const int32_t {names[0]} = {self.dims.text(lo)};")
        self._line(f"const int32_t {names[1]} = {self.dims.text(hi)};")
        bounds = [Var(name, 0, _MAX_ROWS) for name in names]
        for var, name in zip(bounds, names, strict=True):
            self.scope.alias(var, name)
        self._line(f"if ({names[0]} < {names[1]}) {{")
        self.depth += 1
        self._plain_call(replace(call, rows=(bounds[0].expr, bounds[1].expr)), index)
        self.depth -= 1
        self._line("}")
        self.scope.pop()
        self.depth -= 1
        self._line("}")

    def _plain_call(self, call: PlanCall, index: int) -> None:
        self._line(f"{self.macro}_HOOK_BEGIN(self, {index});")
        if call.split is not None:
            self._shared_call(call, call.split)
        else:
            text = self._extern_call(call) if call.extern else self._kernel_call(call)
            self._line(f"{text};")
        self._line(f"{self.macro}_HOOK_END(self, {index});")

    def _shared_call(self, call: PlanCall, split: Split) -> None:
        kernel, loops = self.kernels[call.callee], self.api.module.loops[call.callee]
        parts = parts_of(kernel, loops, self.m)
        for line in parts.call(kernel, self._kernel_args(call), split.granule, self.dims.text(split.work)):
            self.lines.append("    " * self.depth + line)

    def _kernel_call(self, call: PlanCall) -> str:
        return f"{self.kernels[call.callee].name}({', '.join(self._kernel_args(call))})"

    def _kernel_args(self, call: PlanCall) -> list[str]:
        kernel, loops = self.kernels[call.callee], self.api.module.loops[call.callee]
        args = []
        for p, name in zip(loops.params, call.args, strict=True):
            buffer = self.plan.buffer(name)
            same = scalar_name(buffer.type.dtype) == scalar_name(p.buffer.dtype)
            const = "const " if p.mode == "read" else ""
            cast = "" if same else f"({const}{scalar_name(p.buffer.dtype)} *)({const}void *)"
            args.append(cast + self._name(buffer))
        if kernel.scratch:
            if not call.scratch:
                raise BuildError(f"call {call.index} of @{call.callee} has no scratch buffer")
            args.append(self._name(self.plan.buffer(call.scratch)))
        args += [self.dims.text(d) for d in call.dims]
        return [*args, *(self.dims.text(d) for d in self._rows(call, loops))]

    def _rows(self, call: PlanCall, loops: Loops) -> tuple[Dim, ...]:
        if loops.rows is None:
            return ()
        env: dict[Var, Dim] = dict(zip(loops.dims, call.dims, strict=True))
        return call.rows or (0, substitute(loops.rows.extent, env))

    def _extern_call(self, call: PlanCall) -> str:
        types, args = [], []
        written = extern_outputs(self.api.module, self.plan)[call.index]
        for name in call.args:
            buffer = self.plan.buffer(name)
            fixed = name not in written
            types.append(f"{'const ' if fixed else ''}{scalar_name(buffer.type.dtype)} *")
            args.append(self._name(buffer))
        for dim in call.dims:
            types.append("int32_t")
            args.append(self.dims.text(dim))
        return f"{self.unit.extern(call.callee, tuple(types))}({', '.join(args)})"

    def _name(self, buffer: PlanBuffer) -> str:
        """How the body calls the buffer."""
        if self.plan.region(buffer.region).kind != "const":
            try:
                return self.scope.lookup(buffer.name)
            except KeyError:
                return self.scope.declare_outer(buffer.name, buffer.name)
        while buffer.role != "const":
            buffer = self.plan.buffer(buffer.alias)
        return self.scope.lookup(buffer.name) if self._per_iteration(buffer) else self.weights.symbols[buffer.name]

    def _copy(self, stmt: Copy) -> None:
        dst, src = self.plan.buffer(stmt.dst), self.plan.buffer(stmt.src)
        size = stored_type(src.type, src.ring).nbytes
        count = self.dims.text(size)
        count = f"{count}u" if isinstance(size, int) else f"(size_t)({count})"
        self._line(f"{self.unit.helper('copy')}({self._name(dst)}, {self._name(src)}, {count});")
