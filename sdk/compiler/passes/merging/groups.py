"""Which functions become one: those that make the code smaller most, as long as what it costs is worth it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sdk.compiler.analysis.work import Cost
from sdk.compiler.ir.loops import Alloc, Loops
from sdk.compiler.ir.walk import walk
from sdk.compiler.passes.merging.generalise import Different, Shared, generalise, proved

__all__ = ["Group", "Limits", "grouped"]

ARGUMENT: Final = 2  # instructions of passing a number
STEPS: Final = 6  # of the search for what code is worth
FIRST: Final = 1 << 14  # so much less than all work an instruction is worth in the first


@dataclass(frozen=True, slots=True)
class Limits:
    """What merging may cost, as fractions: ``all`` of the work of all functions, ``each`` of that of each."""

    all: float
    each: float


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Functions and the one that they become (a function alone stays as it is), with the instructions of their code and
    of all calls."""

    functions: tuple[Loops, ...]
    shared: Shared | None
    code: int
    all_work: int


def grouped(
    functions: Sequence[Loops], calls: Mapping[str, int], limits: Limits, cost: Callable[[Loops], Cost]
) -> list[Group]:
    """Groups of at least two functions, each in one group at most, that cost no more than ``limits``; ``calls`` says
    how often each function is called, ``cost`` what a call takes and how long its code is."""
    search = _Search(functions, calls, limits.each, cost)
    total = search.total
    best: list[Group] = []
    low, high = 0.0, float(total)  # what an instruction of code is worth
    for step in range(STEPS):
        multiplier = high if step == 0 else (low * high) ** 0.5 if low else high / FIRST
        found = search.at(multiplier)
        if sum(g.all_work for g in found) - total <= limits.all * total:
            low, best = multiplier, found
            if step == 0:
                break
        else:
            high = multiplier
    return [g for g in best if g.shared is not None and proved(g.functions, g.shared)]


class _Search:
    """Groups by what code is worth; functions that were found are kept."""

    def __init__(
        self,
        functions: Sequence[Loops],
        calls: Mapping[str, int],
        maximum: float,
        cost: Callable[[Loops], Cost],
    ) -> None:
        self.calls, self.maximum, self.cost = calls, maximum, cost
        costs = {f.name: cost(f) for f in functions}
        self.work = {name: found.work.at() for name, found in costs.items()}
        alone = [Group((f,), None, costs[f.name].code, calls[f.name] * self.work[f.name]) for f in functions]
        # what works most comes first, so that what works little joins what it harms least
        self.alone = sorted(alone, key=lambda g: -g.all_work)
        self.total = sum(g.all_work for g in alone)
        self.known: dict[tuple[str, ...], Group | None] = {}
        self.unlike: list[frozenset[str]] = []  # functions that cannot become one: nor can they with others beside

    def at(self, multiplier: float) -> list[Group]:
        """Each function joins the group where that gains most, or begins its own."""
        groups: list[Group] = []
        for one in self.alone:
            best, at, gain = one, len(groups), 0.0
            for k, group in enumerate(groups):
                made = self.joined(group, one.functions[0])
                if made is None:
                    continue
                saved = group.code + one.code - made.code
                lost = max(made.all_work - group.all_work - one.all_work, 0)
                if saved * multiplier - lost > gain:
                    best, at, gain = made, k, saved * multiplier - lost
            groups[at : at + 1] = [best]
        return groups

    def joined(self, group: Group, f: Loops) -> Group | None:
        """The group with one function more; None where it has nothing in common with them."""
        if _kind(group.functions[0]) != _kind(f):
            return None
        members = (*group.functions, f)
        key = tuple(m.name for m in members)
        if key not in self.known:
            names = frozenset(key)
            refused = any(names >= few for few in self.unlike)
            self.known[key] = made = None if refused else self._made(members)
            if made is None and not refused:
                self.unlike.append(names)
        return self.known[key]

    def _made(self, members: tuple[Loops, ...]) -> Group | None:
        try:
            shared = generalise(members, members[0].name)
        except Different:
            return None
        found = self.cost(shared.loops)
        each = [found.work.at(values) for values in shared.values]
        if any(one > self.work[f.name] * (1 + self.maximum) for f, one in zip(members, each, strict=True)):
            return None
        all_work = sum(self.calls[f.name] * one for f, one in zip(members, each, strict=True))
        given = ARGUMENT * len(shared.loops.dims) * len(members)
        return Group(members, shared, found.code + given, all_work)


def _kind(f: Loops) -> object:
    """What functions must have in common at least: calls of one without scratch have none to give."""
    scratch = any(isinstance(n, Alloc) and n.buffer.space == "scratch" for n in walk(f.body))
    params = tuple((p.mode, p.buffer.dtype, len(p.buffer.shape), p.buffer.ring) for p in f.params)
    return f.rows is None, scratch, params
