"""Which functions share one: those that make the code smaller most, as long as what it costs is worth it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sdk.compiler.analysis.work import length, work
from sdk.compiler.ir.loops import Alloc, Loops
from sdk.compiler.ir.walk import walk
from sdk.compiler.passes.sharing.generalise import Different, Shared, generalise, proved

__all__ = ["Group", "grouped"]

ARGUMENT: Final = 2  # instructions of passing a number
STEPS: Final = 6  # of the search for what code is worth
FIRST: Final = 1 << 14  # so much less than all work an instruction is worth in the first


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Functions and the one that they share (alone, a function shares none), with the instructions of their code and of
    all calls."""

    functions: tuple[Loops, ...]
    shared: Shared | None
    code: int
    effort: int


def grouped(functions: Sequence[Loops], calls: Mapping[str, int], most: float, unrolls: bool) -> list[Group]:
    """Groups of at least two functions, each in one group at most, that cost no more than the part ``most`` of all
    work; ``calls`` says how often each function is called, ``unrolls`` whether the compiler writes out short loops."""
    search = _Search(functions, calls, unrolls)
    total = search.total
    best: list[Group] = []
    low, high = 0.0, float(total)  # what an instruction of code is worth
    for _ in range(STEPS):
        price = (low * high) ** 0.5 if low else high / FIRST
        found = search.at(price)
        if sum(g.effort for g in found) - total <= most * total:
            low, best = price, found
        else:
            high = price
    return [g for g in best if g.shared is not None and proved(g.functions, g.shared)]


class _Search:
    """Groups by what code is worth; functions that were found are kept."""

    def __init__(self, functions: Sequence[Loops], calls: Mapping[str, int], unrolls: bool) -> None:
        self.calls, self.unrolls = calls, unrolls
        alone = [Group((f,), None, length(f.body), calls[f.name] * work(f, unrolls).at()) for f in functions]
        # what works most comes first, so that what works little joins what it harms least
        self.alone = sorted(alone, key=lambda g: -g.effort)
        self.total = sum(g.effort for g in alone)
        self.known: dict[tuple[str, ...], Group | None] = {}

    def at(self, price: float) -> list[Group]:
        """Each function joins the group where that gains most, or begins its own."""
        groups: list[Group] = []
        for one in self.alone:
            best, at, gain = one, len(groups), 0.0
            for k, group in enumerate(groups):
                made = self.joined(group, one.functions[0])
                if made is None:
                    continue
                saved = group.code + one.code - made.code
                lost = max(made.effort - group.effort - one.effort, 0)
                if saved * price - lost > gain:
                    best, at, gain = made, k, saved * price - lost
            groups[at : at + 1] = [best]
        return groups

    def joined(self, group: Group, f: Loops) -> Group | None:
        """The group with one function more; None where it has nothing in common with them."""
        if _kind(group.functions[0]) != _kind(f):
            return None
        members = (*group.functions, f)
        key = tuple(m.name for m in members)
        if key not in self.known:
            self.known[key] = self._made(members)
        return self.known[key]

    def _made(self, members: tuple[Loops, ...]) -> Group | None:
        try:
            shared = generalise(members, members[0].name)
        except Different:
            return None
        found = work(shared.loops, self.unrolls)
        effort = sum(self.calls[f.name] * found.at(v) for f, v in zip(members, shared.values, strict=True))
        given = ARGUMENT * len(shared.loops.dims) * len(members)
        return Group(members, shared, length(shared.loops.body) + given, effort)


def _kind(f: Loops) -> object:
    """What functions must have in common at least: calls of one without scratch have none to give."""
    scratch = any(isinstance(n, Alloc) and n.buffer.space == "scratch" for n in walk(f.body))
    params = tuple((p.mode, p.buffer.dtype, len(p.buffer.shape), p.buffer.ring) for p in f.params)
    return f.rows is None, scratch, params
