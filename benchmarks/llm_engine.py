"""Prints how fast whole language models are beside llama.cpp, on the same GGUF files with random weights.

    python -m venv PEER && PEER/bin/pip install llama-cpp-python gguf
    python benchmarks/llm_engine.py PEER/bin/python [--work FOLDER] [--only WORD] [--threads 1,2] [--rounds N] [--json]
        [--cache f32|f16|int8] [--same] [--speed] [--keep]
        [--file GGUF] [--prompt IDS]

Each engine is one process that holds the model; they take turns, prompt by prompt and token run by token run, so that
both see the same machine. With one thread, processor time counts, which others who use the machine do not add to; with
several, time by the clock. Of each number the median of the rounds is printed, and the median of the rounds' ratios
(llama.cpp's time by ours: above 1, ours is faster). llama.cpp is as it is by default: caches of f16 (ours too, without
--cache), flash attention where it likes, weights repacked. ``peak MB`` is what a process had at most, less what it had
before it loaded the model. ``read`` is the part of the memory's bandwidth that our tokens at a context of 64 take: the
bytes of weights by the time of a token, of what as many threads read of that file when they only add it up, as often,
in turns with the tokens. Other machines on the same memory change both from one second to the next.

With --speed nothing but prompts, tokens and ``read`` is measured: some minutes for all models with --rounds 3, on an
idle machine.
--keep takes builds in the folder of --work as they are.

``apart`` is how far logits are apart after the same tokens, of the largest, over a prompt and the tokens that llama.cpp
finds most probable; ``agree`` how many of these ours would have said as well. With --same both are told to compute the
same: scales of activations in f16 in ours, caches of f32 and no flash attention in llama.cpp; a model of one layer is
compared too. ``first`` is the first row that is more than 1e-5 apart, ``minimum`` how far the closest rows are: where a
number lies between two roundings, one engine rounds it up and the other down, and later roundings differ too.

--file compares logits of a checkpoint of yours (of 256 positions or more), after the tokens of --prompt. Trained
weights tell more than random ones, whose logits lie close together:

    python examples/stories/train.py stories
    PEER/bin/python benchmarks/llm_peer.py convert stories Q8_0 stories-Q8_0.gguf
    python benchmarks/llm_engine.py PEER/bin/python --file stories-Q8_0.gguf --prompt 0
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from llm_worker import memory, serve, timed
from numpy.random import default_rng
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
SHAPES = ("smollm2-135m", "qwen3-0.6b", "llama-3.2-1b")
SMALL = ("one-layer", "smollm2-135m")  # whose logits are compared where both compute the same
FORMATS = ("Q4_0", "Q8_0")
CONTEXT = 2048
CONTEXTS, PROMPTS = (512, 64), (128, 512)  # decoding begins within the last prompt
TOKENS, GREEDY, PROMPT = 16, 64, 32
OWN = 256  # positions of a checkpoint of one's own
SUM = """#include <stddef.h>
#include <stdint.h>
uint64_t add(const uint64_t *data, size_t bytes, int times)
{
    uint64_t all = 0;
    while (times-- > 0) {
        const uint64_t *from = data;
        uint64_t sums[32] = {0};
        __asm__ volatile("" : "+r"(from) : : "memory");
        for (size_t k = 0; k < bytes / 8; k += 32)
            for (int j = 0; j < 32; ++j) sums[j] += from[k + j];
        for (int j = 0; j < 32; ++j) all += sums[j];
    }
    return all;
}
"""


class Ours:
    """A build, as a worker measures it."""

    def __init__(self, folder: str, threads: int) -> None:
        import sdk.llm.model  # not a part of what is loaded

        self.base = memory("VmRSS")
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


def built(
    work: Path, path: Path, keep: bool = False, context: int = CONTEXT, **how: Any
) -> tuple[Path, dict[str, float]]:  # fmt: skip
    """A build of a checkpoint, and the seconds that it took by the clock and of processors; with ``keep`` one that is
    there already."""
    from sdk.llm.build import build_model

    out = work / path.stem
    if keep and (out / "model.json").is_file():
        return out, {}
    begin, before = time.perf_counter(), os.times()
    build_model(path, out, context=context, force=True, name="bench", **how)
    used = sum(b - a for a, b in zip(before[:4], os.times()[:4], strict=True))
    return out, {"build s": time.perf_counter() - begin, "build processor s": used}


def pairs(peer: str, path: Path, out: Path, threads: int, *how: str) -> tuple[tuple[object, ...], ...]:
    """The commands of both engines."""
    theirs = (peer, HERE / "llm_peer.py", "serve", path, threads, CONTEXT, *how)
    return (sys.executable, __file__, "--worker", out, threads), theirs


def measure(
    peer: str, path: Path, out: Path, name: dict[str, Any], threads: int, rounds: int, speed: bool
) -> Iterator[dict[str, Any]]:
    """One row for each length, then those of what a model takes where not only ``speed`` is asked for."""
    sizes = _planned(out)
    with ExitStack() as stack:
        pair = [stack.enter_context(worker(*command)) for command in pairs(peer, path, out, threads)]
        for one in pair:
            one.ask("prefill", tokens=PROMPT)  # reads all weights for the first time
        for tokens in PROMPTS:  # the last of them stays in the caches
            yield name | {"what": f"prefill {tokens}"} | _turns(pair, "prefill", threads, rounds, {"tokens": tokens})
        for context in CONTEXTS[:-1]:
            given = {"context": context, "tokens": TOKENS}
            yield name | {"what": f"decode at {context}"} | _turns(pair, "decode", threads, rounds, given)
        file = stack.enter_context(_file(out / "bench_weights.bin", threads))
        given = {"context": CONTEXTS[-1], "tokens": TOKENS}
        row = name | {"what": f"decode at {CONTEXTS[-1]}"} | _turns(pair, "decode", threads, rounds, given, file)
        yield row
        read = [sizes["weights"] * tokens / rate for tokens, rate in zip(row["ours_each"], row["beside"], strict=True)]
        what = f"read %, of {statistics.median(row['beside']) / 1e9:.1f} GB/s"
        yield name | {"what": what, "ours": statistics.median(read) * 100, "theirs": None, "ratio": None}
        if speed:
            return
        memory = [one.ask("memory") for one in pair]
        loads = [min([one.load_ms, *_loads(peer, path, out, threads)[k]]) for k, one in enumerate(pair)]
        peaks = [(taken["peak"] - taken["base"]) / 1e6 for taken in memory]
        for what, values in (("load ms", loads), ("peak MB", peaks)):
            yield name | {"what": what, "ours": values[0], "theirs": values[1], "ratio": values[1] / values[0]}
        planned = sum(sizes.values()) / 1e6
        yield name | {"what": "planned MB", "ours": planned, "theirs": None, "ratio": None}
        yield name | _compared(pair, out)


def _turns(
    pair: Sequence[Worker], do: str, threads: int, rounds: int, given: dict[str, int],
    beside: Callable[[], float] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Tokens per second of both, in turns, and with what is measured ``beside`` them."""
    clock = "cpu" if threads == 1 else "wall"
    found, others = [], []
    for k in range(rounds):
        order = pair if k % 2 else pair[::-1]
        times = {}
        for one in order:
            times[one] = one.ask(do, **given)[clock]
            if beside and one is pair[0]:
                others.append(beside())
        found.append([given["tokens"] / times[one] for one in pair])
    middle = [statistics.median(both[k] for both in found) for k in (0, 1)]
    return {
        "ours": middle[0], "theirs": middle[1], "ours_each": [ours for ours, _ in found], "beside": others,
        "ratio": statistics.median(a / b for a, b in found),
    }  # fmt: skip


@contextmanager
def _file(path: Path, threads: int) -> Iterator[Callable[[], float]]:
    """What measures how many bytes a second so many threads read of a mapped file."""
    data = np.memmap(path, np.uint8, "r")
    each = data.size // 256 // threads * 256
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(threads) as pool:
        source, library = Path(folder, "sum.c"), Path(folder, "sum.so")
        source.write_text(SUM)
        command = [sys.executable, "-m", "ziglang", "cc", "-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run([*command, str(source), "-o", str(library)], check=True)
        add = ctypes.CDLL(str(library)).add
        add.argtypes, add.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_uint64

        def once() -> None:
            list(pool.map(lambda k: add(data.ctypes.data + k * each, each, TOKENS), range(threads)))

        once()  # reads the file for the first time
        yield lambda: each * threads * TOKENS / timed(once)["cpu" if threads == 1 else "wall"]


def _loads(peer: str, path: Path, out: Path, threads: int) -> list[list[float]]:
    """Milliseconds of a few more loads of both."""
    found: list[list[float]] = [[], []]
    for _ in range(3):
        for loads, command in zip(found, pairs(peer, path, out, threads), strict=True):
            with worker(*command) as one:
                loads.append(one.load_ms)
    return found


def _planned(out: Path) -> dict[str, int]:
    """Bytes of weights, caches and arena of a build."""
    import sdk.llm

    with sdk.llm.load(out) as model:
        return model.sizes


def _compared(pair: Sequence[Worker], work: Path, prompt: Sequence[int] = ()) -> dict[str, Any]:
    """Both after the same tokens: a prompt, or random ones, and those that the second finds."""
    prompt = list(prompt) or default_rng(3).integers(0, 4096, PROMPT).tolist()
    tokens = pair[1].ask("greedy", prompt=prompt, count=GREEDY)["tokens"]
    rows = []
    for k, one in enumerate(pair):
        path = work / f"logits{k}.npy"
        one.ask("logits", prompt=prompt, tokens=tokens, path=str(path))
        rows.append(np.load(path)[:-1])
        path.unlink()
    apart = np.abs(rows[0] - rows[1]).max(axis=1) / np.abs(rows[1]).max()
    agree = int((rows[0].argmax(axis=1) == np.array(tokens)).sum())
    first = int(np.append(np.flatnonzero(apart > 1e-5), len(apart))[0])
    found = {"ours": float(apart.max()), "theirs": None, "ratio": None, "agree": agree, "of": GREEDY, "first": first}
    return {"what": "apart", **found, "minimum": float(apart.min())}


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
    parser.add_argument("--cache", default="f16", help="of ours: f32, f16 (default) or int8")
    parser.add_argument("--same", action="store_true", help="both compute the same; prints how far apart they are")
    parser.add_argument("--file", type=Path, help="a checkpoint of yours, whose logits are compared")
    parser.add_argument("--prompt", default="0", help="tokens to begin with for --file, by commas")
    parser.add_argument("--speed", action="store_true", help="only tokens per second")
    parser.add_argument("--keep", action="store_true", help="take builds in --work as they are")
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
    if args.file:
        yield _own(args, work)
        return
    shapes = SMALL if args.same else SHAPES
    for shape, format in ((s, f) for s in shapes for f in FORMATS if args.only in f"{s}-{f}"):
        path = checkpoint(args.peer, work, shape, format)
        name = {"shape": shape, "format": format}
        if args.same:
            out, _ = built(work, path, cache="f32", half_scales=True)
            with ExitStack() as stack:
                both = [stack.enter_context(worker(*command)) for command in pairs(args.peer, path, out, 1, "f32")]
                yield name | {"threads": 1} | _compared(both, out)
            continue
        out, seconds = built(work, path, keep=args.keep, cache=args.cache)
        for what, value in seconds.items():
            yield name | {"threads": "", "what": what, "ours": value, "theirs": None, "ratio": None}
        for threads in map(int, args.threads.split(",")):
            yield from measure(
                args.peer, path, out, name | {"threads": threads}, threads, args.rounds, args.speed
            )


def _own(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """How far apart both are on a checkpoint of one's own."""
    cache = "f32" if args.same else args.cache
    out, _ = built(work, args.file, context=OWN, cache=cache, half_scales=args.same)
    how = ["f32"] if args.same else []
    with ExitStack() as stack:
        both = [stack.enter_context(worker(*command)) for command in pairs(args.peer, args.file, out, 1, *how)]
        found = _compared(both, out, [int(token) for token in args.prompt.split(",")])
    return {"shape": args.file.stem, "format": "", "threads": 1, **found}


def _shown(row: dict[str, Any]) -> list[str]:
    if "agree" in row:
        shown = f"{row['agree']} of {row['of']} agree, first {row['first']}, min {row['minimum']:.1e}"
        return [f"{row['ours']:.1e}", shown, ""]
    places = {"ours": 1, "theirs": 1, "ratio": 2}
    return ["" if row[k] is None else f"{row[k]:.{n}f}" for k, n in places.items()]


if __name__ == "__main__":
    sys.exit(main())
