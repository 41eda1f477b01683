"""The module under construction, and the module that comes of it."""

from __future__ import annotations

from sdk.compiler import ops
from sdk.compiler.ir.module import Module
from sdk.compiler.verify.module import check
from sdk.errors import BuildError
from sdk.graph.entry import Entry
from sdk.graph.shared import Shared

__all__ = ["ModuleBuilder"]


class ModuleBuilder(Shared):
    """A module under construction: dims, constants and states, and the entries that share them.

    Args:
        name: of the model; the C names of a build start with it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.entries: dict[str, Entry] = {}
        self.parts: dict[str, Entry] = {}

    def entry(self, name: str) -> Entry:
        """A new entry, a function that a device can run; a context manager only to set its code apart.

        Raises:
            BuildError: the name is taken.
        """
        self.claim(name, {**self.entries, **self.parts}, "entry")
        self.entries[name] = Entry(name, self)
        return self.entries[name]

    def part(self, name: str, iterations: int) -> Entry:
        """A function that entries run ``iterations`` times in a row, ``Entry.repeat``: it has one output, of the type
        of its first input, which that is in the next iteration. Of ``stack`` and of states with ``iterations`` each has
        its own. It is compiled once, however many iterations there are.

        Raises:
            BuildError: the name is taken, or there are fewer than two iterations.
        """
        self.claim(name, {**self.entries, **self.parts}, "part")
        if iterations < 2:
            raise BuildError(f"{iterations} iterations", where=f"part {name}", hint="what runs once is not a part")
        self.parts[name] = Entry(name, self, iterations)
        return self.parts[name]

    def module(self) -> Module:
        """What was built, verified; give it to ``sdk.compile``.

        Raises:
            BuildError: there is no entry, one has no output, or a finding of the verifier.
        """
        graphs = {name: entry.graph() for name, entry in (self.entries | self.parts).items()}
        states = dict(self.states)
        module = Module(self.name, "imported", dict(self.consts), states, graphs, stacks=dict(self.stacks))
        check(module, ops)
        return module
