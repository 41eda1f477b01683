"""From scheduled to planned: every entry becomes calls on buffers whose bytes are all placed.

before: graph @main(%x) { %h = @conv(%x, @w); %y = @add(%h, %x); return %y }
after:  plan @main { arena 96 B: x at 0, h at 48, y at 48 (takes over h) }
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sdk.compiler.ir.module import Module
from sdk.compiler.memory.layout import Laid, Offsets, lay_out
from sdk.compiler.memory.problem import live_profile
from sdk.compiler.memory.storage import Io
from sdk.errors import BuildError

__all__ = ["PlanMemory"]

TOP: Final = 5


@dataclass(frozen=True)
class PlanMemory:
    """Places every buffer.

    ``io``: inputs and outputs inside the arena, or the caller's own buffers. ``align``: bytes, of every buffer in
    the arena. ``limit``: most bytes of the arena (None = any). ``threads``: how many may share a call. ``offsets``:
    numbers, or scaled with the dims, so that a run needs what its dims ask for.
    """

    io: Io = "arena"
    align: int = 16
    limit: int | None = None
    threads: int = 1
    offsets: Offsets = "fixed"
    name = "plan-memory"

    def run(self, module: Module) -> Module:
        """The planned module.

        Raises:
            BuildError: an entry is not fully lowered, a size has no bound, or an arena is over the limit.
        """
        plans = {}
        for graph in module.graphs.values():
            if graph.entry:
                laid = lay_out(module, graph, self.io, self.align, self.threads, self.offsets)
                self._check_limit(laid)
                plans[graph.name] = laid.plan
        return replace(module, stage="planned", graphs={}, plans={**module.plans, **plans})

    def _check_limit(self, laid: Laid) -> None:
        peak = laid.placement.peak
        if self.limit is None or peak <= self.limit:
            return
        _, live = max(live_profile(laid.blocks), key=lambda item: sum(b.size for b in item[1]))
        largest = sorted(live, key=lambda b: (-b.size, b.name))
        shown = ", ".join(f"%{b.name} {b.size:,} B" for b in largest[:TOP])
        more = f" and {len(largest) - TOP} smaller" if len(largest) > TOP else ""
        raise BuildError(
            f"the arena needs {peak:,} B, {peak - self.limit:,} B more than the limit of {self.limit:,} B",
            where=f"entry @{laid.plan.name}",
            why=f"live at the peak: {shown}{more}",
            hint=_hint(laid, self.limit),
        )


def _hint(laid: Laid, limit: int) -> str:
    if laid.placement.lower_bound > limit:
        bound = f"{laid.placement.lower_bound:,} B"
        return f"whole tensors need at least {bound}: raise --arena-limit, or choose a board with more RAM"
    return "raise --arena-limit, or choose a board with more RAM"
