"""What a scheduled loops function is expected to execute on a core: its events, each at the core's price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.loops import Loops
from sdk.compiler.schedules.events import events
from sdk.compiler.sym import Var

__all__ = ["Prices", "predict", "prices_for"]

USUAL: Final = 1.0  # of an event that no fitted layer had


@dataclass(frozen=True, slots=True)
class Prices:
    """Instructions by event, for cores with all capabilities of ``needs``; benchmarks/cost_model.py fits them."""

    needs: frozenset[str]
    each: Mapping[str, float]


# first match wins
PRICES: Final[tuple[Prices, ...]] = ()


def prices_for(capabilities: Iterable[str]) -> Prices | None:
    """The row of ``PRICES`` for a set of capabilities; None for cores that no row is for."""
    have = frozenset(capabilities)
    return next((row for row in PRICES if row.needs <= have), None)


def predict(
    loops: Loops, dims: Mapping[Var, int], capabilities: Iterable[str], calls: int = 1
) -> float | None:
    """Instructions of all rows at given dims, in so many calls; None where the core has no prices."""
    prices = prices_for(capabilities)
    if prices is None:
        return None
    found = events(loops, dims)
    found["call"] = calls
    return sum(prices.each.get(name, USUAL) * count for name, count in found.items())
