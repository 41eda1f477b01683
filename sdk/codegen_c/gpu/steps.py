"""The statements of a plan as the runtime takes them: a table of steps, and what each gives its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sdk.codegen_c.gpu.grid import GROUP, MAX_GROUPS, parallel
from sdk.codegen_c.gpu.kernels import Kernels, Launch
from sdk.codegen_c.program.weights import Weights
from sdk.compiler.ir.loops import Block, Buffer, For, Load, Loops, Param, Store
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, Plan, PlanBuffer, PlanCall, Wait
from sdk.compiler.ir.types import DType, dtype
from sdk.compiler.ir.walk import substitute_dims
from sdk.compiler.memory.effects import extern_outputs
from sdk.compiler.memory.inplace import may_take_over
from sdk.compiler.sym import Dim, Var, floordiv, grain, prove_eq, prove_ge, substitute
from sdk.errors import BuildError

__all__ = [
    "Constants",
    "Left",
    "Operand",
    "Step",
    "aligned_of",
    "all_rows",
    "check_plan",
    "constants",
    "copying",
    "functions_of",
    "live_numbers",
    "regions_of",
    "scratch_bytes",
    "steps_of",
]

Left = frozenset[tuple[str, int]]  # calls by plan and number
ARENA: Final = 0  # regions by number, as the runtime has them
STATE: Final = 1
SCRATCH: Final = 2  # of the device alone: what work items have no room for
CONSTANTS: Final = 3
SHARD: Final = 128 << 20  # bytes of a buffer of constants: what many drivers show a kernel of one
VECTOR: Final = 16  # bytes of the widest vector that kernels read at once
_ALIGN: Final = 256  # of constants: what the strictest drivers want of an offset


@dataclass(frozen=True)
class Constants:
    """Where constants lie: region and offset of each array by its C name; the bytes of each region."""

    places: Mapping[str, tuple[int, int]]
    bytes: tuple[int, ...]

    @property
    def live(self) -> int:
        """The region of the numbers that kernels read, behind those of constants."""
        return CONSTANTS + len(self.bytes)


@dataclass(frozen=True)
class Operand:
    """What a step touches: ``bytes`` from ``offset`` on in a region. Where it runs as C, ``down`` says whether that
    needs what the device has of them, ``up`` whether the device needs what is written."""

    region: int
    offset: Dim
    bytes: Dim
    element: DType
    reads: bool
    writes: bool
    down: bool = True
    up: bool = True
    is_live: bool = False


@dataclass(frozen=True)
class Step:
    """One statement: its operands, the numbers for its kernels, and these with what each is given of the operands.
    Without kernels it runs as C, for the reason that ``why`` gives. ``rows`` are the launches and then those that may
    take their place, each with how many rows on that one is (0: there is none). ``live`` are numbers that its kernels
    read from memory, for all values of which they are recorded once, from number ``first_live`` of these on."""

    stmt: PlanCall | Copy
    operands: tuple[Operand, ...]
    numbers: tuple[Dim, ...]
    launches: tuple[Launch, ...] = ()
    why: str = ""
    live: tuple[Dim, ...] = ()
    first_live: int = 0

    @property
    def rows(self) -> tuple[tuple[Launch, int], ...]:
        """The dispatches of the step in the order of the tables."""
        every = list(self.launches)
        ahead = []
        for number, one in enumerate(every):  # which grows: those that take the place of others may have such too
            ahead.append(len(every) - number if one.instead is not None else 0)
            every += [one.instead] if one.instead is not None else []
        return tuple(zip(every, ahead, strict=True))


def constants(weights: Weights) -> Constants:
    """Places for all arrays, in as few regions as hold them."""
    places: dict[str, tuple[int, int]] = {}
    sizes = [0]
    for symbol, const in weights.distinct.items():
        size = -(-const.nbytes // _ALIGN) * _ALIGN
        if sizes[-1] and sizes[-1] + size > SHARD:
            sizes.append(0)
        places[symbol] = CONSTANTS + len(sizes) - 1, sizes[-1]
        sizes[-1] += size
    return Constants(places, tuple(sizes))


def check_plan(plan: Plan) -> None:
    """Raises BuildError for statements that are not recorded: what streams rows, or finds out sizes in a run."""
    for stmt in plan.body:
        if not isinstance(stmt, PlanCall | Copy | Wait):
            raise BuildError(
                f"{type(stmt).__name__.lower()} has no place in a recording",
                where=f"entry {plan.name}",
                why="sizes that a run finds out itself are not known when work for a GPU is recorded",
                hint="without --gpu the model runs on the processor",
            )
    for region in plan.regions:
        if region.kind == "caller" or (region.kind == "arena" and region.name != "arena"):
            raise BuildError(f"the region {region.name} has no place on a GPU", where=f"entry {plan.name}")


def copying(kind: DType) -> Loops:
    """The function that copies n elements."""
    n = Var("n", 0, MAX_GROUPS * GROUP)
    i = Var("i", 0, MAX_GROUPS * GROUP - 1)
    src, dst = Buffer("src", kind, (n.expr,)), Buffer("dst", kind, (n.expr,))
    body = Store("dst", (i.expr,), Load("src", (i.expr,), kind))
    params = (Param(src, "read"), Param(dst, "write"))
    return Loops(f"copy {kind}", (n,), params, Block((For(i, 0, n.expr, Block((body,))),)))


def functions_of(module: Module, left: Left = frozenset()) -> dict[str, Loops]:
    """What kernels are made of: the functions that plans call, except where the processor is ``left`` the call; those
    that no call gives a part of the rows for all of them; and those that copy."""
    out: dict[str, Loops] = {}
    parts = {s.callee for p in module.plans.values() for s in p.body if isinstance(s, PlanCall) and _is_part(module, s)}
    for plan in module.plans.values():
        for stmt in plan.body:
            if isinstance(stmt, PlanCall) and not stmt.extern and (plan.name, stmt.index) not in left:
                loops = module.loops[stmt.callee]
                out[stmt.callee] = loops if stmt.callee in parts else all_rows(loops)
            elif isinstance(stmt, Copy):
                kind = _copied(plan, stmt)
                out[_copy_name(kind)] = copying(kind)
    return out


def _is_part(module: Module, call: PlanCall) -> bool:
    """Whether a call computes some of the rows."""
    if call.extern or call.rows is None or (rows := module.loops[call.callee].rows) is None:
        return False
    env = dict(zip(module.loops[call.callee].dims, call.dims, strict=True))
    return call.rows != (0, substitute(rows.extent, env))


def all_rows(loops: Loops) -> Loops:
    """The function where it computes all rows."""
    if loops.rows is None:
        return loops
    env: dict[Var, Dim] = {loops.rows.lo: 0, loops.rows.hi: loops.rows.extent}
    return replace(loops, body=substitute_dims(loops.body, env))


def aligned_of(module: Module) -> dict[str, frozenset[str]]:
    """Of each function the parameters that begin at multiples of ``VECTOR`` bytes in all calls."""
    out: dict[str, frozenset[str]] = {}
    for plan in module.plans.values():
        for stmt in plan.body:
            if not isinstance(stmt, PlanCall) or stmt.extern:
                continue
            held = zip(module.loops[stmt.callee].params, map(plan.buffer, stmt.args), strict=True)
            fine = frozenset(p.buffer.name for p, b in held if _is_aligned(plan, b))
            out[stmt.callee] = out.get(stmt.callee, fine) & fine
    return out


def regions_of(module: Module, weights: Weights, places: Constants) -> dict[str, dict[str, tuple[int, ...]]]:
    """Of each function the regions that its parameters lie in, call by call."""
    out: dict[str, dict[str, tuple[int, ...]]] = {}
    for plan in module.plans.values():
        for stmt in plan.body:
            if not isinstance(stmt, PlanCall) or stmt.extern:
                continue
            own = out.setdefault(stmt.callee, {})
            for param, name in zip(module.loops[stmt.callee].params, stmt.args, strict=True):
                region, _ = _place(plan, plan.buffer(name), weights, places)
                own[param.buffer.name] = (*own.get(param.buffer.name, ()), region)
    return out


def _is_aligned(plan: Plan, buffer: PlanBuffer) -> bool:
    """Constants begin where ``constants`` puts them."""
    return plan.region(buffer.region).kind == "const" or grain(buffer.offset) % VECTOR == 0


def _copied(plan: Plan, stmt: Copy) -> DType:
    """The type that a copy moves: words where both sides are whole words."""
    whole = plan.buffer(stmt.src).type.dtype.nbytes % 4 == 0 and plan.buffer(stmt.dst).type.dtype.nbytes % 4 == 0
    return dtype("u32" if whole else "u8")


def _copy_name(kind: DType) -> str:
    return f" copy {kind}"  # no function of a module is called so


def steps_of(
    module: Module, plan: Plan, kernels: Kernels, weights: Weights, places: Constants, left: Left = frozenset()
) -> tuple[Step, ...]:
    """The steps of a plan in order, without kernels for those that are ``left`` to the processor."""
    steps = [
        _call(module, plan, stmt, kernels, weights, places)
        if isinstance(stmt, PlanCall)
        else _copy(plan, stmt, kernels, weights, places)
        for stmt in plan.body
        if isinstance(stmt, PlanCall | Copy)
    ]
    chosen = [isinstance(s.stmt, PlanCall) and (plan.name, s.stmt.index) in left for s in steps]
    for k, step in enumerate(steps):
        if chosen[k]:
            steps[k] = Step(step.stmt, step.operands[: len(_names(step))], (), (), "it is faster there")
    return tuple(_planned(plan, [*_with_live(steps)]))


def _planned(plan: Plan, steps: Sequence[Step]) -> Iterator[Step]:
    """The steps with the copies that those without kernels need: of what kernels write, and of what they read. States
    may have been written by other entries; outputs are taken from the device."""
    read = {_held(plan, plan.buffer(name)) for name in plan.outputs}
    written: set[str] = set()
    for step in steps:
        for name, operand in zip(_names(step), step.operands, strict=False):
            held = _held(plan, plan.buffer(name))
            if step.launches:
                read |= {held} if operand.reads else set()
                written |= {held} if operand.writes else set()
    for step in steps:
        operands = list(step.operands)
        for k, name in enumerate(_names(step)):
            held, state = _held(plan, plan.buffer(name)), operands[k].region == STATE
            down, up = (step.launches or state or held in s for s in (written, read))
            operands[k] = replace(operands[k], down=bool(down), up=operands[k].writes and bool(up))
        yield replace(step, operands=tuple(operands))


def _names(step: Step) -> Sequence[str]:
    """The buffers of a step's first operands."""
    return step.stmt.args if isinstance(step.stmt, PlanCall) else (step.stmt.src, step.stmt.dst)


def _with_live(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps with their places among the numbers that kernels read; steps of the same numbers share one."""
    known: dict[tuple[Dim, ...], int] = {}
    for step in steps:
        if not step.live:
            yield step
            continue
        first = known.setdefault(step.live, sum(map(len, known)))
        operands = tuple(replace(o, offset=o.offset + 4 * first) if o.is_live else o for o in step.operands)
        yield replace(step, operands=operands, first_live=first)


def live_numbers(steps: Sequence[Step]) -> tuple[Dim, ...]:
    """All numbers that the kernels of steps read, in order."""
    known = {step.first_live: step.live for step in steps if step.live}
    return tuple(d for first in sorted(known) for d in known[first])


def _operand(plan: Plan, buffer: PlanBuffer, weights: Weights, places: Constants, reads: bool, writes: bool) -> Operand:
    if buffer.ring is not None:
        raise BuildError(f"buffer {buffer.name} keeps its last {buffer.ring} rows, which kernels have no form of")
    return Operand(*_place(plan, buffer, weights, places), buffer.type.nbytes, buffer.type.dtype, reads, writes)


def _place(plan: Plan, buffer: PlanBuffer, weights: Weights, places: Constants) -> tuple[int, Dim]:
    """Region and offset of a buffer."""
    kind = plan.region(buffer.region).kind
    if kind != "const":
        return STATE if kind == "state" else ARENA, buffer.offset
    held = buffer
    while held.role != "const":
        held = plan.buffer(held.alias)
    return places.places[weights.symbols[held.name]]


def _call(module: Module, plan: Plan, call: PlanCall, kernels: Kernels, weights: Weights, places: Constants) -> Step:
    if call.extern:
        written = extern_outputs(module, plan)[call.index]
        operands = [_operand(plan, plan.buffer(n), weights, places, True, n in written) for n in call.args]
        return Step(call, tuple(operands), (), (), f"{call.callee} is a function of a library")
    loops = module.loops[call.callee]
    operands = [
        _operand(plan, plan.buffer(n), weights, places, p.mode != "write", p.mode != "read")
        for p, n in zip(loops.params, call.args, strict=True)
    ]
    if (why := _ordered(plan, call, loops)) is not None:
        return Step(call, tuple(operands), (), (), why)
    env: dict[Var, Dim] = dict(zip(loops.dims, call.dims, strict=True))
    read = kernels.live.get(call.callee, ())
    numbers = [env[v] for v in loops.dims if v not in read]
    live = tuple(env[v] for v in read)
    if live:
        operands.append(Operand(places.live, 0, 4 * len(live), dtype("i32"), True, False, is_live=True))
    if loops.rows is not None:
        lo, hi = call.rows or (0, substitute(loops.rows.extent, env))
        env |= {loops.rows.lo: lo, loops.rows.hi: hi}
        numbers += [lo, hi]
    return replace(_step(call, call.callee, tuple(operands), tuple(numbers), env, kernels), live=live)


def _ordered(plan: Plan, call: PlanCall, loops: Loops) -> str | None:
    """Why work items in any order would overwrite what others have yet to read; None where they do not. What a call
    touches is in use at the same time: two buffers share bytes only where one takes over those of the other."""
    free: Loops | None = None
    for out, a in zip(loops.params, map(plan.buffer, call.args), strict=True):
        for source, b in zip(loops.params, map(plan.buffer, call.args), strict=True):
            if out is source or out.mode == "read" or _held(plan, a) != _held(plan, b):
                continue
            free = free or parallel(loops)
            same = prove_eq(a.offset, b.offset) is True
            if not (same and may_take_over(free, out.buffer.name, source.buffer.name)):
                return f"{out.buffer.name} takes over bytes of {source.buffer.name} in an order of its own"
    return None


def _held(plan: Plan, buffer: PlanBuffer) -> str:
    """The buffer whose bytes one shares."""
    while buffer.alias:
        buffer = plan.buffer(buffer.alias)
    return buffer.name


def _copy(plan: Plan, stmt: Copy, kernels: Kernels, weights: Weights, places: Constants) -> Step:
    src, dst = plan.buffer(stmt.src), plan.buffer(stmt.dst)
    a, b = _operand(plan, src, weights, places, True, False), _operand(plan, dst, weights, places, False, True)
    a, b = (Operand(x.region, x.offset, a.bytes, dtype("u8"), x.reads, x.writes) for x in (a, b))
    if _held(plan, src) == _held(plan, dst):
        return Step(stmt, (a, b), (), (), "a copy between places that may overlap")
    kind = _copied(plan, stmt)
    count = floordiv(a.bytes, kind.nbytes)
    loops = copying(kind)
    if prove_ge(loops.dims[0].hi, count) is not True:
        return Step(stmt, (a, b), (), (), f"a copy of {count} elements")
    return _step(stmt, _copy_name(kind), (a, b), (count,), {loops.dims[0]: count}, kernels)


def _step(
    stmt: PlanCall | Copy,
    function: str,
    operands: tuple[Operand, ...],
    numbers: tuple[Dim, ...],
    env: Mapping[Var, Dim],
    kernels: Kernels,
) -> Step:
    beyond: list[Operand] = []

    def placed(own: Launch) -> Launch:
        x, y, z = (substitute(g, env) for g in own.groups)
        first = len(operands) + len(beyond)
        at = 0
        for size in own.scratch:
            beyond.append(Operand(SCRATCH, at, size, dtype("u8"), False, True))
            at += -(-size // _ALIGN) * _ALIGN
        given = (*own.operands, *range(first, first + len(own.scratch)))
        plain = None if own.instead is None else placed(own.instead)
        return Launch(own.kernel, (x, y, z), given, own.scratch, plain)

    launches = [placed(own) for own in kernels.of.get(function, ())]
    why = kernels.missing.get(function, "")
    return Step(stmt, (*operands, *beyond), numbers, tuple(launches), why)


def scratch_bytes(kernels: Kernels) -> int:
    """The most that a dispatch takes of the region of scratch."""
    launches = (form for own in kernels.of.values() for one in own for form in (one, one.instead) if form is not None)
    return max((sum(-(-size // _ALIGN) * _ALIGN for size in one.scratch) for one in launches), default=0)
