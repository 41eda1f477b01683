"""Random modules that hold every construct of the IR; well scoped, but without meaning."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import (
    Attr,
    BindDim,
    Call,
    Graph,
    MatchCast,
    Node,
    ReadState,
    Value,
    WriteState,
    attrs,
    node_outs,
)
from sdk.compiler.ir.intrinsics import INTRINSICS
from sdk.compiler.ir.layout import (
    ROW_MAJOR,
    Fuse,
    Interleave,
    Join,
    Layout,
    Pad,
    Permute,
    Step,
    Tile,
    Widen,
)
from sdk.compiler.ir.loops import (
    Alloc,
    Atomic,
    Barrier,
    Block,
    Buffer,
    Eval,
    For,
    Idx,
    If,
    Imm,
    Let,
    Load,
    Loops,
    Op,
    Param,
    Ref,
    Rows,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.module import Const, Module, State
from sdk.compiler.ir.plan import Bind, Check, Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Region, Repeat, Split, Wait
from sdk.compiler.ir.types import SCALARS, DType, Quant, TensorType
from sdk.compiler.sym import Dim, Var, dmin, floordiv

NAMES = ("x", "acc", "a/b", "conv2d:0", "1", "ä b", 'q"t\\', "read", "for", "inf", "x.y", "a;b", "//", "n")
KINDS = tuple(SCALARS.values())


class Maker:
    """Draws parts of a module from one source of randomness."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.count = 0

    def name(self) -> str:
        self.count += 1
        stem = self.rng.choice(NAMES)
        return f"{stem}{self.count}"

    def some(self, maximum: int) -> range:
        return range(self.rng.randint(0, maximum))

    def chance(self, p: float = 0.3) -> bool:
        return self.rng.random() < p

    def var(self) -> Var:
        lo = self.rng.randint(-3, 9)
        return Var(self.name(), lo, lo + self.rng.randint(3, 40), self.rng.choice((1, 1, 2)))

    def dim(self, dims: list[Var]) -> Dim:
        # now and then a symbol that is declared nowhere: a printer shows broken modules too
        names = [*dims, Var("stray", 0, 3)] if self.chance(0.02) else dims
        dim: Dim = self.rng.randint(0, 9)
        for _ in self.some(3):
            if names:
                term = self.rng.choice(names).expr * self.rng.choice((1, 2, -3))
                dim = dmin(dim, term) if self.chance(0.15) else dim + term
        return floordiv(dim, self.rng.randint(2, 5)) if self.chance(0.2) else dim

    def shape(self, dims: list[Var]) -> tuple[Dim, ...]:
        return tuple(self.dim(dims) for _ in self.some(3))

    def dtype(self) -> DType:
        kind = self.rng.choice(KINDS)
        return kind.with_lanes(self.rng.choice((2, 4, 16))) if self.chance(0.2) else kind

    def number(self) -> int | float:
        if self.chance(0.6):
            return self.rng.choice((0, 1, -1, 127, -(2**31), 2**40))
        return self.rng.choice((0.5, -0.0, 0.0, 1e-45, 3.0, 1e300, float("inf"), -float("inf"), 0.1, float("nan")))

    def type(self, dims: list[Var]) -> TensorType:
        scale = self.rng.choice((0.1, 1.0, 3e-8, 0.02352941781282425))
        return TensorType(
            self.dtype(),
            self.shape(dims),
            Quant(scale, self.rng.randint(-128, 128)) if self.chance() else None,
        )

    def attr(self, dims: list[Var], depth: int = 2) -> Attr:
        kind = self.rng.randint(0, 4 if depth else 3)
        if kind == 0:
            return self.number()
        if kind == 1:
            return self.chance()
        if kind == 2:
            return self.rng.choice(("same", "", 'a "b"\n', "ü"))
        if kind == 3:
            return self.dim(dims)
        return tuple(self.attr(dims, depth - 1) for _ in self.some(3))

    def layout(self) -> Layout:
        return Layout(tuple(self.layout_step() for _ in self.some(4))) if self.chance(0.2) else ROW_MAJOR

    def layout_step(self) -> Step:
        axis, count = self.rng.randint(0, 5), self.rng.choice((1, 2, 4, 16))
        word = self.rng.choice([t for t in KINDS if t.kind in "iu" and count <= t.bits <= 32])
        order = tuple(self.rng.sample(range(axis), axis))
        fused = Fuse(axis, self.rng.choice((axis - 1, axis + 1, -1)))
        cut = self.rng.choice((Tile, Pad, Interleave))(axis, count)
        return self.rng.choice((Permute(order), fused, cut, Join(axis, count, word), Widen(word)))

    # --- graph --------------------------------------------------------------------------------------------

    def graph(self, consts: list[Value]) -> Graph:
        dims = [self.var() for _ in self.some(2)]
        own = tuple(dims)
        params = tuple(Value(self.name(), self.type(dims)) for _ in self.some(3))
        known = [*params, *consts]
        body: list[Node] = []
        for _ in self.some(6):
            node = self.node(known, dims)
            body.append(node)
            known += node_outs(node)
        results = tuple(self.rng.choice(known) for _ in self.some(2)) if known else ()
        return Graph(self.name(), own, params, tuple(body), results, self.chance(0.8))

    def result(self, dims: list[Var]) -> Value:
        if self.chance(0.1):
            dims.append(self.var())
            # a fresh dim shows where it first stands in a type
            return Value(self.name(), TensorType(self.dtype(), (dims[-1].expr,)))
        return Value(self.name(), self.type(dims))

    def node(self, known: list[Value], dims: list[Var]) -> Node:
        source = self.source()
        kind = self.rng.randint(0, 6)
        if kind == 0:
            return ReadState(self.result(dims), self.name(), source)
        if kind == 1 and known:
            at = self.dim(dims) if self.chance() else None
            kernel = self.name() if self.chance(0.3) else ""
            return WriteState(self.name(), self.rng.choice(known), source, at, kernel)
        if kind == 2 and known:
            return MatchCast(self.result(dims), self.rng.choice(known), source)
        if kind == 3 and known:
            dims.append(self.var())
            return BindDim(dims[-1], self.rng.choice(known), source)
        args = tuple(self.rng.choice(known) for _ in self.some(3)) if known else ()
        given = attrs(**{self.rng.choice(("k", "pad", "out", "x y")): self.attr(dims) for _ in self.some(3)})
        scope = list(dims)
        return Call(
            tuple(self.result(dims) for _ in self.some(2)),
            self.rng.choice(("op", "op", "loops", "graph", "extern")),
            self.rng.choice(("conv2d", "read", "extern", "graph", "match_cast", "my.op", "f")),
            args,
            given,
            source,
            self.rng.choice(("", "npu 0")),
            self.shape(scope) if self.chance(0.1) else (),
            self.rng.choice(("one", "one", "all")),
        )

    # --- loops --------------------------------------------------------------------------------------------

    def loops(self) -> Loops:
        dims = [self.var() for _ in self.some(2)]
        params = tuple(
            Param(self.buffer(dims, "param"), self.rng.choice(("read", "write", "update")), self.layout())
            for _ in self.some(3)
        )
        scope = list(dims)
        rows = None
        if self.chance():
            extent = self.dim(dims)
            rows = Rows(Var("row_lo", 0, 25), Var("row_hi", 0, self.rng.choice((25, 30))), extent)
            scope += [rows.lo, rows.hi]
        body = self.block(scope, [p.buffer for p in params], [], 3)
        trace = self.rng.choice(("", "tm=2; split(i, 8)\nvectorize(i)"))
        instances = tuple(tuple(self.rng.randint(-1, 9) for _ in dims) for _ in self.some(3)) if self.chance() else ()
        return Loops(self.name(), tuple(dims), params, body, rows, trace, instances)

    def buffer(self, dims: list[Var], space: Any = None) -> Buffer:
        return Buffer(
            self.name(),
            self.dtype(),
            self.shape(dims),
            space
            if space and self.chance(0.9)
            else self.rng.choice(("param", "register", "scratch", "local")),
            self.rng.randint(1, 8) if self.chance(0.2) else None,
        )

    def block(self, dims: list[Var], buffers: list[Buffer], lets: list[Ref], depth: int) -> Block:
        dims, buffers, lets = list(dims), list(buffers), list(lets)
        return Block(tuple(self.stmt(dims, buffers, lets, depth) for _ in self.some(4)))

    def stmt(self, dims: list[Var], buffers: list[Buffer], lets: list[Ref], depth: int) -> Stmt:
        kind = self.rng.randint(0, 8 if depth else 5)
        expr = self.expr(dims, buffers, lets, 3)
        target = self.rng.choice(buffers).name if buffers else "nowhere"
        match kind:
            case 0:
                lets.append(Ref(self.name(), expr.dtype))
                return Let(lets[-1].name, expr)
            case 1:
                buffers.append(self.buffer(dims))
                return Alloc(buffers[-1])
            case 2:
                return Eval(self.name(), tuple(self.expr(dims, buffers, lets, 1) for _ in self.some(3)))
            case 3:
                return Barrier(self.rng.choice(("group", "device")))
            case 4:
                return Atomic("add", target, self.shape(dims), expr)
            case 5:
                return Store(target, self.shape(dims), expr, self.count_of(dims))
            case 6:
                orelse = self.block(dims, buffers, lets, depth - 1) if self.chance() else None
                return If(expr, self.block(dims, buffers, lets, depth - 1), orelse)
            case 7:
                return self.block(dims, buffers, lets, depth - 1)
        return self.loop(dims, buffers, lets, depth)

    def loop(self, dims: list[Var], buffers: list[Buffer], lets: list[Ref], depth: int) -> For:
        hi = self.dim(dims)
        var = (
            Var(self.name(), 0, hi - 1) if isinstance(hi, int) and hi > 0 and self.chance(0.8) else self.var()
        )
        inner = [*dims, var]
        return For(
            var,
            self.dim(dims),
            hi,
            self.block(inner, buffers, lets, depth - 1),
            self.rng.choice(("serial", "serial", "parallel", "vector", "unroll", "bind")),
            self.rng.choice(("", "", "group.x")),
            self.expr(inner, buffers, lets, 2) if self.chance(0.2) else None,
        )

    def count_of(self, dims: list[Var]) -> Dim | None:
        return self.dim(dims) if self.chance(0.2) else None

    def expr(self, dims: list[Var], buffers: list[Buffer], lets: list[Ref], depth: int) -> ValueExpr:
        kind = self.rng.randint(0, 8 if depth else 3)
        if kind == 0:
            return Imm(self.number(), self.dtype())
        if kind == 1:
            return Idx(self.dim(dims), self.dtype() if self.chance(0.2) else SCALARS["i32"])
        if kind == 2 and lets:
            ref = self.rng.choice(lets)
            return Ref(ref.name, self.dtype()) if self.chance(0.1) else ref
        if kind == 3 and buffers:
            buffer = self.rng.choice(buffers)
            dtype = self.dtype() if self.chance(0.2) else buffer.dtype
            return Load(buffer.name, self.shape(dims), dtype, self.count_of(dims))
        if not depth:
            return Imm(self.number(), SCALARS["i32"])
        name = self.rng.choice((*INTRINSICS, "made_up", "idx", "i8"))
        count = INTRINSICS[name].arity if name in INTRINSICS and self.chance(0.95) else self.rng.randint(0, 3)
        args = tuple(self.expr(dims, buffers, lets, depth - 1) for _ in range(count))
        usual = args[0].dtype if args and self.chance(0.8) else self.dtype()
        return Op(name, args, usual)

    # --- plan ---------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        dims = [self.var() for _ in self.some(2)]
        own = tuple(dims)
        bound = [self.var() for _ in self.some(2)]
        dims += bound
        places = []
        for _ in self.some(2):
            places.append((self.var(), self.dim(dims)))
            dims.append(places[-1][0])
        kinds = ("arena", "state", "const", "caller")
        regions = tuple(
            Region(self.name(), self.rng.choice(kinds), self.dim(dims), self.rng.choice((4, 16)))
            for _ in self.some(3)
        )
        roles = ("input", "output", "state", "const", "temp", "scratch")
        buffers = tuple(
            PlanBuffer(
                self.name(),
                self.type(dims),
                self.rng.choice(("arena", "my region")),
                self.dim(dims),
                self.rng.choice(roles),
                4 if self.chance() else None,
                self.name() if self.chance() else "",
            )
            for _ in self.some(4)
        )
        binds = tuple(Bind(v, self.dim(dims) if self.chance() else self.name(), self.source()) for v in bound)
        body = (*binds, *self.steps(dims, 2))
        return Plan(
            self.name(),
            own,
            self.names(),
            self.names(),
            regions,
            buffers,
            body,
            self.rng.choice((0, 96)),
            tuple(places),
        )

    def names(self) -> tuple[str, ...]:
        return tuple(self.name() for _ in self.some(2))

    def steps(self, dims: list[Var], depth: int) -> tuple[PlanStmt, ...]:
        return tuple(self.step(dims, depth) for _ in self.some(4))

    def step(self, dims: list[Var], depth: int) -> PlanStmt:
        kind = self.rng.randint(0, 4 if depth else 3)
        if kind == 0:
            return Copy(self.name(), self.name())
        if kind == 1:
            return Wait(self.rng.randint(0, 9))
        if kind == 2:
            return Check(self.dim(dims), self.dim(dims), self.source())
        if kind == 4:
            var = self.var()
            return Repeat(var, self.dim(dims), self.dim(dims), self.steps([*dims, var], depth - 1))
        return PlanCall(
            self.rng.randint(0, 9),
            self.name(),
            self.names(),
            self.shape(dims),
            (self.dim(dims), self.dim(dims)) if self.chance() else None,
            self.name() if self.chance() else "",
            self.names(),
            self.rng.choice(("", "dsp")),
            self.chance(),
            Split(self.rng.randint(1, 4), self.rng.randint(1, 8), self.dim(dims)) if self.chance() else None,
        )

    def source(self) -> str:
        return self.rng.choice(("", "", "conv/1"))

    # --- module -------------------------------------------------------------------------------------------

    def const(self) -> Const:
        kind = self.rng.choice(KINDS)
        shape = tuple(self.rng.randint(0, 5) for _ in range(self.rng.randint(1, 3)))
        seeded = np.random.default_rng(self.rng.randint(0, 999))
        if kind.is_float:
            data = seeded.standard_normal(shape)
            data = np.where(seeded.random(shape) < 0.1, self.rng.choice((np.nan, np.inf, -0.0, 1e-7)), data)
        else:
            lo, hi = kind.limits
            data = seeded.integers(
                lo, hi, shape, dtype=kind.numpy if kind.kind != "b" else np.int64, endpoint=True
            )
        quant = Quant(0.1, 3) if self.chance() else None
        return Const(self.name(), TensorType(kind, shape, quant), data, self.layout())

    def state(self) -> State:
        dims = [self.var() for _ in self.some(1)]
        layout = self.rng.choice(("plain", "ring", "blocked"))
        init: Any = self.rng.choice((0, -3, "w;0", None))
        return State(self.name(), self.type(dims), init, layout, self.rng.randint(0, 2))

    def module(self) -> Module:
        def named(items: list[Any]) -> dict[str, Any]:
            return {item.name: item for item in items}

        consts = [self.const() for _ in self.some(3)]
        values = [Value(c.name, c.type, const=True) for c in consts]
        return Module(
            self.name(),
            self.rng.choice(("imported", "typed", "scheduled", "planned")),
            named(consts),
            named([self.state() for _ in self.some(2)]),
            named([self.graph(values) for _ in self.some(2)]),
            named([self.loops() for _ in self.some(2)]),
            named([self.plan() for _ in self.some(1)]),
        )
