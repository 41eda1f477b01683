"""Wrong plans made from right ones: every fault of a kind, at every place where it can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Bind, Check, Plan, PlanBuffer, PlanCall, PlanStmt, Repeat
from sdk.compiler.ir.types import U8, TensorType
from sdk.compiler.memory.rings import with_rings
from sdk.compiler.sym import Dim, Expr, Var, dmax, free_vars, max_value, substitute
from sdk.compiler.verify.plan_live import by_rows

ROOM = 1 << 13


@dataclass(frozen=True)
class Mutant:
    """A plan with one fault and the words for it; ``module`` where the functions changed too."""

    kind: str
    text: str
    module: Module
    plan: Plan


Found = Iterator[tuple[str, Module, Plan]]


def mutants(module: Module, plan: Plan, kinds: tuple[str, ...] = ()) -> Iterator[Mutant]:
    """Every mutant of the kinds (all by default); their plans stand in their modules."""
    for kind, make in KINDS.items():
        if kinds and kind not in kinds:
            continue
        for text, changed, wrong in make(module, plan):
            if wrong != plan or changed is not module:
                plans = {**changed.plans, plan.name: wrong}
                yield Mutant(kind, text, replace(changed, plans=plans), wrong)


def with_buffer(plan: Plan, name: str, **changes: object) -> Plan:
    """The plan with one buffer changed."""
    return replace(plan, buffers=tuple(replace(b, **changes) if b.name == name else b for b in plan.buffers))


def with_region(plan: Plan, name: str, **changes: object) -> Plan:
    """The plan with one region changed."""
    return replace(plan, regions=tuple(replace(r, **changes) if r.name == name else r for r in plan.regions))


def roomy(plan: Plan) -> Plan:
    """The plan with more room in its arenas and states than any mutant needs."""
    regions = (replace(r, bytes=r.bytes + ROOM) if r.kind in ("arena", "state") else r for r in plan.regions)
    return replace(plan, regions=tuple(regions))


def groups(plan: Plan) -> dict[str, list[PlanBuffer]]:
    """Buffers of arena and states by the one whose bytes they share in the end."""
    by_name = {b.name: b for b in plan.buffers}
    kinds = {r.name: r.kind for r in plan.regions}
    out: dict[str, list[PlanBuffer]] = {}
    for b in plan.buffers:
        root = b
        while root.alias:
            root = by_name[root.alias]
        if kinds[b.region] in ("arena", "state"):
            out.setdefault(root.name, []).append(b)
    return out


def bodies(
    body: tuple[PlanStmt, ...],
) -> Iterator[tuple[tuple[PlanStmt, ...], Callable[..., tuple[PlanStmt, ...]]]]:
    """Each list of statements, with what puts another in its place."""
    yield body, lambda new: new
    for k, stmt in enumerate(body):
        if isinstance(stmt, Repeat):
            for inner, put in bodies(stmt.body):
                yield (
                    inner,
                    lambda new, k=k, s=stmt, put=put: (*body[:k], replace(s, body=put(new)), *body[k + 1 :]),
                )


def statements(plan: Plan) -> Iterator[tuple[PlanStmt, Callable[..., Plan]]]:
    """Each statement, with what puts others in its place; calls are numbered again."""
    for body, put in bodies(plan.body):
        for k, stmt in enumerate(body):
            yield stmt, lambda *new, k=k, b=body, put=put: with_body(plan, put((*b[:k], *new, *b[k + 1 :])))


def with_body(plan: Plan, body: tuple[PlanStmt, ...]) -> Plan:
    """The plan with other statements, its calls numbered in order."""
    numbers = iter(range(1 << 20))

    def numbered(body: tuple[PlanStmt, ...]) -> tuple[PlanStmt, ...]:
        out: list[PlanStmt] = []
        for s in body:
            if isinstance(s, PlanCall):
                out.append(replace(s, index=next(numbers)))
            else:
                out.append(replace(s, body=numbered(s.body)) if isinstance(s, Repeat) else s)
        return tuple(out)

    return replace(plan, body=numbered(body))


# --- places --------------------------------------------------------------------------------------------------------


def overlap(module: Module, plan: Plan) -> Found:
    """One group of buffers moved onto another: its start, its end, its last bytes on the first ones."""
    big = roomy(plan)
    every = groups(plan)
    for a, mine in every.items():
        for b, others in every.items():
            if a == b or mine[0].region != others[0].region:
                continue
            grain = max(4, *(m.type.dtype.nbytes for m in mine)) if mine[0].role != "scratch" else 16
            size, other = _bytes(mine[0]), _bytes(others[0])
            for shift in sorted({0, (other - 1) // grain * grain, -((size - 1) // grain * grain)}):
                at = others[0].offset + shift
                if isinstance(at, int) and at < 0:
                    continue
                moved = big
                for m in mine:
                    moved = with_buffer(moved, m.name, offset=at + (m.offset - mine[0].offset))
                yield f"{a} onto {b} {shift:+}", module, moved


def leaves(module: Module, plan: Plan) -> Found:
    """A view or an in-place result away from the bytes that it shares."""
    big = roomy(plan)
    for b in plan.buffers:
        if b.alias and b.region in _placed(plan):
            for to in (b.offset + 16, b.offset + ROOM // 2):
                yield f"{b.name} leaves {b.alias}", module, with_buffer(big, b.name, offset=to)


def _placed(plan: Plan) -> set[str]:
    """Regions that the plan places buffers in."""
    return {r.name for r in plan.regions if r.kind in ("arena", "state")}


def _bytes(buffer: PlanBuffer) -> int:
    type = buffer.type
    if buffer.ring is None:
        return type.max_bytes
    rows = next(d for d in type.shape if d != 1)
    return type.max_bytes // rows * buffer.ring


def rings(module: Module, plan: Plan) -> Found:
    """A ring one row smaller, or a whole buffer as a ring one row short; its functions with it."""
    for b in plan.buffers:
        if b.region == "const" or b.alias or b.role == "scratch" or not b.type.shape:
            continue
        rows = next((d for d in b.type.shape if d != 1), 1)
        kept = b.ring or rows
        if not isinstance(kept, int) or kept < 2:
            continue
        names = {
            m.name for ms in groups(plan).values() for m in ms if b in ms and m.type.shape == b.type.shape
        }
        yield f"{b.name} keeps {kept - 1} rows", *_kept(module, plan, names, kept - 1)


def _kept(module: Module, plan: Plan, names: set[str], kept: int) -> tuple[Module, Plan]:
    loops = dict(module.loops)
    changed = plan
    for name in names:
        changed = with_buffer(changed, name, ring=kept)

    def body(stmts: tuple[PlanStmt, ...]) -> tuple[PlanStmt, ...]:
        out: list[PlanStmt] = []
        for s in stmts:
            if isinstance(s, Repeat):
                out.append(replace(s, body=body(s.body)))
            elif isinstance(s, PlanCall) and names & set(s.args):
                f = module.loops[s.callee]
                own = {p.buffer.name: kept for p, n in zip(f.params, s.args, strict=True) if n in names}
                new = replace(with_rings(f, own), name=f"{s.callee}__cut{s.index}")
                loops[new.name] = new
                out.append(replace(s, callee=new.name))
            else:
                out.append(s)
        return tuple(out)

    return replace(module, loops=loops), replace(changed, body=body(plan.body))


def aliases(module: Module, plan: Plan) -> Found:
    """An alias dropped, and each other one in its place."""
    for b in plan.buffers:
        if not b.alias:
            continue
        yield f"{b.name} no longer shares with {b.alias}", module, with_buffer(plan, b.name, alias="")
        for other in plan.buffers:
            if other.name not in (b.name, b.alias) and other.region == b.region and other.role != "scratch":
                yield (
                    f"{b.name} shares with {other.name}",
                    module,
                    with_buffer(plan, b.name, alias=other.name),
                )


def roles(module: Module, plan: Plan) -> Found:
    """A buffer that says it is an input, and so holds something from the start."""
    for b in plan.buffers:
        if b.role in ("temp", "output", "scratch"):
            yield f"{b.name} as an input", module, with_buffer(plan, b.name, role="input")
        if b.role == "scratch":
            yield f"{b.name} as a temp", module, with_buffer(plan, b.name, role="temp")
        if b.role == "input":
            yield f"{b.name} as a temp", module, with_buffer(plan, b.name, role="temp")


def regions(module: Module, plan: Plan) -> Found:
    """A region a little or much smaller, or aligned less."""
    for r in plan.regions:
        for cut in (1, 16):
            if (max_value(r.bytes) or 0) >= cut:
                yield f"region {r.name} {cut} less", module, with_region(plan, r.name, bytes=r.bytes - cut)
        if isinstance(r.bytes, Expr):
            for var in sorted(free_vars(r.bytes), key=lambda v: v.name):
                yield (
                    f"region {r.name} for {var.name} - 1",
                    module,
                    with_region(plan, r.name, bytes=_less(r.bytes, var)),
                )
        if r.kind == "arena" and r.align > 2:
            yield f"region {r.name} aligned to 2", module, with_region(plan, r.name, align=2)


def lower_bounds(module: Module, plan: Plan) -> Found:
    """A lower bound that is none, or not that of this plan; where rows come and go, less may be stated."""
    shifts = (1, 16, ROOM) if by_rows(plan) else (-16, -1, 1, 16, ROOM)
    for by in shifts if plan.lower_bound else ():
        yield f"lower bound {by:+}", module, replace(plan, lower_bound=plan.lower_bound + by)


def scratch(module: Module, plan: Plan) -> Found:
    """Scratch on what its call uses, too small, gone, or used by two."""
    big = roomy(plan)
    for stmt, put in statements(plan):
        if not isinstance(stmt, PlanCall) or not stmt.scratch:
            continue
        own = plan.buffer(stmt.scratch)
        size = own.type.max_bytes
        for name in stmt.args:
            other = plan.buffer(name)
            if other.region == own.region and isinstance(other.offset, int):
                yield (
                    f"{own.name} on {name}",
                    module,
                    with_buffer(big, own.name, offset=other.offset // 16 * 16),
                )
        yield f"{own.name} too small", module, with_buffer(plan, own.name, type=TensorType(U8, (size - 1,)))
        yield f"{own.name} gone", module, put(replace(stmt, scratch=""))
        yield f"{own.name} unaligned", module, with_buffer(big, own.name, offset=own.offset + 8)


def places(module: Module, plan: Plan) -> Found:
    """A place too low: less, without an arm of its maximum, for smaller dims, or another one's."""
    for k, (var, value) in enumerate(plan.places):

        def put(new: Dim, k: int = k, var: Var = var) -> Plan:
            return replace(plan, places=(*plan.places[:k], (var, new), *plan.places[k + 1 :]))

        yield f"{var.name} 16 less", module, put(value - 16)
        for arm in _without_arms(value):
            yield f"{var.name} without an arm", module, put(arm)
        for dim in sorted(free_vars(value), key=lambda v: v.name):
            yield f"{var.name} for {dim.name} - 1", module, put(_less(value, dim))
        for other, _ in plan.places[:k]:
            yield f"{var.name} as {other.name}", module, put(other.expr)
    for b in plan.buffers:
        if isinstance(b.offset, Expr) and not b.alias:
            for var, _ in plan.places:
                moved = plan
                for m in groups(plan)[b.name]:
                    moved = with_buffer(moved, m.name, offset=var.expr)
                yield f"{b.name} at {var.name}", module, moved


def _arms(value: Dim) -> list[Dim]:
    if isinstance(value, Expr) and not value.const and len(value.terms) == 1:
        ((term, coefficient),) = value.terms
        if coefficient == 1 and len(term) == 1 and term[0][1] == 1 and not isinstance(term[0][0], Var):
            factor = term[0][0]
            if factor.name == "max":
                return [*_arms(factor.a), *_arms(factor.b)]
    return [value]


def _without_arms(value: Dim) -> Iterator[Dim]:
    arms = _arms(value)
    for k in range(len(arms) if len(arms) > 1 else 0):
        out: Dim = 0
        for arm in (*arms[:k], *arms[k + 1 :]):
            out = dmax(out, arm)
        yield out


def _less(value: Dim, var: Var) -> Dim:
    return substitute(value, {var: dmax(var.expr - 1, 0)})


# --- statements ----------------------------------------------------------------------------------------------------


def order(module: Module, plan: Plan) -> Found:
    """Each pair of statements of a body in the other order, a statement moved to each other place, one left out or
    done twice."""
    for body, put in bodies(plan.body):
        for k in range(len(body)):
            rest = (*body[:k], *body[k + 1 :])
            yield f"without statement {k}", module, with_body(plan, put(rest))
            yield (
                f"statement {k} twice",
                module,
                with_body(plan, put((*body[: k + 1], body[k], *body[k + 1 :]))),
            )
            for to in range(len(body)):
                if to != k:
                    moved = (*rest[:to], body[k], *rest[to:])
                    yield f"statement {k} moved to {to}", module, with_body(plan, put(moved))


def rows(module: Module, plan: Plan) -> Found:
    """A range of rows off by one on either side, or both."""
    for stmt, put in statements(plan):
        if isinstance(stmt, PlanCall) and stmt.rows is not None:
            lo, hi = stmt.rows
            for a, b in ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, 1)):
                yield (
                    f"call {stmt.index} rows {a:+}, {b:+}",
                    module,
                    put(replace(stmt, rows=(lo + a, hi + b))),
                )


def repeats(module: Module, plan: Plan) -> Found:
    """A repeat that begins or ends one too early or late."""
    for stmt, put in statements(plan):
        if isinstance(stmt, Repeat):
            for a, b in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                yield (
                    f"repeat {stmt.var.name} {a:+}, {b:+}",
                    module,
                    put(replace(stmt, lo=stmt.lo + a, hi=stmt.hi + b)),
                )


def dims(module: Module, plan: Plan) -> Found:
    """A dim of a call one off; a bind or a check gone, of another value, or of wider bounds."""
    for stmt, put in statements(plan):
        match stmt:
            case PlanCall():
                for k, dim in enumerate(stmt.dims):
                    for by in (-1, 1):
                        wrong = (*stmt.dims[:k], dim + by, *stmt.dims[k + 1 :])
                        yield f"call {stmt.index} dim {k} {by:+}", module, put(replace(stmt, dims=wrong))
            case Bind():
                yield f"bind {stmt.var.name} gone", module, put()
                if not isinstance(stmt.value, str):
                    for by in (-1, 1):
                        yield (
                            f"bind {stmt.var.name} {by:+}",
                            module,
                            put(replace(stmt, value=stmt.value + by)),
                        )
                wide = Var(stmt.var.name, stmt.var.lo, stmt.var.hi + 9, stmt.var.multiple)
                yield f"bind {stmt.var.name} wider", module, put(replace(stmt, var=wide))
            case Check():
                yield f"check {stmt.left} == {stmt.right} gone", module, put()
                yield f"check of {stmt.left} alone", module, put(replace(stmt, right=stmt.left))
            case _:
                pass
    for k, var in enumerate(plan.dims):
        for name, wide in (("wider", Var(var.name, var.lo, var.hi + 9, var.multiple)), ("gone", None)):
            new = (*plan.dims[:k], *([wide] if wide else []), *plan.dims[k + 1 :])
            yield f"dim {var.name} {name}", module, replace(plan, dims=new)


KINDS: dict[str, Callable[[Module, Plan], Found]] = {
    f.__name__: f
    for f in (
        overlap, leaves, rings, aliases, roles, regions, lower_bounds, scratch, places, order, rows, repeats, dims,
    )
}  # fmt: skip
