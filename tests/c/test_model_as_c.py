"""Whole models as C: interfaces, dims, states, rings, repeats, instances, hooks, golden cases, bad calls."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_model import OPTIONS, CModel, Net, check, files_of, load

from sdk.codegen_c import get_backend
from sdk.codegen_c.base import GoldenCase
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Load, Store
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanBuffer, PlanCall, Region, Repeat
from sdk.compiler.ir.types import F32, I8, I16, I32, Quant, TensorType
from sdk.compiler.memory.rings import with_rings
from sdk.compiler.ops.build import function, loop, param, row_vars, variable
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.sym import Var, evaluate
from sdk.errors import BuildError, UsageError

N = Var("n", 1, 12)
M = Var("m", 3, 40)
STEP = Var("k", 8, 64, 8)
BIG = np.arange(-4, 6).reshape(2, 5)


def arithmetic(io: str = "arena") -> Module:
    """Two inputs of n rows, two outputs, a constant that occurs twice."""
    net = Net(N)
    x, y = net.input("x", I32, N.expr, 5), net.input("y", I32, N.expr, 5)
    w = net.const("w", I32, np.array([1, -2, 3, -4, 5]))
    again = net.const("again", I32, np.array([1, -2, 3, -4, 5]))
    t = net.op("t", "add", x, y)
    u = net.op("u", "mul", t, w)
    v = net.op("v", "maximum", net.op("d", "sub", t, again), x)
    return net.planned(u, v, io=io)


def counters(name: str = "main") -> tuple[Module, Module]:
    """Three states: zeros, a constant, and a value of two bytes; the typed and the planned module."""
    net = Net()
    x = net.input("x", I32, 2, 5)
    net.const("start", I32, BIG)
    total = net.op("total", "add", net.read("sum", I32, (2, 5), 0), x)
    net.write("sum", total)
    product = net.op("product", "sub", net.read("last", I32, (2, 5), "start"), x)
    net.write("last", product)
    pace = net.op("pace", "add", net.read("pace_state", I16, (3,), -300), net.const("one", I16, np.array([1, 2, 3])))
    net.write("pace_state", pace)
    return net.typed(total, product, pace), net.planned(total, product, pace)


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-1000, 1000, shape).astype(np.int32)


@pytest.mark.parametrize(("io", "toolchain"), [("arena", "zig"), ("caller", "zig"), ("caller", "gcc")])
def test_dims_bind_at_run(io: str, toolchain: str, tmp_path: Path) -> None:
    module = arithmetic(io)
    model = CModel(load(files_of(module), tmp_path, toolchain), "net")
    rng = np.random.default_rng(0)
    for n in (12, 1, 5):
        inputs = {"x": numbers(rng, n, 5), "y": numbers(rng, n, 5)}
        check(model, inputs, run_plan(module, "main", inputs), (n,))
    bounds = [model.record.dims[0].lo, model.record.dims[0].hi]
    assert (model.record.dim_count, bounds) == (1, [1, 12])
    assert [list(t.shape[:2]) for t in model.tensors()] == [[12, 5]] * 4


@pytest.mark.parametrize("toolchain", ["zig", "gcc"])
def test_scaled_arena(toolchain: str, tmp_path: Path) -> None:
    """The bytes that the generated function asks for are the plan's; a run with one less is refused."""
    net = Net(N, M)
    x, y = net.input("x", F32, N.expr, 9), net.input("y", F32, M.expr, 9)
    t = net.op("t", "matmul", x, y, trans_b=True)
    u = net.op("u", "matmul", net.op("s", "softmax", t), y)
    planned = PlanMemory(io="caller", offsets="scaled").run(Lower().run(net.typed(u)))
    plan = planned.plans["main"]
    library = load(files_of(planned), tmp_path, toolchain)
    need = library.net_arena_bytes
    need.restype = ctypes.c_size_t
    model = CModel(library, "net")
    maximum = model.record.arena_bytes
    rng = np.random.default_rng(0)
    arena = np.zeros(maximum + 64, np.uint8)
    base = arena.ctypes.data + -arena.ctypes.data % 64
    instance = ctypes.create_string_buffer(256)
    for n, m in [(12, 40), (1, 3), *rng.integers((1, 3), (13, 41), (20, 2)).tolist()]:
        dims = (ctypes.c_int32 * 2)(n, m)
        size = need(dims)
        env = plan.placed({N: n, M: m})
        assert size == evaluate(plan.region("arena").bytes, env) <= maximum
        assert library.net_init(instance, ctypes.c_void_p(base), ctypes.c_size_t(size - 1), None, 0) == 0
        buffers = (ctypes.c_void_p * 2)(base, base)
        assert library.net_run(instance, buffers, buffers, dims) == -3
        inputs = {k: rng.standard_normal((d, 9)).astype(np.float32) for k, d in (("x", n), ("y", m))}
        want = run_plan(planned, "main", inputs)["u"]
        assert model.run(inputs, (n, m)) == 0
        np.testing.assert_allclose(model.outputs()["u"][: want.size], want.reshape(-1), rtol=1e-4, atol=1e-5)


def test_states_start_and_reset(tmp_path: Path) -> None:
    typed, module = counters()
    model = CModel(load(files_of(module), tmp_path), "net")
    rng = np.random.default_rng(1)
    for _ in range(2):
        states = initial_states(typed)
        for _ in range(4):
            inputs = {"x": numbers(rng, 2, 5)}
            check(model, inputs, run_graph(typed, "main", inputs, states))
        assert model.record.reset() == 0


def test_bad_calls_say_what_is_wrong(tmp_path: Path) -> None:
    library = load(files_of(arithmetic("caller")) | files_of(counters()[1], "cnt"), tmp_path)
    arena = (ctypes.c_uint8 * 8192)()
    base = ctypes.addressof(arena) + (-ctypes.addressof(arena) % 64)
    context = (ctypes.c_void_p * 8)()

    def init(name: str, at: int | None, size: int, state: int | None = None, state_size: int = 0) -> int:
        return getattr(library, f"{name}_init")(
            context,
            ctypes.c_void_p(at),
            ctypes.c_size_t(size),
            ctypes.c_void_p(state),
            ctypes.c_size_t(state_size),
        )

    assert library.net_run(context, None, None, None) == -4  # not initialised
    assert library.net_reset(context) == -4
    assert library.net_init(None, None, 0, None, 0) == -1
    assert init("cnt", None, 4096, base + 4096, 2048) == -3
    assert init("cnt", base + 1, 4095, base + 4096, 2048) == -3
    assert init("cnt", base, 16, base + 4096, 2048) == -3
    assert init("net", base, 4096) == 0
    assert library.net_run(context, None, None, None) == -1
    buffers = (ctypes.c_int32 * 60)()
    two = (ctypes.c_void_p * 2)(ctypes.addressof(buffers), ctypes.addressof(buffers))
    empty = (ctypes.c_void_p * 2)()
    assert library.net_run(context, empty, two, (ctypes.c_int32 * 1)(3)) == -1
    for n in (0, 13, -1):
        assert library.net_run(context, two, two, (ctypes.c_int32 * 1)(n)) == -16
    assert init("cnt", base, 4096, None, 0) == -4
    assert init("cnt", base, 4096, base + 4096, 4) == -4
    assert init("cnt", base, 4096, base + 4097, 2048) == -4
    assert init("cnt", base, 4096, base + 4096, 2048) == 0
    assert library.net_run(context, two, two, (ctypes.c_int32 * 1)(3)) == -4  # another model's instance
    assert CModel(library, "net").run({"x": np.zeros(0, np.int32), "y": np.zeros(0, np.int32)}, (13,)) == -2


def test_dims_are_multiples(tmp_path: Path) -> None:
    net = Net(STEP)
    x = net.input("x", I8, STEP.expr)
    module = net.planned(net.op("o", "maximum", x, net.const("zero", I8, np.zeros(1))))
    model = CModel(load(files_of(module), tmp_path), "net")
    data = {"x": np.arange(-8, 8).astype(np.int8)}
    check(model, data, {"o": np.maximum(data["x"], 0)}, (16,))
    assert model.run(data, (12,)) == -2


def test_two_models_and_two_instances(tmp_path: Path) -> None:
    typed, module = counters()
    files = files_of(module, "one") | files_of(module, "two") | files_of(arithmetic(), "net")
    library = load(files, tmp_path)
    first, second = CModel(library, "one"), CModel(library, "two")
    rng = np.random.default_rng(2)
    states = [initial_states(typed), initial_states(typed)]
    for _ in range(3):
        for model, state in zip((first, second), states, strict=True):
            inputs = {"x": numbers(rng, 2, 5)}
            check(model, inputs, run_graph(typed, "main", inputs, state))
    instances = [_Instance(library, "one"), _Instance(library, "one")]
    states = [initial_states(typed), initial_states(typed)]
    for step in range(6):
        k = step * 5 % 2
        inputs = {"x": numbers(rng, 2, 5)}
        want = run_graph(typed, "main", inputs, states[k])
        np.testing.assert_array_equal(instances[k].run(inputs["x"]), want["total"].reshape(-1))


class _Instance:
    """A second instance of the model of ``counters`` in memory of its own."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self.library, self.name = library, name
        record = CModel(library, name).record
        self.memory = [np.zeros(n + 64, np.uint8) for n in (record.arena_bytes, record.state_bytes)]
        self.context = (ctypes.c_void_p * 8)()
        where = []
        for block in self.memory:
            where += [
                ctypes.c_void_p(block.ctypes.data + -block.ctypes.data % 64),
                ctypes.c_size_t(block.size - 64),
            ]
        assert getattr(library, f"{name}_init")(self.context, *where) == 0
        for accessor in (f"{name}_in_x", f"{name}_out_total"):
            getattr(library, accessor).restype = ctypes.c_void_p

    def run(self, x: np.ndarray) -> np.ndarray:
        ctypes.memmove(getattr(self.library, f"{self.name}_in_x")(self.context), x.tobytes(), x.nbytes)
        assert getattr(self.library, f"{self.name}_run")(self.context) == 0
        out = ctypes.string_at(getattr(self.library, f"{self.name}_out_total")(self.context), 40)
        return np.frombuffer(out, np.int32)


def streamed(rows: int = 9) -> Module:
    """y[r] = x2[r] + x2[r+1] + x2[r+2] for x2 = 2 x, with x2 kept in a ring of three rows of six."""
    x = param("x", TensorType(I8, (1, rows, 6)))
    t = param("t", TensorType(I16, (1, rows, 6)), "write")
    over, col = row_vars(rows), variable("c", 6)
    r = variable("r", rows)
    doubled = op("cast", Load("x", (0, r.expr, col.expr), I8), dtype=I16)
    store = Store("t", (0, r.expr, col.expr), op("add", doubled, doubled))
    double = function(
        "double", [x, t],
        [loop(r, over.hi.expr, loop(col, 6, store), lo=over.lo.expr)],
        over,
    )  # fmt: skip
    y = param("y", TensorType(I16, (1, rows - 2, 6)), "write")
    source = param("t", TensorType(I16, (1, rows, 6)))
    over = row_vars(rows - 2)
    r = variable("r", rows - 2)
    taps = [Load("t", (0, r.expr + k, col.expr), I16) for k in range(3)]
    total = op("add", op("add", taps[0], taps[1]), taps[2])
    add = function(
        "sum3", [source, y],
        [loop(r, over.hi.expr, loop(col, 6, Store("y", (0, r.expr, col.expr), total)), lo=over.lo.expr)],
        over,
    )  # fmt: skip
    step = Var("step", 0, rows - 3)
    body = (
        PlanCall(0, "double", ("x", "t"), (), (0, 2), ops=("double",)),
        Repeat(
            step, 0, rows - 2,
            (
                PlanCall(1, "double", ("x", "t"), (), (step.expr + 2, step.expr + 3)),
                PlanCall(2, "sum3", ("t", "y"), (), (step.expr, step.expr + 1)),
            ),
        ),
    )  # fmt: skip
    buffers = (
        PlanBuffer("x", x.buffer.type, "arena", 0, "input"),
        PlanBuffer("t", t.buffer.type, "arena", 64, "temp", ring=3),
        PlanBuffer("y", y.buffer.type, "arena", 112, "output"),
    )
    plan = Plan("main", (), ("x",), ("y",), (Region("arena", "arena", 112 + 12 * (rows - 2)),), buffers, body)
    loops = {f.name: f for f in (with_rings(double, {"t": 3}), with_rings(add, {"t": 3}))}
    return Module("net", "planned", loops=loops, plans={"main": plan})


def test_repeat_over_a_ring(tmp_path: Path) -> None:
    module = streamed()
    files = files_of(module)
    assert "for (int32_t step = 0; step < 7; ++step) {" in files["net.c"]
    assert "% 3" in files["net.c"]
    model = CModel(load(files, tmp_path), "net")
    rng = np.random.default_rng(3)
    inputs = {"x": rng.integers(-128, 128, (1, 9, 6)).astype(np.int8)}
    twice = 2 * inputs["x"].astype(np.int16)
    want = {"y": twice[:, :-2] + twice[:, 1:-1] + twice[:, 2:]}
    np.testing.assert_array_equal(run_plan(module, "main", inputs)["y"], want["y"])
    check(model, inputs, want)


def test_offsets_may_follow_the_dims(tmp_path: Path) -> None:
    """Scaled plans: every offset is an expression, the arena needed is a function of the dims."""
    module = arithmetic()
    plan = module.plans["main"]
    step = 20 * N.expr
    arena = [b for b in plan.buffers if b.region == "arena"]
    places = {b.name: k * step for k, b in enumerate(arena)}
    buffers = tuple(replace(b, offset=places.get(b.name, b.offset), alias="") for b in plan.buffers)
    regions = tuple(replace(r, bytes=len(arena) * step, align=4) if r.kind == "arena" else r for r in plan.regions)
    scaled = replace(module, plans={"main": replace(plan, buffers=buffers, regions=regions)})
    library = load(files_of(scaled), tmp_path)
    model = CModel(library, "net")
    rng = np.random.default_rng(4)
    for n in (12, 3):
        inputs = {"x": numbers(rng, n, 5), "y": numbers(rng, n, 5)}
        model.run({k: v[:0] for k, v in inputs.items()}, (n,))  # tells the glue where inputs of n rows lie
        check(model, inputs, run_plan(module, "main", inputs), (n,))
    library.net_arena_bytes.restype = ctypes.c_size_t
    assert library.net_arena_bytes((ctypes.c_int32 * 1)(3)) == len(arena) * 60
    context, memory = (ctypes.c_void_p * 8)(), (ctypes.c_uint8 * 200)()
    at = ctypes.c_void_p(ctypes.addressof(memory) + -ctypes.addressof(memory) % 4)
    assert library.net_init(context, at, ctypes.c_size_t(len(arena) * 20), None, ctypes.c_size_t(0)) == 0
    assert library.net_run(context, (ctypes.c_int32 * 1)(2)) == -3
    assert library.net_run(context, (ctypes.c_int32 * 1)(1)) == 0


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_golden_cases(io: str, tmp_path: Path) -> None:
    module = arithmetic(io)
    rng = np.random.default_rng(5)
    cases = []
    for n in (2, 12):
        inputs = {"x": numbers(rng, n, 5), "y": numbers(rng, n, 5)}
        cases.append(GoldenCase(inputs, run_plan(module, "main", inputs), {"n": n}))
    files = files_of(module, options=replace(OPTIONS, golden=tuple(cases)))
    assert CModel(load(files, tmp_path), "net").record.selftest() == 0
    cases[1].outputs["v"][3, 3] += 1
    files = files_of(module, options=replace(OPTIONS, golden=tuple(cases)))
    assert CModel(load(files, tmp_path / "wrong"), "net").record.selftest() == -5
    with pytest.raises(UsageError, match="lacks y"):
        files_of(module, options=replace(OPTIONS, golden=(GoldenCase({"x": cases[0].inputs["x"]}, {}, {"n": 2}),)))


def test_golden_floats_have_a_tolerance(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", F32, 2, 3)
    module = net.planned(net.op("y", "mul", x, x))
    value = np.array([[1, 2, -3], [40, 0.5, 6]], np.float32)
    for error, status in ((0.05, 0), (5, -5)):
        case = GoldenCase({"x": value}, {"y": (value * value + error).astype(np.float32)})
        files = files_of(module, options=replace(OPTIONS, golden=(case,)))
        assert CModel(load(files, tmp_path / str(status)), "net").record.selftest() == status


def test_hooks_see_every_operation(tmp_path: Path) -> None:
    hooks = """
extern int32_t net_seen[8];
#define NET_HOOK_BEGIN(self, index) ((void)(self)->user, net_seen[index] += 1)
#define NET_HOOK_END(self, index) ((void)(net_seen[index] += 16))
"""
    seen = "#include <stdint.h>\nextern int32_t net_seen[8];\nint32_t net_seen[8];\n"
    files = files_of(streamed()) | {"seen.c": seen}
    library = load(files, tmp_path, defines=('NET_HOOKS="hooks.h"',), headers={"hooks.h": hooks})
    model = CModel(library, "net")
    assert model.run({"x": np.zeros(54, np.int8)}) == 0
    assert list((ctypes.c_int32 * 8).in_dll(library, "net_seen")) == [17, 17 * 7, 17 * 7, 0, 0, 0, 0, 0]
    names = (ctypes.c_char_p * 4).in_dll(library, "net_op_names")
    assert list(names) == [b"double: double", b"double:", b"sum3:", None]


def test_text_is_reproducible_and_freestanding() -> None:
    first, second = files_of(counters()[1]), files_of(counters()[1])
    assert first == second
    for name in ("net.h", "net.c", "net_weights.c"):
        included = set(re.findall(r'#include ["<](.+)[">]', first[name]))
        assert included <= {"stdint.h", "stddef.h", "stdbool.h", "net.h"}
    assert first["net_weights.c"].count("net_w_") == 4  # two constants, each declared and defined
    assert not re.search(r"\b(malloc|free|printf|memcpy)\b", "".join(first.values()))


def test_equal_constants_are_one() -> None:
    text = files_of(arithmetic())["net_weights.c"]
    assert text.count("const int32_t net_w_") == 2
    assert "{\n    1, -2, 3, -4, 5\n}" in text


def test_quantisation_is_in_the_header() -> None:
    net = Net()
    x = net.input("in 1", I8, 2, 3)
    net.params[0] = x = replace(x, type=replace(x.type, quant=Quant(0.5, -3)))
    header = files_of(net.planned(net.op("class", "maximum", x, x)))["net.h"]
    assert "#define NET_IN_IN_1_SCALE 0.5f" in header
    assert "#define NET_IN_IN_1_ZERO_POINT (-3)" in header
    assert "real value = 0.5 * (stored + 3)" in header
    assert "int8_t *net_out_class_(const net_t *self);" in header


def test_names_that_collide_are_told_apart(tmp_path: Path) -> None:
    size = Var("state", 1, 4)
    net = Net(size)
    x, y = net.input("in:0", I8, size.expr), net.input("IN_0", I8, size.expr)
    t = net.op("int", "maximum", x, y)
    module = net.planned(net.op("arena", "maximum", t, net.const("run", I8, np.array([3]))), io="caller")
    model = CModel(load(files_of(module), tmp_path), "net")
    data = {"in:0": np.array([1, 7], np.int8), "IN_0": np.array([5, 2], np.int8)}
    check(model, data, {"arena": np.array([5, 7], np.int8)}, (2,))


def test_what_cannot_be_emitted_is_refused() -> None:
    with pytest.raises(UsageError, match="not a C identifier"):
        get_backend("c99").emit(streamed(), "1net", isa=frozenset(), options=OPTIONS)
    with pytest.raises(BuildError, match="written from planned"):
        get_backend("c99").emit(replace(streamed(), stage="scheduled"), "net", isa=frozenset(), options=OPTIONS)


def test_the_least_backend() -> None:
    text = get_backend("null").emit(streamed(), "net", isa=frozenset(), options=OPTIONS).files["net.txt"]
    assert "repeat step in 0..7\n        call double(x, t)" in text
