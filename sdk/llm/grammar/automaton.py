"""From rules to automata of bytes: one for each rule, whose edges are bytes or other rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from sdk.errors import UsageError
from sdk.llm.grammar.nodes import ANY, Call, Chars, Either, Node, Ranges, Repeat, Rules, Run, refuse

__all__ = ["Automaton", "build_automaton", "utf8_ranges"]

MAX_STATES: Final = 1 << 16
MAX_EDGES: Final = 1 << 20
TAIL: Final = 0xFFFFFFFF
_BOUNDS: Final = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)  # the last characters of one to four bytes


def utf8_ranges(low: int, high: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Runs of ranges of bytes that are the characters from ``low`` to ``high`` in UTF-8."""
    left = [(low, high)]
    while left:
        low, high = left.pop()
        cut = next((bound for bound in _BOUNDS if low <= bound < high), None)
        if cut is None:
            for bits in (6, 12, 18):  # only whole blocks of what the last bytes say are one run
                mask = (1 << bits) - 1
                if low & ~mask != high & ~mask and high > 0x7F:
                    cut = (low | mask) if low & mask else ((high & ~mask) - 1 if high & mask != mask else None)
                if cut is not None:
                    break
        if cut is None:
            yield tuple(zip(chr(low).encode(), chr(high).encode(), strict=True))
        else:
            left += [(low, cut), (cut + 1, high)]


@dataclass
class Automaton:
    """States without empty steps: ``moves`` (first byte, last byte, state), ``calls`` (rule, state or TAIL) and whether
    the rule may end there. ``starts`` are those of the rules; a rule begins with such of higher numbers only."""

    moves: list[list[tuple[int, int, int]]] = field(default_factory=list)
    calls: list[list[tuple[int, int]]] = field(default_factory=list)
    final: list[bool] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    root: int = 0


class _Builder:
    """States with empty steps."""

    def __init__(self, rules: Rules, spell: _Spelling) -> None:
        self.moves: list[list[tuple[int, int, int]]] = []
        self.calls: list[list[tuple[str, int]]] = []
        self.skips: list[list[int]] = []
        self.edges = 0
        self.spell = spell
        self.ends: dict[str, tuple[int, int]] = {}
        for name, node in rules.rules.items():
            self.where = f"rule {name}"
            begin = self.state()
            self.ends[name] = (begin, self.add(node, begin))

    def state(self) -> int:
        if len(self.moves) == MAX_STATES:
            raise self.too_large()
        self.moves.append([])
        self.calls.append([])
        self.skips.append([])
        return len(self.moves) - 1

    def too_large(self) -> UsageError:
        return refuse(
            f"the grammar needs more than {MAX_STATES:,} states", where=self.where,
            hint="count fewer repetitions, or give fewer words",
        )  # fmt: skip

    def count(self, n: int = 1) -> None:
        self.edges += n
        if self.edges > MAX_EDGES:
            raise refuse(f"the grammar has more than {MAX_EDGES:,} edges", where=self.where, hint="make it smaller")

    def skip(self, begin: int, end: int) -> None:
        self.count()
        self.skips[begin].append(end)

    def add(self, node: Node, begin: int) -> int:
        """Adds what leads from a state through a part; where it ends."""
        self.count()
        match node:
            case Chars(ranges):
                return self.chars(ranges, begin)
            case Run(parts):
                for part in parts:
                    begin = self.add(part, begin)
                return begin
            case Either(parts):
                end = self.state()
                for part in parts:
                    self.skip(self.add(part, begin), end)
                return end
            case Call(name):
                end = self.state()
                self.count()
                self.calls[begin].append((name, end))
                return end
            case Repeat(part, minimum, maximum):
                return self.repeat(part, minimum, maximum, begin)

    def repeat(self, part: Node, minimum: int, maximum: int | None, begin: int) -> int:
        if max(minimum, maximum or 0) > MAX_STATES:
            raise self.too_large()
        for _ in range(minimum):
            begin = self.add(part, begin)
        if maximum is None:
            loop = self.state()
            self.skip(begin, loop)
            self.skip(self.add(part, loop), loop)
            return loop
        end = self.state()
        for _ in range(maximum - minimum):
            self.skip(begin, end)
            begin = self.add(part, begin)
        self.skip(begin, end)
        return end

    def chars(self, ranges: Ranges, begin: int) -> int:
        end, tails = self.state(), {}
        for run in self.spell.runs(ranges):
            at = begin
            for depth in range(len(run) - 1):  # runs with the same last bytes share the way there
                rest = run[depth + 1 :]
                known = rest in tails
                if not known:
                    tails[rest] = self.state()
                self.count()
                self.moves[at].append((*run[depth], tails[rest]))
                at = tails[rest]
                if known:
                    break
            else:
                self.count()
                self.moves[at].append((*run[-1], end))
        return end


class _Spelling:
    """How characters are written by bytes, of those that a vocabulary has."""

    def __init__(self, allowed: Ranges) -> None:
        self._allowed = allowed
        self._known: dict[Ranges, tuple[tuple[tuple[int, int], ...], ...]] = {}

    def runs(self, ranges: Ranges) -> tuple[tuple[tuple[int, int], ...], ...]:
        if ranges not in self._known:
            kept = _common(_merged(ranges), self._allowed)
            self._known[ranges] = tuple(run for low, high in kept for run in utf8_ranges(low, high))
        return self._known[ranges]


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _common(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What two lists of ranges, both in rising order, share."""
    at = 0
    for low, high in one:
        while at < len(other) and other[at][1] < low:
            at += 1
        for first, last in other[at:]:
            if first > high:
                break
            yield max(low, first), min(high, last)


def build_automaton(rules: Rules, allowed: Ranges = ANY.ranges) -> Automaton:
    """The automata of rules; of characters only those that are ``allowed``. What leads to
    no end is left out, so that each text that can begin can end.

    Raises:
        UsageError: there is no text at all, a rule begins with itself, or the grammar is too large.
    """
    raw = _Builder(rules, _Spelling(allowed))
    near = _nearby(raw)
    good = _that_end(raw, near)
    root = raw.ends[rules.root][0]
    if root not in good:
        raise refuse(
            "the grammar has no text that can be written to its end", where=f"rule {rules.root}",
            why="each way leads to a rule without end, or to characters that the vocabulary has not",
        )  # fmt: skip
    return _numbered(raw, near, good, rules.root)


@dataclass
class _Near:
    """What can be done in a state, after empty steps."""

    reached: list[list[int]]
    final: set[int]  # states from which the end of their rule is an empty step


def _nearby(raw: _Builder) -> _Near:
    """States by empty steps, and over rules that may be empty."""
    steps = [list(skips) for skips in raw.skips]
    waiting: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for state, calls in enumerate(raw.calls):
        for name, after in calls:
            waiting[name].append((state, after))
    ends = {end: name for name, (_, end) in raw.ends.items()}
    left, begun = [begin for begin, _ in raw.ends.values()], set()
    while left:
        state = left.pop()
        if state in begun:
            continue
        begun.add(state)
        left += steps[state]
        for before, after in waiting[ends[state]] if state in ends else ():  # this rule may be empty
            steps[before].append(after)
            left += [after] if before in begun else []
    reached, final = [], set()
    total = 0
    for state in range(len(steps)):
        seen, todo = {state}, [state]
        while todo:
            for after in steps[todo.pop()]:
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
        total += len(seen)
        if total > 2 * MAX_EDGES:
            raise refuse("the grammar has too many empty steps", where="grammar", hint="write fewer optional parts")
        reached.append([one for one in seen if raw.moves[one] or raw.calls[one]])
        if not seen.isdisjoint(ends):
            final.add(state)
    return _Near(reached, final)


def _that_end(raw: _Builder, near: _Near) -> set[int]:
    """States from which their rule can be written to its end."""
    back: defaultdict[int, list[int]] = defaultdict(list)
    over: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)  # before a call, by the state after it
    callers: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for state, reached in enumerate(near.reached):
        for one in reached:
            for _, _, to in raw.moves[one]:
                back[to].append(state)
            for name, after in raw.calls[one]:
                over[after].append((state, name))
                callers[name].append((state, after))
    starts = {begin: name for name, (begin, _) in raw.ends.items()}
    good: set[int] = set()
    whole: set[str] = set()
    left = list(near.final)
    while left:
        state = left.pop()
        if state in good:
            continue
        good.add(state)
        left += back[state]
        left += [before for before, name in over[state] if name in whole]
        if state in starts:
            whole.add(starts[state])
            left += [before for before, after in callers[starts[state]] if after in good]
    return good


def _numbered(raw: _Builder, near: _Near, good: set[int], root: str) -> Automaton:
    """States that can be reached, and rules in an order in which each comes before those that it begins with."""
    starts = {name: begin for name, (begin, _) in raw.ends.items()}

    def moves_of(state: int) -> set[tuple[int, int, int]]:
        return {move for one in near.reached[state] for move in raw.moves[one] if move[2] in good}

    def calls_of(state: int) -> set[tuple[str, int]]:
        found = {call for one in near.reached[state] for call in raw.calls[one]}
        return {(name, after) for name, after in found if after in good and starts[name] in good}

    numbers: dict[int, int] = {}
    rules: set[str] = set()
    left = [starts[root]]
    rules.add(root)
    moves, calls = {}, {}
    edges = 0
    while left:
        state = left.pop()
        if state in numbers:
            continue
        numbers[state] = len(numbers)
        moves[state], calls[state] = moves_of(state), calls_of(state)
        edges += len(moves[state]) + len(calls[state])
        if edges > MAX_EDGES:
            raise refuse(f"the grammar has more than {MAX_EDGES:,} edges", where="grammar", hint="make it smaller")
        left += [to for _, _, to in moves[state]] + [after for _, after in calls[state]]
        left += [starts[name] for name, _ in calls[state] if name not in rules]
        rules |= {name for name, _ in calls[state]}
    order = {name: n for n, name in enumerate(_ordered(rules, lambda name: {to for to, _ in calls[starts[name]]}))}
    made = Automaton(
        moves=[[] for _ in numbers], calls=[[] for _ in numbers], final=[False] * len(numbers),
        starts=[numbers[starts[name]] for name in order], root=order[root],
    )  # fmt: skip
    for state, number in numbers.items():
        made.moves[number] = sorted((low, high, numbers[to]) for low, high, to in moves[state])
        last = {after for _, after in calls[state] if after in near.final and not moves[after] and not calls[after]}
        made.calls[number] = sorted((order[name], TAIL if to in last else numbers[to]) for name, to in calls[state])
        made.final[number] = state in near.final
    return made


def _ordered(rules: set[str], first: Callable[[str], set[str]]) -> list[str]:
    """Rules, each before those that it begins with."""
    done: list[str] = []
    known: dict[str, bool] = {}  # whether all of it is known already
    for root in sorted(rules):
        path: list[tuple[str, Iterator[str]]] = []
        if root not in known:
            known[root] = False
            path.append((root, iter(sorted(first(root)))))
        while path:
            name, following = path[-1]
            to = next(following, None)
            if to is None:
                path.pop()
                known[name] = True
                done.append(name)
            elif to not in known:
                known[to] = False
                path.append((to, iter(sorted(first(to)))))
            elif not known[to]:
                raise refuse(f"the rule {to} begins with itself", where=f"rule {name}",
                             why="no character comes before it", hint="write what is repeated as (...)*")  # fmt: skip
    return done[::-1]
