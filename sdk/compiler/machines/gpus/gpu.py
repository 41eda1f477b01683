"""What the compiler knows of a kind of GPU: one record, with the rules that make kernels of nests for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sdk.compiler.analysis.pattern import Pattern
from sdk.compiler.ir.loops import Block, For, Loops
from sdk.compiler.schedules.gpu.tiles import Item

__all__ = ["Gpu", "GpuRule", "Part"]


@dataclass(frozen=True)
class Part:
    """A nest that becomes one kernel: its outer loops whose iterations are independent, what is inside of them, what
    its index maps say that it is, and the parameters that begin at multiples of 16 bytes in all calls."""

    loops: Loops
    chain: Sequence[For]
    inner: Block
    pattern: Pattern
    aligned: frozenset[str] = frozenset()


class GpuRule(Protocol):
    """A way to divide nests among work items: a frozen dataclass whose fields are the sizes that a GPU sets."""

    @property
    def name(self) -> str:
        """What it is called in tests and reports."""

    @property
    def shares(self) -> bool:
        """Whether items work in groups that share arrays."""

    def applies(self, part: Part, gpu: Gpu) -> bool:
        """Whether the rule is for such nests."""

    def schedule(self, part: Part, gpu: Gpu) -> Item:
        """What an item does.

        Raises:
            ScheduleError: an obligation does not hold; the next rule is tried.
        """


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU.

    - ``rules``: tried in order; where none applies and holds, an item does one iteration of the plain nest.
    - ``lanes``: 32-bit elements of the vectors that kernels compute in; 1 where drivers make scalars of them anyway.
    - ``driver``: the interface by which programs have it, where that is not its name.
    - ``devices``: words of the names of such devices, in small letters.
    """

    name: str
    rules: tuple[GpuRule, ...]
    lanes: int = 1
    driver: str = ""
    devices: tuple[str, ...] = ()

    @property
    def interface(self) -> str:
        """The interface by which programs have it, such as "vulkan"."""
        return self.driver or self.name

    @property
    def variants(self) -> Iterator[Gpu]:
        """The GPU, then the same without vectors: not every operation has a form in them."""
        yield self
        if self.lanes > 1:
            yield replace(self, lanes=1)
