"""Prints how fast whole language models are beside llama.cpp, on the same GGUF files with random weights.

    python -m venv PEER && PEER/bin/pip install llama-cpp-python gguf
    python benchmarks/llm_engine.py PEER/bin/python [--work FOLDER] [--only WORD] [--threads 1,2] [--rounds N] [--json]

Each engine is one process that holds the model; they take turns, prompt by prompt and token run by token run, so that
both see the same machine. With one thread, processor time counts, which others who use the machine do not add to; with
several, time by the clock. Of each number the median of the rounds is printed, and the median of the rounds' ratios
(llama.cpp's time by ours: above 1, ours is faster). llama.cpp is as it is by default: caches of f16, flash attention
where it likes, weights repacked. ``apart`` is how far logits are apart after the same tokens, of the largest, over a
prompt and the tokens that llama.cpp finds most probable; ``agree`` how many of these ours would have said as well.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from llm_worker import serve
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
SHAPES = ("smollm2-135m", "qwen3-0.6b", "llama-3.2-1b")
FORMATS = ("Q4_0", "Q8_0")
CONTEXT = 2048
CONTEXTS, PROMPTS = (64, 512), (128, 512)
TOKENS, GREEDY, PROMPT = 16, 64, 32


class Ours:
    """A build, as a worker measures it."""

    def __init__(self, folder: str, threads: int) -> None:
        import sdk.llm.model  # not a part of what is loaded

        begin = time.perf_counter()
        self.model = sdk.llm.load(folder, threads=threads)
        self.load_ms = (time.perf_counter() - begin) * 1e3
        self.vocabulary = self.model.vocabulary_size
        self.reset, self.feed, self.truncate = self.model.reset, self.model.feed, self.model.truncate


class Worker:
    """A process with one engine."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load_ms: float = self.answer()["load_ms"]

    def answer(self) -> Any:
        """What it says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(map(str, self.process.args))} ended with {self.process.wait()}")  # type: ignore[arg-type]
        return json.loads(line)

    def ask(self, do: str, **order: Any) -> Any:
        """An order and its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """Ends it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def worker(*command: object) -> Iterator[Worker]:
    """A worker while it is needed."""
    held = Worker([str(word) for word in command])
    try:
        yield held
    finally:
        held.close()


def checkpoint(peer: str, work: Path, shape: str, format: str) -> Path:
    """The GGUF file of a shape, written where there is none."""
    path = work / f"{shape}-{format}.gguf"
    if not path.is_file():
        part = path.with_suffix(".part")
        subprocess.run([peer, str(HERE / "llm_peer.py"), "write", shape, format, str(part)], check=True)
        part.rename(path)
    return path


def built(work: Path, path: Path) -> tuple[Path, dict[str, float]]:
    """A build of a checkpoint, and the seconds that it took by the clock and of processors."""
    from sdk.llm.build import build_model

    out = work / path.stem
    begin, before = time.perf_counter(), os.times()
    build_model(path, out, context=CONTEXT, force=True, name="bench")
    used = sum(b - a for a, b in zip(before[:4], os.times()[:4], strict=True))
    return out, {"build s": time.perf_counter() - begin, "build processor s": used}


def measure(
    peer: str, path: Path, out: Path, name: dict[str, Any], threads: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """One row for each length, then those of what a model takes."""
    with ExitStack() as stack:
        pair = [
            stack.enter_context(worker(sys.executable, __file__, "--worker", out, threads)),
            stack.enter_context(worker(peer, HERE / "llm_peer.py", "serve", path, threads, CONTEXT)),
        ]
        for tokens in PROMPTS:
            yield name | {"what": f"prefill {tokens}"} | _turns(pair, "prefill", threads, rounds, {"tokens": tokens})
        for context in CONTEXTS:
            for one in pair:
                one.ask("fill", context=context)
            given = {"context": context, "tokens": TOKENS}
            yield name | {"what": f"decode at {context}"} | _turns(pair, "decode", threads, rounds, given)
        memory = [one.ask("memory") for one in pair]
        loads = [min([one.load_ms, *_loads(peer, path, out, threads)[k]]) for k, one in enumerate(pair)]
        for what, values in (("load ms", loads), ("peak MB", [m["peak"] / 1e6 for m in memory])):
            yield name | {"what": what, "ours": values[0], "theirs": values[1], "ratio": values[1] / values[0]}
        planned = sum(_planned(out).values()) / 1e6
        yield name | {"what": "planned MB", "ours": planned, "theirs": None, "ratio": None}
        yield name | _compared(pair, out)


def _turns(pair: Sequence[Worker], do: str, threads: int, rounds: int, given: dict[str, int]) -> dict[str, Any]:
    """Tokens per second of both, in turns."""
    clock = "cpu" if threads == 1 else "wall"
    found = []
    for k in range(rounds + 1):
        order = pair if k % 2 else pair[::-1]
        times = {one: one.ask(do, **given)[clock] for one in order}
        found.append([given["tokens"] / times[one] for one in pair])
    found = found[1:]  # the first warms up
    best = [max(both[k] for both in found) for k in (0, 1)]
    middle = [statistics.median(both[k] for both in found) for k in (0, 1)]
    return {
        "ours": middle[0], "theirs": middle[1], "ours_best": best[0], "theirs_best": best[1],
        "ratio": statistics.median(a / b for a, b in found),
    }  # fmt: skip


def _loads(peer: str, path: Path, out: Path, threads: int) -> list[list[float]]:
    """Milliseconds of a few more loads of both."""
    found: list[list[float]] = [[], []]
    for _ in range(3):
        with worker(sys.executable, __file__, "--worker", out, threads) as one:
            found[0].append(one.load_ms)
        with worker(peer, HERE / "llm_peer.py", "serve", path, threads, CONTEXT) as one:
            found[1].append(one.load_ms)
    return found


def _planned(out: Path) -> dict[str, int]:
    """Bytes of weights, caches and arena of a build."""
    import sdk.llm

    with sdk.llm.load(out) as model:
        return model.sizes


def _compared(pair: Sequence[Worker], work: Path) -> dict[str, Any]:
    """Both after the same tokens: those that the second finds."""
    tokens = pair[1].ask("greedy", prompt=PROMPT, count=GREEDY)["tokens"]
    rows = []
    for k, one in enumerate(pair):
        path = work / f"logits{k}.npy"
        one.ask("logits", prompt=PROMPT, tokens=tokens, path=str(path))
        rows.append(np.load(path)[:-1])
        path.unlink()
    apart = float(np.abs(rows[0] - rows[1]).max() / np.abs(rows[1]).max())
    agree = int((rows[0].argmax(axis=1) == np.array(tokens)).sum())
    return {"what": "apart", "ours": apart, "theirs": None, "ratio": None, "agree": agree, "of": GREEDY}


def main() -> int:
    """Measures and prints; returns the exit code."""
    if sys.argv[1:2] == ["--worker"]:
        serve(Ours(sys.argv[2], int(sys.argv[3])))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("peer", help="a Python that has llama-cpp-python and gguf")
    parser.add_argument("--work", type=Path, help="where files are kept (default: a folder that goes away)")
    parser.add_argument("--only", default="", help="a word of the names to measure, as in smollm2-135m-Q4_0")
    parser.add_argument("--threads", default="1,2", help="how many, by commas")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each number")
    args = parser.parse_args()
    table = Table("model", "threads", "what", "ours", "llama.cpp", "ratio")
    with ExitStack() as stack:
        work = args.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        for row in _rows(args, work):
            if args.json:
                print(json.dumps({"schema": 1, "load": os.getloadavg()[0], **row}), flush=True)
            table.add_row(f"{row['shape']} {row['format']}", str(row["threads"]), row["what"], *_shown(row))
    if not args.json:
        Console().print(table)
        print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
    return 0


def _rows(args: argparse.Namespace, work: Path) -> Iterator[dict[str, Any]]:
    """All numbers that were asked for."""
    for shape, format in ((s, f) for s in SHAPES for f in FORMATS if args.only in f"{s}-{f}"):
        path = checkpoint(args.peer, work, shape, format)
        out, seconds = built(work, path)
        name = {"shape": shape, "format": format}
        for what, value in seconds.items():
            yield name | {"threads": "", "what": what, "ours": value, "theirs": None, "ratio": None}
        for threads in map(int, args.threads.split(",")):
            yield from measure(args.peer, path, out, name | {"threads": threads}, threads, args.rounds)


def _shown(row: dict[str, Any]) -> list[str]:
    if "agree" in row:
        return [f"{row['ours']:.1e}", f"{row['agree']} of {row['of']}", ""]
    places = {"ours": 1, "theirs": 1, "ratio": 2}
    return ["" if row[k] is None else f"{row[k]:.{n}f}" for k, n in places.items()]


if __name__ == "__main__":
    sys.exit(main())
