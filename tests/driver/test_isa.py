"""``--isa``: what a capability implies comes with it, and the set is told to passes and compilers as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from sdk.boards import CAPABILITIES, board_names, load_board, with_implied
from sdk.boards.board import Capability
from sdk.boards.implied import IMPLIED
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.passes.pipeline import parse_pipeline, print_pipeline
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.driver import BuildOptions
from sdk.driver.backends import backend_for
from sdk.driver.pipeline import default_passes, import_model, lower_module
from sdk.driver.targets import capabilities, target_of

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"


def test_what_is_implied_is_a_capability_and_implies_nothing_that_implies_it() -> None:
    for one, others in IMPLIED.items():
        assert {one, *others} <= CAPABILITIES
        assert all(one not in with_implied({other}) for other in others)


@pytest.mark.parametrize(
    ("isa", "wanted"),
    [
        ("dsp", "dsp thumb2 thumb"), ("mve-fp", "mve-fp mve fpu-half fpu-sp dsp thumb2 thumb"), ("scalar", ""),
        ("div+thumb2", "div thumb2 thumb"),
    ],
)  # fmt: skip
def test_a_subset_is_closed(isa: str, wanted: str) -> None:
    board = load_board("qemu-cortex-m55")
    assert capabilities(board, BuildOptions(isa=isa)) == set(wanted.split())


def test_avx512f_has_the_floats_and_integers_of_avx2() -> None:
    have = with_implied({"avx512f"})
    assert {"avx2", "fma", "sse2"} <= have
    assert (machine_for(have).name, machine_for(have).floats.name) == ("avx2", "avx512f")


@pytest.mark.parametrize("board", [name for name in board_names() if load_board(name).core.cpu != "native"])
def test_boards_have_all_that_they_imply(board: str) -> None:
    assert with_implied(load_board(board).capabilities) == load_board(board).capabilities


@pytest.mark.parametrize("have", [{"dsp", "fpu-sp"}, {"sse4.1", "avx2"}], ids=sorted)
def test_the_text_of_a_pipeline_says_the_same_set(have: set[Capability]) -> None:
    core = structs.replace(load_board("qemu-cortex-m4").core, capabilities=with_implied(have))
    passes = tuple(default_passes(replace(load_board("qemu-cortex-m4"), cores=(core,)), BuildOptions()))
    again = next(one for one in parse_pipeline(print_pipeline(passes)) if isinstance(one, ScheduleLoops))
    assert set(again.isa.split("+")) == with_implied(have)
    assert again in passes


def test_code_for_a_capability_is_that_for_it_and_what_it_implies() -> None:
    board = load_board("qemu-cortex-m4")

    def code(isa: str) -> str:
        options = BuildOptions(isa=isa)
        module = lower_module(import_model(DIGITS, options, "m"), default_passes(board, options))
        emitted = backend_for(board, options).emit(
            module, "m", isa=capabilities(board, options), options=EmitOptions()
        )
        return "".join(str(text) for text in emitted.files.values())

    assert "smlad" in code("dsp")
    assert code("dsp") == code("thumb+thumb2+dsp")


def test_loops_are_unrolled_by_the_compiler_where_the_code_has_no_assembly() -> None:
    board = load_board("qemu-cortex-m4")
    rolled = {isa: target_of(board, BuildOptions(isa=isa)).rolled for isa in (None, "dsp", "thumb2", "scalar")}
    assert rolled == {None: True, "dsp": True, "thumb2": False, "scalar": False}
