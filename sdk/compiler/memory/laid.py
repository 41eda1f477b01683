"""A plan with the places of its buffers, and what of a graph goes into it as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.plan import Plan, PlanBuffer, Region
from sdk.compiler.memory.problem import Block, Placement, Separation, live_profile
from sdk.compiler.sym import Dim, Expr
from sdk.errors import BuildError

__all__ = ["Laid", "extern_dims", "fullest_of", "regions_of"]


@dataclass(frozen=True)
class Laid:
    """A plan, the blocks of its arena and where they were placed; ``loops`` are its functions on rings, ``fullest``
    the blocks in use when most bytes are. ``block_of`` gives the block of each buffer in the arena, ``separations``
    what is asked of pairs of blocks (None: what their lifetimes ask)."""

    plan: Plan
    blocks: tuple[Block, ...]
    placement: Placement
    fullest: tuple[Block, ...]
    loops: Mapping[str, Loops] = field(default_factory=dict)
    block_of: Mapping[str, str] = field(default_factory=dict)
    separations: tuple[Separation, ...] | None = None


def extern_dims(node: Call) -> tuple[Dim, ...]:
    """What a library call gives its symbol after the buffers: its attribute ``dims``."""
    found = dict(node.attrs).get("dims", ())
    if not isinstance(found, tuple) or not all(isinstance(d, int | Expr) for d in found) or len(node.attrs) > 1:
        raise BuildError(f"the library call of {node.callee} has other attributes than dims = (..)")
    return tuple(d for d in found if isinstance(d, int | Expr))


def fullest_of(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks live at the step where they take most bytes."""
    profile = live_profile(blocks)
    return tuple(max(profile, key=lambda item: sum(b.size for b in item[1]))[1]) if profile else ()


def regions_of(
    arena: Region,
    align: int,
    state_bytes: Dim | None,
    const_bytes: int,
    buffers: Sequence[PlanBuffer],
    callers: Iterable[str],
) -> tuple[Region, ...]:
    """The regions of a plan: its arena, that of states where there are some, constants, and what callers give."""
    out = [arena]
    if state_bytes is not None:
        out.append(Region("state", "state", state_bytes, align))
    if any(b.region == "const" for b in buffers):  # one of no bytes too
        out.append(Region("const", "const", const_bytes, align))
    for name in dict.fromkeys(callers):
        held = [b.type for b in buffers if b.region == name]
        out.append(Region(name, "caller", max(t.max_bytes for t in held), max(t.dtype.nbytes for t in held)))
    return tuple(out)
