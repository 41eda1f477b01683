"""The numpy interpreter of the plan level: a plan runs on real bytes, so wrong places give wrong values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.graph import init_values
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Bind, Check, Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Repeat, Split, Wait
from sdk.compiler.memory.rings import stored_type
from sdk.compiler.sym import Var, evaluate, free_vars
from sdk.compiler.sym.bind import bind_entry, check_bounds
from sdk.errors import BuildError, UsageError

__all__ = ["POISON", "initial_states", "run_plan"]

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
POISON: Final = 0xA5


def initial_states(module: Module, entry: str, dims: Mapping[str, int] | None = None) -> Bytes:
    """The bytes of the state region before the first run. The dims bound at init have the values of ``dims``, those
    that are not there their upper bounds.

    Raises:
        UsageError: a value is outside the bounds of its dim.
    """
    plan = _plan(module, entry)
    env = init_values(module, dims)
    out = np.zeros(_state_bytes(plan, env), dtype=np.uint8)
    for buffer in plan.buffers:
        if buffer.role != "state":
            continue
        init, iterations = module.states[buffer.name].init, module.states[buffer.name].iterations
        if init is None:
            continue
        size = evaluate(buffer.type.nbytes, env)
        width = buffer.type.dtype.nbytes
        fill = np.full(size // width, init, buffer.type.dtype.numpy) if isinstance(init, int) else None
        value = module.consts[str(init)].data if fill is None else fill
        for iteration in range(iterations):
            at = evaluate(buffer.offset, {**env, **{v: iteration for v in free_vars(buffer.offset) - env.keys()}})
            out[at : at + size] = np.frombuffer(value.tobytes(), dtype=np.uint8)
    return out


def run_plan(
    module: Module,
    entry: str,
    inputs: Mapping[str, Array],
    states: Bytes | None = None,
    dims: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Runs an entry of a planned module; every byte that nothing wrote reads as 0xA5.

    Args:
        module: at stage "planned".
        entry: the plan's name.
        inputs: arrays by input name, of the declared type; their shapes bind the dims.
        states: the state region, changed in place; None runs on ``initial_states`` and forgets them.
        dims: values of dims that stand alone in no shape of an input, and of those bound at init (else they are at
            their upper bounds).

    Raises:
        UsageError: an input is missing, unknown, or of another dtype or shape than declared.
        BuildError: the plan calls what numpy cannot run.
    """
    plan = _plan(module, entry)
    if states is None:
        states = initial_states(module, entry, dims)
    held = init_values(module, dims)
    if states.size != _state_bytes(plan, held):
        raise UsageError(f"entry @{entry} has {_state_bytes(plan, held)} bytes of state, got {states.size}")
    return _Machine(module, plan, _bind(plan, inputs, dims or {}, held), states).run(inputs)


def _plan(module: Module, entry: str) -> Plan:
    if entry not in module.plans:
        raise UsageError(f"no entry @{entry}", hint=f"the entries are {', '.join(module.plans)}")
    return module.plans[entry]


def _state_bytes(plan: Plan, env: Mapping[Var, int]) -> int:
    return sum(evaluate(r.bytes, env) for r in plan.regions if r.kind == "state")


def _bind(
    plan: Plan, inputs: Mapping[str, Array], dims: Mapping[str, int], held: Mapping[Var, int]
) -> dict[Var, int]:
    """The dims by the shapes of the inputs, which are checked."""
    if set(inputs) != set(plan.inputs):
        raise UsageError(f"entry @{plan.name} takes {', '.join(plan.inputs)}; got {', '.join(inputs) or 'nothing'}")
    types = {name: plan.buffer(name).type for name in plan.inputs}
    for name, type in types.items():
        if inputs[name].ndim != type.rank or inputs[name].dtype != type.dtype.numpy:
            given = f"{inputs[name].dtype} of shape {inputs[name].shape}"
            raise UsageError(f"input {name} is {type.dtype} of rank {type.rank}, got {given}")
    tensors = [(n, t.shape, inputs[n].shape) for n, t in types.items()]
    return bind_entry(plan.name, plan.dims, tensors, dims, held)


class _Machine:
    """Regions as byte arrays, buffers as views of them."""

    def __init__(self, module: Module, plan: Plan, env: dict[Var, int], states: Bytes) -> None:
        self.module, self.plan, self.env = module, plan, plan.placed(env)
        self.regions: dict[str, Bytes] = {}
        for region in plan.regions:
            size = 0 if region.kind == "const" else evaluate(region.bytes, self.env)
            self.regions[region.name] = states if region.kind == "state" else np.full(size, POISON, dtype=np.uint8)
        self.buffers = {b.name: b for b in plan.buffers}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        for name, value in inputs.items():
            self.array(name)[...] = value
        self.body(self.plan.body)
        return {name: self.array(name).copy() for name in self.plan.outputs}

    def array(self, name: str) -> Array:
        """The buffer as it lies in memory."""
        buffer = self.buffers[name]
        if buffer.region == "const":
            return self.constant(buffer)
        type = stored_type(buffer.type, buffer.ring)
        shape = tuple(evaluate(d, self.env) for d in type.shape)
        at = evaluate(buffer.offset, self.env)
        size = int(np.prod(shape, dtype=np.int64)) * type.dtype.nbytes
        found = self.regions[buffer.region][at : at + size]
        if found.size != size:
            raise BuildError(f"buffer {name} at {at}..{at + size} leaves region {buffer.region}")
        return found.view(type.dtype.numpy).reshape(shape)

    def constant(self, buffer: PlanBuffer) -> Array:
        while buffer.role != "const":
            buffer = self.buffers[buffer.alias]
        shape = tuple(evaluate(d, self.env) for d in buffer.type.shape)
        stack = self.module.stacks.get(buffer.name)
        if stack is None:
            return np.asarray(self.module.consts[buffer.name].data).reshape(shape)
        return np.asarray(stack.arrays[evaluate(buffer.offset, self.env) // stack.stride]).reshape(shape)

    def body(self, body: tuple[PlanStmt, ...]) -> None:
        for stmt in body:
            match stmt:
                case PlanCall():
                    self.call(stmt)
                case Copy():
                    self.bytes_of(stmt.dst)[...] = self.bytes_of(stmt.src).copy()
                case Repeat():
                    for k in range(evaluate(stmt.lo, self.env), evaluate(stmt.hi, self.env)):
                        self.env[stmt.var] = k
                        self.body(stmt.body)
                case Wait():
                    pass  # calls run one after the other here
                case Bind():
                    self.bind(stmt)
                case Check():
                    self.check(stmt)

    def bind(self, bind: Bind) -> None:
        found = self.array(bind.value) if isinstance(bind.value, str) else evaluate(bind.value, self.env)
        value = int(np.asarray(found).reshape(-1)[0])
        check_bounds(bind.what or str(bind.value), bind.var, value)
        self.env[bind.var] = value

    def check(self, check: Check) -> None:
        left, right = evaluate(check.left, self.env), evaluate(check.right, self.env)
        if left != right:
            raise UsageError(f"{check.what}: {check.left} is {left}, not {right} as {check.right} says")

    def bytes_of(self, name: str) -> Bytes:
        return self.array(name).reshape(-1).view(np.uint8)

    def call(self, call: PlanCall) -> None:
        loops = self.module.loops.get(call.callee)
        if loops is None:
            raise BuildError(f"the library symbol {call.callee} has no loops, so numpy cannot run it")
        for p, name in zip(loops.params, call.args, strict=True):
            if p.buffer.ring != self.buffers[name].ring:
                raise BuildError(f"call {call.index}: {name} and {p.buffer.name} of @{loops.name} differ in rows kept")
        arrays = {p.buffer.name: self.array(name) for p, name in zip(loops.params, call.args, strict=True)}
        dims = {v.name: evaluate(d, self.env) for v, d in zip(loops.dims, call.dims, strict=True)}
        rows = None
        if call.rows is not None:
            rows = evaluate(call.rows[0], self.env), evaluate(call.rows[1], self.env)
            if rows[0] >= rows[1]:
                return
        overlaps = self.overlaps(call, loops)
        for part in _parts(call.split, rows):
            run_loops(loops, arrays, dims, part, overlaps=overlaps)

    def overlaps(self, call: PlanCall, loops: Loops) -> list[tuple[str, str]]:
        """The parameters written, with those read, whose buffers share bytes; but for results in place, which are
        proved to be right in any order."""
        params = [(p.mode, p.buffer.name, self.buffers[name]) for p, name in zip(loops.params, call.args, strict=True)]
        read = [(name, b) for mode, name, b in params if mode == "read" and b.role != "const"]
        written = [(name, b) for mode, name, b in params if mode != "read"]
        return [(out, source) for out, a in written for source, b in read if self._meet(a, b)]

    def _meet(self, a: PlanBuffer, b: PlanBuffer) -> bool:
        if a.region != b.region or "const" in (a.region, b.region):
            return False
        one, other = self.bytes_of(a.name), self.bytes_of(b.name)
        return bool(np.may_share_memory(one, other)) and self.root(a) != self.root(b)

    def root(self, buffer: PlanBuffer) -> str:
        """The first of the buffers that take turns in the same bytes."""
        while buffer.alias:
            buffer = self.buffers[buffer.alias]
        return buffer.name


def _parts(split: Split | None, rows: tuple[int, int] | None) -> list[tuple[int, int] | None]:
    """What runs of a call, in order: of one that threads may share, its parts from the last to the first."""
    if split is None or rows is None:
        return [rows]
    count = rows[1] - rows[0]
    parts = min(split.threads, -(-count // split.granule))
    unit = parts * split.granule
    cuts = [(2 * count * k + unit) // (2 * unit) * split.granule for k in range(parts)]
    found = zip(cuts, [*cuts[1:], count], strict=True)
    return [(rows[0] + lo, rows[0] + min(hi, count)) for lo, hi in reversed([*found]) if lo < min(hi, count)]
