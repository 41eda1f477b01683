"""What the compiler expects a kernel to execute: events counted as a compiler leaves them, prices of cores."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import pytest

from sdk.boards import load_board
from sdk.compiler.ir.text import parse_module
from sdk.compiler.ops import registry
from sdk.compiler.schedules.cost import PRICES, predict, prices_for
from sdk.compiler.schedules.events import events
from sdk.driver import BuildOptions, profile
from sdk.driver.program import save_program

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

SUMS = """module m scheduled

loops @sums(read %x: i8[6, 8], read %w: i8[4, 8], write %o: i32[6, 4])
    rows lo, hi of 6 {
  for i in lo..hi {
    for j_o in 0..2 {
      alloc %acc: i32[2] in register
      for j_i in 0..2 unroll {
        %acc[j_i] = 0
      }
      for k in 0..8 {
        for j_i in 0..2 unroll {
          %acc[j_i] = %acc[j_i] + i32(%x[i, k]) * i32(%w[j_i + 2*j_o, k])
        }
      }
      if idx(i) < 2 {
        for j_i in 0..2 unroll {
          %o[i, j_i + 2*j_o] = %acc[j_i]
        }
      }
    }
  }
}
"""


def test_events_are_those_that_a_compiler_leaves() -> None:
    (loops,) = parse_module(SUMS, {}, registry).loops.values()
    found = events(loops, {})
    turns = 6 * 2 * 8
    assert found["load1"] == turns * (1 + 2)  # the pixel once for both channels
    assert found["mul"] == found["add"] == turns * 2
    assert found["store4"] == 2 * 2 * 2  # two of six rows
    assert found["turn"] == 6 + 6 * 2
    assert found["loop"] == 1 + 6
    assert found["inner"] == 12
    assert found["inner_turn"] == turns
    assert found["inner_jump"] == turns / 4
    assert found["pointer"] == 12 * 2  # both channels of the weights are reached from one
    assert found["full13"] == found["over13"] == 0
    assert found["if"] == 12
    assert found["call"] == 1


def test_prices_go_by_capabilities() -> None:
    assert prices_for({"nothing"}) is None
    row = prices_for({"thumb", "thumb2", "dsp"})
    assert row is not None
    assert row.needs <= {"thumb", "thumb2", "dsp"}
    assert all(price >= 0 for r in PRICES for price in r.each.values())
    (loops,) = parse_module(SUMS, {}, registry).loops.values()
    assert predict(loops, {}, {"nothing"}) is None
    once, thrice = (predict(loops, {}, row.needs, calls) or 0.0 for calls in (1, 3))
    assert thrice - once == pytest.approx(2 * row.each["call"])


@pytest.mark.emulator
def test_layers_take_about_what_is_expected(tmp_path: Path, need_tool) -> None:
    """The median error of random layers; benchmarks/cost_model.py has more of them, and other cores."""
    need_tool("qemu-system-arm")
    from cost_model import LIMIT
    from cost_sample import FEWEST
    from random_layers import net

    path = tmp_path / "net.ir"
    save_program(net(range(20)), path)
    report = profile(path, load_board("qemu-cortex-m4"), None, BuildOptions(), {})
    errors = [
        abs(op.predicted / op.instructions - 1)
        for op in report.ops
        if op.predicted is not None and op.instructions and op.instructions >= FEWEST
    ]
    assert len(errors) > 10
    assert statistics.median(errors) <= LIMIT
