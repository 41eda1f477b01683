"""Cycles by the cores' tables: sequences whose answer the manuals give, and loops that an emulated core runs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sdk.boards import board_names, load_board
from sdk.cores import Instruction, timing_for
from sdk.driver.counting import PHASE_RUN, counted
from sdk.errors import BuildError
from sdk.resources import data_dir
from tests.device.device_agents import firmware

CPUS = sorted(path.stem for path in (data_dir("boards") / "cpu").glob("*.toml"))


def code(text: str) -> list[Instruction]:
    """``"load alu load_many*3"`` as instructions."""
    out = []
    for word in text.split():
        kind, _, words = word.partition("*")
        out.append(Instruction(kind, 2, int(words or 1)))  # type: ignore[arg-type]
    return out


SEQUENCES = [
    ("cortex-m4", "alu alu mul dsp", 4),
    ("cortex-m4", "load alu", 3),  # two cycles
    ("cortex-m4", "load load load alu", 5),  # N loads take N + 1
    ("cortex-m4", "load alu load", 5),
    ("cortex-m4", "load_many*4", 5),  # 1 + N
    ("cortex-m4", "store store", 2),
    ("cortex-m4", "fp_mla fp_load fp_load*4", 3 + 2 + 5),
    ("cortex-m4", "dsp dsp load_many*2 branch", 2 + 3 + 1),
    ("cortex-m3", "mla mul_long", 6),
    ("cortex-m0", "load store mul alu", 6),
    ("cortex-m0plus", "load load", 4),
    ("cortex-m7", "alu alu alu alu", 2),
    ("cortex-m7", "dsp dsp", 2),  # one multiplier
    ("cortex-m7", "dsp load dsp load", 2),
    ("cortex-m55", "vector_load vector vector_load vector", 2 + 1 + 1 + 1),
    ("cortex-m55", "vector vector", 4),
    ("cortex-m33", "load alu dsp", 4),
]


@pytest.mark.parametrize(("cpu", "text", "cycles"), SEQUENCES)
def test_sequences_take_what_the_manual_says(cpu: str, text: str, cycles: float) -> None:
    timing = timing_for(cpu)
    assert timing is not None
    assert timing.block(code(text)) == pytest.approx(cycles * timing.scale)


@pytest.mark.parametrize("cpu", CPUS)
def test_tables_say_where_they_are_from(cpu: str) -> None:
    timing = timing_for(cpu)
    assert timing is not None
    assert timing.source
    assert timing.leaves_out
    assert timing.peak_macs > 0 < timing.peak_bytes


def test_every_bare_board_has_a_table() -> None:
    for name in board_names():
        board = load_board(name)
        assert board.hosted or timing_for(board.core.cpu) is not None, name


def test_a_table_with_an_unknown_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu").mkdir()
    good = (data_dir("boards") / "cpu" / "cortex-m4.toml").read_text()
    (tmp_path / "cpu" / "odd.toml").write_text(good + "warp = 2\n")
    monkeypatch.setattr("sdk.cores.timing.data_dir", lambda _: tmp_path)
    with pytest.raises(BuildError, match="not a table of cycles") as error:
        timing_for("odd")
    assert "warp" in str(error.value)
    assert tomllib.loads(good)["taken"] == 2


LOOPS = """
#include <stddef.h>
#include "sdk_rt.h"

static int none(const int32_t *dims) {{ (void)dims; return SDK_RT_OK; }}
static int looped(const int32_t *dims)
{{
    (void)dims;
    __asm__ volatile("{text}" ::: "r0", "r1", "r2", "r3", "r4", "cc", "memory");
    return SDK_RT_OK;
}}
static int reset(void) {{ return SDK_RT_OK; }}
static void *data(uint16_t index) {{ (void)index; return NULL; }}
static const sdk_rt_model_t models[2] = {{
    {{.abi = SDK_RT_ABI, .name = "none", .hash = "0", .init = reset, .reset = reset, .run = none, .data = data}},
    {{.abi = SDK_RT_ABI, .name = "loop", .hash = "0", .init = reset, .reset = reset, .run = looped, .data = data}},
}};
const sdk_rt_model_t *const sdk_rt_models[] = {{&models[0], &models[1]}};
const uint16_t sdk_rt_model_count = 2;
const char sdk_rt_build_id[] = "loops";
"""
BODIES = [
    # board, what a turn executes, its instructions, its cycles with the branch taken
    ("qemu-cortex-m4", "adds r1, r1, #1", 3, 1 + 1 + 1 + 2),
    ("qemu-cortex-m4", "ldr r1, [sp]\\n ldr r2, [sp]\\n smlad r3, r1, r2, r3", 5, 2 + 1 + 1 + 1 + 1 + 2),
    ("qemu-cortex-m4", "ldrd r1, r2, [sp]\\n muls r1, r2, r1", 4, 3 + 1 + 1 + 1 + 2),
    ("microbit", "ldr r1, [sp]\\n muls r1, r1, r1", 4, 2 + 1 + 1 + 1 + 2),
    ("qemu-cortex-m7", "ldr r1, [sp]\\n adds r2, r2, #1\\n adds r3, r3, #1", 5, 3),
]
TURNS = 1000


@pytest.mark.emulator
@pytest.mark.parametrize(("name", "body", "instructions", "cycles"), BODIES)
def test_a_loop_takes_what_the_table_says(
    name: str, body: str, instructions: int, cycles: float, tmp_path: Path, need_tool
) -> None:
    need_tool("qemu-system-arm")
    text = f"ldr r0, ={TURNS}\\n 1:\\n {body}\\n subs r0, r0, #1\\n bne 1b"
    source = tmp_path / "loops.c"
    source.write_text(LOOPS.format(text=text))
    board = load_board(name)
    image = firmware(board.as_emulated(), tmp_path / "agent.elf", models=source)
    found = []
    for model in (0, 1):
        stats, counts = counted(board, image, 0, lambda session, model=model: session.run(model))
        assert counts[PHASE_RUN].instructions == pytest.approx(stats.samples[0], rel=0.001, abs=4)
        found.append(counts[PHASE_RUN])
    extra = found[1].instructions - found[0].instructions - TURNS * instructions
    assert 0 <= extra <= 6  # the constant, and what keeps registers
    assert found[0].est_cycles is not None
    assert found[1].est_cycles is not None
    timing = timing_for(board.core.cpu)
    assert timing is not None
    spent = (found[1].est_cycles - found[0].est_cycles) / timing.scale - TURNS * cycles
    assert -3 <= spent <= 14
