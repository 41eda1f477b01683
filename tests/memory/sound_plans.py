"""Sound plans of every kind, to be made wrong: what a plan can be, small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from memory_nets import ADD, Net
from mutations import with_body

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Store
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanBuffer, PlanCall, PlanStmt, Region, Repeat
from sdk.compiler.ir.text import parse_module
from sdk.compiler.ir.types import F32, I8, I32, TensorType
from sdk.compiler.memory.rings import stored_bytes, with_rings
from sdk.compiler.ops import registry
from sdk.compiler.ops.build import function, loop, param, row_vars, variable
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.compiler.sym import Var, dmax, dmin, mod

Planned = tuple[Module, Plan]


def planned(net: Net, *results: object, **options: object) -> Planned:
    """The plan of a net."""
    module = PlanMemory(**options).run(net.module(*results))
    return module, module.plans["main"]


def residual() -> Planned:
    """In place, two results, a view."""
    net = Net()
    x = net.input("x", 1, 8, 8, 4)
    a = net.conv(x, 4)
    b = net.conv(net.op("add_q", net.conv(a, 4), a, **ADD), 8, stride=2)
    flat = net.op("reshape", b, shape=(1, 128))
    dense = net.op("dense", flat, net.const((5, 128)), net.const((5,), I32), w_offset=0, x_offset=128)
    return planned(net, net.requantize(dense), b)


def stateful() -> Planned:
    """A state written in place, another by copy."""
    net = Net()
    x = net.input("x", 1, 6, 6, 4)
    net.state("s", 1, 6, 6, 4)
    net.state("t", 1, 6, 6, 4)
    old = net.read("s", "old")
    new = net.op("add_q", x, old, name="new", **ADD)
    net.write("s", new)
    net.write("t", x)
    return planned(net, net.op("add_q", net.conv(new, 4), net.read("t", "r"), **ADD))


def dynamic() -> Planned:
    """Sizes at their upper bounds."""
    n = Var("n", 1, 12)
    net = Net()
    net.dims = (n,)
    x = net.input("x", 1, n.expr, 4, 4)
    a = net.conv(x, 4)
    return planned(net, net.op("add_q", net.conv(a, 4), a, **ADD))


def scaled(io: str = "arena", pools: str = "") -> Planned:
    """Offsets that follow two dims."""
    n, m = Var("n", 1, 14), Var("m", 3, 12)
    net = Net()
    net.dims = (n, m)
    x, y = net.input("x", n.expr, 9, dtype=F32), net.input("y", m.expr, 9, dtype=F32)
    a = net.op("matmul", x, y, name="a", trans_b=True)
    b = net.op("softmax", a, name="b")
    c = net.op("matmul", b, y, name="c")
    d = net.op("matmul", y, x, name="d", trans_b=True)
    e = net.op("add", net.op("matmul", a, d, name="f"), net.op("matmul", b, d, name="ff"), name="e")
    return planned(net, c, net.op("matmul", e, x, name="g"), offsets="scaled", io=io, pools=pools)


CAST = """
module m typed
graph @main<n in 1..8, m in 1..16>(%x: f32[n, 2], %y: f32[m]) {
  %a = match_cast(%y) : <s in 1..8> f32[2*s]
  %one = neg(%x) : f32[n, 2]
  %z = full() {dtype = "f32", shape = ([s], 2), value = 1.5} : f32[s, 2]
  %w = match_cast(%one) : f32[s, 2]
  %r = add(%z, %w) : f32[s, 2]
  %q = neg(%a) : f32[2*s]
  return %r, %q
}
"""
CACHE = """
module m typed
state @a<cap in 2..9>: f32[cap, 3] ring(0) = 0
graph @main<p in 0..50, cap in 2..9>(%x: f32[1, 3]) {
  %u = neg(%x) : f32[1, 3]
  write @a[p] = %u
  %all = read @a : f32[cap, 3]
  %e = exp(%all) : f32[cap, 3]
  %s = mul(%e, %all) : f32[cap, 3]
  return %s, %u
}
"""
FEED = """
module m typed
state @h: f32[1, 6] = 0
state @k: f32[1, 6] = 1
graph @main(%x: f32[1, 6]) {
  %old = read @h : f32[1, 6]
  %sum = add(%x, %old) : f32[1, 6]
  write @h = %sum
  %one = read @k : f32[1, 6]
  %p = mul(%one, %sum) : f32[1, 6]
  write @k = %p
  %q = add(%p, %old) : f32[1, 6]
  return %q
}
"""


def text(source: str, **options: object) -> Planned:
    """The plan of a program."""
    module = parse_module(source, ops=registry)
    for step in (Lower(), ScheduleLoops(""), PlanMemory(**options)):
        module = step.run(module)
    return module, module.plans["main"]


def threads() -> Planned:
    """Calls that threads share, each with scratch of its own."""
    net = Net()
    type = TensorType(I8, (128, 128))
    x = net.input("x", 128, 128)
    i, j = variable("i", 128), variable("j", 128)
    rows = row_vars(128)
    body = loop(
        i, rows.hi.expr,
        Alloc(Buffer("row", I8, (128,), "scratch")),
        loop(j, 128, Store("row", (j.expr,), Load("x", (i.expr, j.expr), I8))),
        loop(j, 128, Store("o", (i.expr, j.expr), Load("row", (127 - j.expr,), I8))),
        lo=rows.lo.expr,
    )  # fmt: skip
    turn = function("turn", [param("x", type), param("o", type, "write")], [body], rows)
    a = net.op("relu", x, name="a")
    b, c = Value("b", type), Value("c", type)
    net.call(turn, (a,), (b,))
    net.call(turn, (b,), (c,))
    return planned(net, net.op("relu", c), threads=3)


def scratch() -> Planned:
    """Calls with two scratch buffers that are in use together, beside what they read and what lives on."""
    net = Net()
    type = TensorType(I8, (4, 24))
    i, j = variable("i", 4), variable("j", 24)
    names = ("p", "q")
    fill = [loop(j, 24, Store(n, (j.expr,), Load("x", (i.expr, j.expr), I8))) for n in names]
    use = [loop(j, 24, Store("o", (i.expr, j.expr), Load(n, (23 - j.expr,), I8))) for n in names]
    body = loop(i, 4, *(Alloc(Buffer(n, I8, (24,), "scratch")) for n in names), *fill, *use)
    turn = function("turn", [param("x", type), param("o", type, "write")], [body])
    x = net.input("x", 4, 24)
    a, b = Value("a", type), Value("b", type)
    net.call(turn, (x,), (a,))
    net.call(turn, (a,), (b,))
    return planned(net, net.op("mul", net.op("add", a, b), x))


def stream() -> Planned:
    """Two convolutions row by row through rings, rows before the repeat, the output over consumed input rows."""
    height, width, depth = 7, 4, 4
    net = Net()
    y = net.conv(net.conv(net.input("x", 1, height, width, depth), depth), depth)
    module, plan = planned(net, y)
    first, second, third, fourth = (s for s in plan.body if isinstance(s, PlanCall))
    end = height * width * depth + 4
    r = Var("r", 0, height - 1)
    ahead = dmin(r.expr + 1, height), dmin(r.expr + 2, height)
    body = [replace(c, rows=ahead) for c in (first, second)]
    body += [replace(c, rows=(r.expr, r.expr + 1)) for c in (third, fourth)]
    head = [replace(c, rows=(0, 1)) for c in (first, second)]
    repeat = Repeat(r, 0, height, tuple(body))
    return with_kept(module, plan, {"t0": 1, "t1": 3, "t2": 1}, {"x": 0, "t3": 0}, end, (*head, repeat))


def nested() -> Planned:
    """A convolution, one of stride 2 and a map in place of its result: two rates, a repeat in a repeat."""
    net = Net()
    y = net.conv(net.conv(net.input("x", 1, 10, 4, 4), 4), 4, stride=2)
    module, plan = planned(net, net.op("relu", y, name="z"))
    a, b, c, d, e = (s for s in plan.body if isinstance(s, PlanCall))
    r, k = Var("r", -1, 4), Var("k", 0, 9)
    one = k.expr, k.expr + 1
    fast = Repeat(
        k, dmax(2 * r.expr + 2, 0), dmin(2 * r.expr + 4, 10), tuple(replace(s, rows=one) for s in (a, b))
    )
    late = dmin(dmax(r.expr, 0), 5), r.expr + 1
    slow = tuple(replace(s, rows=late) for s in (c, d, e))
    body = (Repeat(r, -1, 5, (fast, *slow)),)
    return with_kept(module, plan, {"t0": 1, "t1": 5, "t2": 1}, {"x": 0, "t3": 0, "z": 0}, 10 * 16, body)


def streams() -> Planned:
    """The planner's own streams: a residual sum, two rates, a global pool that takes rows, a dense layer."""
    net = Net()
    a = net.conv(net.input("x", 1, 8, 4, 3), 4)
    b = net.op("add_q", net.conv(a, 0, op="depthwise_conv2d"), a, **ADD)
    c = net.conv(b, 6, stride=2)
    mean = net.op("pool_result", net.op("pool_rows", c, by="sum"), count=8, out="i8")
    flat = net.op("reshape", mean, shape=(1, 6))
    dense = net.op("dense", flat, net.const((3, 6)), net.const((3,), I32), w_offset=0, x_offset=9)
    return planned(net, net.requantize(dense), memory="min", align=4)


def overlay() -> Planned:
    """A stream whose result is written over the rows of the input that are read already, and one after it."""
    net = Net()
    a = net.conv(net.conv(net.input("x", 1, 8, 3, 4), 4), 4)
    return planned(net, net.op("relu", net.conv(a, 8, stride=2)), a, memory="min", align=1)


def below() -> Planned:
    """Whole calls that write results over inputs that lie elsewhere: of more channels, and of fewer."""
    net = Net()
    value = net.input("x", 1, 4, 4, 4)
    for channels in (7, 5, 6):
        value = turned(net, value, channels)
    return planned(net, value)


def turned(net: Net, value: Value, channels: int, name: str = "") -> Value:
    """A call of a function with as many channels as are asked for in its result: pixel by pixel the channels from the
    last to the first, from the start again where there are more."""
    shape = tuple(n for n in value.type.shape if isinstance(n, int))
    name = name or f"to{channels}"
    out = Value(name, TensorType(I8, (*shape[:3], channels)))
    rows = row_vars(shape[1])
    r, p, j, k = (variable(n, e) for n, e in zip("rpjk", (*shape[1:], channels), strict=True))
    pixel = 0, r.expr, p.expr
    last = shape[3] - 1
    body = loop(
        r, rows.hi.expr,
        loop(
            p, shape[2],
            Alloc(Buffer("row", I8, (16,), "scratch")),
            loop(j, shape[3], Store("row", (last - j.expr,), Load("x", (*pixel, j.expr), I8))),
            loop(k, channels, Store("o", (*pixel, k.expr), Load("row", (mod(k.expr, shape[3]),), I8))),
        ),
        lo=rows.lo.expr,
    )  # fmt: skip
    function_ = function(f"turn_{name}", [param("x", value.type), param("o", out.type, "write")], [body], rows)
    net.call(function_, (value,), (out,))
    return out


def with_kept(
    module: Module, plan: Plan, kept: dict[str, int], at: dict[str, int], end: int, body: tuple[PlanStmt, ...]
) -> Planned:
    """The plan with some buffers as rings, some at given offsets (over the input, or each other), others behind."""
    at = dict(at)
    buffers: list[PlanBuffer] = []
    for b in plan.buffers:
        if b.region == "arena":
            if b.name not in at:
                at[b.name] = end = -(-end // 16) * 16
                end += stored_bytes(b.type, kept.get(b.name))
            b = replace(b, offset=at[b.name], ring=kept.get(b.name))
        buffers.append(b)
    loops = dict(module.loops)
    for call in (s for s in plan.body if isinstance(s, PlanCall)):
        f = loops[call.callee]
        own = {p.buffer.name: kept[n] for p, n in zip(f.params, call.args, strict=True) if n in kept}
        loops[call.callee] = with_rings(f, own)
    regions = (Region("arena", "arena", end), *plan.regions[1:])
    new = replace(plan, regions=regions, buffers=tuple(buffers), lower_bound=0)
    new = with_body(new, body)
    return replace(module, loops=loops, plans={"main": new}), new


SOUND: dict[str, Callable[[], Planned]] = {
    "residual": residual,
    "stateful": stateful,
    "dynamic": dynamic,
    "scaled": scaled,
    "cast": lambda: text(CAST),
    "cast_scaled": lambda: text(CAST, offsets="scaled"),
    "cache": lambda: text(CACHE),
    "cache_caller": lambda: text(CACHE, io="caller", offsets="scaled"),
    "feed": lambda: text(FEED),
    "scratch": scratch,
    "threads": threads,
    "stream": stream,
    "nested": nested,
    "streams": streams,
    "overlay": overlay,
    "below": below,
}
