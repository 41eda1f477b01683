"""An entry on a GPU in C: what the runtime is told of its steps, and the functions that place and run one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sdk.codegen_c.functions.function import CFunction
from sdk.codegen_c.functions.unit import Unit
from sdk.codegen_c.gpu.kernels import Kernels
from sdk.codegen_c.gpu.steps import ARENA, STATE, Constants, Left, Operand, Step, live_numbers, steps_of
from sdk.codegen_c.program.interface import Entry, Interface, Port, quoted
from sdk.codegen_c.program.plan import RunPrinter
from sdk.codegen_c.program.steps import StepKernel
from sdk.codegen_c.program.weights import Weights
from sdk.compiler.ir.plan import PlanCall
from sdk.compiler.sym import Dim, Var, free_vars

__all__ = ["GpuRunPrinter", "left_of"]

PROOF_STEPS: Final = 7  # multiples above the least value of a dim, for the run that proves the kernels
_ELEMENTS: Final = {"f16": "SDK_GPU_F16", "f32": "SDK_GPU_F32", "f64": "SDK_GPU_F64"}


def left_of(api: Interface) -> Left:
    """The calls that are left to the processor."""
    chosen = api.options.on_processor
    calls = ((e, s) for e in api.entries for s in e.plan.body if isinstance(s, PlanCall))
    return frozenset((e.plan.name, s.index) for e, s in calls if e.first_op + s.index in chosen)


class GpuRunPrinter(RunPrinter):
    """Prints the functions of one entry: those of the C backend, whose run goes to the device where there is one."""

    def __init__(
        self,
        unit: Unit,
        api: Interface,
        entry: Entry,
        weights: Weights,
        functions: dict[str, CFunction],
        rows: dict[str, StepKernel],
        kernels: Kernels,
        places: Constants,
    ) -> None:
        super().__init__(unit, api, entry, weights, functions, rows)
        for name in ("given", "given_dims", "step", "places", "numbers", "groups"):
            self.scope.declare(("own", name), name)
        self.steps_on_gpu = steps_of(api.module, self.plan, kernels, weights, places, left_of(api))
        self._live = live_numbers(self.steps_on_gpu)
        self.number = api.entries.index(entry)

    def functions(self) -> list[str]:
        """The C backend's functions, with what the runtime needs before the run."""
        *small, run = super().functions()
        return [*small, self._step_function(), *self._place_function(), *self._tables_of_steps(), run]

    def _checks(self) -> None:
        super()._checks()
        dims = "dims" if self.entry.all_dims else "NULL"
        self._line("if (self->gpu != NULL) {")
        run = f"sdk_gpu_model_run(self->gpu, {self.number}u, {dims})"
        self.lines += [
            f"#ifdef {self.macro}_HOOK_TOOK",
            f"        const int done = {run};",
            f"        for (uint32_t k = 0u; k < {len(self.steps_on_gpu)}u; ++k) {{",
            f"            {self.macro}_HOOK_TOOK(self, {self.entry.name}_gpu_ops[k], "
            f"sdk_gpu_model_ns(self->gpu, {self.number}u, k));",
            "        }",
            "        return done;",
            "#else",
            f"        return {run};",
            "#endif",
        ]
        self._line("}")

    # --- functions ----------------------------------------------------------------------------------------

    def _step_function(self, linkage: str = "static ") -> str:
        """One step as C."""
        self.used.clear()
        self.lines, self.depth = [], 2
        for k, step in enumerate(self.steps_on_gpu):
            self.lines.append(f"    case {k}:")
            self._body((step.stmt,))
            self._line("break;")
        self.depth = 1
        body, self.lines = self.lines, []
        self._pointers()
        pointers, self.lines = self.lines, []
        head = [*self._instance(bool(pointers) or "self" in "".join(body)), *self._dim_lines()]
        arena = any(self.plan.region(b.region).kind == "arena" for b in self._used())
        if self._arena_first and arena:
            head.append("    uint8_t *const arena = self->arena;")
        switch = ["    switch (step) {", *body, "    default:", "        break;", "    }"]
        text = "\n".join([*head, *pointers, *switch])
        parameters = "void *given, const void *given_dims, int32_t step"
        return f"{linkage}void {self.entry.name}_gpu_step({parameters})\n{{\n{text}\n}}"

    def _instance(self, self_used: bool, const: str = "") -> list[str]:
        """Locals for the instance and the dims, as the runtime hands them on."""
        m = self.m
        lines = [f"    {const}{m}_t *const self = given;"]
        if self.entry.all_dims:
            lines.append(f"    const {self.entry.name}_dims *const dims = given_dims;")
            lines.append("    (void)dims;")
        else:
            lines.append("    (void)given_dims;")
        return [*lines, "    (void)self;"]

    def _dim_lines(self) -> list[str]:
        given = [(d, "dims->") for d in self.entry.dims] + [(d, "self->init_dims.") for d in self.entry.init]
        return [
            f"    const int32_t {self.scope.lookup(d.var)} = {source}{d.c_name};"
            for d, source in given
            if d.var in self.used
        ]

    def _place_function(self) -> list[str]:
        """What of the tables follows from the dims; none where nothing does."""
        found = [
            *((f"places[{k}].{name}", "uint64_t", d) for k, p in enumerate(self._places_of()) for name, d in p),
            *((f"numbers[{k}]", "", n) for k, n in enumerate(self._numbers())),
            *((f"groups[{k}][{a}]", "uint32_t", g) for k, row in enumerate(self._groups()) for a, g in enumerate(row)),
        ]
        varying = [(name, kind, dim) for name, kind, dim in found if free_vars(dim)]
        if not varying:
            return []
        self.used.clear()
        lines = []
        for name, kind, dim in varying:
            text = self.dims.text(dim)
            lines.append(f"    {name} = {f'({kind})({text})' if kind else text};")
        held = [
            f"    const int32_t {self.scope.lookup(v)} = {self.dims.text(d)};"
            for v, d in self._places(v for _, _, d in varying for v in free_vars(d))
        ]
        unused = [f"    (void){t};" for t in ("places", "numbers", "groups") if not any(t in line for line in lines)]
        head = self._instance(True, "const ")
        text = "\n".join([*head, *unused, *self._dim_lines(), *held, *lines])
        given = "const void *given, const void *given_dims"
        tables = "sdk_gpu_place_t *places, int32_t *numbers, uint32_t (*groups)[3]"
        return [f"static void {self.entry.name}_gpu_place({given}, {tables})\n{{\n{text}\n}}"]

    # --- tables -------------------------------------------------------------------------------------------

    def _operands(self) -> list[Operand]:
        return [o for step in self.steps_on_gpu for o in step.operands]

    def _ports(self) -> list[Port]:
        return list(self.entry.ports)

    def _places_of(self) -> list[tuple[tuple[str, Dim], tuple[str, Dim]]]:
        """Offset and bytes of each operand, then of each input and output."""
        operands = [(("offset", o.offset), ("bytes", o.bytes)) for o in self._operands()]
        return operands + [(("offset", p.buffer.offset), ("bytes", p.type.nbytes)) for p in self._ports()]

    def _numbers(self) -> list[Dim]:
        """Those of the steps, then those that kernels read from memory."""
        return [n for step in self.steps_on_gpu for n in step.numbers] + list(self._live)

    def _groups(self) -> list[tuple[Dim, Dim, Dim]]:
        return [one.groups for step in self.steps_on_gpu for one, _ in step.rows]

    def _tables_of_steps(self) -> list[str]:
        e, steps = self.entry, self.steps_on_gpu
        name = f"{e.name}_gpu"
        operands = [
            f"{{{o.region}u, {_ELEMENTS.get(str(o.element), 'SDK_GPU_EXACT')}, {int(o.reads)}u, {int(o.writes)}u, "
            f"{int(o.down)}u, {int(o.up)}u}}"
            for o in self._operands()
        ]
        places = [f"{{{_number(a)}u, {_number(b)}u}}" for (_, a), (_, b) in self._places_of()]
        groups = [f"{{{', '.join(f'{_number(g)}u' for g in row)}}}" for row in self._groups()]
        ports = [
            f"{{{len(operands) + k}u, {STATE if self.plan.region(p.buffer.region).kind == 'state' else ARENA}u, "
            f"'{p.type.dtype.kind}', {p.type.dtype.nbytes}u}}"
            for k, p in enumerate(self._ports())
        ]
        dims = [str(min(d.var.maximum, d.var.minimum + PROOF_STEPS * d.multiple)) for d in e.all_dims]
        recorded = [str(int(d.var in self._recorded())) for d in e.all_dims]
        count = len(e.inputs)
        tables = [
            _table("sdk_gpu_step_t", f"{name}_steps", self._step_rows(steps)),
            _table("sdk_gpu_operand_t", f"{name}_operands", operands),
            _table("sdk_gpu_dispatch_t", f"{name}_dispatches", _dispatch_rows(steps)),
            _table("uint16_t", f"{name}_uses", [f"{k}u" for s in steps for one, _ in s.rows for k in one.operands]),
            _table("sdk_gpu_place_t", f"{name}_places", places),
            _table("int32_t", f"{name}_numbers", [str(_number(n)) for n in self._numbers()]),
            _table("uint32_t", f"{name}_groups", groups, "[3]"),
            _table("sdk_gpu_port_t", f"{name}_ports", ports),
            _table("int32_t", f"{name}_dims", dims),
            _table("uint8_t", f"{name}_recorded", recorded),
            f"#ifdef {self.macro}_HOOK_TOOK",
            _table("uint32_t", f"{name}_ops", [f"{self._operation(step)}u" for step in steps]),
            "#endif",
        ]
        own = ("steps", "operands", "dispatches", "uses", "places", "numbers", "groups")
        rows = [
            quoted(self.plan.name), *(f"{name}_{t}" for t in own),
            f"{name}_ports", f"{name}_ports + {count}", f"{name}_dims", f"{name}_recorded", f"{len(steps)}u",
            f"{len(operands)}u", f"{len(places)}u", f"{len(self._numbers())}u", f"{len(groups)}u", f"{count}u",
            f"{len(e.outputs)}u", f"{len(dims)}u", f"{len(self._live)}u",
            f"{name}_place" if self._varies() else "NULL", f"{name}_step",
        ]  # fmt: skip
        record = ",\n    ".join(rows)
        return [*tables, f"static const sdk_gpu_entry_t {name}_entry = {{\n    {record},\n}};"]

    def _operation(self, step: Step) -> int:
        """The number that hooks have for a step; one that they do not take for what is no call."""
        return self.entry.first_op + step.stmt.index if isinstance(step.stmt, PlanCall) else (1 << 32) - 1

    def _varies(self) -> bool:
        return any(map(free_vars, (*self._part_of_recordings(), *self._live)))

    def _part_of_recordings(self) -> list[Dim]:
        """What recordings hold: places, numbers and sizes."""
        numbers = self._numbers()
        places = [d for pair in self._places_of() for _, d in pair]
        return [*places, *numbers[: len(numbers) - len(self._live)], *(d for g in self._groups() for d in g)]

    def _recorded(self) -> frozenset[Var]:
        """The dims that recordings depend on; of other values of the others they are of use as well."""
        found = {v for d in self._part_of_recordings() for v in free_vars(d)}
        for var, value in reversed(self.plan.places):
            found |= free_vars(value) if var in found else frozenset()
        return frozenset(found)

    def _step_rows(self, steps: Sequence[Step]) -> list[str]:
        rows, operand, number, dispatch = [], 0, 0, 0
        for k, step in enumerate(steps):
            what = ", ".join(step.stmt.ops) or step.stmt.callee if isinstance(step.stmt, PlanCall) else "copy"
            sizes = len(step.operands), len(step.numbers), len(step.launches)
            text = ", ".join(f"{n}u" for n in (operand, number, dispatch, *sizes))
            why = quoted(step.why) if step.why else "NULL"
            rows.append(f"{{{text}, {quoted(what)}, {why}}} /* {k} */")
            operand, number, dispatch = operand + sizes[0], number + sizes[1], dispatch + len(step.rows)
        return rows


def _dispatch_rows(steps: Sequence[Step]) -> list[str]:
    """The kernel of each dispatch, and where what it is given begins."""
    rows, use = [], 0
    for one, instead in (row for step in steps for row in step.rows):
        rows.append(f"{{{use}u, {one.kernel}u, {instead}u}}")
        use += len(one.operands)
    return rows


def _number(dim: Dim) -> int:
    """A number of a table, 0 for one that follows from the dims."""
    return dim if isinstance(dim, int) else 0


def _table(kind: str, name: str, rows: Iterable[str], extent: str = "") -> str:
    """A table in C; one of nothing has a row that nobody reads."""
    lines = list(rows) or ["{0}" if kind.startswith("sdk") or extent else "0"]
    body = "\n".join(f"    {_with_comma(line)}" for line in lines)
    return f"static const {kind} {name}[]{extent} = {{\n{body}\n}};"


def _with_comma(line: str) -> str:
    row, mark, note = line.partition(" /*")
    return f"{row},{mark}{note}"
