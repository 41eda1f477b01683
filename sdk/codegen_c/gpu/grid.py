"""From a loops function to kernels: independent loops become axes of work items, statements kernels in a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sdk.codegen_c.gpu.scratch import PRIVATE_BYTES, outside
from sdk.compiler.analysis.dependence import conflict
from sdk.compiler.analysis.pattern import classify
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, If, Loops, Param
from sdk.compiler.ir.walk import allocated, buffers_used, rewrite, substitute_dims, walk
from sdk.compiler.machines.gpus.gpu import Gpu, Part
from sdk.compiler.schedules.gpu.axes import joined
from sdk.compiler.schedules.gpu.cooperative import SHARED_BYTES
from sdk.compiler.schedules.gpu.lift import flat
from sdk.compiler.schedules.gpu.rules import item_of
from sdk.compiler.sym import Dim, Var, ceildiv, free_vars, max_value
from sdk.errors import BuildError

__all__ = ["GROUP", "MAX_GROUPS", "Grid", "Groups", "fixed_by", "parallel", "parts_of", "work_items"]

GROUP: Final = 64  # work items of a group, where nothing else decides
LOCAL_BYTES: Final = 32 * 1024  # that a group may share: the least that drivers of Vulkan and OpenCL promise
MAX_GROUPS: Final = 65535  # on an axis: the least that Vulkan promises
_AXES: Final = ("x", "y", "z")
Groups = tuple[Dim, Dim, Dim]


@dataclass(frozen=True)
class Grid:
    """A kernel: ``loops`` with loops bound to axes; ``local`` work items to a group, ``groups`` of them, by axis. Its
    parameters are those of the function that ``operands`` numbers, then arrays of so many bytes as ``scratch`` says."""

    loops: Loops
    local: tuple[int, int, int]
    groups: Groups
    operands: tuple[int, ...]
    scratch: tuple[int, ...] = ()


def parts_of(loops: Loops) -> list[Loops]:
    """What becomes one kernel each of a function, to be run in order, each after all of the one before."""
    return _parts(loops) or [loops]


def fixed_by(loops: Loops) -> frozenset[Var]:
    """What the number of work items of a function, or the size of what they share, depends on."""
    bounds = (d for part in parts_of(loops) for loop in _chain(part)[0] for d in (loop.lo, loop.hi))
    sizes = (d for n in walk(loops.body) if isinstance(n, Alloc) for d in n.buffer.shape)
    return frozenset(v for d in (*bounds, *sizes) for v in free_vars(d))


def parallel(loops: Loops) -> Loops:
    """The same function with the loops that become axes marked as such: their iterations run in any order."""
    body = tuple(_marked(part) for part in (_parts(loops) or [loops]))
    return replace(loops, body=Block(tuple(stmt for block in body for stmt in block.body)))


def _marked(loops: Loops) -> Block:
    chain, body = _chain(loops)
    for loop in reversed(chain):
        body = Block((replace(loop, body=body, kind="parallel"),))
    return body


def _parts(loops: Loops) -> list[Loops]:
    """The statements of a function as functions, where nothing is declared that they share; else none."""
    body = loops.body.body
    apart = len(body) > 1 and all(isinstance(s, For | If | Block) for s in body)
    return [replace(loops, body=Block((stmt,))) for stmt in body] if apart else []


def work_items(loops: Loops, gpu: Gpu | None = None, aligned: frozenset[str] = frozenset()) -> Grid:
    """One kernel of a function: its outer independent loops are axes, the innermost of them x, those outside of the
    inner two one axis. A nest without any is the work of one item. With a ``gpu`` an item does what its rules say;
    parameters that are ``aligned`` begin at multiples of 16 bytes.

    Raises:
        BuildError: the kernel would need what a work item has not, or no rule is for it.
    """
    given = len(loops.params)
    level = "global"
    local: tuple[int, int, int] | None = None
    if gpu is None:
        part = _part(loops, aligned, 0)
        loops, chain, inner = part.loops, list(part.chain), part.inner
    else:
        part, item = item_of(lambda shares: _part(loops, aligned, SHARED_BYTES if shares else 0), gpu)
        loops, chain, inner = part.loops, list(item.loops), item.body
        if item.local:
            x, y, z = (*item.local, 1, 1)[: len(_AXES)]
            level, local = "group", (x, y, z)
            inner = _of_item(inner)
        if item.flat:
            loops = flat(loops)
        _check_private(inner)
    while len(chain) > len(_AXES):
        first, second = chain[:2]
        one, env = joined(first, second)
        inner = substitute_dims(inner, env)
        chain = [one, *(_renamed(loop, env) for loop in chain[2:])]
    body = inner
    for loop, axis in zip(reversed(chain), _AXES, strict=False):
        body = Block((replace(loop, body=body, kind="bind", axis=f"{level}.{axis}"),))
    extents = [loop.hi - loop.lo for loop in reversed(chain)]
    sizes = local or _local(extents)
    groups = extents if local else [ceildiv(extent, size) for extent, size in zip(extents, sizes, strict=False)]
    if any((maximum := max_value(count)) is None or maximum > MAX_GROUPS for count in groups):
        raise BuildError("more work items than the axes of a GPU have room for", where=f"loops @{loops.name}")
    padded = (*groups, 1, 1, 1)[: len(_AXES)]
    loads, stores = buffers_used(body)
    used = loads | stores
    operands = tuple(k for k, p in enumerate(loops.params[:given]) if p.buffer.name in used)
    own = loops.params[given:]
    params = (*(_used(loops.params[k], stores) for k in operands), *own)
    scratch = tuple(p.buffer.type.max_bytes for p in own)
    return Grid(replace(loops, params=params, body=body), sizes, (padded[0], padded[1], padded[2]), operands, scratch)


def _part(loops: Loops, aligned: frozenset[str], room: int) -> Part:
    """A nest for rules: with ``room`` for the arrays of a group, else with those of items."""
    chain, inner = _chain(loops)
    loops, chain, inner = outside(loops, chain, inner, room)
    if not room:
        _check_private(inner)
        inner = _of_item(inner)
    return Part(loops, chain, inner, classify(loops), aligned)


def _chain(loops: Loops) -> tuple[list[For], Block]:
    """The perfectly nested outer loops whose iterations are independent, and what is inside of them."""
    chain: list[For] = []
    block = loops.body
    while len(block.body) == 1 and isinstance(loop := block.body[0], For):
        inside = {outer.var for outer in chain} & (free_vars(loop.lo) | free_vars(loop.hi))
        if loop.kind not in ("serial", "parallel", "unroll") or inside or conflict(loop, loops) is not None:
            break
        chain.append(loop)
        block = loop.body
    return chain, block


def _used(param: Param, stores: set[str]) -> Param:
    """A parameter as one kernel of a function uses it."""
    return param if param.buffer.name in stores else replace(param, mode="read")


def _renamed(loop: For, env: Mapping[Var, Dim]) -> For:
    """A loop of the chain: its bounds use no variable of another."""
    assert not (free_vars(loop.lo) | free_vars(loop.hi)) & env.keys()
    return loop


def _local(extents: list[Dim]) -> tuple[int, int, int]:
    """Work items of a group by axis: as many of the innermost loop as it has, to a power of two, then of the next."""
    sizes, left = [1, 1, 1], GROUP
    for k, extent in enumerate(extents[:2]):
        maximum = max_value(extent)
        while left > 1 and (maximum is None or sizes[k] < maximum):
            sizes[k], left = sizes[k] * 2, left // 2
    return sizes[0], sizes[1], sizes[2]


def _check_private(block: Block) -> None:
    """What a work item declares must be small, and of a size that is known."""
    buffers = allocated(block)
    for space, maximum in (("register", PRIVATE_BYTES), ("local", LOCAL_BYTES), ("scratch", PRIVATE_BYTES)):
        held = [b for b in buffers if b.space == space]
        sizes = [b.type.nbytes for b in held]
        known = [s for s in sizes if isinstance(s, int)]
        if len(known) < len(sizes) or sum(known) > maximum:
            names = ", ".join(b.name for b in held)
            raise BuildError(f"{names}: more memory of its own than a work item of a GPU has", why=f"{maximum} bytes")


def _of_item(body: Block) -> Block:
    """The same with scratch memory as arrays of the work item."""

    def one(node: Any) -> Any:
        return replace(node, space="register") if isinstance(node, Buffer) and node.space == "scratch" else node

    return rewrite(body, one)
