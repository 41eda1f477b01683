"""``sdk fit --phones``: what the fastest core of phones and Linux boards needs at least for a run, by the roofline
(Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009) with figures of their makers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sdk.boards import Board, Fastest
from sdk.compiler.ir.plan import Plan, PlanCall, iterated
from sdk.compiler.sym import evaluate, max_value
from sdk.driver.dims import check_at
from sdk.driver.files import read_model_file
from sdk.driver.generate import Compiled, SharedPlans, constant_bytes, region_bytes
from sdk.driver.job import job_of
from sdk.driver.op_facts import op_facts
from sdk.driver.options import BuildOptions
from sdk.errors import UsageError
from sdk.frontends.base import ModelFile

__all__ = ["PUBLISHED", "PhoneFit", "PhoneReport", "Spread", "fit_phones"]

_LANES: Final = 4  # floats in the 128 bits of a pipeline
_DOT_PRODUCTS: Final = 16  # of 8 bits by one instruction for dot products
_PLAIN_PRODUCTS: Final = 8  # by a widening one


@dataclass(frozen=True)
class Spread:
    """How many times as long as the roofline published runs take: the least, the median and the most of them."""

    minimum: float
    median: float
    maximum: float


# benchmarks/phone_error.py has the runs: six networks in floats, two in 8 bits, one thread, on thirteen chips
PUBLISHED: Final[Mapping[str, Spread]] = {"float": Spread(0.50, 1.53, 5.32), "int8": Spread(0.86, 1.76, 7.31)}


@dataclass(frozen=True)
class PhoneFit:
    """A model on the fastest core of one phone or board: bytes of RAM beside the weights (arena, states), bytes of the
    weights, and the ``min_ms`` of a run in one thread."""

    board: str
    title: str
    cpu: str
    clock_hz: int
    ram_bytes: int
    weights_bytes: int
    min_ms: float


@dataclass(frozen=True)
class PhoneReport:
    """A model on phones and Linux boards, the fastest ahead. ``kind`` is of most of its products, "float" or "int8",
    and ``published`` how much longer runs of such networks take."""

    model: str
    dims: Mapping[str, tuple[int, int]]
    kind: str
    phones: tuple[PhoneFit, ...]

    @property
    def published(self) -> Spread:
        """How many times as long published runs of networks of that kind take."""
        return PUBLISHED[self.kind]

    def to_json(self) -> dict[str, Any]:
        """The object of ``sdk fit --phones --json``."""
        return {
            "model": self.model,
            "dims": {name: list(bounds) for name, bounds in self.dims.items()},
            "kind": self.kind,
            "published": asdict(self.published),
            "phones": [asdict(phone) for phone in self.phones],
        }


@dataclass(frozen=True)
class _Work:
    """A call: its products, whether they are of floats, and the bytes of constants that it reads."""

    macs: int
    floats: bool
    constants: int


def macs_per_second(fastest: Fastest, capabilities: frozenset[str], floats: bool) -> float:
    """Products that a core makes at most in a second: of 32-bit floats, else of 8 bits."""
    products = _LANES if floats else _DOT_PRODUCTS if "dotprod" in capabilities else _PLAIN_PRODUCTS
    return fastest.clock_hz * fastest.pipelines * float(products)


def fit_phones(
    path: Path | ModelFile, options: BuildOptions, at: Mapping[str, int], boards: Iterable[Board]
) -> PhoneReport:
    """A run of a model at the dims ``at`` (the upper bounds of others) on those boards whose file has a table
    ``fastest``; of several entries, all of them once.

    Raises:
        UsageError: the file cannot be read, or ``at`` does not suit the model.
        BuildError: the model cannot be compiled.
    """
    options = options.read()
    file = read_model_file(path, options.importers, options.tensors)
    plan = SharedPlans()
    works: dict[int, list[_Work]] = {}  # of plans that boards share
    rows: list[PhoneFit] = []
    for board in boards:
        if board.fastest is None:
            continue
        plans = plan(job_of(file, board, options))
        if id(plans) not in works:
            works[id(plans)] = _work(plans, at)
        work, module = works[id(plans)], plans.module
        rows.append(
            PhoneFit(
                board=board.name,
                title=board.title,
                cpu=board.fastest.cpu,
                clock_hz=board.fastest.clock_hz,
                ram_bytes=sum(sum(region_bytes(module, kind).values()) for kind in ("arena", "state")),
                weights_bytes=constant_bytes(module),
                min_ms=1e3 * sum(_seconds(one, board.fastest, board.capabilities) for one in work),
            )
        )
    if not rows:
        raise UsageError("no board has a table [fastest]", hint="sdk help fit says what is in it")
    floats = sum(one.macs for one in work if one.floats)
    kind = "float" if 2 * floats > sum(one.macs for one in work) else "int8"
    dims = {v.name: (v.lo, v.hi) for one in module.plans.values() for v in one.dims}
    return PhoneReport(file.name, dims, kind, tuple(sorted(rows, key=lambda row: (row.min_ms, row.board))))


def _seconds(work: _Work, fastest: Fastest, capabilities: frozenset[str]) -> float:
    """The roofline: products at the core's rate, or constants at the memory's, whichever takes longer."""
    return max(work.macs / macs_per_second(fastest, capabilities, work.floats), work.constants / fastest.memory_bytes_s)


def _work(plans: Compiled, at: Mapping[str, int]) -> list[_Work]:
    check_at(at, {v.name: v for plan in plans.module.plans.values() for v in plan.dims})
    out = []
    for name, facts in op_facts(plans.module, plans.fused).items():
        plan = plans.module.plans[name]
        values = {v: at.get(v.name, v.maximum) for v in plan.dims}
        calls = {stmt.index: (stmt, iterations) for stmt, iterations in iterated(plan) if isinstance(stmt, PlanCall)}
        for op in facts:
            call, iterations = calls[op.index]
            floats, constants = _operands(plan, call)
            out.append(_Work(evaluate(op.macs, values), floats, constants * iterations))
    return out


def _operands(plan: Plan, call: PlanCall) -> tuple[bool, int]:
    """Whether a call computes in floats, and the bytes of the constants that it reads."""
    buffers = [plan.buffer(name) for name in dict.fromkeys(call.args)]
    constants = sum(max_value(b.type.nbytes) or 0 for b in buffers if b.role == "const")
    return any(b.type.dtype.kind in ("f", "bf") for b in buffers), constants

