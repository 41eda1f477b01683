"""Calls as rows of tables that one loop runs: what a call gives its kernel is then data, and no code of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sdk.codegen_c.functions.function import CFunction
from sdk.codegen_c.functions.names import scalar_name
from sdk.codegen_c.program.banner import comment
from sdk.codegen_c.program.weights import Weights
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanBuffer, PlanCall, Wait, walk_plan
from sdk.compiler.sym import Dim, Var, substitute

__all__ = ["StepKernel", "by_steps", "runs_of", "step_kernels"]

FEWEST: Final = 4  # calls in a row that are worth a loop
REGION: Final = "arena"  # the one whose bytes rows count from
Argument = tuple[str, str, str]  # the type of its member, the value in a row, how the kernel makes its argument of it


@dataclass(frozen=True)
class StepKernel:
    """A kernel that takes the arena and a row: ``text`` defines it, ``rows`` is the table (None: all calls give it the
    same) and ``row`` the place of each call there, by its plan and index."""

    name: str
    text: str
    rows: str | None
    row: dict[tuple[str, int], int]

    def call(self) -> str:
        """The statement that runs it for the row ``call``."""
        return f"{self.name}(arena{', call' if self.rows else ''});"


def by_steps(module: Module) -> frozenset[str]:
    """The loops functions whose every call is one of a run of steps, with places and numbers known now."""
    calls = [(p, s) for p in module.plans.values() for s in walk_plan(p.body) if isinstance(s, PlanCall)]
    runs = [(p.name, run) for p in module.plans.values() for run in runs_of(p)]
    mixed = _mixed(calls)
    while True:
        inside = {(plan, c.index) for plan, run in runs for c in run}
        outside = mixed | {c.callee for plan, c in calls if (plan.name, c.index) not in inside}
        kept = [(plan, run) for plan, run in runs if not any(c.callee in outside for c in run)]
        if len(kept) == len(runs):
            return frozenset(c.callee for _, run in runs for c in run)
        runs = kept


def _mixed(calls: Iterable[tuple[Plan, PlanCall]]) -> set[str]:
    """The functions that read a constant in one call where another reads the arena: a column of rows has one type."""
    found: dict[str, set[tuple[bool, ...]]] = {}
    for plan, call in calls:
        kinds = (plan.region(plan.buffer(n).region).kind == "const" for n in call.args)
        found.setdefault(call.callee, set()).add(tuple(kinds))
    return {callee for callee, kinds in found.items() if len(kinds) > 1}


def runs_of(plan: Plan) -> list[list[PlanCall]]:
    """The calls that follow each other and need nothing that only a run knows."""
    runs: list[list[PlanCall]] = [[]]
    for stmt in plan.body:
        if isinstance(stmt, PlanCall) and _known(plan, stmt):
            if runs[-1] and stmt.index != runs[-1][-1].index + 1:
                runs.append([])
            runs[-1].append(stmt)
        elif not isinstance(stmt, Wait):
            runs.append([])
    return [run for run in runs if len(run) >= FEWEST]


def _known(plan: Plan, call: PlanCall) -> bool:
    names = [*call.args, *([call.scratch] if call.scratch else [])]
    numbers: Sequence[Dim] = (*call.dims, *(call.rows or ()))
    plain = call.split is None and not call.extern and all(isinstance(d, int) for d in numbers)
    return plain and all(_placed(plan, plan.buffer(n)) for n in names)


def _placed(plan: Plan, buffer: PlanBuffer) -> bool:
    region = plan.region(buffer.region)
    return region.kind == "const" or (region.name == REGION and isinstance(buffer.offset, int))


def step_kernels(
    module: Module, weights: Weights, printed: dict[str, CFunction], prefix: str
) -> dict[str, StepKernel]:
    """The kernels of ``by_steps`` as what the loop calls; ``printed`` are the functions to be inlined in them."""
    found: dict[str, list[tuple[Plan, PlanCall]]] = {}
    for plan in module.plans.values():
        for call in (s for s in walk_plan(plan.body) if isinstance(s, PlanCall) and s.callee in printed):
            found.setdefault(call.callee, []).append((plan, call))
    return {name: _kernel(module.loops[name], printed[name], calls, weights, prefix) for name, calls in found.items()}


def _kernel(
    loops: Loops, inner: CFunction, calls: list[tuple[Plan, PlanCall]], weights: Weights, prefix: str
) -> StepKernel:
    table = [_arguments(loops, inner, plan, call, weights, prefix) for plan, call in calls]
    fields, passed, kept = [], [], []
    for k, column in enumerate(zip(*table, strict=True)):
        type, value, use = column[0]
        if all(c == column[0] for c in column):
            passed.append(use.replace("@", value))
        else:
            fields.append(f"    {type}{inner.names[k]};\n")
            passed.append(use.replace("@", f"call->{inner.names[k]}"))
            kept.append(k)
    name, macro = inner.name.removesuffix("_body"), prefix.upper()
    row = {(plan.name, call.index): n for n, (plan, call) in enumerate(calls)}
    head = f"static {macro}_NOINLINE{f' {macro}_SMALL' if inner.small else ''} void {name}(uint8_t *arena"
    unused = "" if any("arena" in text for text in passed) else "    (void)arena;\n"
    body = f"{unused}    {inner.name}({', '.join(passed)});\n}}"
    if not fields:
        return StepKernel(name, f"{inner.text}\n\n{head})\n{{\n{body}", None, row)
    lines = [
        f"    {{{', '.join(one[k][1] for k in kept)}}}, /* {comment(', '.join(call.ops) or call.callee)} */\n"
        for one, (_, call) in zip(table, calls, strict=True)
    ]
    record = f"typedef struct {{\n{''.join(fields)}}} {name}_t;"
    function = f"{head}, const void *row)\n{{\n    const {name}_t *const call = row;\n{body}"
    listed = f"static const {name}_t {name}_calls[] = {{\n{''.join(lines)}}};"
    return StepKernel(name, "\n\n".join([inner.text, record, function, listed]), f"{name}_calls", row)


def _arguments(
    loops: Loops, inner: CFunction, plan: Plan, call: PlanCall, weights: Weights, prefix: str
) -> list[Argument]:
    out: list[Argument] = []
    for p, name in zip(loops.params, call.args, strict=True):
        buffer = plan.buffer(name)
        kind = f"{'const ' if p.mode == 'read' else ''}{scalar_name(p.buffer.dtype)} *"
        out.append(_pointer(plan, buffer, kind, scalar_name(p.buffer.dtype), weights, prefix))
    if inner.scratch:
        out.append(_pointer(plan, plan.buffer(call.scratch), "uint8_t *", "uint8_t", weights, prefix))
    rows: Iterable[Dim] = ()
    if loops.rows is not None:
        env: dict[Var, Dim] = dict(zip(loops.dims, call.dims, strict=True))
        rows = call.rows or (0, substitute(loops.rows.extent, env))
    return [*out, *(("int32_t ", str(d), "@") for d in (*call.dims, *rows))]


def _pointer(plan: Plan, buffer: PlanBuffer, kind: str, element: str, weights: Weights, prefix: str) -> Argument:
    """A constant by its name, anything else by its offset in the arena."""
    if plan.region(buffer.region).kind != "const":
        cast = "" if kind == "uint8_t *" else f"({kind})({'const ' if kind.startswith('const') else ''}void *)"
        return "uint32_t ", f"{buffer.offset}u", f"{cast}{prefix}_at(arena, @)"
    while buffer.role != "const":
        buffer = plan.buffer(buffer.alias)
    same = scalar_name(buffer.type.dtype) == element
    return kind, f"{'' if same else f'({kind})(const void *)'}{weights.symbols[buffer.name]}", "@"
