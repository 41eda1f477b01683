"""Constant folding: a call of an op on constants becomes the constant it computes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from sdk.budget import FOLDED, Budget
from sdk.compiler.ir.graph import Call, Node, attr_symbols
from sdk.compiler.ir.module import Module
from sdk.compiler.ops.registry import get_op
from sdk.compiler.passes.edit import GraphEdit, edit_graphs

__all__ = ["Fold"]


@dataclass(frozen=True)
class Fold:
    """Evaluates ops by their reference. Results of a graph stay computed, and so does what is larger than its
    arguments by more than ``max_growth`` bytes: it would take flash that the call does not. So does what would exceed
    the memory that a build may take for constants: each of a chain may double the one before."""

    max_growth: int = 4096
    name = "fold"

    def run(self, module: Module) -> Module:
        """The module with every call on constants evaluated."""
        return edit_graphs(module, partial(self._rule, Budget()))

    def _rule(self, budget: Budget, edit: GraphEdit, node: Node) -> bool:
        if not isinstance(node, Call) or node.kind != "op" or not node.args or attr_symbols(node.attrs):
            return False
        given = [edit.data(v) for v in node.args]
        arrays = [a for a in given if a is not None]
        small = all(self._fits(v.type.max_bytes, arrays) for v in node.outs)
        if len(arrays) != len(given) or not small or any(v.name in edit.results for v in node.outs):
            return False
        if not budget.affords(FOLDED, sum(v.type.max_bytes for v in node.outs)):
            return False
        found = get_op(node.callee).reference(*arrays, **dict(node.attrs))
        for value, data in zip(node.outs, found if isinstance(found, tuple) else (found,), strict=True):
            edit.replace(value, edit.const(value.name, np.asarray(data), value.type.quant, value.type))
        return True

    def _fits(self, size: int, arrays: list[np.ndarray]) -> bool:
        return size <= sum(a.nbytes for a in arrays) + self.max_growth
