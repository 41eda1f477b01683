"""What a scheduled loops function is expected to execute on a core: its events, each at the core's price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.loops import Loops
from sdk.compiler.schedules.events import events
from sdk.compiler.schedules.prices import TABLE
from sdk.compiler.sym import Var

__all__ = ["PRICES", "Prices", "predict", "prices_for"]

USUAL: Final = 1.0  # of an event that no fitted layer had


@dataclass(frozen=True, slots=True)
class Prices:
    """Instructions by event, for cores with all capabilities of ``needs``; benchmarks/cost_model.py fits them."""

    needs: frozenset[str]
    each: Mapping[str, float]

    def of(self, found: Mapping[str, float]) -> float:
        """Instructions of so many events of each kind."""
        return sum(self.each.get(name, USUAL) * count for name, count in found.items())


def _prices(needs: str, each: str) -> Prices:
    words = each.split()
    return Prices(frozenset(needs.split()), dict(zip(words[::2], map(float, words[1::2]), strict=True)))


PRICES: Final[tuple[Prices, ...]] = tuple(_prices(needs, each) for needs, each in TABLE)  # first match wins


def prices_for(capabilities: Iterable[str], rows: Iterable[Prices] = PRICES) -> Prices | None:
    """The row for a set of capabilities; None for cores that no row is for."""
    have = frozenset(capabilities)
    return next((row for row in rows if row.needs <= have), None)


def predict(loops: Loops, dims: Mapping[Var, int], capabilities: Iterable[str], calls: int = 1) -> float | None:
    """Instructions of all rows at given dims, in so many calls; None where the core has no prices."""
    prices = prices_for(capabilities)
    if prices is None:
        return None
    found = events(loops, dims)
    found["call"] = calls
    return prices.of(found)
