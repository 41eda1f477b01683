"""Faults planted in schedules, merging and requantisation, one at a time: at most 300 networks show each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from generate import KINDS

from differential.command import chunks, work
from sdk.codegen_c import rescaled
from sdk.codegen_c.functions import unit
from sdk.compiler.passes import mulh_requantize
from sdk.compiler.schedules import blocks

pytestmark = [pytest.mark.slow, pytest.mark.emulator]
Patch = pytest.MonkeyPatch
COUNT = 300


def halves_of_negative_numbers_rounded_the_other_way(patch: Patch) -> None:
    right = rescaled.rescaled
    for module in ("sdk.codegen_c.functions.expr", "sdk.codegen_c.functions.thumb.instruction_selection"):

        def changed(*given: Any) -> Any:
            found = right(*given)
            return found if found is None else replace(found, up=True)

        patch.setattr(sys.modules[module], "rescaled", changed)


def a_shift_one_bit_less(patch: Patch) -> None:
    rule = mulh_requantize.MulhRequantize._rule

    def changed(self: Any, edit: Any, node: Any) -> bool:
        right = edit.const
        patch.setattr(edit, "const", lambda name, data, *rest: right(name, data - 1, *rest))
        try:
            return rule(self, edit, node)
        finally:
            patch.setattr(edit, "const", right)

    patch.setattr(mulh_requantize.MulhRequantize, "_rule", changed)


def numbers_of_merged_functions_swapped(patch: Patch) -> None:
    generalise = sys.modules["sdk.compiler.passes.merging.generalise"]
    right = generalise.generalise

    def changed(*given: Any) -> Any:
        made = right(*given)
        return replace(made, values=made.values[::-1])

    for module in [m for name, m in sys.modules.items() if name.startswith("sdk.compiler.passes.merg")]:
        if hasattr(module, "generalise") and callable(module.generalise):
            patch.setattr(module, "generalise", changed)
        if hasattr(module, "proved"):
            patch.setattr(module, "proved", lambda functions, shared: bool(shared.loops.dims))


def a_last_tile_that_begins_too_early(patch: Patch) -> None:
    right = blocks.dmin
    patch.setattr(blocks, "dmin", lambda a, b: right(a, b - 1 if isinstance(b, int) and b > 1 else b))


def a_clamp_to_seven_bits(patch: Patch) -> None:
    right = unit.helper_text
    patch.setattr(unit, "helper_text", lambda name: right(name).replace("ssat %0, #8", "ssat %0, #7"))


FAULTS: list[Callable[[Patch], None]] = [
    halves_of_negative_numbers_rounded_the_other_way, a_shift_one_bit_less, numbers_of_merged_functions_swapped,
    a_last_tile_that_begins_too_early, a_clamp_to_seven_bits,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_networks_show_the_fault(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    for chunk in chunks(["m4"], KINDS, COUNT, 0, "any", {}):
        tally = work(chunk)
        if tally.wrong or tally.caught:
            return
    pytest.fail("300 networks are right all the same")
