"""Questions to generated C that nobody should ask get an answer that cannot be taken for another one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_model import CModel, Net, files_of, load

from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import parse_module
from sdk.compiler.ir.types import F32, I8, I32
from sdk.compiler.ops import registry
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.sym import Var

N, STEP = Var("n", 2, 12), Var("k", 8, 63, 8)
CACHE = """module net typed

state @cache<cap in 2..16>: f32[cap, 8] ring(0) = 2

graph @main<n in 1..6, pos in 0..1000, cap in 2..16>(%k: f32[n, 8]) {
  %old = read @cache : f32[cap, 8]
  write @cache[pos] = %k
  %new = read @cache : f32[cap, 8]
  %d = sub(%new, %old) : f32[cap, 8]
  return %d
}
"""


def sums(*dims: Var) -> Module:
    """Inputs of four types in the arena, and of the sums of two of them."""
    net = Net(*dims)
    shape = [d.expr for d in dims] or [3]
    x, y = net.input("x", I32, *shape, 5), net.input("y", I32, *shape, 5)
    small = net.input("small", I8, *shape, 3)
    return net.typed(net.op("z", "add", x, y), net.op("twice", "maximum", small, small))


def placed(module: Module, offsets: str) -> Module:
    return PlanMemory(io="arena", offsets=offsets).run(Lower().run(module))


class Instance:
    """A context, memory for it, and the functions that ask where its tensors lie."""

    def __init__(self, library: ctypes.CDLL, init: Sequence[int] = ()) -> None:
        self.library = library
        self.context = (ctypes.c_void_p * 16)()
        self.memory = np.zeros(1 << 16, np.uint8)
        self.base = self.memory.ctypes.data + -self.memory.ctypes.data % 64
        self.init = [(ctypes.c_int32 * len(init))(*init)] if init else []

    def start(self, arena: int = 1 << 15, at: int = 0) -> int:
        state = ctypes.c_void_p(self.base + (1 << 15))
        size = [ctypes.c_size_t(arena), state, ctypes.c_size_t(1 << 15)]
        return int(self.library.net_init(self.context, ctypes.c_void_p(self.base + at), *size, *self.init))

    def place(self, name: str, *dims: int, of: object = 0) -> int | None:
        ask: Callable[..., int | None] = getattr(self.library, f"net_{name}")
        ask.restype = ctypes.c_void_p  # type: ignore[attr-defined]
        given = [(ctypes.c_int32 * len(dims))(*dims)] if dims else []
        found = ask(self.context if of == 0 else of, *given)
        return None if found is None else found - self.base


@pytest.mark.parametrize("toolchain", ["zig", "gcc"])
def test_an_instance_that_is_none(toolchain: str, tmp_path: Path) -> None:
    library = load(files_of(placed(sums(), "fixed")), tmp_path, toolchain)
    one, ports = Instance(library), ("in_x", "in_y", "in_small", "out_z", "out_twice")
    assert [one.place(name) for name in ports] == [None] * 5
    assert one.start(at=1) == -3
    assert [one.place(name) for name in ports] == [None] * 5
    assert one.start(arena=1) == -3
    assert [one.place(name) for name in ports] == [None] * 5
    assert one.start() == 0
    found = {name: one.place(name) for name in ports}
    assert None not in found.values()
    assert sum(at == 0 for at in found.values()) >= 1
    assert [one.place(name, of=None) for name in ports] == [None] * 5
    other = (ctypes.c_void_p * 16)(*([library._handle] * 16))
    assert [one.place(name, of=other) for name in ports] == [None] * 5
    assert library.net_reset(None) == library.net_reset(other) == library.net_run(None) == library.net_run(other) == -4
    assert library.net_reset(one.context) == library.net_run(one.context) == 0


@pytest.mark.parametrize("toolchain", ["zig", "gcc"])
def test_dims_out_of_bounds(toolchain: str, tmp_path: Path) -> None:
    module = placed(sums(N, STEP), "scaled")
    library = load(files_of(module), tmp_path, toolchain)
    one = Instance(library)
    need = library.net_arena_bytes
    need.restype = ctypes.c_size_t
    varying = [p for p in ("in_x", "in_y", "in_small", "out_z", "out_twice") if f"net_{p}(const net_t *self, " in str(
        files_of(module)["net.h"])]
    assert len(varying) >= 3
    good, bad = [(2, 8), (12, 56), (5, 16)], [(1, 8), (13, 8), (2, 0), (2, 64), (2, 12), (0, 0), (-(1 << 31), 8)]
    for dims in good:
        assert need((ctypes.c_int32 * 2)(*dims)) > 0
        assert [one.place(name, *dims) for name in varying] == [None] * len(varying)
    assert need(None) == 0
    assert one.start() == 0
    for dims in bad:
        assert need((ctypes.c_int32 * 2)(*dims)) == 0, dims
        assert [one.place(name, *dims) for name in varying] == [None] * len(varying), dims
        assert library.net_run(one.context, (ctypes.c_int32 * 2)(*dims)) in (-16, -17)
    for dims in good:
        assert None not in [one.place(name, *dims) for name in varying]
        assert library.net_run(one.context, (ctypes.c_int32 * 2)(*dims)) == 0
    none = [getattr(library, f"net_{name}") for name in varying]
    assert [ask(one.context, None) for ask in none] == [None] * len(none)
    assert library.net_run(one.context, None) == -1
    # the agent's own buffers lie where the largest dims that a run may have put them
    record = CModel(library, "net").record
    assert None not in [record.data(k) for k in range(record.input_count + record.output_count)]


@pytest.mark.parametrize("offsets", ["fixed", "scaled"])
def test_dims_bound_at_init(offsets: str, tmp_path: Path) -> None:
    library = load(files_of(placed(parse_module(CACHE, ops=registry), offsets)), tmp_path)
    need = library.net_arena_bytes
    need.restype = ctypes.c_size_t

    def asked(cap: int, n: int, pos: int) -> int:
        return int(need((ctypes.c_int32 * 1)(cap), (ctypes.c_int32 * 2)(n, pos)))

    assert asked(2, 1, 0) > 0
    assert asked(16, 6, 1000) > 0
    for cap, n, pos in [(1, 1, 0), (17, 1, 0), (2, 0, 0), (2, 7, 0), (2, 1, -1), (2, 1, 1001)]:
        assert asked(cap, n, pos) == 0, (cap, n, pos)
    assert need(None, (ctypes.c_int32 * 2)(1, 0)) == need((ctypes.c_int32 * 1)(2), None) == 0
    one = Instance(library, init=[4])
    for name in ("in_k", "out_d"):
        assert one.place(name, 1, 0) is None
    assert one.start() == 0
    assert one.place("out_d", 1, 0) is not None
    assert one.place("out_d", 1, 0, of=None) is None


def test_a_dim_with_the_name_of_a_local(tmp_path: Path) -> None:
    net = Net(Var("status", 1, 4), Var("arena", 1, 4))
    x = net.input("x", F32, net.dims[0].expr, net.dims[1].expr)
    module = PlanMemory(io="arena", offsets="scaled").run(Lower().run(net.typed(net.op("y", "add", x, x))))
    library = load(files_of(module), tmp_path)
    one = Instance(library)
    assert one.start() == 0
    assert library.net_run(one.context, (ctypes.c_int32 * 2)(4, 4)) == 0
    assert library.net_run(one.context, (ctypes.c_int32 * 2)(5, 4)) == -16
    assert library.net_run(one.context, (ctypes.c_int32 * 2)(4, 5)) == -17


def test_an_arena_in_several_memories(tmp_path: Path) -> None:
    """Tensors of a second memory are asked for as those of the first."""
    module = placed(sums(), "fixed")
    plan = module.plans["main"]
    (arena,) = [r for r in plan.regions if r.name == "arena"]
    more = replace(arena, name="dtcm")
    moved = tuple(replace(b, region="dtcm") if b.name == "x" else b for b in plan.buffers)
    module = replace(module, plans={"main": replace(plan, buffers=moved, regions=(*plan.regions, more))})
    library = load(files_of(module), tmp_path)
    one = Instance(library)
    assert one.place("in_x") is None
    first, second = ctypes.c_void_p(one.base), ctypes.c_void_p(one.base + 4096)
    size = ctypes.c_size_t(4096)
    assert library.net_init(one.context, first, size, second, size, None, ctypes.c_size_t(0)) == 0
    place = next(b.offset for b in plan.buffers if b.name == "x")
    assert one.place("in_x") == 4096 + int(place)
    assert one.place("in_x", of=None) is None
    assert library.net_run(one.context) == 0
