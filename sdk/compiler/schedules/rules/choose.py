"""Of several schedules of a function, the one that is expected to execute least."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sdk.compiler.ir.loops import Loops
from sdk.compiler.schedules.cost import predict, prices_for
from sdk.compiler.schedules.locate import ScheduleError

__all__ = ["cheapest"]


def cheapest(ways: Iterable[Callable[[], Loops]], capabilities: frozenset[str]) -> Loops:
    """The cheapest of the ways that apply, by the prices of a core; the first where there are none, or where sizes are
    known only at run time.

    Raises:
        ScheduleError: none of them applies.
    """
    priced = prices_for(capabilities) is not None
    found: list[tuple[float, Loops]] = []
    refused: ScheduleError | None = None
    for way in ways:
        try:
            loops = way()
        except ScheduleError as error:
            refused = error
            continue
        if loops.dims or not priced:
            return found[0][1] if found else loops
        found.append((predict(loops, {}, capabilities) or 0.0, loops))
    if not found:
        raise refused or ScheduleError("there is no way to schedule it")
    return min(found, key=lambda one: one[0])[1]
