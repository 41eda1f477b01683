"""What a plan's arena must be, worked out again from the plan's statements alone."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.plan import Bind, Copy, Plan, PlanCall, PlanStmt, walk_plan
from sdk.compiler.sym import Var, evaluate, evaluate_grid, free_vars

ROOT = Path(__file__).resolve().parents[2]
Grid = NDArray[np.int64]
Points = Mapping[Var, Grid]


@dataclass(frozen=True)
class Held:
    """Buffers that share bytes: from which step to which they are in use."""

    names: tuple[str, ...]
    first: int
    last: int


def touched(stmt: PlanStmt) -> tuple[str, ...]:
    """The buffers that a statement names."""
    match stmt:
        case PlanCall():
            return (*stmt.args, stmt.scratch) if stmt.scratch else stmt.args
        case Copy():
            return stmt.dst, stmt.src
        case Bind(value=str() as name):
            return (name,)
        case _:
            return ()


def held(plan: Plan) -> list[Held]:
    """The buffers of the arena with their lifetimes, those that alias one another together."""
    roots: dict[str, str] = {}
    for b in plan.buffers:
        roots[b.name] = roots[b.alias] if b.alias else b.name
    steps: dict[str, list[int]] = {}
    body = list(walk_plan(plan.body))
    uses = [(0, plan.inputs), *((k, touched(s)) for k, s in enumerate(body, 1)), (len(body) + 1, plan.outputs)]
    for step, names in uses:
        for name in names:
            steps.setdefault(roots[name], []).append(step)
    members: dict[str, list[str]] = {}
    for b in plan.buffers:
        if plan.region(b.region).kind == "arena" and roots[b.name] in steps:
            members.setdefault(roots[b.name], []).append(b.name)
    return [Held(tuple(names), min(steps[root]), max(steps[root])) for root, names in members.items()]


def size_of(plan: Plan, item: Held, at: Points) -> Grid:
    """Its bytes at these points; what a run finds out counts at its most."""
    known = dict(at)
    for stmt in walk_plan(plan.body):
        if isinstance(stmt, Bind) and not isinstance(stmt.value, str) and free_vars(stmt.value) <= known.keys():
            known[stmt.var] = evaluate_grid(stmt.value, known)
    sizes = []
    for b in map(plan.buffer, item.names):
        told = free_vars(b.type.nbytes) <= known.keys()
        sizes.append(evaluate_grid(b.type.nbytes, known) if told else np.asarray(b.type.max_bytes))
    return np.max(np.stack(np.broadcast_arrays(*sizes)), axis=0)


def points(envs: Sequence[Mapping[Var, int]]) -> Points:
    """The values of each dim at all points."""
    return {v: np.array([env[v] for env in envs], dtype=np.int64) for v in envs[0]}


def live_set(plan: Plan, at: Points) -> Grid:
    """The most bytes in use at any step at these points, without any padding."""
    items = held(plan)
    sizes = [size_of(plan, item, at) for item in items]
    live = [
        sum(size for item, size in zip(items, sizes, strict=True) if item.first <= step <= item.last)
        for step in {item.first for item in items}
    ]
    return np.max(np.stack(np.broadcast_arrays(*live)), axis=0)


def stacked(plan: Plan, at: Points, align: int) -> Grid:
    """The arena at these points: buffers in the order of the offsets at the upper bounds, each as low as those below it
    that are in use at the same time let it be."""
    top = plan.placed({v: v.maximum for v in plan.dims})
    ends: list[tuple[Held, Grid]] = []
    for item in sorted(held(plan), key=lambda i: evaluate(plan.buffer(i.names[0]).offset, top)):
        below = [end for other, end in ends if other.first <= item.last and item.first <= other.last]
        start = np.maximum.reduce(np.broadcast_arrays(0, *(-(-end // align) * align for end in below)))
        ends.append((item, start + size_of(plan, item, at)))
    return np.maximum.reduce(np.broadcast_arrays(*(end for _, end in ends)))


def arena(plan: Plan, at: Points) -> Grid:
    """The arena at these points as the plan's closed form says."""
    known = dict(at)
    for var, value in plan.places:
        known[var] = evaluate_grid(value, known)
    return evaluate_grid(plan.region("arena").bytes, known)


def random_dims(plan: Plan, count: int, seed: int = 3) -> list[dict[Var, int]]:
    """The smallest dims, the largest ones, and so many of chance."""
    rng = Random(seed)
    found = [{v: rng.randrange(v.minimum, v.maximum + 1, v.multiple) for v in plan.dims} for _ in range(count)]
    return [{v: v.minimum for v in plan.dims}, {v: v.maximum for v in plan.dims}, *found]


@lru_cache(maxsize=1)
def llama() -> ModuleType:
    """The decoder of the examples."""
    path = ROOT / "examples" / "llama" / "decoder.py"
    spec = importlib.util.spec_from_file_location("llama_decoder", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
