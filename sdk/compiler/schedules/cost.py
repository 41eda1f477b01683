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


def _prices(needs: str, each: str) -> Prices:
    words = each.split()
    return Prices(frozenset(needs.split()), dict(zip(words[::2], map(float, words[1::2]), strict=True)))


# first match wins
PRICES: Final[tuple[Prices, ...]] = (
    _prices(
        "dsp",
        "add 0 and 0 bitsx4 0.44 broadcastx2 0 broadcastx4 1.9 call 199.08 cast 0.74 dot 1.88 evensx4 0.36 "
        "ge 1.38 gt 1.02 if 0 load1 0.56 load2 0.92 load4 0 loop 0 lt 0 mac_pair 0.89 max 2.41 min 2.84 "
        "mul 0.91 neg 3.32 oddsx4 0.93 operand4 0 rdbpot1 1.41 select 4.78 shl 0 shr 0 srdhm30 1.4 "
        "store1 2.75 store2 0.37 store4 1.53 sub 0 tdiv 1.02 turn 0 ",
    ),
)


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
