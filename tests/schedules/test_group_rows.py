"""Rows of weights in groups out of the panels of products: every format, on this machine, and in the interpreter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c.c_harness import HOST_ISA, build

from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Block, Loops
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import F32, I32, I64, U8, TensorType
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS
from sdk.compiler.ops.group_formats import FORMATS
from sdk.compiler.ops.group_products import blocks_of
from sdk.compiler.schedules.group_panels import panel_layout
from sdk.compiler.schedules.group_rows import format_of_rows, group_rows
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.rules import rule_for
from sdk.compiler.schedules.rules.groups import GroupRows
from sdk.compiler.sym import Dim, Var
from sdk.compiler.verify.loops import verify_loops

M = Var("m", 0, 9)
INDICES = {"i64": np.array([3, -1, 36, 0, 37, -38, 16, 15]), "i32": np.array([-37, 2, 31, 36, 40, 17, 1, 33], np.int32)}


def plain(name: str, n: int, blocks: int, lead: tuple[Dim, ...], kind: str = "i32", called: str = "f") -> Loops:
    """The nest of ``lookup_groups``."""
    form, loops = FORMATS[name], OPS["lookup_groups"].loops
    assert loops is not None
    types = TensorType(U8, (n, blocks * form.nbytes)), TensorType({"i32": I32, "i64": I64}[kind], lead)
    return drop_single_trips(loops(called, types, [TensorType(F32, (*lead, blocks * form.size))], {"format": name}))


def cases() -> list[tuple[str, int, str, bool]]:
    """Formats, with blocks in pairs and not, indices of both types, of a number of rows and of any."""
    return [(name, blocks, kind, m) for name in FORMATS for blocks, kind, m in ((2, "i32", True), (3, "i64", False))]


def wanted(name: str, w: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return np.asarray(OPS["lookup_groups"].reference(w, indices, format=name))


def test_rows_are_those_of_the_file(tmp_path: Path) -> None:
    machine = machine_for(HOST_ISA)
    if not any(isinstance(rule, GroupRows) for rule in machine.rules):
        pytest.skip("this machine has no kernels for weights in groups")
    functions = []
    for k, (name, blocks, kind, any_) in enumerate(cases()):
        rule, made = rule_for(Nest(plain(name, 37, blocks, (M.expr if any_ else 8,), kind, f"r{k}")), machine)
        assert isinstance(rule, GroupRows), name
        functions.append(made)
    kernels = build(functions, tmp_path, HOST_ISA, "zig")
    for made, (name, blocks, kind, any_) in zip(functions, cases(), strict=True):
        w = blocks_of(name, 37, blocks * FORMATS[name].size)(np.random.default_rng(1))
        out = np.full((8, blocks * FORMATS[name].size), 85, np.float32)
        stored = pack_array(w, made.layouts["w"])
        for part in ((0, 3), (3, 8)):
            kernels.call(made.name, [stored, INDICES[kind], out], [8] if any_ else [], part)
        np.testing.assert_array_equal(out, wanted(name, w, INDICES[kind]), err_msg=name)


@pytest.mark.parametrize("name", FORMATS)
def test_the_nest_is_known_by_its_form(name: str) -> None:
    loops = plain(name, 5, 2, (M.expr,))
    assert format_of_rows(loops) is FORMATS[name]
    made = group_rows(loops)
    assert made.layouts["w"] == panel_layout(FORMATS[name], 2 * FORMATS[name].nbytes)  # that of products
    found: list[str] = []
    verify_loops(made, lambda _, text: found.append(text))
    assert found == []
    assert format_of_rows(made) is None
    assert format_of_rows(replace(loops, body=Block((*loops.body.body, *loops.body.body)))) is None
    with pytest.raises(ScheduleError, match="takes no rows"):
        group_rows(made)


def test_in_the_interpreter() -> None:
    made = group_rows(plain("Q6_K", 19, 1, (2, 2)))
    w = blocks_of("Q6_K", 19, 256)(np.random.default_rng(2))
    at = np.array([[18, -19], [16, 19]], np.int32)
    out = np.full((2, 2, 256), 85, np.float32)
    run_loops(made, {"w": pack_array(w, made.layouts["w"]), "indices": at, "o": out})
    np.testing.assert_array_equal(out, wanted("Q6_K", w, at))


def test_only_constants_are_read_from_panels() -> None:
    machine = machine_for(frozenset({"avx2", "fma", "f16c"}))
    nest = plain("Q4_0", 20, 2, (1,))
    assert isinstance(rule_for(Nest(nest), machine)[0], GroupRows)
    assert not isinstance(rule_for(Nest(nest, packable=frozenset()), machine)[0], GroupRows)
