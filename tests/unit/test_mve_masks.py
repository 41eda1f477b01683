"""Masks on Cortex-M55: no comparison of floats in any helper is left for gcc to look through."""

from __future__ import annotations

import re

import pytest

from sdk.codegen_c.functions import helpers, real
from sdk.codegen_c.functions.instructions.lanes import LANES
from sdk.codegen_c.functions.instructions.mve import compared
from sdk.codegen_c.functions.unit import Unit
from sdk.errors import BuildError

FAMILIES = sorted({*real._ANY, *real._LANES, *LANES})
KEPT = re.compile(r"@lanes_mve_\w+\(\(@\w+\)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_comparison_has_a_mask_of_its_own(family: str) -> None:
    try:
        text = helpers.helper_text(f"{family.removesuffix('_float')}_f32x4")
    except BuildError:
        return  # of integers only
    left = KEPT.sub("", compared(text))
    assert re.findall(r"\(@[iu]\d+x\d+\)\([^;\n]* (?:<|>|==|!=|<=|>=) [^;\n]*", left) == []


def test_only_m_profile_vectors_pay_for_it() -> None:
    for isa, count in (({"mve", "mve-fp"}, 2), ({"neon"}, 0), ({"sse2"}, 0)):
        unit = Unit("m", frozenset(isa))
        unit.helper("max_f32x4")
        assert unit.preamble().count("m_lanes_mve_i32x4(") - (count > 0) == count
