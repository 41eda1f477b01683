"""Two loops functions as one: a producer computed where its consumer reads it, or a consumer where it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sdk.compiler.analysis.access import Access, accesses
from sdk.compiler.analysis.pattern import Point, classify, identity_of, point_of
from sdk.compiler.analysis.work import size_of
from sdk.compiler.ir.graph import fresh_name
from sdk.compiler.ir.loops import Alloc, Block, Buffer, Load, Loops, Param, Store, ValueExpr
from sdk.compiler.ir.walk import rename_buffers, rewrite, statements, substitute_dims, walk
from sdk.compiler.passes.fusion.cost import cost_of, depth_of, dequantizes, in_order, may_recompute
from sdk.compiler.passes.fusion.specialise import assemble, names_in, trips
from sdk.compiler.sym import Dim, Var, max_value, product, prove_eq
from sdk.compiler.verify.loops import verify_loops

__all__ = ["Pair", "compute_at_read", "compute_at_store"]

MAX_REPEATED_OPS: Final = 40  # what may be repeated at a store: compilers compute it once
MAX_KERNEL_OPS: Final = 400  # operations and reads of one kernel: code size, and time to compile
MAX_NESTING: Final = 96  # operations inside one another: what walks over values recurses as deep


@dataclass(frozen=True)
class Pair:
    """What is to be merged, in the dims of the caller: ``places`` are the user's arguments (of those that it reads)
    that are the maker's only result."""

    name: str
    maker: Loops
    user: Loops
    places: tuple[int, ...]

    @property
    def out(self) -> Param:
        """What the maker writes."""
        (p,) = (p for p in self.maker.params if p.mode != "read")
        return p

    @property
    def result(self) -> Param:
        """What the user writes."""
        (p,) = (p for p in self.user.params if p.mode != "read")
        return p

    @property
    def inner(self) -> tuple[Param, ...]:
        """The user's parameters that are the maker's result."""
        return tuple(p for k, p in enumerate(self._reads) if k in self.places)

    @property
    def others(self) -> tuple[Param, ...]:
        """The user's other parameters that it reads."""
        return tuple(p for k, p in enumerate(self._reads) if k not in self.places)

    @property
    def _reads(self) -> list[Param]:
        return [p for p in self.user.params if p.mode == "read"]

    def sound(self) -> bool:
        """One result each, nothing updated, equal types between, and no dim called like a loop of the other."""
        for f in (self.maker, self.user):
            if any(p.mode == "update" for p in f.params) or sum(p.mode == "write" for p in f.params) != 1:
                return False
            if f.layouts or f.trace or any(p.buffer.ring is not None for p in f.params):
                return False
        mine = self.out.buffer
        for p in self.inner:
            same = p.buffer.dtype == mine.dtype and len(p.buffer.shape) == len(mine.shape)
            if not same or not all(prove_eq(a, b) is True for a, b in zip(p.buffer.shape, mine.shape, strict=True)):
                return False
        for a, b in ((self.maker, self.user), (self.user, self.maker)):
            own = {v.name for v in b.dims}
            if {v.name for v in a.dims} & (names_in(b) - own):
                return False
        return True


# --- at the read --------------------------------------------------------------------------------------------------


def compute_at_read(pair: Pair, dequantize: bool) -> Loops | None:
    """The producer computed at each read of it; None where that is impossible or, by the rule in ``cost``, a loss.

    rewrite: ``t[i] = f(i)`` with ``for j { o[j] = g(t[h(j)]) }`` --> ``for j { o[j] = g(f(h(j))) }``
    """
    point = point_of(pair.maker)
    if point is None or point.store.buffer != pair.out.buffer.name:
        return None
    inner = {p.buffer.name for p in pair.inner}
    found = accesses(pair.user.body)
    reads = [a for a in found if a.buffer in inner]
    if not reads or any(a.kind != "load" or a.lanes != 1 for a in reads):
        return None
    if depth_of(pair.maker.body) + depth_of(pair.user.body) > MAX_NESTING:
        return None
    names = _apart(pair.maker, pair.user)
    user = point_of(pair.user)
    one = user is not None and len({a.index for a in reads}) == 1
    value = _whole(point)
    size = size_of(value) * (1 if one else len(reads))
    if size > MAX_KERNEL_OPS or not _worth(pair, point, value, reads, one, dequantize):
        return None
    merged = _shared(pair, point, names, inner) if one and len(reads) > 1 and cost_of(value) else None
    if merged is None:
        merged = _inlined(pair, point, rename_buffers(value, names), names, inner)
    plain = user is not None and identity_of(pair.user) is not None and identity_of(pair.maker) is not None
    return merged if _kept(pair.user, merged, plain) else None


def _apart(maker: Loops, user: Loops) -> dict[str, str]:
    """New names for the maker's parameters and temporaries, none of them the user's."""
    taken = names_in(user) | {v.name for v in maker.dims}
    mine = [p.buffer.name for p in maker.params if p.mode == "read"]
    mine += [n.buffer.name for n in statements(maker.body) if isinstance(n, Alloc)]
    return {name: fresh_name(name, taken) for name in mine}


def _whole(point: Point) -> ValueExpr:
    """The value at an element with the values of the registers put in."""
    env: dict[str, ValueExpr] = {}

    def one(node: Any) -> Any:
        return env.get(node.buffer, node) if isinstance(node, Load) else node

    for buffer, value in point.temps:
        env[buffer.name] = rewrite(value, one)
    return rewrite(point.store.value, one)


def _at(point: Point, index: Sequence[Dim]) -> dict[Var, Dim]:
    return {v: d for v, d in zip(point.order, index, strict=True) if v is not None}


def _worth(pair: Pair, point: Point, value: ValueExpr, reads: list[Access], one: bool, dequantize: bool) -> bool:
    elements = max(max_value(product(pair.out.buffer.shape)) or 1, 1)
    sites = reads[:1] if one else reads
    reuse = sum(trips(a.loops) for a in sites) / elements
    types = {p.buffer.name: p.buffer.dtype for p in pair.maker.params}
    shapes = {p.buffer.name: p.buffer.shape for p in pair.maker.params}
    if not may_recompute(value, reuse, dequantize and dequantizes(value, types)):
        return False
    return all(
        in_order(substitute_dims(value, _at(point, a.index)), shapes, a.index, pair.out.buffer.shape, a.loops)
        for a in reads
    )


def _inlined(pair: Pair, point: Point, value: ValueExpr, names: Mapping[str, str], inner: set[str]) -> Loops:
    def one(node: Any) -> Any:
        if isinstance(node, Load) and node.buffer in inner:
            return substitute_dims(value, _at(point, node.index))
        return node

    return _function(pair, names, rewrite(pair.user.body, one))


def _shared(pair: Pair, point: Point, names: Mapping[str, str], inner: set[str]) -> Loops:
    """The value in a register, for a user that reads the same element several times."""
    user = point_of(pair.user)
    assert user is not None  # the caller looked
    loads = [n for n in walk((user.store.value, *(v for _, v in user.temps))) if isinstance(n, Load)]
    at = next(n.index for n in loads if n.buffer in inner)
    taken = names_in(pair.user) | set(names.values()) | {v.name for v in pair.maker.dims}
    kept = Buffer(fresh_name("t", taken), pair.out.buffer.dtype, (), "register")
    env = _at(point, at)
    mine = [(replace(b, name=names[b.name]), substitute_dims(rename_buffers(v, names), env)) for b, v in point.temps]
    mine.append((kept, substitute_dims(rename_buffers(point.store.value, names), env)))

    def one(node: Any) -> Any:
        return Load(kept.name, (), kept.dtype) if isinstance(node, Load) and node.buffer in inner else node

    before = [s for b, v in mine for s in (Alloc(b), Store(b.name, (), v))]
    inside = user.chain[-1].body if user.chain else pair.user.body
    block = Block((*before, *rewrite(inside, one).body))
    for loop in reversed(user.chain):
        block = Block((replace(loop, body=block),))
    return _function(pair, names, block)


def _function(pair: Pair, names: Mapping[str, str], body: Block) -> Loops:
    mine = tuple(_renamed(p, names) for p in pair.maker.params if p.mode == "read")
    return assemble(pair.name, (*mine, *pair.others, pair.result), body, pair.user.rows)


def _renamed(p: Param, names: Mapping[str, str]) -> Param:
    return replace(p, buffer=replace(p.buffer, name=names.get(p.buffer.name, p.buffer.name)))


def _kept(before: Loops, after: Loops, plain: bool) -> bool:
    """Whether a product is still one, and every access still proved inside: ``plain`` where that follows from what
    was proved before, since each operand is read at the element that is computed."""
    old = classify(before)
    if old.product is not None:
        new = classify(after)
        if new.kind != old.kind or new.product is None:
            return False
    found: list[str] = []
    if not plain:
        verify_loops(after, lambda _, text: found.append(text))
    return not found


# --- at the store -------------------------------------------------------------------------------------------------


def compute_at_store(pair: Pair) -> Loops | None:
    """An elementwise consumer computed where the producer stores; None where an element is stored or read otherwise.

    rewrite: ``o[e] = v`` with ``for i { p[i] = f(o[i], q[i]) }`` --> ``p[e] = f(v, q[e])``
    """
    user = point_of(pair.user)
    name = pair.out.buffer.name
    stores = [n for n in statements(pair.maker.body) if isinstance(n, Store) and n.buffer == name]
    loads = [n for n in walk(pair.maker.body) if isinstance(n, Load) and n.buffer == name]
    if user is None or identity_of(pair.user) is None or len(stores) != 1 or loads:
        return None
    if depth_of(pair.maker.body) + depth_of(pair.user.body) > MAX_NESTING:
        return None
    if classify(pair.maker).kind == "opaque" or not _same_shape(pair):
        return None
    inner = {p.buffer.name for p in pair.inner}
    value = _whole(user)
    for node in walk(value):
        if isinstance(node, Load) and node.buffer in inner and not _same_element(node.index, user, pair):
            return None
    times = sum(isinstance(n, Load) and n.buffer in inner for n in walk(value))
    if size_of(value) + times * size_of(stores[0].value) > MAX_KERNEL_OPS:
        return None
    if times > 1 and cost_of(stores[0].value) > MAX_REPEATED_OPS:
        return None
    return _stored(pair, user, value, inner)


def _same_shape(pair: Pair) -> bool:
    a, b = pair.out.buffer.shape, pair.result.buffer.shape
    return len(a) == len(b) and all(prove_eq(x, y) is True for x, y in zip(a, b, strict=True))


def _same_element(index: Sequence[Dim], user: Point, pair: Pair) -> bool:
    """Equal indices, where the only index of an axis of extent 1 may be written either way."""
    target, shape = user.store.index, pair.out.buffer.shape
    return len(index) == len(target) and all(
        a is b or a == b or size == 1 for a, b, size in zip(index, target, shape, strict=True)
    )


def _stored(pair: Pair, user: Point, value: ValueExpr, inner: set[str]) -> Loops | None:
    out = pair.out.buffer.name
    taken = names_in(pair.maker) | {v.name for v in pair.user.dims} | inner
    names = {p.buffer.name: fresh_name(p.buffer.name, taken) for p in pair.others}
    names[pair.result.buffer.name] = out

    def one(node: Any) -> Any:
        if not isinstance(node, Store) or node.buffer != out:
            return node
        here = substitute_dims(rename_buffers(value, names), _at(user, node.index))
        made = rewrite(here, lambda n: node.value if isinstance(n, Load) and n.buffer in inner else n)
        return Store(out, node.index, made)

    body = rewrite(pair.maker.body, one)
    mine = tuple(p for p in pair.maker.params if p.mode == "read")
    params = (*mine, *(_renamed(p, names) for p in (*pair.others, pair.result)))
    merged = assemble(pair.name, params, body, pair.maker.rows)
    return merged if _kept(pair.maker, merged, _alike(pair)) else None


def _alike(pair: Pair) -> bool:
    """Whether the other operands have the extents of the result (or 1), and so hold each of its elements."""
    shape = pair.out.buffer.shape
    return all(
        d == 1 or d is e or d == e
        for p in pair.others
        for d, e in zip(p.buffer.shape, shape[len(shape) - len(p.buffer.shape) :], strict=True)
    )
