"""How often loops may run that data end, as the user says it: bounds of a dim."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sdk.compiler.ir.graph import Value
from sdk.errors import UsageError

__all__ = ["Passes"]

Bounds = int | tuple[int, ...]


@dataclass
class Passes:
    """How often loops may run that data end: ``given`` by the user, by name; ``missing`` what is not, ``asked`` the
    values that would tell it; ``used`` is what was asked for; ``guards`` are conditions, and what they must be for what
    is emitted now to count."""

    given: dict[str, Bounds] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    guards: list[tuple[Value, bool]] = field(default_factory=list)

    @contextmanager
    def counts_if(self, condition: Value, holds: bool = True) -> Iterator[None]:
        """What is emitted inside counts only where the condition is ``holds``."""
        self.guards.append((condition, holds))
        try:
            yield
        finally:
            self.guards.pop()

    def maximum(self, name: str) -> int | None:
        """How often the loop ``name`` may run; None where nobody said so.

        Raises:
            UsageError: what is given is no range.
        """
        if name not in self.given:
            return None
        self.used.add(name)
        given = self.given[name]
        lo, hi, *rest = (0, given) if isinstance(given, int) else given
        if lo < 0 or hi < max(lo, 1) or (rest and rest[0] != 1):
            raise UsageError(f"passes of a loop cannot be {lo}..{hi}", hint=f"--dim {name}=0:64")
        return hi
