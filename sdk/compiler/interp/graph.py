"""The numpy interpreter of the graph level: ops by their reference, loops functions by running them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.graph import BindDim, Call, Graph, MatchCast, Node, ReadState, Value, WriteState, attr_values
from sdk.compiler.ir.module import Module, init_dims
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops import get_op
from sdk.compiler.sym import Var, evaluate
from sdk.compiler.sym.bind import bind_entry, bind_shapes, check_bounds, solve
from sdk.errors import BuildError, UsageError

__all__ = ["bind_dims", "check_inputs", "init_values", "initial_states", "run_graph"]

Array = NDArray[Any]
Observer = Callable[[Call, Sequence[Array]], None]  # told of each call of an op, before it runs, with its arguments


def initial_states(module: Module, dims: Mapping[str, int] | None = None) -> dict[str, Array]:
    """Every state of the module as it is before the first run. Its dims have the values of ``dims``, those that are not
    there their upper bounds. One with iterations has an axis of these before its own.

    Raises:
        UsageError: a value is outside the bounds of its dim.
    """
    env = init_values(module, dims)
    out: dict[str, Array] = {}
    for state in module.states.values():
        iterations = (state.iterations,) if state.iterations != 1 else ()
        if isinstance(state.init, str):
            data = module.consts[state.init].data
            out[state.name] = np.array(np.broadcast_to(data, (*iterations, *data.shape)))
            continue
        shape = (*iterations, *(evaluate(d, env) for d in state.type.shape))
        out[state.name] = np.full(shape, state.init or 0, dtype=state.type.dtype.numpy)
    return out


def init_values(module: Module, dims: Mapping[str, int] | None = None) -> dict[Var, int]:
    """The dims bound at init, by ``dims`` or else at their upper bounds.

    Raises:
        UsageError: a value is outside the bounds of its dim.
    """
    env: dict[Var, int] = {}
    for var in init_dims(module.states):
        env[var] = (dims or {}).get(var.name, var.maximum)
        check_bounds("dims", var, env[var])
    return env


def _held_dims(module: Module, states: Mapping[str, Array]) -> dict[Var, int]:
    """The dims bound at init, as the states tell them."""
    held = [
        (s.name, s.type.shape, states[s.name].shape[s.iterations != 1 :])
        for s in module.states.values()
        if s.name in states
    ]
    return bind_shapes(held)


def bind_dims(
    params: tuple[Value, ...], shapes: Mapping[str, tuple[int, ...]], given: Mapping[Var, int] | None = None
) -> dict[Var, int]:
    """Values of the symbols in the types of ``params``, matched with actual shapes; ``given`` are known already.

    Raises:
        UsageError: an extent contradicts a type, another extent, or the bounds of its symbol; the message
            names the argument, the axis, the value and the bound.
    """
    return bind_shapes([(p.name, p.type.shape, shapes[p.name]) for p in params], given)


def _text(type: TensorType) -> str:
    return f"{type.dtype}[{', '.join(str(d) for d in type.shape)}]"


def check_inputs(
    graph: Graph,
    inputs: Mapping[str, Array],
    dims: Mapping[str, int] | None = None,
    held: Mapping[Var, int] | None = None,
) -> dict[Var, int]:
    """Checks names, element types and shapes of the arguments of an entry; the values of its dims. ``dims`` gives
    those that stand alone in no shape, ``held`` those bound at init.

    Raises:
        UsageError: an argument is missing, unknown, or of another type or shape.
    """
    wanted = {p.name for p in graph.params}
    if set(inputs) != wanted:
        missing, extra = sorted(wanted - set(inputs)), sorted(set(inputs) - wanted)
        said = [f"{what} {', '.join(names)}" for what, names in (("missing", missing), ("unknown", extra)) if names]
        raise UsageError(
            f"the inputs of {graph.name} do not match: {'; '.join(said)}",
            hint=f"inputs: {', '.join(sorted(wanted))}",
        )
    for param in graph.params:
        if inputs[param.name].dtype != param.type.dtype.numpy:
            raise UsageError(f"{param.name} has type {inputs[param.name].dtype}, the model wants {_text(param.type)}")
    tensors = [(p.name, p.type.shape, inputs[p.name].shape) for p in graph.params]
    return bind_entry(graph.name, graph.dims, tensors, dims or {}, held or {})


@dataclass
class _Machine:
    module: Module
    env: dict[Var, int]
    values: dict[str, Array]
    states: MutableMapping[str, Array]
    observe: Observer | None = None
    iteration: int = 0

    def value(self, value: Value) -> Array:
        if value.const:
            stack = self.module.stacks.get(value.name)
            return np.asarray(self.module.consts[value.name].data if stack is None else stack.arrays[self.iteration])
        return self.values[value.name]

    def define(self, value: Value, array: Array) -> None:
        """Stores a result after checking it against its type; symbols of the type that are new are bound."""
        if array.dtype != value.type.dtype.numpy or array.ndim != value.type.rank:
            raise BuildError(f"{value} is {array.dtype}{array.shape}, its type says {_text(value.type)}")
        for axis, (dim, size) in enumerate(zip(value.type.shape, array.shape, strict=True)):
            found = solve(dim, size, self.env)
            if found is not None:
                check_bounds(f"{value.name} axis {axis}", *found)
                self.env[found[0]] = found[1]
            if evaluate(dim, self.env) != size:
                raise BuildError(f"{value} has {size} elements on axis {axis}, its type says {dim}")
        self.values[value.name] = array

    def node(self, node: Node) -> None:
        match node:
            case Call():
                self.call(node)
            case ReadState():
                self.define(node.out, self.state(node.state).copy())
            case WriteState():
                self.write(node)
            case MatchCast():
                self.cast(node)
            case BindDim():
                self.env[node.var] = int(self.value(node.value).reshape(-1)[0])
                check_bounds(f"{node.value}", node.var, self.env[node.var])

    def state(self, name: str) -> Array:
        """What a state holds, of this iteration."""
        return self.states[name] if self.module.states[name].iterations == 1 else self.states[name][self.iteration]

    def put(self, name: str, value: Array) -> None:
        """Replaces what a state holds, of this iteration."""
        if self.module.states[name].iterations == 1:
            self.states[name] = value
        else:
            self.states[name][self.iteration] = value

    def write(self, node: WriteState) -> None:
        """All of a state, or rows of it."""
        value = self.value(node.value)
        if node.at is None:
            self.put(node.state, value.copy())
            return
        state = self.module.states[node.state]
        new = self.state(node.state).copy()
        rows, at = np.moveaxis(value, state.row_axis, 0), evaluate(node.at, self.env)
        blocked = state.layout == "blocked"
        to = np.moveaxis(new, (state.axis, -1), (0, 1)) if blocked else np.moveaxis(new, state.axis, 0)
        extent = len(to) * (new.shape[-1] if blocked else 1)
        if state.layout == "plain" and not 0 <= at <= extent - len(rows):
            raise UsageError(f"rows {at}..{at + len(rows)} of state {node.state}, which has {extent}")
        for k, row in enumerate(rows):
            place = (at + k) % extent
            to[divmod(place, new.shape[-1]) if blocked else place] = row
        self.put(node.state, new)

    def cast(self, node: MatchCast) -> None:
        """What the graph states of dims is checked here as in generated code: it is the input that may be wrong."""
        try:
            self.define(node.out, self.value(node.value))
        except BuildError as error:
            raise UsageError(f"match_cast does not hold: {error.message}", where=node.source or None) from None

    def call(self, call: Call) -> None:
        args = [self.value(a) for a in call.args]
        match call.kind:
            case "op":
                results = self.op(call, args)
            case "loops":
                results = self.loops(call, args)
            case "graph":
                results = self.graph(call, args)
            case "extern" if call.callee in self.module.graphs:  # which says what the symbol computes
                results = self.graph(call, args)
            case "extern":
                raise BuildError(f"numpy cannot run the library symbol {call.callee}", where=call.source or None)
        for out, array in zip(call.outs, results, strict=True):
            self.define(out, np.asarray(array))

    def op(self, call: Call, args: list[Array]) -> tuple[Array, ...]:
        row = get_op(call.callee)
        if self.observe is not None:
            self.observe(call, args)
        if row.view:  # by its type: in the attributes of a view, a dim that is 0 here would mean another thing
            return (args[0].reshape(self.shape(call.out.type)),)
        found = row.reference(*args, **attr_values(call.attrs, self.env))
        return found if isinstance(found, tuple) else (found,)

    def loops(self, call: Call, args: list[Array]) -> tuple[Array, ...]:
        loops = self.module.loops[call.callee]
        results = [np.zeros(self.shape(o.type), dtype=o.type.dtype.numpy) for o in call.outs]
        reads = [p.buffer.name for p in loops.params if p.mode == "read"]
        writes = [p.buffer.name for p in loops.params if p.mode != "read"]
        arrays = dict(zip(reads, (np.asarray(a, order="C") for a in args), strict=True))
        dims = {v.name: n for v, n in self.env.items() if v in loops.dims}
        run_loops(loops, {**arrays, **dict(zip(writes, results, strict=True))}, dims)
        return tuple(results)

    def shape(self, type: TensorType) -> tuple[int, ...]:
        return tuple(evaluate(d, self.env) for d in type.shape)

    def graph(self, call: Call, args: list[Array]) -> tuple[Array, ...]:
        if call.replicas:
            raise BuildError(f"numpy cannot run the replicated graph {call.callee}", where=call.source or None)
        graph = self.module.graphs[call.callee]
        inputs = {p.name: a for p, a in zip(graph.params, args, strict=True)}
        dims = {v.name: n for v, n in self.env.items()}
        results = _run(self.module, graph, inputs, self.states, dims, self.observe)
        for iteration in range(1, call.iterations):
            inputs = {**inputs, graph.params[0].name: results[0]}
            results = _run(self.module, graph, inputs, self.states, dims, self.observe, iteration)
        return results


def _run(
    module: Module,
    graph: Graph,
    inputs: Mapping[str, Array],
    states: MutableMapping[str, Array],
    dims: Mapping[str, int],
    observe: Observer | None = None,
    iteration: int = 0,
) -> tuple[Array, ...]:
    env = check_inputs(graph, inputs, dims, _held_dims(module, states))
    machine = _Machine(module, env, dict(inputs), states, observe, iteration)
    for node in graph.body:
        machine.node(node)
    return tuple(machine.value(r).copy() for r in graph.results)


def run_graph(
    module: Module,
    entry: str,
    inputs: Mapping[str, Array],
    states: MutableMapping[str, Array] | None = None,
    dims: Mapping[str, int] | None = None,
    observe: Observer | None = None,
) -> dict[str, Array]:
    """Runs a graph of the module on numpy arrays.

    Args:
        module: a module with graphs (any stage before "planned").
        entry: name of the graph.
        inputs: one array per parameter, by name.
        states: the states, from ``initial_states`` before the first run; changed by the run. A module without
            states needs none.
        dims: values of dims that stand alone in no shape of a parameter. Those bound at init are known from the
            states; without ``states`` they are taken from here, or are at their upper bounds.
        observe: told of each call of an op with its arguments, those of graphs that are called too.

    Returns:
        The results by name.

    Raises:
        UsageError: an input does not fit; names argument, axis, value and bound.
        BuildError: the module contradicts its own types, or holds something numpy cannot run.
    """
    if entry not in module.graphs:
        raise UsageError(f"the module has no entry {entry}", hint=f"entries: {', '.join(sorted(module.graphs))}")
    graph = module.graphs[entry]
    held = initial_states(module, dims) if states is None else states
    results = _run(module, graph, inputs, held, dims or {}, observe)
    return {r.name: array for r, array in zip(graph.results, results, strict=True)}
