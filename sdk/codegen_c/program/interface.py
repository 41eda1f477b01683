"""A model's interface as its header and glue need it: entries, tensors and dims, with C names and numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sdk.codegen_c.base import EmitOptions, GoldenCase
from sdk.codegen_c.functions.expr import literal
from sdk.codegen_c.functions.names import identifier, scalar_name
from sdk.codegen_c.program.banner import comment
from sdk.compiler.ir.module import Module, init_dims
from sdk.compiler.ir.plan import Check, Plan, PlanBuffer, PlanCall, walk_plan
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.sym import Expr, Var, max_value, show
from sdk.errors import BuildError
from sdk.text import printable, wire_name

__all__ = ["DimInfo", "Entry", "Interface", "Port", "maximum", "quoted"]

DIM_CODES = -16  # the error code of the first dim; the next ones follow downwards


def quoted(text: str) -> str:
    """``text`` as a C string literal."""
    shown = json.dumps(printable(text).encode("ascii", "backslashreplace").decode("ascii"))
    return shown.replace("?", "\\?") if "??" in shown else shown  # no trigraphs


def maximum(dim: int | Expr, what: str) -> int:
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
    own_dims: bool  # the entry has dims of its own, beside those bound at init

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
        return self.own_dims and not isinstance(self.buffer.offset, int)

    @property
    def bounds(self) -> list[int]:
        """The shape at the upper bounds of the dims."""
        return [maximum(d, f"a dim of {self.buffer.name}") for d in self.type.shape]

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
        return quoted(wire_name(self.buffer.name))

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
    def maximum(self) -> int:
        """Largest value that it may have, of its multiples."""
        return self.var.maximum

    @property
    def condition(self) -> str:
        """When ``dims->`` it is out of bounds, in C."""
        place = f"dims->{self.c_name}"
        steps = f" || {place} % {self.macro}_MULTIPLE != 0" if self.multiple > 1 else ""
        return f"{place} < {self.macro}_MIN || {place} > {self.macro}_MAX{steps}"

    @property
    def quoted(self) -> str:
        """Its name in the model, as a C string."""
        return quoted(wire_name(self.var.name))

    @property
    def quoted_output(self) -> str:
        """The name of the agent's output that holds it, where a run computes it, as a C string."""
        return quoted(wire_name(f"dim {self.var.name}"))


@dataclass(frozen=True)
class CheckInfo:
    """An equality of dims that a run checks; ``code`` is the error that it returns otherwise."""

    entry: str
    number: int
    stmt: Check
    code: int

    @property
    def error(self) -> str:
        """The name of its error code."""
        return f"{self.entry}_e_check_{self.number}".upper()

    @property
    def what(self) -> str:
        """What must hold, in words."""
        return comment(f"{self.stmt.what}: {self.stmt.left} is not {self.stmt.right}")


@dataclass(frozen=True)
class Entry:
    """One entry: ``name`` starts the names of its functions."""

    prefix: str
    name: str
    plan: Plan
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    dims: tuple[DimInfo, ...]
    fresh: tuple[DimInfo, ...]
    checks: tuple[CheckInfo, ...]
    golden: tuple[GoldenCase, ...]
    first_op: int
    init: tuple[DimInfo, ...]

    @property
    def quoted(self) -> str:
        """Its name on a device, as a C string."""
        return quoted(wire_name(self.name))

    @property
    def arena_bytes(self) -> int:
        """Most bytes of arena that a run needs."""
        return _region_bytes(self.plan, "arena")

    @property
    def plan_name(self) -> str:
        """The plan's name as a C identifier."""
        return identifier(f"{self.plan.name}_entry")

    @property
    def all_dims(self) -> tuple[DimInfo, ...]:
        """The dims of the caller, then those that a run computes: the members of the struct of dims."""
        return (*self.dims, *self.fresh)

    @property
    def errors(self) -> tuple[tuple[str, int, str], ...]:
        """Name, code and meaning of the errors of its own."""
        dims = [(d.error, d.code, f"{d.c_name} is not in {d.what}") for d in self.all_dims]
        return (*dims, *((c.error, c.code, c.what) for c in self.checks))

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
    def arena_parameters(self) -> str:
        """The parameters of the question how much arena a run needs."""
        out = [f"const {self.prefix}_init_dims *init"] if self.init else []
        out += [f"const {self.name}_dims *dims"] if self.all_dims else []
        return ", ".join(out) or "void"

    @property
    def dims_parameter(self) -> str:
        """The parameter that gives the dims to a question, "" when there are none."""
        return f", const {self.name}_dims *dims" if self.all_dims else ""

    @property
    def run_parameters(self) -> str:
        """The parameters of a run; what the entry has none of is left out."""
        out = [f"{self.prefix}_t *self"]
        out += [f"const {self.name}_in *in"] if self.caller_inputs else []
        out += [f"const {self.name}_out *out"] if self.caller_outputs else []
        out += [f"{self.name}_dims *dims"] if self.all_dims else []
        return ", ".join(out)

    @property
    def glue_arguments(self) -> str:
        """The arguments of a run in an agent."""
        out = ["&context"]
        out += [f"&{self.plan_name}_in"] if self.caller_inputs else []
        out += [f"&{self.plan_name}_out"] if self.caller_outputs else []
        out += ["&dims"] if self.all_dims else []
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
            if self.init and name == f"{self.prefix}_init":
                raise BuildError("an entry called init has the names of m_init, whose dims its module needs")
            out.append(_entry(self.prefix, name, plan, self.options, first, self.init))
        return tuple(out)

    @cached_property
    def init(self) -> tuple[DimInfo, ...]:
        """The dims that are bound at init."""
        every = init_dims(self.module.states)
        names = c_names([v.name for v in every])
        start = f"{self.prefix}_init"
        return tuple(DimInfo(start, v, n, DIM_CODES - k) for k, (v, n) in enumerate(zip(every, names, strict=True)))

    @cached_property
    def placed(self) -> tuple[str, ...]:
        """The members of the context that accessors count from."""
        regions = {r.name: r for p in self.module.plans.values() for r in p.regions}
        found = [regions[p.buffer.region] for e in self.entries for p in e.ports if not p.caller]
        return tuple(dict.fromkeys(r.name if r.kind == "arena" else r.kind for r in found))

    def region_bytes(self, name: str) -> int:
        """Most bytes of a region over the entries, which share it."""
        return max((_region_bytes(p, name) for p in self.module.plans.values()), default=0)

    @cached_property
    def more_arenas(self) -> tuple[tuple[str, int, int], ...]:
        """Name, bytes and alignment of each region of the arena behind the first, one a memory."""
        regions = [r for p in self.module.plans.values() for r in p.regions if r.kind == "arena" and r.name != "arena"]
        names = dict.fromkeys(r.name for r in regions)
        return tuple((n, self.region_bytes(n), max(r.align for r in regions if r.name == n)) for n in names)

    @property
    def init_parameters(self) -> str:
        """The parameters of the function that binds an instance to its memory."""
        more = "".join(f", void *{name}, size_t {name}_bytes" for name, _, _ in self.more_arenas)
        dims = f", const {self.prefix}_init_dims *dims" if self.init else ""
        own = f"{self.prefix}_t *self, void *arena, size_t arena_bytes"
        file = ", const void *weights, size_t weights_bytes" if self.options.weights_file else ""
        return f"{own}{more}, void *state, size_t state_bytes{file}{dims}"

    def region_align(self, kind: str) -> int:
        """Alignment in bytes of the arena or state."""
        return max(
            (r.align for p in self.module.plans.values() for r in p.regions if r.kind == kind), default=1
        )

    @property
    def pointers(self) -> int:
        """How many an instance holds: to its model, each arena, its state, and one of the user."""
        return 4 + len(self.more_arenas)

    @property
    def threads(self) -> int:
        """The most threads that share a call."""
        calls = [s for p in self.module.plans.values() for s in walk_plan(p.body) if isinstance(s, PlanCall)]
        return max((c.split.threads for c in calls if c.split is not None), default=1)

    @property
    def arena_varies(self) -> bool:
        """Whether the bytes of arena needed depend on the dims."""
        regions = [r for p in self.module.plans.values() for r in p.regions if r.kind == "arena"]
        return any(not isinstance(r.bytes, int) for r in regions)


def _region_bytes(plan: Plan, name: str) -> int:
    """Most bytes that an entry needs of a region; 0 where it has none of the name."""
    return max((maximum(r.bytes, f"region {r.name}") for r in plan.regions if r.name == name), default=0)


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


def _entry(
    prefix: str, name: str, plan: Plan, options: EmitOptions, first_op: int, init: tuple[DimInfo, ...]
) -> Entry:
    held = {d.var for d in init}
    own = tuple(v for v in plan.dims if v not in held)
    caller = {r.name for r in plan.regions if r.kind == "caller"}

    def ports(names: tuple[str, ...], direction: Literal["in", "out"]) -> tuple[Port, ...]:
        return tuple(
            Port(prefix, name, direction, c_name, plan.buffer(tensor), plan.buffer(tensor).region in caller, bool(own))
            for tensor, c_name in zip(names, c_names(names), strict=True)
        )

    every = (*own, *plan.fresh)
    dims = tuple(
        DimInfo(name, v, c_name, DIM_CODES - k)
        for k, (v, c_name) in enumerate(zip(every, c_names([v.name for v in every]), strict=True))
    )
    given, fresh = dims[: len(own)], dims[len(own) :]
    found = [s for s in walk_plan(plan.body) if isinstance(s, Check)]
    checks = tuple(CheckInfo(name, k, s, DIM_CODES - len(dims) - k) for k, s in enumerate(found))
    golden = tuple(c for c in options.golden if c.entry == plan.name)
    return Entry(
        prefix,
        name,
        plan,
        ports(plan.inputs, "in"),
        ports(plan.outputs, "out"),
        given,
        fresh,
        checks,
        golden,
        first_op,
        init,
    )
