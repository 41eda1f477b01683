"""Random graphs with symbolic shapes: every op of the list below where its argument types allow it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Attr, BindDim, Call, Graph, MatchCast, Value, attrs
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.types import BOOL, F32, I32, I64, DType, TensorType
from sdk.compiler.ops.registry import infer
from sdk.compiler.sym import Dim, Var, evaluate, free_vars, max_value, product, prove_ge
from sdk.errors import SdkError

UNARY = ("relu", "neg", "abs", "sigmoid", "tanh", "silu", "gelu", "exp_small", "leaky_relu", "clip", "hard_swish")
BINARY = ("add", "sub", "mul", "maximum", "minimum")
MAX_ELEMENTS = 6000  # elements of a tensor


@dataclass
class Maker:
    """A graph under construction."""

    rng: Random
    nodes: list[Any] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    params: list[Value] = field(default_factory=list)
    consts: dict[str, Const] = field(default_factory=dict)
    dims: list[Var] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        for name in self.rng.sample(("n", "m", "i0", "row"), self.rng.choice((0, 1, 1, 2))):
            lo = self.rng.randint(1, 3)
            multiple = self.rng.choice((1, 1, 1, 2))
            self.dims.append(Var(name, lo * multiple, (lo + self.rng.randint(0, 5)) * multiple, multiple))

    def dim(self) -> Dim:
        if self.dims and self.rng.random() < 0.5:
            var = self.rng.choice(self.dims).expr
            return self.rng.choice((var, var, var, 2 * var, var + 1))
        return self.rng.choice((1, 2, 3, 4, 5, 8, 16))

    def shape(self, rank: int | None = None) -> tuple[Dim, ...]:
        return tuple(self.dim() for _ in range(rank or self.rng.randint(1, 3)))

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def param(self, shape: tuple[Dim, ...], dtype: DType = F32) -> Value:
        value = Value(f"x{len(self.params)}", TensorType(dtype, shape))
        self.params.append(value)
        self.values.append(value)
        return value

    def const(self, shape: tuple[int, ...], dtype: DType = F32) -> Value:
        name = f"w{len(self.consts)}"
        rng = np.random.default_rng(self.rng.randrange(1 << 30))
        data = rng.uniform(-1, 1, shape) if dtype is F32 else rng.integers(0, 3, shape)
        self.consts[name] = Const(name, TensorType(dtype, shape), data.astype(dtype.numpy))
        return Value(name, self.consts[name].type, const=True)

    def call(self, op: str, *args: Value, **given: Attr) -> Value:
        types = infer(op, [a.type for a in args], attrs(**given))
        outs = tuple(Value(self.name(), t) for t in types)
        maximum = max_value(product(outs[0].type.shape))
        if maximum is None or maximum > MAX_ELEMENTS:
            raise SdkError("too large")
        self.nodes.append(Call(outs, "op", op, args, attrs(**given), source=f"{op} {outs[0].name}"))
        self.values += outs
        return outs[0]

    def pick(self, *, rank: int | None = None, minimum: int = 0, dtype: DType = F32) -> Value:
        """A value, later ones more often; a new parameter where none fits."""
        fit = [v for v in self.values if v.type.dtype == dtype and v.type.rank >= minimum]
        fit = [v for v in fit if rank is None or v.type.rank == rank]
        if not fit or self.rng.random() < 0.1:
            return self.param(self.shape(rank or max(minimum, self.rng.randint(1, 3))), dtype)
        return self.rng.choice(fit[-4:])

    def like(self, shape: tuple[Dim, ...]) -> Value:
        """A value that broadcasts to ``shape``: one of that shape, or a smaller one."""
        fit = [v for v in self.values if v.type.dtype == F32 and v.type.shape == shape]
        if fit and self.rng.random() < 0.6:
            return self.rng.choice(fit)
        part = tuple(1 if self.rng.random() < 0.3 else d for d in shape)
        part = part[self.rng.randint(0, len(part)) :]
        if all(isinstance(d, int) for d in part) and self.rng.random() < 0.5:
            return self.const(tuple(d for d in part if isinstance(d, int)))
        return self.param(part) if part else self.const(())


# --- one node ----------------------------------------------------------------------------------------------------


def unary(m: Maker) -> None:
    op = m.rng.choice(UNARY)
    x = m.pick()
    if op == "exp_small":
        m.call("exp", m.call("clip", x, lo=-4.0, hi=2.0))
    elif op == "clip":
        m.call("clip", x, lo=-0.5, hi=0.75)
    elif op == "leaky_relu":
        m.call("leaky_relu", x, alpha=0.125)
    elif op == "gelu":
        m.call("gelu", x, tanh=m.rng.random() < 0.5)
    elif op == "silu":
        m.call("silu", x, alpha=1.0)
    else:
        m.call(op, x)


def binary(m: Maker) -> None:
    x = m.pick()
    args = [x, m.like(x.type.shape)]
    m.rng.shuffle(args)
    m.call(m.rng.choice(BINARY), *args)


def gate(m: Maker) -> None:
    """A diamond that closes."""
    x = m.pick()
    y = m.call(m.rng.choice(("sigmoid", "tanh", "relu")), x)
    m.call("mul", x, m.call("add", y, m.like(x.type.shape)) if m.rng.random() < 0.4 else y)


def matmul(m: Maker) -> None:
    x = m.pick(minimum=2)
    k = x.type.shape[-1]
    out = m.rng.choice((1, 3, 8, 16))
    w = m.const((k, out)) if isinstance(k, int) else m.param((k, out))
    m.call("matmul", x, w)


def scores(m: Maker) -> None:
    x = m.pick(minimum=2)
    perm = (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2)
    m.call("matmul", x, m.call("transpose", x, perm=perm))


def softmax(m: Maker) -> None:
    m.call(m.rng.choice(("softmax", "log_softmax")), m.pick())


def norm(m: Maker) -> None:
    x = m.pick()
    d = x.type.shape[-1]
    scale, bias = ((m.const((d,)), m.const((d,))) if isinstance(d, int) else (m.param((d,)), m.param((d,))))
    if m.rng.random() < 0.5:
        m.call("layer_norm", x, scale, bias, epsilon=0.01)
    else:
        m.call("rms_norm", x, scale, epsilon=0.01)


def reduce(m: Maker) -> None:
    x = m.pick()
    axes = tuple(sorted(m.rng.sample(range(x.type.rank), m.rng.randint(1, x.type.rank))))
    y = m.call(m.rng.choice(("reduce_mean", "reduce_max", "reduce_min")), x, axes=axes)
    if m.rng.random() < 0.6:
        m.call(m.rng.choice(("sub", "mul")), x, y)


def transpose(m: Maker) -> None:
    x = m.pick(minimum=2)
    perm = list(range(x.type.rank))
    m.rng.shuffle(perm)
    m.call("transpose", x, perm=tuple(perm))


def reshape(m: Maker) -> None:
    x = m.pick()
    shape = x.type.shape
    if m.rng.random() < 0.5 and len(shape) > 1:
        at = m.rng.randrange(len(shape) - 1)
        m.call("reshape", x, shape=(*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))
    else:
        at = m.rng.randint(0, len(shape))
        m.call("reshape", x, shape=(*shape[:at], 1, *shape[at:]))


def concat(m: Maker) -> None:
    x = m.pick()
    axis = m.rng.randrange(x.type.rank)
    other = (*x.type.shape[:axis], m.dim(), *x.type.shape[axis + 1 :])
    args = [x, m.rng.choice((x, m.param(other)))]
    m.rng.shuffle(args)
    m.call("concat", *args, axis=axis)


def cut(m: Maker) -> None:
    x = m.pick()
    axis = m.rng.randrange(x.type.rank)
    extent = x.type.shape[axis]
    size = m.rng.choice((1, 2, 3))
    if prove_ge(extent, size + 1) is not True:
        return
    first: Dim = m.rng.choice((0, 1, extent - size))
    begin = tuple(first if k == axis else 0 for k in range(x.type.rank))
    rest = extent - first if m.rng.random() < 0.3 and first in (0, 1) else size
    m.call(
        "slice", x, begin=begin, size=tuple(rest if k == axis else d for k, d in enumerate(x.type.shape)),
        strides=(1,) * x.type.rank,
    )  # fmt: skip


def pad(m: Maker) -> None:
    x = m.pick()
    pads = tuple((m.rng.randint(0, 2), m.rng.randint(0, 2)) for _ in x.type.shape)
    m.call("pad", x, pads=pads, value=m.rng.choice((0.0, -1.0)))


def gather(m: Maker) -> None:
    x = m.pick()
    indices = m.param((m.dim(),), I32) if m.rng.random() < 0.5 else m.const((3,), I32)
    m.call("gather", x, indices, axis=m.rng.randrange(x.type.rank))


def cast(m: Maker) -> None:
    x = m.pick()
    m.call("cast", m.call("cast", x, to="f16"), to="f32")


def logic(m: Maker) -> None:
    """Conditions, kept as bools of one byte or used at once."""
    known = [v for v in m.values if v.type.dtype == BOOL]
    x = m.pick()
    on = m.call(m.rng.choice(("greater", "less_equal", "equal")), x, m.like(x.type.shape))
    if m.rng.random() < 0.3:
        on = m.call("is_nan", x)
    same = [v for v in known if v.type.shape == on.type.shape]
    if same and m.rng.random() < 0.7:
        on = m.call(m.rng.choice(("and", "or", "xor", "equal")), on, m.rng.choice(same))
    if m.rng.random() < 0.4:
        on = m.call("not", on)
    if m.rng.random() < 0.3 and x.type.rank > 1:
        on = m.call(m.rng.choice(("reduce_max", "reduce_min")), on, axes=(on.type.rank - 1,))
    match m.rng.randrange(4):
        case 0:
            m.call("where", on, m.like(on.type.shape), m.like(on.type.shape))
        case 1:
            m.call("cast", on, to="f32")
        case 2 if same:
            m.call("where", m.rng.choice(same), on, m.rng.choice(same))


def positions(m: Maker) -> None:
    """A dim in attributes alone."""
    x = m.pick()
    ramp = m.call("cast", m.call("iota", extent=x.type.shape[-1], start=0, step=1, dtype="i32"), to="f32")
    m.call("add", x, ramp)


def chosen(m: Maker) -> None:
    """Data that say how large a result is."""
    x = m.pick()
    maximum = max_value(product(x.type.shape)) or 1
    flat = m.call("reshape", x, shape=(product(x.type.shape),))
    flags = m.call("cast", m.call("greater", flat, m.const(())), to="i32")
    found = m.call("count_nonzero", flags)
    k = Var(f"k{m.count}", 0, maximum)
    m.nodes.append(BindDim(k, found))
    where = m.call("nonzero", flags, count=k.expr)
    picked = m.call("gather", flat, m.call("reshape", where, shape=(k.expr,)), axis=0)
    m.call("relu", picked)
    m.values = [v for v in m.values if v.type.dtype in (F32, I32) and k not in free_vars(v.type.size)] + [m.values[-1]]


def stated(m: Maker) -> None:
    """A shape that the graph states and a run checks."""
    x = m.pick()
    known = [d for d in m.dims if any(d in free_vars(e) for p in m.params for e in p.type.shape)]
    if not known:
        return
    other = m.param((x.type.shape[0],))
    out = Value(m.name(), other.type)
    m.nodes.append(MatchCast(out, other))
    m.values.append(out)
    m.call("relu", out)


STEPS: tuple[tuple[Callable[[Maker], None], int], ...] = (
    (unary, 5), (binary, 5), (gate, 2), (matmul, 2), (scores, 1), (softmax, 1), (norm, 1), (reduce, 2), (transpose, 2),
    (reshape, 2), (concat, 1), (cut, 2), (pad, 1), (gather, 1), (cast, 1), (positions, 1), (logic, 3), (chosen, 1),
    (stated, 1),
)  # fmt: skip


def random_module(seed: int, size: int = 8) -> Module:
    """A module at stage "typed" with one entry ``main`` of about ``size`` ops."""
    m = Maker(Random(seed))
    m.param(m.shape())
    steps = [s for s, weight in STEPS for _ in range(weight)]
    while len(m.nodes) < size:
        before = len(m.nodes), len(m.values), len(m.params), dict(m.consts)
        try:
            m.rng.choice(steps)(m)
        except SdkError:  # the op does not take these types: as if nothing had been
            del m.nodes[before[0] :], m.values[before[1] :], m.params[before[2] :]
            m.consts = before[3]
            m.values = [v for v in m.values if v in m.params or any(v in _outs(n) for n in m.nodes)]
    used = {a.name for n in m.nodes for a in _args(n)}
    ends = [v for n in m.nodes for v in _outs(n) if v.name not in used]
    results = dict.fromkeys([*ends, *m.rng.sample(_calls(m), min(1, len(_calls(m))))])
    dims = tuple(v for v in m.dims if any(v in free_vars(d) for p in m.params for d in p.type.shape))
    graph = Graph("main", dims, tuple(m.params), tuple(m.nodes), tuple(results))
    return Module("random", "typed", consts=m.consts, graphs={"main": graph})


def _outs(node: Any) -> tuple[Value, ...]:
    return node.outs if isinstance(node, Call) else (node.out,) if isinstance(node, MatchCast) else ()


def _args(node: Any) -> tuple[Value, ...]:
    return node.args if isinstance(node, Call) else (node.value,)


def _calls(m: Maker) -> list[Value]:
    return [v for n in m.nodes for v in _outs(n) if isinstance(n, Call)]


def random_dims(graph: Graph, rng: Random) -> dict[Var, int]:
    """Values of the dims of an entry."""
    return {v: rng.randrange(-(-v.lo // v.multiple) * v.multiple, v.hi + 1, v.multiple) for v in graph.dims}


def random_arrays(graph: Graph, env: dict[Var, int], seed: int) -> dict[str, np.ndarray]:
    """Arguments of an entry at given dims."""
    rng = np.random.default_rng(seed)
    out = {}
    for p in graph.params:
        shape = tuple(evaluate(d, env) for d in p.type.shape)
        kind = p.type.dtype
        data = rng.integers(-1, 4, shape) if kind in (I32, I64) else rng.uniform(-2, 2, shape)
        out[p.name] = np.asarray(data).astype(kind.numpy)
    return out
