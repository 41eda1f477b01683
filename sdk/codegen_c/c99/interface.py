"""A model's interface as its header and glue need it: entries, tensors and dims, with C names and numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sdk.codegen_c.c99.expr import literal
from sdk.codegen_c.c99.names import identifier, scalar_name
from sdk.codegen_c.c99.options import EmitOptions, GoldenCase, comment
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanBuffer, PlanCall, walk_plan
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.sym import Expr, Var, max_value, show
from sdk.errors import BuildError

__all__ = ["DimInfo", "Entry", "Interface", "Port", "most", "quoted"]

DIM_CODES = -16  # the error code of the first dim; the next ones follow downwards


def quoted(text: str) -> str:
    """``text`` as a C string literal."""
    return json.dumps(text.encode("ascii", "replace").decode("ascii")).replace("??", "?\\?")


def most(dim: int | Expr, what: str) -> int:
    """The largest value of ``dim``.

    Raises:
        BuildError: it has no bound.
    """
    value = max_value(dim)
    if value is None:
        raise BuildError(f"{what} has no upper bound: {dim}")
    return value


@dataclass(frozen=True)
class Port:
    """An input or output of an entry."""

    prefix: str
    entry: str
    direction: Literal["in", "out"]
    c_name: str
    buffer: PlanBuffer
    caller: bool

    @property
    def type(self) -> TensorType:
        """Its type."""
        return self.buffer.type

    @property
    def c_type(self) -> str:
        """The C type of an element."""
        return scalar_name(self.type.dtype)

    @property
    def macro(self) -> str:
        """How the names of its macros start."""
        return f"{self.entry}_{self.direction}_{self.c_name}".upper()

    @property
    def accessor(self) -> str:
        """The function that tells where it lies in the arena."""
        return f"{self.entry}_{self.direction}_{self.c_name}"

    @property
    def storage(self) -> str:
        """The name of its own buffer in an agent."""
        return f"{identifier(self.entry)}_{self.direction}_{self.c_name}_bytes"

    @property
    def varies(self) -> bool:
        """Whether its place depends on the dims of a run."""
        return not isinstance(self.buffer.offset, int)

    @property
    def bounds(self) -> list[int]:
        """The shape at the upper bounds of the dims."""
        return [most(d, f"a dim of {self.buffer.name}") for d in self.type.shape]

    @property
    def shape(self) -> str:
        """The shape at the upper bounds of the dims, as a C initializer."""
        return "{" + ", ".join(str(d) for d in self.bounds) + "}" if self.bounds else "{1}"

    @property
    def bytes(self) -> int:
        """Most bytes it takes."""
        return self.type.max_bytes

    @property
    def elements(self) -> int:
        """Most elements it has."""
        return self.type.max_bytes // self.type.dtype.nbytes

    @property
    def what(self) -> str:
        """What it is, in words."""
        shape = ", ".join(show(d) if isinstance(d, Expr) else str(d) for d in self.type.shape)
        word = "input" if self.direction == "in" else "output"
        return comment(f"{word} {self.buffer.name}: {self.type.dtype}[{shape}]")

    @property
    def meaning(self) -> str:
        """What its numbers stand for, in words."""
        quant = self.type.quant
        if quant is None:
            return "plain values, row-major"
        offset = (
            f"(stored - {quant.zero_point})" if quant.zero_point >= 0 else f"(stored + {-quant.zero_point})"
        )
        return f"row-major; real value = {quant.scale!r} * {offset}"

    @property
    def scale(self) -> str:
        """The quantisation scale in C, 0 when there is none."""
        return literal(self.type.quant.scale if self.type.quant else 0.0, F32).text

    @property
    def zero_point(self) -> str:
        """The quantisation zero point in C."""
        value = self.type.quant.zero_point if self.type.quant else 0
        return str(value) if value >= 0 else f"({value})"

    @property
    def quoted(self) -> str:
        """Its name in the model, as a C string."""
        return quoted(self.buffer.name)

    @property
    def rt_dtype(self) -> str:
        """Its element type in the runtime's terms."""
        return f"SDK_RT_{str(self.type.dtype).upper()}"


@dataclass(frozen=True)
class DimInfo:
    """A dim that a run binds."""

    entry: str
    var: Var
    c_name: str
    code: int

    @property
    def lo(self) -> int:
        """Smallest value."""
        return self.var.lo

    @property
    def hi(self) -> int:
        """Largest value."""
        return self.var.hi

    @property
    def multiple(self) -> int:
        """Every value is a multiple of it."""
        return self.var.multiple

    @property
    def macro(self) -> str:
        """How the names of its macros start."""
        return f"{self.entry}_dim_{self.c_name}".upper()

    @property
    def error(self) -> str:
        """The name of the error code that says it is out of bounds."""
        return f"{self.entry}_e_dim_{self.c_name}".upper()

    @property
    def what(self) -> str:
        """Its values, in words."""
        return f"{self.lo}..{self.hi}" + (f" in steps of {self.multiple}" if self.multiple > 1 else "")

    @property
    def quoted(self) -> str:
        """Its name in the model, as a C string."""
        return quoted(self.var.name)


@dataclass(frozen=True)
class Entry:
    """One entry: ``name`` starts the names of its functions."""

    prefix: str
    name: str
    plan: Plan
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    dims: tuple[DimInfo, ...]
    golden: tuple[GoldenCase, ...]
    first_op: int

    @property
    def plan_name(self) -> str:
        """The plan's name as a C identifier."""
        return identifier(f"{self.plan.name}_entry")

    @property
    def ports(self) -> tuple[Port, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def caller_inputs(self) -> tuple[Port, ...]:
        """Inputs in buffers of the caller."""
        return tuple(p for p in self.inputs if p.caller)

    @property
    def caller_outputs(self) -> tuple[Port, ...]:
        """Outputs in buffers of the caller."""
        return tuple(p for p in self.outputs if p.caller)

    @property
    def arena_inputs(self) -> bool:
        """Whether an input lies in the arena."""
        return any(not p.caller for p in self.inputs)

    @property
    def varying_ports(self) -> bool:
        """Whether where a tensor lies depends on the dims."""
        return any(p.varies for p in self.ports)

    @property
    def dims_parameter(self) -> str:
        """The parameter that gives the dims to a question, "" when there are none."""
        return f", const {self.name}_dims *dims" if self.dims else ""

    @property
    def run_parameters(self) -> str:
        """The parameters of a run; what the entry has none of is left out."""
        out = [f"{self.prefix}_t *self"]
        out += [f"const {self.name}_in *in"] if self.caller_inputs else []
        out += [f"const {self.name}_out *out"] if self.caller_outputs else []
        out += [f"{self.name}_dims *dims"] if self.dims else []
        return ", ".join(out)

    @property
    def glue_arguments(self) -> str:
        """The arguments of a run in an agent."""
        out = ["&context"]
        out += [f"&{self.plan_name}_in"] if self.caller_inputs else []
        out += [f"&{self.plan_name}_out"] if self.caller_outputs else []
        out += ["&dims"] if self.dims else []
        return ", ".join(out)

    @property
    def op_count(self) -> int:
        """Number of calls."""
        return sum(isinstance(s, PlanCall) for s in walk_plan(self.plan.body))


@dataclass(frozen=True)
class Interface:
    """All entries of a module, and the memory they share."""

    module: Module
    prefix: str
    options: EmitOptions

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entries in order."""
        out: list[Entry] = []
        for plan in self.module.plans.values():
            name = self.prefix if len(self.module.plans) == 1 else f"{self.prefix}_{identifier(plan.name)}"
            first = sum(e.op_count for e in out)
            out.append(_entry(self.prefix, name, plan, self.options, first))
        return tuple(out)

    def region_bytes(self, kind: str) -> int:
        """Most bytes of the arena or state over the entries, which share it."""
        sizes = [
            most(r.bytes, f"region {r.name}")
            for p in self.module.plans.values()
            for r in p.regions
            if r.kind == kind
        ]
        return max(sizes, default=0)

    def region_align(self, kind: str) -> int:
        """Alignment in bytes of the arena or state."""
        return max(
            (r.align for p in self.module.plans.values() for r in p.regions if r.kind == kind), default=1
        )

    @property
    def arena_varies(self) -> bool:
        """Whether the bytes of arena needed depend on the dims."""
        regions = [r for p in self.module.plans.values() for r in p.regions if r.kind == "arena"]
        return any(not isinstance(r.bytes, int) for r in regions)


def c_names(names: Sequence[str]) -> list[str]:
    """An identifier for each name, different even in capitals: macros are made of them."""
    out: list[str] = []
    taken: set[str] = set()
    for name in names:
        c_name, k = identifier(name), 2
        while c_name.upper() in taken:
            c_name, k = identifier(f"{name}_{k}"), k + 1
        taken.add(c_name.upper())
        out.append(c_name)
    return out


def _entry(prefix: str, name: str, plan: Plan, options: EmitOptions, first_op: int) -> Entry:
    caller = {r.name for r in plan.regions if r.kind == "caller"}

    def ports(names: tuple[str, ...], direction: Literal["in", "out"]) -> tuple[Port, ...]:
        return tuple(
            Port(prefix, name, direction, c_name, plan.buffer(tensor), plan.buffer(tensor).region in caller)
            for tensor, c_name in zip(names, c_names(names), strict=True)
        )

    dim_names = c_names([v.name for v in plan.dims])
    dims = tuple(
        DimInfo(name, v, c_name, DIM_CODES - k)
        for k, (v, c_name) in enumerate(zip(plan.dims, dim_names, strict=True))
    )
    golden = tuple(c for c in options.golden if c.entry == plan.name)
    return Entry(
        prefix, name, plan, ports(plan.inputs, "in"), ports(plan.outputs, "out"), dims, golden, first_op
    )
