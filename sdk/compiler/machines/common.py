"""What machines of several architectures have in common: units for one float at a time, rules for any lanes."""

from __future__ import annotations

from typing import Final

from sdk.compiler.machines.model import NO_FLOATS, FloatUnit, Rule
from sdk.compiler.schedules.rules.contraction import FloatPanels
from sdk.compiler.schedules.rules.contraction_scalar import FloatTiles
from sdk.compiler.schedules.rules.elementwise import Elementwise
from sdk.compiler.schedules.rules.reduction import Columns, Rows
from sdk.compiler.schedules.rules.transform import Transform
from sdk.compiler.schedules.rules.window import Window
from sdk.compiler.schedules.rules.window_scalar import FloatWindow

__all__ = ["FPUS", "LANES", "LEAST", "SINGLE_FLOATS", "VECTOR_FLOATS"]

LEAST: Final = 4096  # multiply-accumulates below which the plain nest is kept: code size counts more

# those without doubles add a product in one instruction no faster than in two
FPUS: Final = (
    FloatUnit("fpu-dp", frozenset({"fpu-dp"}), 1, 32, True),
    FloatUnit("fpu-sp", frozenset({"fpu-sp"}), 1, 32, False),
    NO_FLOATS,
)

# on cores without vectors
SINGLE_FLOATS: Final[tuple[Rule, ...]] = (FloatTiles(LEAST), FloatWindow(LEAST), Window())
# on cores with vectors of integers, which some have without such of floats
VECTOR_FLOATS: Final[tuple[Rule, ...]] = (FloatPanels(LEAST), FloatTiles(LEAST))
# what is no product, and products that no rule before takes
LANES: Final[tuple[Rule, ...]] = (Transform(), Elementwise(), Window(), Columns(), Rows())
