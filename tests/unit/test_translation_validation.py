"""Faults planted in the compiler, one at a time: what it checks of its own code finds each, and the build goes on."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.codegen_c.functions import regions, stmt
from sdk.codegen_c.functions.thumb import list_scheduling
from sdk.compiler.ir import packing
from sdk.compiler.passes.simplify_loops import SimplifyLoops
from sdk.driver import BuildOptions
from sdk.driver.generate import compiled, measure
from sdk.driver.job import job_of
from sdk.driver.pipeline import default_passes, import_model, lower_module
from sdk.errors import MiscompileWarning

sys.path.append(str(Path(__file__).resolve().parents[1] / "frontends"))
from tflite_files import ModelFile

selection: Any = sys.modules["sdk.codegen_c.functions.thumb.instruction_selection"]
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
BOARD = "qemu-cortex-m4"
Patch = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layers of 1, 12 and 16 inputs, which share a kernel: its loops have none or one iteration for some."""
    m, rng = ModelFile(), np.random.default_rng(0)
    x, inner = m.input("x", (1, 1), "int8", 0.05, 3), 1
    for k, outer in enumerate((12, 16, 1)):
        w = m.const(f"w{k}", rng.integers(-127, 128, (outer, inner)), "int8", scale=0.01)
        b = m.const(f"b{k}", rng.integers(-500, 500, outer), "int32", scale=0.0005)
        y = m.tensor(f"y{k}", (1, outer), "int8", 0.05, -7)
        m.op("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions", FusedActivationFunction=0)
        x, inner = y, outer
    m.outputs.append(x)
    path = tmp_path_factory.mktemp("dense") / "dense.tflite"
    path.write_bytes(m.build())
    return path


def found(model: Path) -> list[str]:
    """What a build for size warns of, where layers share kernels whatever it costs. Loops of one iteration are dropped,
    those of products too: without its loop a byte is an operand of assembly."""
    board, options = load_board(BOARD), BuildOptions(opt="size")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        passes = [SimplifyLoops() if isinstance(p, SimplifyLoops) else p for p in default_passes(board, options)]
        module = lower_module(import_model(model, options, "m"), passes)
        get_backend("c99").emit(module, "m", isa=board.capabilities, options=EmitOptions())
    assert all(isinstance(w.message, MiscompileWarning) for w in caught)
    return [str(w.message) for w in caught]


def test_nothing_is_found_where_nothing_is_wrong(dense: Path) -> None:
    assert found(DIGITS) + found(dense) == []


# --- faults of assembly -----------------------------------------------------------------------------------


def narrow_operands(patch: Patch) -> None:
    patch.setattr(stmt._Printer, "_operand", lambda self, expr: self.values.text(expr))


def wrong_offset(patch: Patch) -> None:
    text = list_scheduling._text
    patch.setattr(list_scheduling, "_text", lambda *given: text(*given).replace("#8]", "#12]"))


def wrong_stride(patch: Patch) -> None:
    path = selection._Selector._path

    def changed(self: Any, memory: Any) -> Any:
        step, start = path(self, memory)
        return (step + 4 if step == 16 else step), start

    patch.setattr(selection._Selector, "_path", changed)


def swapped_pair(patch: Patch) -> None:
    line, other = selection.assembly_line, {"evens": "odds", "odds": "evens"}
    patch.setattr(selection, "assembly_line", lambda op, *given: line(other.get(op, op), *given))


def wrong_declaration(patch: Patch) -> None:
    line = selection.assembly_line

    def changed(*given: Any) -> Any:
        found = line(*given)
        return found and replace(found, text=found.text.replace("smlad", "smlabt"))

    patch.setattr(selection, "assembly_line", changed)


def lost_check_for_no_iterations(patch: Patch) -> None:
    patch.setattr(regions, "prove_ge", lambda a, b: True)


def rest_left_out(patch: Patch) -> None:
    patch.setattr(regions.Regions, "_factors", lambda self, trip: [2])


def wrong_sign(patch: Patch) -> None:
    widths = selection._WIDTHS
    patch.setattr(selection, "_WIDTHS", {kind: {"sb": "b", "b": "sb"}.get(w, w) for kind, w in widths.items()})


def result_left_out(patch: Patch) -> None:
    selected = selection._Selector.selected

    def changed(self: Any, dead: Any) -> Any:
        made = selected(self, dead)
        kept = dict(list(made.code.results.items())[1:])
        return replace(made, code=replace(made.code, results=kept))

    patch.setattr(selection._Selector, "selected", changed)


def overwritten_too_soon(patch: Patch) -> None:
    patch.setattr(list_scheduling._Allocation, "_allowed", lambda self, item: True)
    patch.setattr(list_scheduling._Allocation, "_dies", lambda self, node: node in self.where and self.uses[node] <= 2)
    used = list_scheduling._Allocation._used

    def early(self: Any, item: Any) -> None:
        used(self, item)
        for arg in dict.fromkeys(list_scheduling._args(item)):
            if self.uses[arg] == 1 and self.where.get(arg) in self.loose and self.where[arg] not in self.free:
                self.free.insert(0, self.where[arg])

    patch.setattr(list_scheduling._Allocation, "_used", early)


ASSEMBLY: list[Callable[[Patch], None]] = [
    narrow_operands, wrong_offset, wrong_stride, swapped_pair, wrong_declaration, lost_check_for_no_iterations,
    rest_left_out, wrong_sign, result_left_out, overwritten_too_soon,
]  # fmt: skip


@pytest.mark.parametrize("fault", ASSEMBLY, ids=lambda fault: fault.__name__)
def test_faults_of_assembly_are_found(fault: Callable[[Patch], None], monkeypatch: Patch, dense: Path) -> None:
    fault(monkeypatch)
    assert found(DIGITS) + found(dense)


# --- faults of schedules ----------------------------------------------------------------------------------


def test_faults_of_schedules_are_found(monkeypatch: Patch) -> None:
    right = packing.pack_array

    def transposed(data: Any, spec: Any, *beside: Any) -> Any:
        made = right(data, spec, *beside)
        return made if made.ndim < 2 else np.ascontiguousarray(made[:, ::-1])

    monkeypatch.setattr(sys.modules["sdk.compiler.schedules.validate"], "pack_array", transposed)
    assert any("plainer code" in text for text in found(DIGITS))


def test_the_plain_nest_takes_the_place_of_a_wrong_schedule(monkeypatch: Patch) -> None:
    validate = sys.modules["sdk.compiler.passes.schedule"]
    monkeypatch.setattr(validate, "differing", lambda pairs, check: dict.fromkeys(pairs, "everything"))
    board, options = load_board(BOARD), BuildOptions()
    with pytest.warns(MiscompileWarning, match="everything"):
        module = lower_module(import_model(DIGITS, options, "m"), default_passes(board, options))
    assert all(not loops.trace for loops in module.loops.values())


def test_a_build_that_went_around_a_fault_says_so_each_time(
    monkeypatch: Patch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CROSSLEVEL_CACHE", str(tmp_path / "cache"))
    swapped_pair(monkeypatch)
    arguments = ["build", str(DIGITS), "--board", BOARD, "-o", str(tmp_path / "out"), "--json"]
    for _ in range(2):  # made, then from the cache
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            assert run_command(arguments) == 0
        printed = capsys.readouterr()
        assert "warning: the faster code of @" in printed.err
        assert "plainer code is used" in json.loads(printed.out)["warnings"][0]
    assert "in the place of" in (tmp_path / "out" / "digits_int8_faults.txt").read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert run_command(["verify", str(DIGITS), "--board", BOARD, "--cases", "3"]) == 0
    assert "warning: the faster code of @" in capsys.readouterr().err


def test_what_is_only_measured_warns_too() -> None:
    """The plan for least RAM, of which a message or a table tells the size, is made of the same kernels."""
    job = job_of(DIGITS, load_board("qemu-cortex-m4"), BuildOptions())
    fault = MiscompileWarning.of("f", "y[0]", "details")
    with pytest.warns(MiscompileWarning, match="@f is wrong"):
        measure(job, "min", lambda other: replace(compiled(other), faults=(fault,)))
