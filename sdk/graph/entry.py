"""A function of a model under construction: any op of the registry is a method, with inferred types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from types import TracebackType
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import (
    BindDim,
    Call,
    Graph,
    MatchCast,
    Node,
    ReadState,
    Value,
    WriteState,
    attrs,
    fresh_name,
    map_args,
    node_outs,
    node_symbols,
)
from sdk.compiler.ir.module import State
from sdk.compiler.ir.types import F32, DType, TensorType
from sdk.compiler.ops.registry import OPS, get_op, infer
from sdk.compiler.sym import Dim, Expr, Var, free_vars
from sdk.errors import BuildError
from sdk.graph.attributes import attribute, check_attributes
from sdk.graph.shared import Shared, StateRef
from sdk.graph.tensor import Operand, Scalar, Tensor, show

__all__ = ["Entry"]


class Entry:
    """A function of tensors under construction. Each op of the registry is a method: ``e.softmax(x)``,
    ``e.matmul(a, b, trans_b=True)``, ``e.not_(x)`` where Python keeps the name for itself."""

    def __init__(self, name: str, builder: Shared, iterations: int = 1) -> None:
        self.name, self.builder, self._iterations = name, builder, iterations
        self._params: list[Value] = []
        self._body: list[Node] = []
        self._outputs: dict[str, Value] = {}
        self._names: set[str] = set()
        self._called: set[Var] = set()  # dims of the parts

    def __enter__(self) -> Entry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = name.removesuffix("_")
        if name.startswith("_") or op not in OPS:
            near = get_close_matches(op, OPS, 1)
            raise AttributeError(f"no op {op}" + (f"; did you mean {near[0]}?" if near else ""))
        return lambda *args, **given: self.op(op, *args, **given)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *OPS]

    def input(self, name: str, dtype: DType, shape: Iterable[Dim]) -> Tensor:
        """A parameter of the entry.

        Raises:
            BuildError: the name is taken.
        """
        if not name or name in self._names:
            raise BuildError(f"{name!r} is a value already", where=f"entry {self.name}")
        self._names.add(name)
        self._params.append(Value(name, TensorType(dtype, tuple(shape))))
        return Tensor(self._params[-1], self)

    def output(self, name: str, value: Tensor) -> None:
        """Makes ``value`` a result of the entry, called ``name``.

        Raises:
            BuildError: the name is taken by an input or another output, or the value is of another entry.
        """
        if not name or name in self._outputs or name in {p.name for p in self._params}:
            raise BuildError(f"{name!r} is an input or output already", where=f"entry {self.name}")
        made = self._mine(value)
        if made.const or made in self._params or made in self._outputs.values():
            made = self.call("reshape", value, shape=value.shape).value  # a result has a name of its own
        self._outputs[name] = made

    def op(self, callee: str, *args: Operand, name: str = "", **given: Any) -> Any:
        """Calls an op: its result, or the tuple of its results.

        Args:
            callee: name of the op; docs/graph.md says where they are described.
            args: tensors; a number or dim becomes a scalar of the element type of the last tensor.
            name: of the result, for the reader of programs and errors.
            given: the op's attributes.

        Raises:
            BuildError: no such op, or it does not take these arguments; ``where`` names entry and call.
        """
        found = self._call(callee, args, name, given)
        return found[0] if len(found) == 1 else found

    def call(self, callee: str, *args: Operand, name: str = "", **given: Any) -> Tensor:
        """``op``, for an op with one result."""
        (found,) = self._call(callee, args, name, given)
        return found

    def _call(
        self, callee: str, args: tuple[Operand, ...], name: str, given: dict[str, Any]
    ) -> tuple[Tensor, ...]:
        like = next((a.dtype for a in reversed(args) if isinstance(a, Tensor)), F32)
        values = tuple(self._mine(a if isinstance(a, Tensor) else self.scalar(a, like)) for a in args)
        where = f"entry {self.name}: {callee}({', '.join(show(v.type) for v in values)})"
        try:
            set_to = attrs(**{key: attribute(value) for key, value in given.items()})
            row = get_op(callee)
            check_attributes(row, given)
            types = infer(callee, [v.type for v in values], set_to)
        except TypeError as error:  # an attribute of another type
            raise BuildError(f"attributes of op {callee}: {error}", where=where) from None
        except BuildError as error:
            error.where = error.where or where
            raise
        stem = name or callee
        outs = tuple(Value(fresh_name(stem, self._names), t) for t in types)
        self._body.append(Call(outs, "op", callee, values, set_to, source=callee))
        return tuple(Tensor(o, self) for o in outs)

    def repeat(self, part: Entry, value: Tensor, *others: Tensor) -> Tensor:
        """``value`` after all iterations of a part, of which each begins with what the one before gave; ``others`` are
        its further inputs, the same in each.

        Raises:
            BuildError: the part is of another module or runs once, or these are not its inputs.
        """
        given = tuple(map(self._mine, (value, *others)))
        graph = part.graph()
        where = f"entry {self.name}: iterations of {part.name}"
        if part.builder is not self.builder or part._iterations == 1:
            raise BuildError(f"{part.name} is no part of this module", where=where)
        if [p.type for p in graph.params] != [v.type for v in given]:
            have, want = (", ".join(show(v.type) for v in values) for values in (given, graph.params))
            raise BuildError(f"its inputs are {want}, given are {have}", where=where)
        if [r.type for r in graph.results] != [value.value.type]:
            raise BuildError("a part has one output, of the type of its first input", where=where)
        out = Value(fresh_name(part.name, self._names), value.value.type)
        self._body.append(Call((out,), "graph", part.name, given, source=part.name, iterations=part._iterations))
        self._called |= set(graph.dims)
        return Tensor(out, self)

    def scalar(self, value: Scalar, dtype: DType) -> Tensor:
        """A tensor of rank 0: a constant, or a dim as it is at run time.

        Raises:
            BuildError: ``value`` is no number of that type.
        """
        if isinstance(value, Expr):
            return self.call("full", shape=(), value=value, dtype=dtype)
        if not isinstance(value, (int, float, np.generic)):
            raise BuildError(f"a {type(value).__name__} is no number", where=f"entry {self.name}")
        data = np.asarray(value, dtype=dtype.numpy)
        if not dtype.is_float and data != value:
            raise BuildError(f"{value} is no {dtype}", where=f"entry {self.name}")
        consts = self.builder.consts
        same = (c for c in consts.values() if c.type == TensorType(dtype, ()) and c.data.tobytes() == data.tobytes())
        found = next(same, None)
        if found is None:
            taken = {*consts, *self.builder.stacks, *self.builder.states}
            return self.builder.const(fresh_name("scalar", taken), data)
        return Tensor(Value(found.name, found.type, const=True), None)

    def read(self, state: StateRef) -> Tensor:
        """The contents of a state as they are here, after the writes above."""
        out = Value(fresh_name(f"{state.state.name}_now", self._names), self._own(state).type)
        self._body.append(ReadState(out, state.state.name, source=f"read {state.state.name}"))
        return Tensor(out, self)

    def write(self, state: StateRef, value: Tensor, at: Dim | None = None) -> None:
        """Replaces a state from here on; with ``at`` only the rows from there on, modulo how many there are places for
        in a state of layout "ring" or "blocked".

        Raises:
            BuildError: the value does not fit the state.
        """
        new, type_ = self._mine(value), self._own(state).type
        have, want = new.type.shape, type_.shape
        if at is not None and want and len(have) == len(state.state.rows(0)):
            want = state.state.rows(have[state.state.row_axis])
        if new.type.dtype != type_.dtype or have != want:
            raise BuildError(
                f"{show(new.type)} does not fit the state {state.state.name}: {show(type_)}",
                where=f"entry {self.name}",
            )
        self._body.append(WriteState(state.state.name, new, source=f"write {state.state.name}", at=at))

    def match_cast(self, value: Tensor, shape: Iterable[Dim]) -> Tensor:
        """``value`` with a shape that the model states: proved, or checked when it runs. Dims that no input has get
        their values here."""
        made = self._mine(value)
        out = Value(fresh_name(made.name, self._names), replace(made.type, shape=tuple(shape)))
        self._body.append(MatchCast(out, made, source=f"match_cast {out.name}"))
        return Tensor(out, self)

    def bind(self, dim: Expr, value: Tensor) -> None:
        """From here on ``dim`` is the one integer that ``value`` holds when it runs; its bounds are checked.

        Raises:
            BuildError: ``dim`` is not a single dim.
        """
        variables = free_vars(dim)
        if len(variables) != 1 or next(iter(variables)).expr is not dim:
            raise BuildError(f"{dim} is not a dim", where=f"entry {self.name}")
        self._body.append(BindDim(next(iter(variables)), self._mine(value), source=f"bind {dim}"))

    def graph(self) -> Graph:
        """The function as it is now, its results under the names of the outputs.

        Raises:
            BuildError: it has no output, or an input or output has the name of a constant or state.
        """
        if not self._outputs:
            raise BuildError("no output", where=f"entry {self.name}", hint="e.output(NAME, value)")
        ports = {p.name for p in self._params} | self._outputs.keys()
        named = self.builder.consts.keys() | self.builder.stacks.keys() | self.builder.states.keys()
        if shared := sorted(ports & named):
            raise BuildError(f"{shared[0]!r} is a constant or state too", where=f"entry {self.name}")
        names = {value.name: name for name, value in self._outputs.items()}
        taken = {*names.values(), *(n for n in self._names if n not in names)}
        clash = [n for n in self._names - names.keys() if n in set(names.values())]
        names |= {name: fresh_name(f"{name}_2", taken) for name in sorted(clash)}
        body = tuple(_renamed(self._body, names))
        results = tuple(replace(v, name=name) for name, v in self._outputs.items())
        return Graph(self.name, self._dims(body), tuple(self._params), body, results, entry=self._iterations == 1)

    def _dims(self, body: tuple[Node, ...]) -> tuple[Var, ...]:
        """The dims that a caller gives, in the order of the module: all but those that the body finds."""
        given = {v for p in self._params for d in p.type.shape for v in free_vars(d)} | self._called
        found: set[Var] = set()
        for node in body:
            brought = {v for o in node_outs(node) for d in o.type.shape for v in free_vars(d)}
            if isinstance(node, BindDim):
                found.add(node.var)
            elif isinstance(node, MatchCast):
                found |= brought - given
            else:
                stored = self.builder.states[node.state].type.shape if isinstance(node, WriteState) else ()
                given |= (brought | node_symbols(node) | {v for d in stored for v in free_vars(d)}) - found
        return tuple(v for v in self.builder.dims.values() if v in given)

    def _mine(self, value: Tensor) -> Value:
        if value.entry is not None and value.entry is not self:
            raise BuildError(f"{value} is of entry {value.entry.name}", where=f"entry {self.name}")
        if value.value.const and value.value.name not in {**self.builder.consts, **self.builder.stacks}:
            raise BuildError(f"{value} is of another module", where=f"entry {self.name}")
        return value.value

    def _own(self, state: StateRef) -> State:
        if state.module is not self.builder:
            raise BuildError(f"state {state.state.name} is of another module", where=f"entry {self.name}")
        return state.state


def _renamed(body: Iterable[Node], names: dict[str, str]) -> Iterator[Node]:
    """The nodes with values under new names."""
    env: dict[str, Value] = {}
    for node in body:
        new = map_args(node, env)
        outs = tuple(replace(o, name=names.get(o.name, o.name)) for o in node_outs(new))
        env |= {old.name: out for old, out in zip(node_outs(node), outs, strict=True)}
        match new:
            case Call(kind="graph"):
                yield replace(new, outs=outs)
            case Call():
                yield replace(new, outs=outs, source=" ".join(dict.fromkeys((new.callee, outs[0].name))))
            case ReadState() | MatchCast():
                yield replace(new, out=outs[0])
            case WriteState() | BindDim():
                yield new
