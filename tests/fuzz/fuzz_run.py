"""Runs hostile files through worker processes: a crash or a hang of one is a finding, and another takes its place.

``python tests/fuzz/fuzz_run.py mutated|shaped|converted FIRST COUNT [SEED [WORKERS]]`` prints what it finds.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "fuzz_worker.py"
SECONDS = 60.0
START = 120.0  # for the first answer: a worker imports the compiler
FINE = ("refused", "imported", "compiled")


@dataclass
class Findings:
    """How many files ended how; those that must not, with the numbers that make them again; the slowest."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")

    def add(self, job: tuple[str, int, int], line: str) -> None:
        seconds, found, *rest = line.split(" ", 2)
        self.counts[found] += 1
        told = f"{job[0]} seed {job[1]} number {job[2]}: {found} {' '.join(rest)}"
        if found not in FINE:
            self.faults.append(told)
            print(told, flush=True)
        self.slowest = max(self.slowest, (float(seconds), told))


class Worker:
    """A process that compiles; started anew after a crash or a hang."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.lines: queue.Queue[str] = queue.Queue()
        self.limit = START
        path = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), self.folder.name], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put("")  # it ended

    def ask(self, kind: str, seed: int, number: int, every: int) -> str | None:
        """The answer; None where the process had to be ended, or ended itself."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{kind} {seed} {number} {every}\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=self.limit)
        except (queue.Empty, OSError):
            line = ""
        self.limit = SECONDS
        return line or None

    def end(self) -> int:
        """Ends the process; its status."""
        self.process.kill()
        status = self.process.wait()
        self.reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):  # what was not read before it ended
                pipe.close()  # type: ignore[union-attr]  # both are pipes
        self.folder.cleanup()
        return status


def run(kind: str, seed: int, numbers: range, *, every: int = 4, workers: int = 1) -> Findings:
    """Compiles the files with these numbers, every ``every``-th as far as C."""
    found, lock, jobs = Findings(), threading.Lock(), queue.Queue[int]()
    for number in numbers:
        jobs.put(number)

    def serve() -> None:
        worker = Worker()
        while True:
            try:
                number = jobs.get_nowait()
            except queue.Empty:
                break
            start = time.monotonic()
            line = worker.ask(kind, seed, number, every)
            if line is None:
                taken = time.monotonic() - start
                how = "hang" if taken >= SECONDS else "died"
                line = f"{taken:.1f} {how} status {worker.end()}"
                worker = Worker()
            with lock:
                found.add((kind, seed, number), line)
        worker.end()

    threads = [threading.Thread(target=serve) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def main() -> None:
    kind, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    start = time.monotonic()
    found = run(kind, seed, range(first, first + count), workers=int(sys.argv[5]) if len(sys.argv) > 5 else 1)
    print(dict(found.counts), f"{time.monotonic() - start:.0f} s; slowest {found.slowest}")


if __name__ == "__main__":
    main()
