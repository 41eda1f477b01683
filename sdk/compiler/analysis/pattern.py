"""What kind of computation a loops function is, read off its index maps; nothing is annotated by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sdk.compiler.ir.loops import (
    Alloc,
    Atomic,
    Barrier,
    Block,
    Buffer,
    Eval,
    For,
    If,
    Load,
    Loops,
    Op,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.walk import buffers_used, dims_used, statements, walk
from sdk.compiler.sym import Dim, Var, free_vars

__all__ = ["Contraction", "Kind", "Pattern", "Point", "classify", "identity_of", "point_of"]

Kind = Literal["elementwise", "injective", "contraction", "window", "reduction", "opaque"]


@dataclass(frozen=True, slots=True)
class Contraction:
    """A nest ``spatial… { acc = init; reduce… { acc += a * b }; … }`` of these buffers.

    ``a`` is the operand that does not vary with the last spatial loop (contraction), or the windowed one (window).
    """

    spatial: tuple[For, ...]
    reduce: tuple[For, ...]
    a: str
    b: str
    acc: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """The kind, and for products of two operands their structure.

    elementwise: one store, every operand read at the output's own index or broadcast along it;
    injective: one store per element, operands read anywhere (views, copies, gathers by index);
    contraction / window: multiply-accumulate over reduce loops, without / with the channel in both operands;
    reduction: other loops that carry values; opaque: anything else (library calls, barriers).
    """

    kind: Kind
    product: Contraction | None = None


def _chain(block: Block) -> list[For]:
    """The perfectly nested loops at the top."""
    out: list[For] = []
    while len(block.body) == 1 and isinstance(block.body[0], For):
        out.append(block.body[0])
        block = block.body[0].body
    return out


def classify(loops: Loops) -> Pattern:
    """The pattern of ``loops``."""
    chain = _chain(loops.body)
    inner: Block = chain[-1].body if chain else loops.body
    outs = {p.buffer.name for p in loops.params if p.mode != "read"}
    if any(isinstance(n, Eval | Barrier | Atomic) for n in statements(loops.body)):
        return Pattern("opaque")
    point = point_of(loops)
    if point is not None and point.store.buffer in outs:
        return Pattern("elementwise" if identity_of(loops) is not None else "injective")
    product = _product(chain, inner)
    if product is not None:
        kind: Kind = "window" if _varies(inner, product.a, product.spatial[-1].var) else "contraction"
        return Pattern(kind, product)
    loads, stores = buffers_used(loops.body)
    if not loads & stores and not any(isinstance(n, Alloc) for n in statements(loops.body)):
        return Pattern("injective")
    return Pattern("reduction")


@dataclass(frozen=True, slots=True)
class Point:
    """A function whose one output is computed element by element: ``chain`` are its loops, ``store`` what it puts at
    each element, ``temps`` the registers that it computes before, in order. ``order`` has the loop variable of each
    axis of the output, None for an axis of extent 1 that no loop runs over."""

    chain: tuple[For, ...]
    temps: tuple[tuple[Buffer, ValueExpr], ...]
    store: Store
    order: tuple[Var | None, ...]


def point_of(loops: Loops) -> Point | None:
    """The function as a ``Point``; None where it is none."""
    chain = _chain(loops.body)
    inner: Block = chain[-1].body if chain else loops.body
    *before, store = inner.body
    if not isinstance(store, Store) or len(before) % 2 or any(f.until is not None for f in chain):
        return None
    temps: list[tuple[Buffer, ValueExpr]] = []
    for alloc, value in zip(before[::2], before[1::2], strict=True):
        if not isinstance(alloc, Alloc) or not isinstance(value, Store) or value.buffer != alloc.buffer.name:
            return None
        if alloc.buffer.space != "register" or alloc.buffer.shape:
            return None
        temps.append((alloc.buffer, value.value))
    order = _order(store, chain)
    return None if order is None else Point(tuple(chain), tuple(temps), store, order)


def _order(store: Store, chain: list[For]) -> tuple[Var | None, ...] | None:
    vars_ = {loop.var for loop in chain}
    order: list[Var | None] = []
    for dim in store.index:
        var = None if dim == 0 else _single(dim)
        if dim != 0 and var not in vars_:
            return None
        order.append(var)
    known = [v for v in order if v]
    return tuple(order) if set(known) == vars_ and len(known) == len(chain) else None


def identity_of(loops: Loops) -> tuple[Var | None, ...] | None:
    """For an elementwise function, the loop variable of each axis of its output (None for an axis of extent 1
    that no loop runs over); else None."""
    point = point_of(loops)
    if point is None:
        return None
    registers = {buffer.name for buffer, _ in point.temps}
    for node in walk((point.store.value, *(value for _, value in point.temps))):
        if isinstance(node, Load) and node.buffer not in registers and not _broadcasts(node.index, point.store.index):
            return None
    return point.order


def _broadcasts(index: tuple[Dim, ...], out: tuple[Dim, ...]) -> bool:
    tail = out[len(out) - len(index) :]
    return len(index) <= len(out) and all(i == 0 or i is o for i, o in zip(index, tail, strict=True))


def _single(dim: Dim) -> Var | None:
    names = free_vars(dim)
    if len(names) == 1:
        (var,) = names
        return var if dim is var.expr else None
    return None


def _product(chain: list[For], inner: Block) -> Contraction | None:
    """Matches ``alloc acc; acc = …; reduce loops { acc = acc + a*b }; out = f(acc)`` below ``chain``."""
    if len(inner.body) != 4 or not isinstance(inner.body[0], Alloc) or not isinstance(inner.body[2], For):
        return None
    reduce = _chain(Block((inner.body[2],)))
    body: Stmt = reduce[-1].body.body[0]
    if len(reduce[-1].body.body) != 1 or not isinstance(body, Store) or not isinstance(body.value, Op):
        return None
    acc, *rest = body.value.args
    if body.value.name != "add" or not isinstance(acc, Load) or acc.buffer != inner.body[0].buffer.name:
        return None
    product = rest[0]
    if not isinstance(product, Op) or product.name != "mul" or not chain:
        return None
    a, b = (sorted({n.buffer for n in walk(arg) if isinstance(n, Load)}) for arg in product.args)
    if len(a) != 1 or len(b) != 1:
        return None
    return Contraction(tuple(chain), tuple(reduce), a[0], b[0], acc.buffer)


def _varies(block: Block, buffer: str, var: Var) -> bool:
    return any(
        var in free_vars(d) for n in walk(block) if isinstance(n, Load) and n.buffer == buffer for d in dims_used(n)
    )


def has_condition(loops: Loops, buffer: str) -> bool:
    """Whether reads of ``buffer`` stand under a range check."""
    for node in walk(loops.body):
        guarded: object = node.args[1] if isinstance(node, Op) and node.name == "select" else None
        guarded = node.then if isinstance(node, If) else guarded
        if guarded is not None and any(isinstance(n, Load) and n.buffer == buffer for n in walk(guarded)):
            return True
    return False
