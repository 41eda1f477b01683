"""Two products in one multiplication: neighbouring output channels as the halves of a word of weights."""

from __future__ import annotations

from dataclasses import replace

from sdk.compiler.analysis.dependence import conflict
from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.layout import ROW_MAJOR, Fuse, Join, Pad, Permute
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Load, Loops, Op, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I32, I64, U32
from sdk.compiler.ir.walk import dims_used, rewrite, statements, substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, fresh, loop_of, replace_loop
from sdk.compiler.schedules.pack import stored_as
from sdk.compiler.schedules.tensorize import is_mac
from sdk.compiler.sym import Dim, Var, free_vars

__all__ = ["use_swar", "widen"]


def use_swar(loops: Loops, name: Loop, param: str) -> tuple[Loops, Loop]:
    """Computes two iterations of ``name`` at a time, whose factors from ``param`` are the halves of one word; the loop
    over the steps of their sums, two at a time.

    rewrite: ``for c in 0..C { alloc s; s = b[c]; for k in 0..K { s = s + x[k]*w[c, k] } S(s, c) }`` -->
    ``for p in 0..C/2 { t = 0; for h in 0..K/2 { t = add_halves(t, x[2h]*w[p, 2h] + x[2h+1]*w[p, 2h+1]) }
    s0 = b[2p] + low(t) - high(t)*2**16; s1 = b[2p+1] + high(t); S(s0, 2p); S(s1, 2p+1) }`` with
    w[2p, k] + 2**16 * w[2p+1, k] for w[p, k]; t adds up the products and, in its upper word, their upper halves.
    obligation: iterations are independent, C and K even; x and w are int8, and no w is -128: then two products of the
    lower channel are within 16 bits, and the upper one's can be told from them. The parameter is packed in tiles of 1
    and read nowhere else.
    """
    steps = loops.layouts.get(param, ROW_MAJOR).steps
    if not steps or not all(isinstance(s, Permute | Fuse | Pad) for s in steps):
        raise ScheduleError(f"use_swar({name}): {param} is not packed in tiles of 1")
    if loops.param(param).buffer.dtype != I8:
        raise ScheduleError(f"use_swar({name}): {param} is not of int8")

    made: list[Loop] = []

    def one(loop: For) -> tuple[Stmt, ...]:
        why = conflict(loop, loops)
        if why:
            raise ScheduleError(f"use_swar({name}): {why}")
        paired, step = _paired(loops, loop, param)
        made.append(step)
        return (paired,)

    done = replace_loop(loops, name, one)
    if any(isinstance(n, Load) and n.buffer == param and n.dtype == I8 for n in walk(done.body)):
        raise ScheduleError(f"use_swar({name}): {param} is read elsewhere")

    return stored_as(done, param, Join(0, 2, I32)), made[0]


def widen(loops: Loops, buffer: str) -> Loops:
    """Keeps the elements of a temporary as the words that they are used as.

    rewrite: ``alloc t of i8; t[i] = v; … cast(t[j]) …`` --> ``alloc t of i32; t[i] = cast(v); … t[j] …``
    obligation: it is a temporary of the function of a narrower integer type, and every read of it is converted to i32.
    """
    mine = next((n.buffer for n in statements(loops.body) if isinstance(n, Alloc) and n.buffer.name == buffer), None)
    if mine is None or mine.dtype.is_float or mine.dtype.bits >= I32.bits or mine.dtype.lanes > 1:
        raise ScheduleError(f"widen({buffer}): it is no temporary of narrow integers")

    def one(node: object) -> object:
        match node:
            case Alloc() if node.buffer.name == buffer:
                return Alloc(replace(node.buffer, dtype=I32))
            case Op("cast", (Load() as read,)) if read.buffer == buffer and node.dtype == I32:
                return replace(read, dtype=I32)
            case Store() if node.buffer == buffer:
                return replace(node, value=cast(node.value, I32))
        return node

    body = rewrite(loops.body, one)
    if any(isinstance(n, Load) and n.buffer == buffer and n.dtype != I32 for n in walk(body)):
        raise ScheduleError(f"widen({buffer}): a read of it is not converted to i32")
    return replace(loops, body=body)


def _paired(loops: Loops, loop: For, param: str) -> tuple[For, Loop]:
    match loop.body.body:
        case (Alloc() as alloc, Store() as init, For() as reduce, *rest) if is_mac(reduce):
            pass
        case _:
            raise ScheduleError(f"use_swar({loop.var.name}): its body is no sum, its products and what becomes of it")
    if any(n.lo != 0 or not isinstance(n.hi, int) or n.hi % 2 for n in (loop, reduce)):
        raise ScheduleError(f"use_swar({loop.var.name}): the loops do not run from 0 to even numbers")
    twin = Var(f"{loop.var.name}_p", 0, loop.var.hi // 2)
    sums = [replace(alloc.buffer, name=fresh(loops, f"{alloc.buffer.name}_{half}")) for half in ("low", "high")]

    def half(stmt: Stmt, k: int) -> Stmt:
        """A statement of the first or second channel, about its own sum."""
        found = substitute_dims(stmt, {loop.var: 2 * twin.expr + k})
        return rewrite(found, lambda n: _renamed(n, alloc.buffer.name, sums[k].name))

    both = Buffer(fresh(loops, "both"), I64, (), "register")
    high = cast(op("shr", _read(both), imm(32, I64)), I32)
    low = op("sub", cast(_read(both), U32), op("mul", cast(high, U32), imm(1 << 16, U32)))
    products = _products(reduce, param, (loop.var, twin), both)
    body = Block(
        (
            Alloc(both),
            Store(both.name, (), imm(0, I64)),
            products,
            *(Alloc(b) for b in sums),
            *(half(init, k) for k in (0, 1)),
            Store(sums[0].name, (), op("add", _read(sums[0]), cast(low, I32))),
            Store(sums[1].name, (), op("add", _read(sums[1]), high)),
            *(half(stmt, k) for k in (0, 1) for stmt in rest),
        )
    )
    assert isinstance(loop.hi, int)
    return For(twin, 0, loop.hi // 2, body, loop.kind), loop_of(products)


def _products(reduce: For, param: str, channels: tuple[Var, Var], both: Buffer) -> For:
    """Two steps of the reduction at a time: their products are added before the halves are told apart."""
    assert isinstance(reduce.hi, int)
    store = reduce.body.body[0]
    assert isinstance(store, Store)
    assert isinstance(store.value, Op)  # is_mac
    product = store.value.args[1]
    assert isinstance(product, Op)  # is_mac
    factors = [_factor(arg, param, channels) for arg in product.args]
    if sorted(of for of, _ in factors) != [False, True]:
        raise ScheduleError(f"use_swar({channels[0].name}): not the product of something else and {param}")
    steps = Var(f"{reduce.var.name}_h", 0, reduce.hi // 2 - 1)

    def at(k: int) -> ValueExpr:
        step: Dim = 2 * steps.expr + k
        first, second = (substitute_dims(value, {reduce.var: step}) for _, value in factors)
        return op("mul", first, second)

    two = cast(op("add", at(0), at(1)), I64)
    return For(steps, 0, reduce.hi // 2, Block((Store(both.name, (), op("add_halves", _read(both), two)),)))


def _factor(value: ValueExpr, param: str, channels: tuple[Var, Var]) -> tuple[bool, ValueExpr]:
    """Whether a factor is of the parameter, and the factor of two channels."""
    inner = value.args[0] if isinstance(value, Op) and value.name == "cast" else value
    if isinstance(inner, Load) and inner.buffer == param and inner.index[0] is channels[0].expr:
        return True, Load(param, (channels[1].expr, *inner.index[1:]), I32)
    if inner.dtype == I8 and not any(channels[0] in free_vars(d) for d in dims_used(value)):
        return False, value
    raise ScheduleError(f"use_swar({channels[0].name}): a factor is not of int8, or varies with the channel")


def _read(buffer: Buffer) -> Load:
    return Load(buffer.name, (), buffer.dtype)


def _renamed(node: object, old: str, new: str) -> object:
    return replace(node, buffer=new) if isinstance(node, Load | Store) and node.buffer == old else node
