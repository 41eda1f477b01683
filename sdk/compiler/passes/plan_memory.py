"""From scheduled to planned: every entry becomes calls on buffers whose bytes are all placed.

before: graph @main(%x) { %h = @conv(%x, @w); %y = @add(%h, %x); return %y }
after:  plan @main { arena 96 B: x at 0, h at 48, y at 48 (takes over h) }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from sdk.compiler.ir.graph import Graph, fresh_dims
from sdk.compiler.ir.module import Module, init_dims
from sdk.compiler.ir.plan import PlanCall, walk_plan
from sdk.compiler.memory.laid import Laid
from sdk.compiler.memory.layout import Offsets, lay_out
from sdk.compiler.memory.regions import in_pools, parse_pools
from sdk.compiler.memory.repeats import Repeated
from sdk.compiler.memory.storage import Io, share_bytes
from sdk.compiler.memory.stream.net import Net
from sdk.compiler.memory.stream.segments import Segmenter
from sdk.compiler.memory.stream.weigh import whole
from sdk.compiler.passes.repeats import flattened
from sdk.errors import BuildError

__all__ = ["PlanMemory"]

TOP: Final = 5
SLACK: Final = 32  # the last 32nd of what streams save in memory costs most time
TRIES: Final = 6  # target peaks between the limit and the smallest


Objective = Literal["time", "min"]


@dataclass(frozen=True)
class PlanMemory:
    """Places every buffer.

    ``io``: inputs and outputs inside the arena, or the caller's own buffers. ``align``: bytes, of every buffer in
    the arena. ``memory``: whole tensors ("time"), or parts of the net row by row where that takes the peak down
    ("min": to the least, or at most a 32nd above it where that saves time). ``limit``: most bytes of the arena (None =
    any); as many rows as it takes are streamed to keep it. ``pools``: memories that the arena is spread over, the
    preferred first, ``name:bytes`` joined by ``+`` ("" = one). ``threads``: how many may share a call. ``offsets``:
    numbers, or scaled with the dims, so that a run needs what its dims ask for; what has dims is not streamed.
    ``overlap``: a result may be written over an argument that dies and lies elsewhere, as far as it is read; not where
    threads share calls, the arena is spread, or there are dims.
    """

    io: Io = "arena"
    align: int = 16
    memory: Objective = "time"
    limit: int | None = None
    pools: str = ""
    threads: int = 1
    offsets: Offsets = "fixed"
    overlap: bool = True
    name = "plan-memory"

    def run(self, module: Module) -> Module:
        """The planned module.

        Raises:
            BuildError: an entry is not fully lowered, a size has no bound, or an arena is over the limit.
        """
        plans = {}
        for graph in module.graphs.values():
            if graph.entry:
                laid = self._plan(module, *flattened(module, graph))
                plans[graph.name] = laid.plan
                module = replace(module, loops={**module.loops, **laid.loops})
        plans = {**module.plans, **plans}
        called = {s.callee for p in plans.values() for s in walk_plan(p.body) if isinstance(s, PlanCall)}
        loops = {name: f for name, f in module.loops.items() if name in called}
        return replace(module, stage="planned", graphs={}, loops=loops, plans=plans)

    def _plan(self, module: Module, graph: Graph, iterations: tuple[Repeated, ...]) -> Laid:
        laid = self._one_arena(module, graph, iterations)
        return in_pools(laid, pools) if (pools := parse_pools(self.pools)) else laid

    def _one_arena(self, module: Module, graph: Graph, iterations: tuple[Repeated, ...]) -> Laid:
        laid = lay_out(module, graph, self.io, self.align, self.threads, self.offsets, iterations=iterations)
        dims = bool(graph.dims or init_dims(module.states) or fresh_dims(graph))
        overlap = self.overlap and self.threads == 1 and not self.pools
        net = None if dims or iterations else self._net(module, graph)
        if net is not None and overlap:
            laid = self._overlapped(module, graph, net, laid)
        if self.memory == "time" and (self.limit is None or laid.placement.peak <= self.limit):
            return laid
        if net is not None:
            segmenter = Segmenter(net, overlap)
            laid = self._stream(module, graph, segmenter, laid)
            if overlap and laid.placement.peak > (self.limit or _near(segmenter)):
                # placed, results over their arguments may need more than was estimated
                laid = self._stream(module, graph, segmenter.apart(), laid)
        if self.limit is not None and laid.placement.peak > self.limit:
            raise _over(laid, self.limit, dims, bool(iterations))
        return laid

    def _net(self, module: Module, graph: Graph) -> Net:
        states = {s.name: s.type for s in module.states.values()}
        sharing = share_bytes(graph, module.loops, states, self.io, lambda *_: False)
        return Net(graph, module.loops, sharing, self.align)

    def _overlapped(self, module: Module, graph: Graph, net: Net, best: Laid) -> Laid:
        """The smaller of ``best`` and the plan of whole tensors whose results may begin below an argument that dies,
        to be written over what was read of it."""
        segments = [whole(net, step) for step in range(1, net.count + 1)]
        if not any(s.lags for s in segments) or max(s.peak for s in segments) >= best.placement.peak:
            return best
        laid = lay_out(module, graph, self.io, self.align, self.threads, self.offsets, segments)
        return min(best, laid, key=lambda item: item.placement.peak)

    def _stream(self, module: Module, graph: Graph, segmenter: Segmenter, best: Laid) -> Laid:
        """The cheapest plan within the limit, or the smallest; ``best`` is that of whole tensors."""
        min_peak, near = segmenter.min_peak(), _near(segmenter)
        room = max((self.limit or 0) - min_peak, 0)
        targets = [near] if self.memory == "min" else [min_peak + room * k // TRIES for k in reversed(range(TRIES + 1))]
        best = self._smallest(module, graph, segmenter, targets, best)
        gap = best.placement.peak - near
        if gap * SLACK <= near or (self.limit is not None and best.placement.peak <= self.limit):
            return best
        # cuts that are estimated to need more may need less once they are placed
        return self._smallest(module, graph, segmenter, [near + gap * k // TRIES for k in range(1, TRIES)], best)

    def _smallest(
        self, module: Module, graph: Graph, segmenter: Segmenter, targets: Sequence[int], best: Laid
    ) -> Laid:
        """The smallest of ``best`` and the cheapest plans for ``targets``, estimates of the peak; the first that keeps
        the limit ends the search."""
        tried: set[tuple[tuple[int, bool], ...]] = set()
        for target in targets:
            segments = segmenter.cheapest(target)
            cuts = tuple((s.last, s.flow is None) for s in segments or ())
            if segments is None or cuts in tried:
                continue
            tried.add(cuts)
            laid = lay_out(module, graph, self.io, self.align, self.threads, self.offsets, segments)
            best = min(best, laid, key=lambda item: item.placement.peak)
            if self.limit is not None and best.placement.peak <= self.limit:
                break
        return best


def _near(segmenter: Segmenter) -> int:
    """The estimate of the peak that plans for least memory aim at."""
    minimum = segmenter.min_peak()
    return minimum + minimum // SLACK


def _over(laid: Laid, limit: int, dims: bool, iterations: bool) -> BuildError:
    """``laid`` is the smallest plan; with dims or iterations, of whole tensors."""
    peak = laid.placement.peak
    largest = sorted(laid.fullest, key=lambda b: (-b.size, b.name))
    shown = ", ".join(f"%{b.name} {b.size:,} B" for b in largest[:TOP])
    more = f" and {len(largest) - TOP} smaller" if len(largest) > TOP else ""
    reason = "no smaller plan was found"
    if dims or iterations:
        reason = f"tensors {'whose dims a run chooses' if dims else 'of a net with iterations'} stay whole"
    return BuildError(
        f"the arena needs {peak:,} B, {peak - limit:,} B more than the limit of {limit:,} B",
        where=f"entry @{laid.plan.name}",
        why=f"live at the peak: {shown}{more}",
        hint=f"{reason}: raise --arena-limit to {peak}, or choose a board with more RAM",
    )
