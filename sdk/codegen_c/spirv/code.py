"""The body of a function in SPIR-V: instructions, values that are computed once, structured control flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sdk.codegen_c.spirv.words import GLSL, STORAGE, Words

__all__ = ["REAL", "Code"]

REAL: Final = frozenset({"FAdd", "FSub", "FMul", "FDiv"})
_NONE, _UNROLL, _DONT_UNROLL = 0, 1, 2


class Code:
    """Instructions in order. What is pure and was computed in this block or one around it is not computed again.

    With ``exact`` drivers may not contract or rearrange real arithmetic, with ``rolled`` not unroll loops.
    """

    def __init__(self, words: Words) -> None:
        self.words, self.exact, self.rolled = words, False, False
        self._body: list[int] = []
        self._variables: list[int] = []
        self._known: dict[tuple[str | int, ...], int] = {}
        self._scopes: list[list[tuple[str | int, ...]]] = [[]]  # what is known since each block began

    # --- values ----------------------------------------------------------------------------------------------

    def op(self, name: str, type: int, *operands: int) -> int:
        """The result of a pure instruction."""
        key: tuple[str | int, ...] = (name, type, *operands, int(self.exact))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.words.new()
            self._scopes[-1].append(key)
            self._put(name, type, found, *operands)
        return found

    def _put(self, name: str, type: int, found: int, *operands: int) -> None:
        """Adds the instruction whose result is ``found``."""
        self._body += self.words.instruction(name, type, found, *operands)
        if self.exact and name in REAL:
            self.words.decorate(found, "NoContraction")

    def glsl(self, name: str, type: int, *operands: int) -> int:
        """The result of a function of GLSL.std.450."""
        return self.op("ExtInst", type, self.words.glsl, GLSL[name], *operands)

    def effect(self, name: str, *operands: int) -> None:
        """An instruction without a result."""
        self._body += self.words.instruction(name, *operands)

    def fresh(self, name: str, type: int, *operands: int) -> int:
        """The result of an instruction that is run whenever it stands: a load, an atomic."""
        found = self.words.new()
        self._put(name, type, found, *operands)
        return found

    def variable(self, type: int) -> int:
        """A variable of the function; its contents start undefined."""
        found = self.words.new()
        pointer = self.words.pointer("function", type)
        self._variables += self.words.instruction("Variable", pointer, found, STORAGE["function"])
        return found

    def load(self, type: int, pointer: int) -> int:
        """What a pointer points to."""
        return self.fresh("Load", type, pointer)

    def store(self, pointer: int, value: int) -> None:
        """Writes through a pointer."""
        self.effect("Store", pointer, value)

    # --- control flow ----------------------------------------------------------------------------------------

    def _label(self, label: int) -> None:
        self.effect("Label", label)

    @contextmanager
    def _scope(self) -> Iterator[None]:
        self._scopes.append([])
        yield
        for key in self._scopes.pop():
            del self._known[key]

    def branch(self, cond: int, then: Callable[[], None], orelse: Callable[[], None] | None = None) -> None:
        """Runs one of two blocks."""
        yes, merge = self.words.new(), self.words.new()
        no = self.words.new() if orelse else merge
        self.effect("SelectionMerge", merge, _NONE)
        self.effect("BranchConditional", cond, yes, no)
        for label, run in ((yes, then), (no, orelse)):
            if run is None:
                continue
            self._label(label)
            with self._scope():
                run()
            self.effect("Branch", merge)
        self._label(merge)

    def choose(self, cond: int, type: int, yes: Callable[[], int], no: Callable[[], int]) -> int:
        """One of two values; the other is not computed."""
        held = self.variable(type)
        self.branch(cond, lambda: self.store(held, yes()), lambda: self.store(held, no()))
        return self.load(type, held)

    def loop(
        self,
        lo: int,
        goes_on: Callable[[int], int],
        body: Callable[[int], None],
        step: int,
        unroll: bool = False,
    ) -> None:
        """Runs ``body(i)`` for i = lo, lo + step ... while ``goes_on(i)``, a condition, holds."""
        uint = self.words.uint()
        held = self.variable(uint)
        self.store(held, lo)
        head, test, inside, more, merge = (self.words.new() for _ in range(5))
        self.effect("Branch", head)
        self._label(head)
        self.effect("LoopMerge", merge, more, _UNROLL if unroll else _DONT_UNROLL if self.rolled else _NONE)
        self.effect("Branch", test)
        self._label(test)
        with self._scope():
            at = self.load(uint, held)
            self.effect("BranchConditional", goes_on(at), inside, merge)
            self._label(inside)
            with self._scope():
                body(at)
            self.effect("Branch", more)
            self._label(more)
            self.store(held, self.fresh("IAdd", uint, self.load(uint, held), step))
        self.effect("Branch", head)
        self._label(merge)

    def function(self) -> tuple[int, list[int]]:
        """The function without arguments of all instructions so far: its identity and words."""
        type, main, entry = self.words.procedure(), self.words.new(), self.words.new()
        words = self.words.instruction("Function", self.words.void(), main, 0, type)
        words += self.words.instruction("Label", entry)
        words += self._variables + self._body
        words += self.words.instruction("Return") + self.words.instruction("FunctionEnd")
        return main, words
