"""What must hold of a graph: single definitions before uses, types, calls that fit what they call, states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from sdk.compiler.analysis.accumulate import accumulators
from sdk.compiler.analysis.unify import unify
from sdk.compiler.ir.graph import (
    BindDim,
    Call,
    Graph,
    MatchCast,
    Node,
    ReadState,
    Value,
    WriteState,
    attr_symbols,
    attrs,
    fresh_dims,
    node_outs,
    node_symbols,
)
from sdk.compiler.ir.layout import ROW_MAJOR
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.op_table import OpTable
from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Var, free_vars, interval, prove_ge
from sdk.compiler.sym.text import print_bounds, print_dim
from sdk.errors import SdkError

__all__ = ["verify_graph"]

Report = Callable[[str, str], None]


def verify_graph(graph: Graph, module: Module, ops: OpTable | None, report: Report) -> None:
    """Reports every finding as (place, message)."""
    _Checker(graph, module, ops, report).run()


def _show(types: Sequence[TensorType]) -> str:
    return ", ".join(f"{t.dtype}[{', '.join(map(print_dim, t.shape))}]" for t in types)


def _plain(types: Sequence[TensorType]) -> list[object]:
    """What ops infer: quantisation is an annotation."""
    return [(t.dtype, t.shape) for t in types]


class _Checker:
    def __init__(self, graph: Graph, module: Module, ops: OpTable | None, report: Report) -> None:
        self.graph = graph
        self.module = module
        self.ops = ops
        self.values: dict[str, TensorType] = {}
        self.dims: dict[str, Var] = {}
        self._where = f"graph @{graph.name}"
        self._report = report

    def error(self, message: str) -> None:
        self._report(self._where, message)

    def run(self) -> None:
        for var in self.graph.dims:
            if var.name in self.dims:
                self.error(f"dim {var.name} is declared twice")
            self.dims[var.name] = var
        for value in self.graph.params:
            self._symbols(value.type.shape, fresh=False)
            self._define(value)
        for node in self.graph.body:
            self._where = f"graph @{self.graph.name}: {_label(node)}"
            self.node(node)
        self._where = f"graph @{self.graph.name}: return"
        for value in self.graph.results:
            self._use(value)

    def _symbols(self, shape: Sequence[Dim], fresh: bool) -> None:
        """Symbols must be declared; the type of a result may bring fresh ones."""
        for dim in shape:
            for var in sorted(free_vars(dim), key=lambda v: v.name):
                known = self.dims.get(var.name)
                if known is None and fresh:
                    self.dims[var.name] = var
                elif known is None:
                    self.error(f"the dim {var.name} is not declared")
                elif known is not var:
                    ranges = f"{print_bounds(known)} and {print_bounds(var)}"
                    self.error(f"the dim {var.name} has two ranges, {ranges}")

    def _define(self, value: Value) -> None:
        if value.const:
            self.error(f"{value} is a constant and is defined")
        elif value.name in self.values:
            self.error(f"{value} is defined twice")
        self.values.setdefault(value.name, value.type)

    def _use(self, value: Value) -> None:
        if value.const:
            const = self.module.constant(value.name)
            if const is None:
                self.error(f"constant {value} does not exist")
            elif const.type != value.type:
                self.error(f"constant {value} is {_show([const.type])}, used as {_show([value.type])}")
        elif value.name not in self.values:
            self.error(f"{value} is used before it is defined")
        elif self.values[value.name] != value.type:
            known = self.values[value.name]
            note = " with another quantisation" if _plain([known]) == _plain([value.type]) else ""
            self.error(f"{value} is {_show([known])}, used as {_show([value.type])}{note}")

    def node(self, node: Node) -> None:
        match node:
            case Call():
                for value in node.args:
                    self._use(value)
                self._call(node)
            case ReadState():
                self._state(node.state, node.out.type, "read")
            case WriteState():
                self._use(node.value)
                self._symbols(tuple(v.expr for v in sorted(node_symbols(node), key=lambda v: v.name)), fresh=False)
                if node.at is None:
                    self._state(node.state, node.value.type, "written")
                else:
                    self._rows(node, node.at)
            case MatchCast():
                self._use(node.value)
                self._cast(node)
            case BindDim():
                self._use(node.value)
                self._bind(node)
            case _:
                assert_never(node)
        for value in node_outs(node):
            self._symbols(value.type.shape, fresh=True)
            self._define(value)

    def _state(self, name: str, type: TensorType, how: str) -> None:
        state = self.module.states.get(name)
        if state is None:
            self.error(f"state @{name} does not exist")
        elif _plain([state.type]) != _plain([type]):
            self.error(f"state @{name} is {_show([state.type])}, {how} as {_show([type])}")
        else:
            self._symbols(state.type.shape, fresh=False)

    def _rows(self, node: WriteState, at: Dim) -> None:
        """A write of rows: all but their number is as in the state, and they lie in it where it is no ring."""
        state, type = self.module.states.get(node.state), node.value.type
        if state is None or not state.type.rank or type.rank != len(state.rows(0)):
            self._state(node.state, type, "written")
            return
        count = type.shape[state.row_axis]
        if _plain([replace(state.type, shape=state.rows(count))]) != _plain([type]):
            where = f"rows on axis {state.axis} of state @{node.state}"
            self.error(f"{where}, {_show([state.type])}, written as {_show([type])}")
        self._symbols(state.type.shape, fresh=False)
        if state.layout == "plain":
            maximum = interval(state.extent - count - at)[1]  # what is less is checked at run time
            if prove_ge(at, 0) is not True or (maximum is not None and maximum < 0):
                where = f"rows {print_dim(at)}..{print_dim(at + count)}"
                self.error(f"{where} of state @{node.state} of {print_dim(state.extent)} are not inside")
        kernel = self.module.loops.get(node.kernel) if node.kernel else None
        if node.kernel and (kernel is None or [p.mode for p in kernel.params] != ["read", "update"]):
            self.error(f"@{node.kernel} is no loops function that reads a value and updates a state")
        elif kernel is not None:
            values = zip(kernel.params, (type, state.type), strict=True)
            self._unify_kernel(node.kernel, kernel, [(f"%{p.buffer.name}", p.buffer.type, t) for p, t in values])

    def _unify_kernel(self, name: str, kernel: Loops, pairs: list[tuple[str, TensorType, TensorType]]) -> None:
        unify(kernel.dims, pairs, self.dims, lambda text: self.error(f"rows written by @{name}: {text}"))

    def _cast(self, node: MatchCast) -> None:
        have, want = node.value.type, node.out.type
        if have.dtype != want.dtype or have.rank != want.rank:
            self.error(f"match_cast from {_show([have])} to {_show([want])} changes more than dims")
            return
        for axis, (a, b) in enumerate(zip(have.shape, want.shape, strict=True)):
            if _never_equal(a, b):
                self.error(f"match_cast states {print_dim(b)} for axis {axis}, which is {print_dim(a)}")

    def _bind(self, node: BindDim) -> None:
        type = node.value.type
        if type.dtype.kind != "i" or type.dtype.lanes != 1 or type.size != 1:
            self.error(f"a dim is bound to one signed integer, {node.value} is {_show([type])}")
        if node.var.lo < 0:
            self.error(f"the dim {node.var.name} may be negative: {print_bounds(node.var)}")
        if node.var.name in self.dims:
            self.error(f"the dim {node.var.name} has a value already")
        self.dims.setdefault(node.var.name, node.var)

    def _call(self, node: Call) -> None:
        if node.attrs != attrs(**dict(node.attrs)):
            self.error("attributes are not in the order of their names, or one is given twice")
        for var in sorted(attr_symbols(node.attrs), key=lambda v: v.name):
            self._symbols((var.expr,), fresh=False)
        if node.kind != "graph" and (node.replicas or node.edge != "one" or node.iterations != 1):
            self.error("only a call of a graph has replicas, edges and iterations")
        self._symbols(node.replicas, fresh=False)
        match node.kind:
            case "op":
                self._op(node)
            case "loops":
                self._loops(node)
            case "graph":
                self._graph(node)
            case "extern":
                if not node.callee:
                    self.error("a library call names no symbol")
            case _:
                assert_never(node.kind)

    def _op(self, node: Call) -> None:
        if self.ops is None:
            return
        try:
            row = self.ops.get_op(node.callee)
            found = self.ops.infer(node.callee, [v.type for v in node.args], node.attrs)
        except SdkError as error:
            self.error(error.message)
            return
        except TypeError as error:
            self.error(f"attributes of op {node.callee}: {error}")
            return
        known = {name for sample in row.samples for name, _ in sample.attrs}
        for name, _ in node.attrs:
            if name not in known:
                self.error(f"op {node.callee} has no attribute {name}")
        if _plain(found) != _plain([v.type for v in node.outs]):
            written = _show([v.type for v in node.outs])
            self.error(f"written {written} but {node.callee} infers {_show(found)}")
        if self.module.stage in ("scheduled", "planned") and not row.view:
            self.error(f"op {node.callee} is not lowered, and the stage is {self.module.stage}")

    def _loops(self, node: Call) -> None:
        callee = self.module.loops.get(node.callee)
        if callee is None:
            self.error(f"loops function @{node.callee} does not exist")
            return
        gathered = accumulators(callee)  # what it held before does not matter: a call takes its rows from the first on
        writes = [p for p in callee.params if p.mode == "write" or p.buffer.name in gathered]
        reads = [p for p in callee.params if p not in writes]
        if (len(reads), len(writes)) != (len(node.args), len(node.outs)):
            self.error(
                f"@{node.callee} reads {len(reads)} and writes {len(writes)} buffers, "
                f"the call gives {len(node.args)} and takes {len(node.outs)}"
            )
            return
        values = [*node.args, *node.outs]
        pairs = [(f"%{p.buffer.name}", p.buffer.type, v.type) for p, v in zip([*reads, *writes], values, strict=True)]
        self._unify(node, callee.dims, pairs)
        for p, value in zip(reads, node.args, strict=True):
            const = self.module.constant(value.name) if value.const else None
            stored = ROW_MAJOR if const is None else const.layout
            if stored != p.layout:
                self.error(f"@{node.callee} reads %{p.buffer.name} stored as {p.layout}, {value} is {stored}")

    def _graph(self, node: Call) -> None:
        callee = self.module.graphs.get(node.callee)
        if callee is None:
            self.error(f"graph @{node.callee} does not exist")
            return
        want = (len(callee.params), len(callee.results))
        if want != (len(node.args), len(node.outs)):
            self.error(
                f"graph @{node.callee} takes {want[0]} and gives {want[1]} values, "
                f"the call gives {len(node.args)} and takes {len(node.outs)}"
            )
            return
        if node.replicas:
            return
        values = [*node.args, *node.outs]
        formal = [*callee.params, *callee.results]
        pairs = [(str(p), p.type, v.type) for p, v in zip(formal, values, strict=True)]
        if node.iterations != 1 and [p.type for p in callee.params[:1]] != [r.type for r in callee.results]:
            self.error(f"of repeated calls, the one result of @{node.callee} is its first argument")
        brought = [v for v in fresh_dims(callee) if any(d is v.expr for r in callee.results for d in r.type.shape)]
        found = self._unify(node, (*callee.dims, *brought), pairs)
        for var in brought:
            if var in found and not {v.name for v in free_vars(found[var])} - self.dims.keys():
                self.error(f"{var.name} is computed by @{callee.name}, and {print_dim(found[var])} is known before")

    def _unify(
        self, node: Call, dims: Sequence[Var], pairs: list[tuple[str, TensorType, TensorType]]
    ) -> dict[Var, Dim]:
        return unify(dims, pairs, self.dims, lambda text: self.error(f"call of @{node.callee}: {text}"))


def _label(node: Node) -> str:
    match node:
        case Call():
            return f"{', '.join(map(str, node.outs))} = {node.callee}"
        case ReadState():
            return f"{node.out} = read @{node.state}"
        case WriteState():
            return f"write @{node.state}"
        case MatchCast():
            return f"{node.out} = match_cast"
        case BindDim():
            return f"bind {node.var.name}"


def _never_equal(a: Dim, b: Dim) -> bool:
    """Whether no values of their symbols make the two equal, by intervals."""
    lo, hi = interval(a - b)
    return (lo is not None and lo > 0) or (hi is not None and hi < 0)
