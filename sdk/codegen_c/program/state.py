"""The state region in C: its bytes with the dims bound at init, and the statements that put it to its start."""

from __future__ import annotations

from sdk.codegen_c.functions.dims import DimPrinter
from sdk.codegen_c.functions.expr import literal
from sdk.codegen_c.functions.names import Scope, scalar_name
from sdk.codegen_c.functions.unit import Unit
from sdk.codegen_c.program.interface import Interface
from sdk.codegen_c.program.weights import Weights
from sdk.compiler.ir.module import State, init_dims
from sdk.compiler.sym import Dim, Var, free_vars

__all__ = ["StatePrinter"]


class StatePrinter:
    """Prints what a model does with its states outside of runs."""

    def __init__(self, api: Interface, unit: Unit, weights: Weights) -> None:
        self.api, self.unit, self.weights = api, unit, weights
        self.scope = Scope(unit.prefix)
        for name in ("self", "dims", "i"):
            self.scope.declare(("own", name), name)
        for dim in api.init:
            self.scope.declare(dim.var, dim.c_name)
        self.dims = DimPrinter(unit, self.scope.lookup)
        self.used: set[Var] = set()

    def size(self) -> list[str]:
        """Statements that return the bytes of the region."""
        size: Dim = next((r.bytes for p in self.api.module.plans.values() for r in p.regions if r.kind == "state"), 0)
        self.used = set()
        text = self._bytes(size)
        return [*self._locals("dims->"), f"return {text};"]

    def reset(self) -> list[str]:
        """Statements that put every state back to its start; none for one that may hold anything then."""
        self.used = set()
        lines = [line for s in self.api.module.states.values() if s.init is not None for line in self._reset(s)]
        return [*self._locals("self->init_dims."), *lines]

    def _locals(self, source: str) -> list[str]:
        used = [d for d in self.api.init if d.var in self.used]
        return [f"const int32_t {self.scope.lookup(d.var)} = {source}{d.c_name};" for d in used]

    def _text(self, dim: Dim) -> str:
        self.used |= free_vars(dim)
        return self.dims.text(dim)

    def _bytes(self, size: Dim) -> str:
        return f"{size}u" if isinstance(size, int) else f"(size_t)({self._text(size)})"

    def _reset(self, state: State) -> list[str]:
        plan = next(
            p
            for p in self.api.module.plans.values()
            if any(b.role == "state" and b.name == state.name for b in p.buffers)
        )
        offset = plan.buffer(state.name).offset
        if state.iterations != 1:
            (iteration,) = (v for v in free_vars(offset) if v not in init_dims(self.api.module.states))
            self.scope.push()
            name = self.scope.declare(iteration, iteration.name)
            head = f"for (int32_t {name} = 0; {name} < {state.iterations}; ++{name}) {{"
            body = [f"    {line}" for line in self._one(state, offset)]
            self.scope.pop()
            self.used -= {iteration}
            return [head, *body, "}"]
        return self._one(state, offset)

    def _one(self, state: State, offset: Dim) -> list[str]:
        """Statements for the state at a place."""
        size, type = state.type.nbytes, state.type.dtype
        place = "self->state" if offset == 0 else f"self->state + {self._text(offset)}"
        if isinstance(state.init, str):
            return [f"{self.unit.helper('copy')}({place}, {self.weights.symbols[state.init]}, {self._bytes(size)});"]
        value = state.init
        assert value is not None
        if type.nbytes == 1 or value == 0:
            return [f"{self.unit.helper('fill')}({place}, {value & 0xFF}, {self._bytes(size)});"]
        pointer = f"(({scalar_name(type)} *)(void *)({place}))"
        return [
            f"for (int32_t i = 0; i < {self._text(state.type.size)}; ++i) {{",
            f"    {pointer}[i] = {literal(value, type).text};",
            "}",
        ]
