"""Modules as ONNX models: what is not read from an ONNX file is written as one, so that one quantiser serves all.

Images are channels-last in a module and channels-first in ONNX. Every value may be had in both forms: a transposition
is written where one is wanted that is not there, so images stay channels-first from one convolution to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sdk.compiler.ir.graph import Call, Graph, Value, fresh_name
from sdk.compiler.ir.module import Module
from sdk.compiler.sym import Dim, free_vars
from sdk.errors import BuildError, UsageError
from sdk.frontends.onnx.reader import element_code
from sdk.quantizer.export_ops import WRITERS
from sdk.quantizer.net import Array

__all__ = ["exported"]

OPSET: Final = 21
_IR_VERSION: Final = 10
_INTEGERS: Final = frozenset(
    {"add_q", "dense", "dequantize", "mul_q", "quantize", "requantize", "rescale", "softmax_q", "sub_q"}
)
_SHOWN: Final = 10


def exported(module: Module) -> onnx.ModelProto:
    """The only entry of an imported module of floats as an ONNX model.

    Raises:
        UsageError: it is quantised already.
        BuildError: it has states, several entries, or ops that cannot be written; all of these are named.
    """
    entries = [g for g in module.graphs.values() if g.entry]
    if module.states or len(entries) != 1:
        what = "keeps state from run to run" if module.states else f"has {len(entries)} entries"
        raise BuildError(f"a model that {what} cannot be quantised", hint="give a model of one step without state")
    graph = entries[0]
    calls = [node for node in graph.body if isinstance(node, Call)]
    integer = next((node for node in calls if node.callee in _INTEGERS), None)
    if integer is not None:
        raise UsageError(
            "the model is quantised already", where=integer.source, hint="give the float model it was made of"
        )
    if len(calls) != len(graph.body):
        raise BuildError("sizes that a run computes cannot be written as ONNX", hint="give fixed sizes with --dim")
    return _Exporter(module, graph).run(calls)


@dataclass
class _Exporter:
    """``forms``: what each value is called, as it is (False) and channels-first (True)."""

    module: Module
    graph: Graph
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)
    forms: dict[tuple[str, bool], str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    count: int = 0

    def run(self, calls: Sequence[Call]) -> onnx.ModelProto:
        """The model."""
        self.names = {v.name for v in (*self.graph.params, *self.graph.results)} | {
            out.name for call in calls for out in call.outs
        }
        for param in self.graph.params:
            self.forms[param.name, False] = param.name
        missing: dict[str, str] = {}
        for call in calls:
            writer = WRITERS.get(call.callee) if call.kind == "op" else None
            if writer is None:
                missing.setdefault(call.callee, call.source)
            elif not missing:
                self.count = len(self.nodes)
                writer(self, call)
                self.title(call)
        if missing:
            raise _unwritten(missing)
        results = [self.result(value) for value in self.graph.results]
        params = [self.value_info(p) for p in self.graph.params]
        graph = helper.make_graph(self.nodes, self.module.name, params, results, self.tensors)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="crosslevel")

    def result(self, value: Value) -> onnx.ValueInfoProto:
        """A result of the graph as an output: under its own name."""
        name = self.get(value)
        if name != value.name:
            self.emit("Identity", [name], value.name)
        return self.value_info(value)

    def title(self, call: Call) -> None:
        """Names the nodes that a call became after its result: what layers are called in reports."""
        made = self.nodes[self.count :]
        for k, node in enumerate(made):
            node.name = call.outs[0].name if k == len(made) - 1 else f"{call.outs[0].name}_{k}"

    def value_info(self, value: Value) -> onnx.ValueInfoProto:
        """A value as an input or output of the model."""
        shape = [d if isinstance(d, int) else self.dim_name(d, value) for d in value.type.shape]
        return helper.make_tensor_value_info(value.name, element_code(value.type.dtype), shape)

    def dim_name(self, dim: Dim, value: Value) -> str:
        """What an open size is called."""
        found = [v for v in free_vars(dim) if v.expr is dim]
        if not found:
            raise BuildError(f"the size {dim} of {value.name} cannot be written as ONNX", hint="fix it with --dim")
        return found[0].name

    # -- what writers of ops use --------------------------------------------------------------------------------------

    def get(self, value: Value, first: bool = False) -> str:
        """What a value is called in a form, which is made where there is none."""
        key = (value.name, first)
        if key in self.forms:
            return self.forms[key]
        if value.const:
            data = np.asarray(self.module.consts[value.name].data)
            self.forms[key] = self.const(value.name, np.moveaxis(data, -1, 1) if first else data)
        else:
            rank, other = value.type.rank, self.forms[value.name, not first]
            perm = [0, rank - 1, *range(1, rank - 1)] if first else [0, *range(2, rank), 1]
            name = self.fresh(f"{value.name}_first") if first else value.name
            self.nodes.append(helper.make_node("Transpose", [other], [name], f"{name}_transpose", perm=perm))
            self.forms[key] = name
        return self.forms[key]

    def has_first(self, value: Value) -> bool:
        """Whether a value is there channels-first, and would have to be transposed to be had as it is."""
        return (value.name, True) in self.forms and (value.name, False) not in self.forms

    def alias(self, value: Value, name: str, first: bool) -> None:
        """A value has a form that is there already under another name."""
        self.forms[value.name, first] = name

    def put(self, call: Call, op: str, inputs: Sequence[str], first: bool = False, **given: Any) -> None:
        """The result of a call is that of a node."""
        value = call.out
        name = self.fresh(f"{value.name}_first") if first else value.name
        self.forms[value.name, first] = self.emit(op, inputs, name, **given)

    def emit(self, op: str, inputs: Sequence[str], name: str = "", **given: Any) -> str:
        """A node; what its result is called."""
        out = name or self.fresh("t")
        self.nodes.append(helper.make_node(op, list(inputs), [out], out, **given))
        return out

    def const(self, stem: str, data: Any) -> str:
        """A constant; its name."""
        name = self.fresh(stem)
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(data).reshape(np.shape(data)), name))
        return name

    def fresh(self, stem: str) -> str:
        """A name that nothing has."""
        return fresh_name(stem, self.names)

    def data(self, value: Value) -> Array | None:
        """The contents of a constant."""
        return np.asarray(self.module.consts[value.name].data) if value.const else None

    def sizes(self, shape: Sequence[Dim], what: str) -> list[int]:
        """A shape as Reshape takes it: one open size may be left to it.

        Raises:
            BuildError: several are open.
        """
        open_ = [k for k, d in enumerate(shape) if not isinstance(d, int)]
        if len(open_) > 1:
            raise BuildError(f"{what} has several open sizes", hint="fix all but one with --dim")
        return [d if isinstance(d, int) else -1 for d in shape]

    def number(self, value: Any, what: str) -> int:
        """A size that must be known.

        Raises:
            BuildError: it is open.
        """
        if not isinstance(value, int):
            raise BuildError(f"{what} depends on an open size", hint="fix it with --dim")
        return value


def _unwritten(missing: dict[str, str]) -> BuildError:
    lines = [f"{op} ({source})" for op, source in list(missing.items())[:_SHOWN]]
    return BuildError(
        f"{len(missing)} kinds of operations cannot be written as ONNX", where="\n    ".join(lines),
        hint="export the model as ONNX, and quantise that",
    )  # fmt: skip
