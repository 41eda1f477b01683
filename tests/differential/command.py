"""``python -m tests.differential``: generated networks on cores, a table, and the smallest failures."""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from generate import KINDS, shrink

from differential.compare import Finding, Tally, compare, fails
from differential.cores import CORES
from differential.subjects import drawn

__all__ = ["Chunk", "chunks", "main", "run", "work"]

SIZE = 48  # networks in an image
WHOSE = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
TRIES = 200  # smaller networks that are looked at


@dataclass(frozen=True)
class Chunk:
    """Work of one process: networks by seed and kind, on cores with their compilers."""

    networks: tuple[tuple[int, str], ...]
    cores: tuple[tuple[str, str], ...]
    fixed: tuple[tuple[str, str], ...] = ()


def chunks(
    cores: Sequence[str], kinds: Sequence[str], count: int, seed: int, compiler: str, fixed: Mapping[str, str],
    size: int = SIZE,
) -> Iterator[Chunk]:  # fmt: skip
    """``count`` networks for each core, of all kinds in turn, ``size`` in an image; compilers take turns too, where
    none is named."""
    for number, first in enumerate(range(0, count, size)):
        kind = len(kinds)
        networks = tuple((seed + k // kind, kinds[k % kind]) for k in range(first, min(first + size, count)))
        able = ((c, [one for one in CORES[c].compilers if compiler in ("any", _family(one))]) for c in cores)
        pairs = tuple((c, found[(number + k) % len(found)]) for k, (c, found) in enumerate(able) if found)
        yield Chunk(networks, pairs, tuple(sorted(fixed.items())))


def _family(compiler: str) -> str:
    return "gcc" if compiler.endswith("gcc") else compiler


def work(chunk: Chunk) -> Tally:
    """What comes of a chunk."""
    start = time.monotonic()
    networks = [drawn(seed, kind) for seed, kind in chunk.networks]
    tally = Tally(seconds=Counter({"draw": time.monotonic() - start}))
    tally.add(compare(networks, dict(chunk.cores), dict(chunk.fixed)))
    return tally


def run(parts: Sequence[Chunk], jobs: int) -> Tally:
    """What comes of all chunks, ``jobs`` at a time."""
    tally = Tally()
    with ProcessPoolExecutor(jobs, initializer=gc.freeze) as pool:
        for found in pool.map(work, parts):
            tally.add(found)
    return tally


def _shrunk(finding: Finding) -> str:
    """The text of the smallest network that is wrong in the same way."""
    return shrink(finding.network, lambda network: fails(finding, network), TRIES).text()


def table(tally: Tally) -> str:
    """Of each core and kind: how many were right, refused, wrong; and why they were refused."""
    wrong = Counter((f.core, f.network.kind) for f in tally.wrong)
    refused = Counter[tuple[str, str]]()
    for (core, kind, _), count in tally.refused.items():
        refused[core, kind] += count
    lines = [f"{'core':10}{'kind':14}{'right':>8}{'refused':>9}{'wrong':>7}"]
    for key in sorted({*tally.right, *refused, *wrong}):
        lines.append(f"{key[0]:10}{key[1]:14}{tally.right[key]:8}{refused[key]:9}{wrong[key]:7}")
    reasons = Counter[str]()
    for (_, _, reason), count in tally.refused.items():
        reasons[reason] += count
    lines += [f"refused {count:5}  {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def described(finding: Finding) -> str:
    """What to call to see it again."""
    n = finding.network
    return f"{finding.core}: seed {n.seed} kind {n.kind} {finding.choice}\n    {finding.what}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; 1 where a network is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--core", action="append", choices=[*CORES, "all"], help="may be given again; all by default")
    parser.add_argument("--kind", action="append", choices=KINDS, help="may be given again; all by default")
    parser.add_argument("--count", type=int, default=300, help="networks for each core")
    parser.add_argument("--seed", type=int, default=0, help="of the first network; the others count on")
    parser.add_argument("--compiler", choices=["any", "zig", "gcc"], default="any")
    parser.add_argument("--opt", choices=["time", "size"], help="drawn by default, as the next two")
    parser.add_argument("--memory", choices=["time", "min"])
    parser.add_argument("--isa", help='as of sdk build; "all" is everything that the core has')
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", type=int, default=3, help="failures to make smaller")
    given = parser.parse_args(argv)
    cores = list(CORES) if given.core is None or "all" in given.core else given.core
    fixed = {k: v for k in ("opt", "memory", "isa") if (v := getattr(given, k)) is not None}
    start = time.monotonic()
    tally = run(
        list(chunks(cores, given.kind or KINDS, given.count, given.seed, given.compiler, fixed)), given.jobs
    )
    seconds = time.monotonic() - start
    print(table(tally))
    models = given.count * len(cores)
    busy = sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime for who in WHOSE)
    print(f"{models} models in {seconds:.0f} s; {60 * models / busy:.0f} a minute of a processor")
    print("seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in tally.seconds.most_common()))
    for finding in tally.caught:
        print(f"caught by the compiler itself: {described(finding)}")
    for k, finding in enumerate(tally.wrong):
        print(described(finding))
        if k < given.shrink:
            print(_shrunk(finding))
        sys.stdout.flush()
    return 1 if tally.wrong else 0
