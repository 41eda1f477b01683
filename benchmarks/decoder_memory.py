"""Compares the activation memory of one symbolic plan of a language model with that of a pool of blocks.

    python benchmarks/decoder_memory.py [--layers N] [--json]

A decoder of the sizes of Llama 3 8B is planned once, for prompts of 1 to 2,048 tokens and batches of 1 to 64. It is
then prefilled with 128, 256, 512 and 1,024 tokens and decodes at batch 1, 16, 32 and 64 behind 1,024 positions. The
pool serves the same tensors of the same program in the same order: each from the smallest free block that is large
enough, else from a new one, and blocks are never given back. Weights, caches, inputs and outputs are the caller's and
count nowhere; nothing is executed. Exit code 9 when a saving is under its budget.
"""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from sdk.boards import load_board
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, Plan, PlanCall, walk_plan
from sdk.compiler.passes.pipeline import run_pipeline
from sdk.compiler.sym import Dim, evaluate
from sdk.compiler.verify.plan import check_plan
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes
from sdk.graph import Entry, ModuleBuilder, Tensor, f32, i32, i64

WIDTH, HEADS, KV_HEADS, HEAD, INNER, VOCAB = 4096, 32, 8, 128, 14336, 128256
PREFILL = [{"n": n} for n in (128, 256, 512, 1024)]
DECODE = [{"b": b, "m": 1024} for b in (1, 16, 32, 64)]
MIN_SAVED = {"prefill": 0.22, "decode": 0.40}  # smallest part of the pool that the plan saves


# --- the model -------------------------------------------------------------------------------------------


class Step:
    """One entry under construction: ``count`` tokens at ``positions``, all of one prompt or each of another."""

    def __init__(self, entry: Entry, count: Dim, start: Dim, context: Dim | None) -> None:
        self.e, self.count, self.context = entry, count, context
        self.ids = entry.input("ids", i64, (count,))
        if context is None:
            self.positions = entry.iota(extent=count, start=start, step=1, dtype=i32)
            column = entry.reshape(self.positions, shape=(count, 1))
            self.mask = entry.call("less_equal", self.positions, column)
        else:
            self.positions = entry.input("positions", i32, (count,))
            slots = entry.iota(extent=context, start=0, step=1, dtype=i32)
            self.mask = entry.call("less_equal", slots, entry.reshape(self.positions, shape=(count, 1, 1, 1)))
        rates = entry.input("rates", f32, (HEAD // 2,))
        angles = entry.reshape(entry.cast(self.positions, to=f32), shape=(count, 1, 1)) * rates
        self.cos, self.sin = entry.cos(angles), entry.sin(angles)

    def build(self, layers: int) -> None:
        """All layers and the logits."""
        e = self.e
        embed = e.input("embed", f32, (VOCAB, WIDTH))
        x = e.gather(embed, self.ids, axis=0)
        for k in range(layers):
            x = x + self.attention(k, self.norm(x, f"attn_norm{k}"))
            x = x + self.mlp(k, self.norm(x, f"mlp_norm{k}"))
        if self.context is None:
            x = e.slice(x, begin=(self.count - 1, 0), size=(1, WIDTH), strides=(1, 1))
        e.output("logits", e.matmul(self.norm(x, "norm"), embed, trans_b=True))

    def norm(self, x: Tensor, name: str) -> Tensor:
        """x over the root of its mean square, scaled."""
        return self.e.call("rms_norm", x, self.e.input(name, f32, (WIDTH,)), epsilon=1e-5)

    def linear(self, x: Tensor, name: str, outputs: int, inputs: int) -> Tensor:
        """x times a weight [outputs, inputs]."""
        return self.e.call("matmul", x, self.e.input(name, f32, (outputs, inputs)), trans_b=True)

    def mlp(self, k: int, x: Tensor) -> Tensor:
        """SwiGLU."""
        gate, up = (self.linear(x, f"{name}{k}", INNER, WIDTH) for name in ("gate", "up"))
        return self.linear(self.e.silu(gate, alpha=1.0) * up, f"down{k}", WIDTH, INNER)

    def heads(self, k: int, x: Tensor, name: str, heads: int, turned: bool) -> Tensor:
        """A projection as [tokens, heads, head size], with the rotation of its position where ``turned``."""
        y = self.e.call("reshape", self.linear(x, f"{name}{k}", heads * HEAD, WIDTH), shape=(self.count, heads, HEAD))
        if not turned:
            return y
        half = HEAD // 2
        left, right = (
            self.e.call("slice", y, begin=(0, 0, at), size=(self.count, heads, half), strides=(1, 1, 1))
            for at in (0, half)
        )
        both = left * self.cos - right * self.sin, right * self.cos + left * self.sin
        return self.e.call("concat", *both, axis=2)

    def attention(self, k: int, x: Tensor) -> Tensor:
        """Grouped-query attention; what is new of keys and values goes to the caller, who keeps the caches."""
        e, n, group = self.e, self.count, HEADS // KV_HEADS
        queries = self.heads(k, x, "q", HEADS, turned=True)
        keys = self.heads(k, x, "k", KV_HEADS, turned=True)
        values = self.heads(k, x, "v", KV_HEADS, turned=False)
        e.output(f"new_keys{k}", keys)
        e.output(f"new_values{k}", values)
        grouped = e.reshape(queries, shape=(n, KV_HEADS, group, HEAD))
        if self.context is None:
            by_head = e.transpose(grouped, perm=(1, 2, 0, 3))
            mixed = self.mixed(by_head, self.head_major(keys), self.head_major(values))
            mixed = e.transpose(mixed, perm=(2, 0, 1, 3))
        else:
            shape = (n, KV_HEADS, self.context, HEAD)
            mixed = self.mixed(grouped, e.input(f"keys{k}", f32, shape), e.input(f"values{k}", f32, shape))
        return self.linear(e.reshape(mixed, shape=(n, HEADS * HEAD)), f"o{k}", WIDTH, HEADS * HEAD)

    def mixed(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Values by their shares; the caches hold the token itself when a batch decodes."""
        scores = self.e.matmul(queries, keys, trans_b=True) * HEAD**-0.5
        return self.e.softmax(self.e.where(self.mask, scores, -1e30)) @ values

    def head_major(self, x: Tensor) -> Tensor:
        """[tokens, kv heads, head size] as [kv heads, 1, tokens, head size]."""
        moved = self.e.transpose(x, perm=(1, 0, 2))
        return self.e.call("reshape", moved, shape=(KV_HEADS, 1, self.count, HEAD))


def decoder(layers: int) -> Module:
    """The module: ``prefill`` of one prompt of n tokens, ``decode`` of b sequences behind m positions."""
    g = ModuleBuilder("decoder")
    n, b, m = g.dim("n", 1, 2048), g.dim("b", 1, 64), g.dim("m", 1, 2048)
    Step(g.entry("prefill"), n, 0, None).build(layers)
    Step(g.entry("decode"), b, 0, m).build(layers)
    return g.module()


# --- memory ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tensors:
    """Buffers of the arena that share their bytes: the bytes as dims, the first and the last step in use."""

    bytes: tuple[Dim, ...]
    first: int
    last: int


def tensors(plan: Plan) -> list[Tensors]:
    """What a plan's arena holds, in the order in which it is needed."""
    by_name = {b.name: b for b in plan.buffers}
    members: dict[str, list[str]] = {}
    for buffer in plan.buffers:
        root = buffer
        while root.alias:
            root = by_name[root.alias]
        if plan.region(buffer.region).kind == "arena":
            members.setdefault(root.name, []).append(buffer.name)
    steps: dict[str, list[int]] = {}
    for k, stmt in enumerate(s for s in walk_plan(plan.body) if isinstance(s, PlanCall | Copy)):
        for name in (stmt.dst, stmt.src) if isinstance(stmt, Copy) else (*stmt.args, stmt.scratch):
            steps.setdefault(name, []).append(k)
    found = []
    for names in members.values():
        used = [k for name in names for k in steps.get(name, ())]
        if used:
            found.append(Tensors(tuple(by_name[n].type.nbytes for n in names), min(used), max(used)))
    return sorted(found, key=lambda t: t.first)


class Pool:
    """Blocks that tensors are given; ``bytes`` of all that were ever made."""

    def __init__(self) -> None:
        self.bytes = 0
        self.free: list[int] = []  # their sizes, sorted

    def take(self, size: int) -> int:
        """A block of at least ``size`` bytes; its size."""
        at = bisect_left(self.free, size)
        if at < len(self.free):
            return self.free.pop(at)
        self.bytes += size
        return size

    def run(self, events: Sequence[tuple[int, int, int]]) -> None:
        """Serves tensors given as (first step, last step, bytes)."""
        held: list[tuple[int, int]] = []  # last step, block
        for first, last, size in events:
            for item in [h for h in held if h[0] < first]:
                held.remove(item)
                insort(self.free, item[1])
            held.append((last, self.take(size)))
        for _, block in held:
            insort(self.free, block)


@dataclass(frozen=True)
class Row:
    """Bytes of one phase after the shapes so far: our arena, the pool, and the largest live set of any shape."""

    phase: str
    shape: str
    ours: int
    pool: int
    live: int

    @property
    def saved(self) -> float:
        """The part of the pool that the plan does without."""
        return 1 - self.ours / self.pool


def rows(phase: str, plan: Plan, shapes: Sequence[dict[str, int]], pool: Pool) -> Iterator[Row]:
    """The memory of a phase, shape by shape."""
    held = tensors(plan)
    ours = live = 0
    for shape in shapes:
        env = {v: shape[v.name] for v in plan.dims}
        events = [(t.first, t.last, max(evaluate(size, env) for size in t.bytes)) for t in held]
        pool.run(events)
        ours = max(ours, evaluate(plan.region("arena").bytes, plan.placed(env)))
        live = max(live, *(sum(s for f, last, s in events if f <= k <= last) for k in {e[0] for e in events}))
        yield Row(phase, ", ".join(f"{k} = {n:,}" for k, n in shape.items()), ours, pool.bytes, live)


def measure(layers: int) -> list[Row]:
    """Plans the decoder once; the memory of prefill, of decode, and of decode in the pool that prefill left."""
    passes = default_passes(load_board("host"), BuildOptions())
    module = run_pipeline(decoder(layers), passes)
    for plan in module.plans.values():
        check_plan(module, plan)
    prefill, decode = module.plans["prefill"], module.plans["decode"]
    both = Pool()
    found = [*rows("prefill", prefill, PREFILL, both), *rows("decode", decode, DECODE, Pool())]
    last = [*rows("both", decode, DECODE, both)][-1]
    first = found[len(PREFILL) - 1]
    return [*found, Row("both", "all of these", max(first.ours, last.ours), last.pool, max(first.live, last.live))]


def show(found: Sequence[Row]) -> None:
    """The table for a person."""
    table = Table(title="MiB of activations after each shape")
    for column in ("phase", "shape", "one plan", "pool", "less", "live set", "plan / live"):
        table.add_column(column, justify="left" if column in ("phase", "shape") else "right")
    for row in found:
        sizes = [f"{n / (1 << 20):,.2f}" for n in (row.ours, row.pool, row.live)]
        table.add_row(
            row.phase, row.shape, sizes[0], sizes[1], f"{row.saved:.1%}", sizes[2], f"{row.ours / row.live:.4f}"
        )
    Console().print(table)


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = measure(args.layers)
    missed = [
        f"{phase}: {last.saved:.1%} less than the pool, budget {budget:.0%}"
        for phase, budget in MIN_SAVED.items()
        if (last := [r for r in found if r.phase == phase][-1]).saved < budget
    ]
    if args.json:
        lines = [{"phase": r.phase, "shape": r.shape, "ours": r.ours, "pool": r.pool, "live": r.live} for r in found]
        print(json.dumps({"schema": 1, "rows": lines, "missed": missed}))
        return 9 if missed else 0
    show(found)
    for line in missed:
        print(f"missed: {line}")
    return 9 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
