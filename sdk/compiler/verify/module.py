"""The verifier: everything that must hold of a module at its stage, reported all at once."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Mapping

from sdk.compiler.analysis.instances import instance
from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module, init_dims
from sdk.compiler.ir.op_table import OpTable
from sdk.compiler.sym import Var, prove_ge
from sdk.compiler.verify.diagnostic import Diagnostic
from sdk.compiler.verify.graph import verify_graph
from sdk.compiler.verify.loops import verify_loops
from sdk.compiler.verify.repeats import verify_repeats
from sdk.errors import BuildError

__all__ = ["check", "verify"]

Report = Callable[[str, str], None]
SHOWN = 20


def verify(module: Module, ops: OpTable | None = None) -> list[Diagnostic]:
    """Every finding about a module, for the rules of its stage; empty when it is well formed.

    ``ops`` (``sdk.compiler.ops``) gives arity, attributes and inference; without it calls of ops are
    taken at their word. Where the buffers of a plan lie is checked by the memory planner's own verifier.
    """
    found: list[Diagnostic] = []

    def report(where: str, message: str) -> None:
        found.append(Diagnostic(module.stage, where, message))

    _names(module, report)
    _states(module, report)
    _stage(module, report)
    _calls(module, report)
    for graph in module.graphs.values():
        verify_graph(graph, module, ops, report)
    for loops in module.loops.values():
        for function in _alone(loops, report):
            verify_loops(function, report, by_parts=True)
    return found


def _alone(loops: Loops, report: Report) -> list[Loops]:
    """The function; of a shared one its instances, for it is called as no other."""
    for values in loops.instances:
        fits = len(values) == len(loops.dims) and all(map(Var.holds, loops.dims, values))
        if not fits:
            report(f"loops @{loops.name}", f"the instance {list(values)} is outside the bounds of its dims")
            return []
    return [instance(loops, values) for values in loops.instances] or [loops]


def check(module: Module, ops: OpTable | None = None) -> None:
    """Raises unless the module is well formed.

    Raises:
        BuildError: with every finding (the first 20 in full).
    """
    found = verify(module, ops)
    if found:
        rest = [f"… and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        raise BuildError(
            f"module {module.name} is not well formed: {len(found)} findings",
            why="\n  ".join(["", *map(str, found[:SHOWN]), *rest]),
            hint="this is a bug of a pass or importer: print the module after each pass to see which",
        )


def _names(module: Module, report: Report) -> None:
    tables: dict[str, Mapping[str, object]] = {
        "constant": module.consts,
        "stack": module.stacks,
        "state": module.states,
        "graph": module.graphs,
        "loops": module.loops,
        "plan": module.plans,
    }
    for what, table in tables.items():
        for key, item in table.items():
            name = getattr(item, "name", None)
            if name != key:
                report(f"{what} @{key}", f"is called @{name}")
    for name in module.loops.keys() & (module.graphs.keys() | module.plans.keys()):
        report(f"loops @{name}", "a graph or plan has the same name")
    for name in module.stacks.keys() & module.consts.keys():
        report(f"stack @{name}", "a constant has the same name")


def _states(module: Module, report: Report) -> None:
    names = [v.name for v in init_dims(module.states)]
    for name in sorted({n for n in names if names.count(n) > 1}):
        report(f"module {module.name}", f"the dim {name} has two ranges in the types of states")
    for state in module.states.values():
        where = f"state @{state.name}"
        if state.iterations < 1:
            report(where, f"of {state.iterations} iterations")
        if not 0 <= state.axis < max(state.type.rank, 1):
            report(where, f"its axis {state.axis} is not one of {state.type.rank}")
        elif state.layout == "blocked" and state.axis >= state.type.rank - 1:
            report(where, f"its axis {state.axis} of blocks is not before the last of {state.type.rank}")
        elif state.layout == "blocked" and not (isinstance(block := state.type.shape[-1], int) and block > 0):
            report(where, f"its blocks are of {block} rows: a number is needed, 1 or more")
        elif state.layout != "plain" and prove_ge(state.extent, 1) is not True:
            report(where, "a ring has at least one row")
        if isinstance(state.init, str):
            const = module.consts.get(state.init)
            if const is None:
                report(where, f"starts from the constant @{state.init}, which does not exist")
            elif (const.type.dtype, const.type.shape) != (state.type.dtype, state.type.shape):
                report(where, f"starts from the constant @{state.init} of another type")
        elif state.init is not None and not state.type.dtype.is_float:
            lo, hi = state.type.dtype.limits
            if not lo <= state.init <= hi:
                report(where, f"starts from {state.init}, which is not of type {state.type.dtype}")


def _stage(module: Module, report: Report) -> None:
    """Which kinds of function may be there, and that there is a way in."""
    if module.stage == "planned":
        for name in module.graphs:
            report(f"graph @{name}", "a planned module holds no graphs")
        if not module.plans:
            report(f"module {module.name}", "a planned module has no plan")
        return
    for name in module.plans:
        report(f"plan @{name}", f"a plan in a module of stage {module.stage}")
    if module.graphs and not any(g.entry for g in module.graphs.values()):
        report(f"module {module.name}", "no graph is an entry")


def _calls(module: Module, report: Report) -> None:
    """Graphs call each other without cycles: generated code does not recurse."""
    calls: dict[str, set[str]] = {}
    iterations: dict[str, set[int]] = {}
    for g in module.graphs.values():
        calls[g.name] = {n.callee for n in g.body if isinstance(n, Call) and n.kind == "graph"}
        for n in g.body:
            if isinstance(n, Call) and n.kind == "graph":
                iterations.setdefault(n.callee, set()).add(n.iterations)
        loops = [module.loops[n.callee] for n in g.body if isinstance(n, Call) and n.callee in module.loops]
        for f in dict.fromkeys(f.name for f in loops if f.instances):
            report(f"graph @{g.name}", f"calls @{f}, which lists the instances that a plan may call")
    try:
        graphlib.TopologicalSorter(calls).prepare()
    except graphlib.CycleError as error:
        report(f"graph @{error.args[1][0]}", f"calls itself: {' -> '.join(error.args[1])}")
    for g in module.graphs.values():
        for where, message in verify_repeats(g, iterations.get(g.name, set()) | ({1} if g.entry else set()), module):
            report(where, message)
