"""Transpositions move along the graph until they meet their inverse, so that images stay channels-last throughout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np

from sdk.compiler.ir.graph import Attrs, Call, Graph, Node, Value, attrs, fresh_name, map_args, node_args, node_outs
from sdk.compiler.ir.layout import Layout, Permute
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops.registry import OpDef, get_op, infer
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.passes.axes import moves_units_only, renumbered, reshape_through
from sdk.compiler.passes.edit import shared_const
from sdk.compiler.sym import max_value
from sdk.errors import BuildError

__all__ = ["SinkTransposes", "transposed_bytes"]


@dataclass(frozen=True)
class SinkTransposes:
    """Sinks transpositions through what treats axes alike, and cancels inverse pairs.

    Each value is held as a transposition of another one until something needs it as it was. A graph is only changed
    where fewer bytes are transposed then.
    """

    name = "layout"

    def run(self, module: Module) -> Module:
        """The module with fewer bytes to transpose; itself where there is nothing to win."""
        for graph in module.graphs.values():
            before = transposed_bytes(graph)
            if before:
                sweep = _Sweep(module, graph)
                after = sweep.run()
                if sweep.cost < before:
                    module = module.with_graph(after).with_consts(*sweep.consts.values())
        return module


def transposed_bytes(graph: Graph) -> int:
    """The bytes that the transpositions of a graph move, open sizes at their largest."""
    return sum(_cost(n.args[0].type, _perm(n)) for n in graph.body if _is_transpose(n))


def _is_transpose(node: Node) -> TypeGuard[Call]:
    return isinstance(node, Call) and node.kind == "op" and node.callee == "transpose" and not node.args[0].const


def _perm(node: Call) -> Permute:
    perm: Any = node.attr("perm")
    return Permute(tuple(perm))


def _cost(source: TensorType, perm: Permute) -> int:
    """Bytes that a transposition moves; 0 for one that only moves axes of extent 1."""
    return 0 if moves_units_only(source.shape, perm) else max_value(source.nbytes) or 1


@dataclass(frozen=True)
class _Held:
    """A value of the old graph: ``perm`` applied to ``base``, a value of the new one."""

    base: Value
    perm: Permute


@dataclass
class _Sweep:
    module: Module
    graph: Graph
    cost: int = 0
    consts: dict[str, Const] = field(default_factory=dict)
    _held: dict[str, _Held] = field(default_factory=dict)
    _body: list[Node] = field(default_factory=list)
    _made: dict[tuple[str, Permute], Value] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _source: str = ""
    _place: str = ""

    def run(self) -> Graph:
        """The graph with transpositions where they could not be avoided; ``cost`` is the bytes they move."""
        self._names = {v.name for v in self.graph.values()}
        for node in self.graph.body:
            self._source, self._place = (node.source, node.place) if isinstance(node, Call) else ("", "")
            if not self._node(node):
                env = {v.name: self.plain(v) for v in node_args(node) if not v.const}
                self._body.append(map_args(node, env))
        defined = {v.name for n in self._body for v in node_outs(n)} | {v.name for v in self.graph.params}
        for value in dict.fromkeys(self.graph.results):
            if not value.const and value.name not in defined:
                held = self._held[value.name]
                self._arrange(held.base, held.perm, value)
        return replace(self.graph, body=tuple(self._body))

    # --- values in a layout ----------------------------------------------------------------------------------------

    def held(self, value: Value) -> _Held:
        """How the value is held."""
        found = None if value.const else self._held.get(value.name)
        return found or _Held(value, Permute.identity(value.type.rank))

    def plain(self, value: Value) -> Value:
        """The value as it was."""
        return self.as_base(value, Permute.identity(value.type.rank))

    def as_base(self, value: Value, perm: Permute) -> Value:
        """What gives ``value`` when ``perm`` is applied to it."""
        held = self.held(value)
        step = held.perm.then(perm.inverse())
        if step.is_identity:
            return held.base
        key = (held.base.name, step)
        if held.base.const or key not in self._made:
            out = self._arranged(held.base, step)
            if held.base.const:
                return out
            self._made[key] = out
        return self._made[key]

    def bytes_moved(self, value: Value, perm: Permute) -> int:
        """The bytes that ``as_base`` would move."""
        held = self.held(value)
        step = held.perm.then(perm.inverse())
        free = held.base.const or step.is_identity or (held.base.name, step) in self._made
        return 0 if free else _cost(held.base.type, step)

    def _arranged(self, base: Value, perm: Permute) -> Value:
        if base.const:
            const = self.consts.get(base.name) or self.module.consts[base.name]
            if not const.layout.steps:
                return self.const(f"{base.name}_moved", pack_array(const.data, Layout((perm,))), base.type)
        type_ = replace(base.type, shape=perm.shape(base.type.shape))
        return self._arrange(base, perm, Value(self._fresh(f"{base.name}_moved"), type_))

    def _arrange(self, base: Value, perm: Permute, out: Value) -> Value:
        if moves_units_only(base.type.shape, perm):
            given = attrs(shape=out.type.shape)
            self._body.append(Call((out,), "op", "reshape", (base,), given, self._source, self._place))
        else:
            self.cost += _cost(base.type, perm)
            given = attrs(perm=perm.order)
            self._body.append(Call((out,), "op", "transpose", (base,), given, self._source, self._place))
        return out

    def const(self, stem: str, data: np.ndarray, like: TensorType) -> Value:
        """A constant of the element type of ``like``."""
        return shared_const(self.module, self.consts, stem, data, TensorType(like.dtype, data.shape, like.quant))

    def _fresh(self, stem: str) -> str:
        return fresh_name(stem, self._names)

    # --- nodes -----------------------------------------------------------------------------------------------------

    def _node(self, node: Node) -> bool:
        """Whether the node was put into another layout, or held back."""
        if not isinstance(node, Call) or node.kind != "op" or len(node.outs) != 1:
            return False
        if node.callee == "transpose":
            held = self.held(node.args[0])
            self._held[node.out.name] = _Held(held.base, held.perm.then(_perm(node)))
            return True
        if all(v.const or self.held(v).perm.is_identity for v in node.args):
            return self._rebased(node)
        if node.callee == "reshape":
            return self._reshape(node)
        op = get_op(node.callee)
        if isinstance(op.kind, Elementwise):
            return self._moved(node, op)
        return self._moved(node, op) if op.axes and node.args[0].type.rank == node.out.type.rank else False

    def _rebased(self, node: Call) -> bool:
        """Nothing is transposed here: the node stays, on the values that stand for its arguments."""
        args = tuple(v if v.const else self.held(v).base for v in node.args)
        self._body.append(replace(node, args=args))
        return True

    def _reshape(self, node: Call) -> bool:
        held = self.held(node.args[0])
        found = reshape_through(held.base.type.shape, held.perm, node.out.type.shape)
        if found is None:
            return False
        shape, perm = found
        self._put(node, (held.base,), attrs(shape=shape), shape, perm)
        return True

    def _moved(self, node: Call, op: OpDef) -> bool:
        """Applies the node to its arguments in the layout that costs least."""
        rank, aligned = node.out.type.rank, len(op.sources(node.args))
        full = [v for v in node.args[:aligned] if v.type.rank == rank and not v.const]
        held = (self.held(v).perm for v in full)
        choices = dict.fromkeys([*(p for p in held if not p.is_identity), Permute.identity(rank)])
        perm = min(choices, key=lambda q: sum(self.bytes_moved(v, q) for v in full))
        if perm.is_identity:
            return False
        args = tuple(self._operand(v, perm) for v in node.args[:aligned])
        rest = tuple(v if v.const else self.plain(v) for v in node.args[aligned:])
        given = tuple((k, renumbered(op.axes.get(k), value, perm)) for k, value in node.attrs)
        shape = perm.inverse().shape(node.out.type.shape)
        (found,) = infer(node.callee, [v.type for v in (*args, *rest)], given)
        if found.shape != shape:
            raise BuildError(f"op {node.callee} in another layout gives {found.shape} instead of {shape}")
        self._put(node, (*args, *rest), given, shape, perm)
        return True

    def _operand(self, value: Value, perm: Permute) -> Value:
        """An operand that broadcasts to a value held by ``perm``: of its rank, in its layout."""
        rank = len(perm.order)
        if value.type.rank == 0 or value.type.rank == rank:
            return self.as_base(value, perm) if value.type.rank else value
        shape = ((1,) * (rank - value.type.rank)) + value.type.shape
        if value.const:
            const = self.consts.get(value.name) or self.module.consts[value.name]
            data = np.asarray(const.data).reshape([d for d in shape if isinstance(d, int)])
            return self.const(f"{value.name}_moved", pack_array(data, Layout((perm.inverse(),))), value.type)
        wide = Value(self._fresh(f"{value.name}_wide"), replace(value.type, shape=shape))
        given = attrs(shape=shape)
        self._body.append(Call((wide,), "op", "reshape", (self.plain(value),), given, self._source, self._place))
        return self.as_base(wide, perm)

    def _put(
        self, node: Call, args: tuple[Value, ...], given: Attrs, shape: Sequence[Any], perm: Permute
    ) -> None:
        out = node.out
        if not perm.is_identity:
            out = Value(self._fresh(f"{out.name}_base"), replace(out.type, shape=tuple(shape)))
            self._held[node.out.name] = _Held(out, perm)
        self._body.append(replace(node, outs=(out,), args=args, attrs=given))
