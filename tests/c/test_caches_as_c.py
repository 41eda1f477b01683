"""Caches as states: rows written into rings, the capacity bound at init, as graph, plan and C."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_model import CModel, files_of, load

from sdk.compiler.interp import plan as planned
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, PlanCall
from sdk.compiler.ir.text import parse_module, print_module
from sdk.compiler.memory.layout import Offsets
from sdk.compiler.memory.storage import Io
from sdk.compiler.ops import registry
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.compiler.verify.module import verify
from sdk.compiler.verify.plan import verify_plan
from sdk.errors import UsageError
from sdk.source import ParseError

TEXT = """module net typed

state @cache<cap in 1..16>: f32[cap, 8] ring(0) = 2
state @count: f32[1, 8] = 0
state @log<size in 4..20 multiple 2>: i32[2, size, 3] plain(1) = -7

graph @fill<n in 1..6, pos in 0..1000, cap in 1..16>(%k: f32[n, 8]) {
  %old = read @cache : f32[cap, 8]
  write @cache[pos] = %k
  %new = read @cache : f32[cap, 8]
  %d = sub(%new, %old) : f32[cap, 8]
  return %d
}

graph @step<pos in 0..1000, cap in 1..16, at in 0..19, size in 4..20 multiple 2>(%k: f32[1, 8], %row: i32[2, 1, 3]) {
  %two = add(%k, %k) : f32[1, 8]
  write @cache[pos] = %two
  write @log[at] = %row
  %rows = read @cache : f32[cap, 8]
  %l = read @log : i32[2, size, 3]
  write @count = %two
  return %rows, %l
}
"""
CASES = [("arena", "fixed", "", "zig"), ("caller", "scaled", "avx2", "gcc"), ("arena", "scaled", "", "gcc")]
Arrays = dict[str, np.ndarray]


def typed() -> Module:
    module = parse_module(TEXT, ops=registry)
    assert print_module(module) == TEXT
    assert verify(module, registry) == []
    return module


def plan_of(io: Io, offsets: Offsets, isa: str = "") -> Module:
    module = PlanMemory(io=io, offsets=offsets).run(ScheduleLoops(isa).run(Lower().run(typed())))
    assert verify(module, registry) == []
    assert parse_module(print_module(module)) == module
    assert all(verify_plan(module, p) == [] for p in module.plans.values())
    return module


class Instance:
    """An instance of the compiled model with its own memory, guarded by bytes behind it."""

    def __init__(self, library: ctypes.CDLL, io: str, cap: int, size: int) -> None:
        self.library, self.io, self.cap, self.size = library, io, cap, size
        self.init_dims = (ctypes.c_int32 * 2)(cap, size)
        self.context = (ctypes.c_void_p * 16)()
        self.state_bytes = library.net_state_bytes(self.init_dims)
        self.arena, self.state = (np.full(4096, 0x5A, np.uint8) for _ in range(2))
        self.status = library.net_init(
            self.context, self._aligned(self.arena), ctypes.c_size_t(2048), self._aligned(self.state),
            ctypes.c_size_t(self.state_bytes), self.init_dims,
        )  # fmt: skip

    @staticmethod
    def _aligned(memory: np.ndarray) -> ctypes.c_void_p:
        return ctypes.c_void_p(memory.ctypes.data + -memory.ctypes.data % 64)

    def run(self, entry: str, inputs: Arrays, dims: tuple[int, ...], outputs: Arrays) -> int:
        """Runs on the shapes and types of ``outputs``, which are filled."""
        run, args = self.library[f"net_{entry}_run"], [self.context]
        values = (ctypes.c_int32 * len(dims))(*dims)
        if self.io == "caller":
            for group in (inputs, outputs):
                args.append((ctypes.c_void_p * len(group))(*(a.ctypes.data for a in group.values())))
            return int(run(*args, values))
        for name, data in inputs.items():
            ctypes.memmove(self._place(entry, "in", name, values), data.ctypes.data, data.nbytes)
        status = int(run(self.context, values))
        for name, data in outputs.items():
            ctypes.memmove(data.ctypes.data, self._place(entry, "out", name, values), data.nbytes)
        return status

    def _place(self, entry: str, direction: str, name: str, dims: Any) -> int:
        where = self.library[f"net_{entry}_{direction}_{name}"]
        where.restype = ctypes.c_void_p
        return int(where(self.context, dims))


def compiled(module: Module, folder: Path, toolchain: str) -> ctypes.CDLL:
    library = load(files_of(module), folder, toolchain)
    library.net_state_bytes.restype = ctypes.c_size_t
    return library


@pytest.mark.parametrize(("io", "offsets", "isa", "toolchain"), CASES)
def test_graph_plan_and_c_agree_at_several_capacities(
    io: Io, offsets: Offsets, isa: str, toolchain: str, tmp_path: Path
) -> None:
    graph, plan = typed(), plan_of(io, offsets, isa)
    library = compiled(plan, tmp_path, toolchain)
    pairs = [(1, 4), (3, 6), (7, 20), (16, 10)]
    models = [Instance(library, io, *pair) for pair in pairs]  # all at once, each with its own capacity
    states = [initial_states(graph, {"cap": c, "size": s}) for c, s in pairs]
    places = [planned.initial_states(plan, "fill", {"cap": c, "size": s}) for c, s in pairs]
    rng, pos = np.random.default_rng(1), 0
    for t in range(40):
        n = int(rng.integers(1, 7)) if t % 5 == 0 else 1
        entry = "fill" if t % 5 == 0 else "step"
        x: Arrays = {"k": rng.standard_normal((n, 8)).astype(np.float32)}
        if entry == "step":
            x["row"] = rng.integers(0, 99, (2, 1, 3)).astype(np.int32)
        for k, (cap, size) in enumerate(pairs):
            at = t % size
            dims = {"pos": pos, "at": at, "cap": cap, "size": size}
            want = run_graph(graph, entry, x, states[k], {"pos": pos, "at": at})
            again = planned.run_plan(plan, entry, x, places[k], dims)
            got = {name: np.zeros_like(a) for name, a in want.items()}
            assert models[k].run(entry, x, (n, pos) if entry == "fill" else (pos, at), got) == 0
            for name, value in want.items():
                np.testing.assert_array_equal(again[name], value)
                np.testing.assert_array_equal(got[name], value)
        pos += n
    for model in models:
        assert model.status == 0
        start = -model.state.ctypes.data % 64
        assert (model.state[start + model.state_bytes :] == 0x5A).all()  # nothing behind the state it asked for


def test_a_ring_holds_the_last_rows_in_their_slots() -> None:
    module = typed()
    states = initial_states(module, {"cap": 4})
    k = np.arange(48, dtype=np.float32).reshape(6, 8)
    run_graph(module, "fill", {"k": k}, states, {"pos": 3})
    for row in range(2, 6):  # rows 3..9: those of number 5..8 stay
        np.testing.assert_array_equal(states["cache"][(3 + row) % 4], k[row])


def test_what_was_read_before_a_write_is_copied() -> None:
    plan = plan_of("caller", "fixed").plans["fill"]
    first, write, _ = plan.body
    assert isinstance(first, Copy)
    assert first.src == "cache"
    assert isinstance(write, PlanCall)
    assert plan.buffer(write.args[1]).alias == "cache"


def test_the_tag_run_sees_a_stale_read() -> None:
    text = print_module(plan_of("caller", "fixed"))
    wrong = parse_module(text.replace("(%cache_new, %old, %d)", "(%cache, %old, %d)"))
    found = [d.message for d in verify_plan(wrong, wrong.plans["fill"])]
    assert any("which holds row 0 of cache_new" in message for message in found), found


@pytest.mark.parametrize(("cap", "size", "code"), [(0, 4, -16), (17, 4, -16), (3, 2, -17), (3, 5, -17)])
def test_bad_dims_at_init(cap: int, size: int, code: int, tmp_path: Path) -> None:
    library = compiled(plan_of("caller", "fixed"), tmp_path, "gcc")
    model = Instance(library, "caller", cap, size)
    assert model.status == code
    assert model.state_bytes == 0
    assert (model.state == 0x5A).all()
    assert (model.arena == 0x5A).all()
    x = {"k": np.zeros((1, 8), np.float32)}
    assert model.run("fill", x, (1, 0), {"d": np.zeros((16, 8), np.float32)}) == -4  # not initialised
    with pytest.raises(UsageError):
        initial_states(typed(), {"cap": cap, "size": size})


def test_memory_at_init(tmp_path: Path) -> None:
    module = plan_of("caller", "scaled")
    library = compiled(module, tmp_path, "gcc")
    small, large = (Instance(library, "caller", *pair) for pair in ((1, 4), (16, 20)))
    assert (small.state_bytes, large.state_bytes) == (32 + 96 + 32, 512 + 480 + 32)
    assert library.net_init(small.context, None, 0, None, 0, None) == -1  # no dims
    given = [small.context, small._aligned(small.arena), 2048, small._aligned(small.state)]
    assert library.net_init(*given, ctypes.c_size_t(small.state_bytes - 1), small.init_dims) == -4


def test_rows_behind_the_end_of_a_plain_state(tmp_path: Path) -> None:
    graph, module = typed(), plan_of("caller", "fixed")
    model = Instance(compiled(module, tmp_path, "gcc"), "caller", 3, 6)
    x = {"k": np.zeros((1, 8), np.float32), "row": np.ones((2, 1, 3), np.int32)}
    out = {"rows": np.zeros((3, 8), np.float32), "l": np.zeros((2, 6, 3), np.int32)}
    assert model.run("step", x, (0, 5), out) == 0
    before = model.state.copy()
    assert model.run("step", x, (0, 6), out) == -18
    np.testing.assert_array_equal(model.state, before)
    held = {"cap": 3, "size": 6}
    with pytest.raises(UsageError, match=r"rows 6\.\.7 of state log, which has 6"):
        run_graph(graph, "step", x, initial_states(graph, held), {"pos": 0, "at": 6})
    with pytest.raises(UsageError, match="behind its last row"):
        planned.run_plan(module, "step", x, None, {"pos": 0, "at": 6, **held})


def test_an_agent_binds_the_upper_bounds(tmp_path: Path) -> None:
    module = plan_of("arena", "fixed")
    model = CModel(load(files_of(module), tmp_path), "net_fill")
    assert [model.record.dims[k].name for k in range(model.record.dim_count)] == [b"n", b"pos"]
    x = {"k": np.ones((2, 8), np.float32)}
    assert model.run(x, (2, 15)) == 0
    want = np.zeros((16, 8), np.float32)
    want[[15, 0]] = -1
    np.testing.assert_array_equal(model.outputs()["d"], want.reshape(-1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("write @log[at] = %row", "write @log[at] = %two", "written as f32[1, 8]"),
        ("write @log[at] = %row", "write @log[at + 20] = %row", "are not inside"),
        ("at in 0..19,", "at in -1..19,", "are not inside"),
        ("<cap in 1..16>: f32[cap, 8] ring", "<cap in 0..16>: f32[cap, 8] ring", "a ring has at least one row"),
        ("size in 4..20 multiple 2>(", "size in 4..22 multiple 2>(", "log"),
        ("write @cache[pos] = %two", "write @cache[pos] = %two via @fast", "@fast is no loops function"),
    ],
)
def test_what_the_verifier_refuses(old: str, new: str, message: str) -> None:
    found = [str(d) for d in verify(parse_module(TEXT.replace(old, new), ops=registry), registry)]
    assert any(message in text for text in found), found


def test_positions_and_dims_are_declared() -> None:
    with pytest.raises(ParseError, match="where"):
        parse_module(TEXT.replace("write @cache[pos] = %k", "write @cache[where] = %k"))
    head = "module m typed\nstate @s<cap in 1..4>: f32[cap] ring(0) = 0\n"
    module = parse_module(head + "graph @main(%x: f32[1]) {\n  write @s[0] = %x\n  return ()\n}\n", ops=registry)
    assert [d.message for d in verify(module, registry)] == ["the dim cap is not declared"]
