"""Prints how fast products with weights in groups are beside ggml, llama.cpp's library, on the same bits: microseconds.

    python benchmarks/llm_kernels.py GGML [--threads N] [--only WORD] [--json]

GGML is the folder with libggml-cpu.so and libggml-base.so, as llama-cpp-python installs them (``llama_cpp/lib``). Its
weights of Q4_0 and Q4_K are in the buffers that it repacks; the others, for which it has no such kernels on x86-64, are
in its usual ones. Both sides quantise the activations. Blocks of both alternate, so that they see the same machine; the
best run of each block counts (others may use this machine too), and the median of the blocks' ratios is printed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import sdk
from sdk.boards import load_board
from sdk.compiler.ops.group_products import blocks_of
from sdk.driver import BuildOptions
from sdk.driver.execute import connect
from sdk.graph import ModuleBuilder, f32
from sdk.graph.quantised import group_dense

ROUNDS, BLOCK, DROP = 7, 10, 2
REPACKED = ("Q4_0", "Q4_K")
TYPES = {"Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14}  # ggml's numbers
# layers of SmolLM2-135M, Qwen3-0.6B and Llama-3.2-1B: inputs by outputs
SHAPES = {"SmolLM2 gate": (576, 1536), "Qwen3 gate": (1024, 3072), "Llama q": (2048, 2048), "Llama down": (8192, 2048)}
TOKENS = (1, 128, 512)


@dataclass(frozen=True)
class Case:
    """``tokens`` rows of activations by a layer."""

    layer: str
    format: str
    tokens: int

    @property
    def name(self) -> str:
        """What ``--only`` looks in."""
        return f"{self.layer} {self.format} x{self.tokens}"


class Init(ctypes.Structure):
    """ggml_init_params."""

    _fields_ = (("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


class Ggml:
    """One product as a graph of ggml's."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.base = ctypes.CDLL(str(folder / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
        self.cpu = ctypes.CDLL(str(folder / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
        self.backend = self.call(self.cpu.ggml_backend_cpu_init)
        self.cpu.ggml_backend_cpu_set_n_threads(ctypes.c_void_p(self.backend), ctypes.c_int(threads))

    def call(self, function: Any, *args: Any) -> Any:
        """A function that returns a pointer."""
        function.restype = ctypes.c_void_p
        return function(*args)

    def tensors(self) -> Any:
        """A context that holds no data."""
        self.base.ggml_init.argtypes = [Init]
        return ctypes.c_void_p(self.call(self.base.ggml_init, Init(1 << 20, None, True)))

    def matrix(self, context: Any, kind: int, columns: int, rows: int) -> Any:
        """A tensor of ``rows`` rows."""
        size = ctypes.c_int64
        return ctypes.c_void_p(
            self.call(self.base.ggml_new_tensor_2d, context, ctypes.c_int(kind), size(columns), size(rows))
        )

    def product(self, case: Case, weights: np.ndarray, x: np.ndarray) -> tuple[Callable[[], list[float]], np.ndarray]:
        """What runs a block and gives nanoseconds; the result of a first run."""
        columns, rows = SHAPES[case.layer]
        repacked = ctypes.c_void_p(self.call(self.cpu._Z35ggml_backend_cpu_repack_buffer_typev))
        stored, work = self.tensors(), self.tensors()
        w = self.matrix(stored, TYPES[case.format], columns, rows)
        if case.format in REPACKED:
            self.call(self.base.ggml_backend_alloc_ctx_tensors_from_buft, stored, repacked)
        else:
            self.call(self.base.ggml_backend_alloc_ctx_tensors, stored, ctypes.c_void_p(self.backend))
        whole = ctypes.c_size_t(weights.nbytes)
        self.base.ggml_backend_tensor_set(w, weights.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(0), whole)
        given = self.matrix(work, 0, columns, case.tokens)
        out = ctypes.c_void_p(self.call(self.base.ggml_mul_mat, work, w, given))
        graph = ctypes.c_void_p(self.call(self.base.ggml_new_graph, work))
        self.base.ggml_build_forward_expand(graph, out)
        self.call(self.base.ggml_backend_alloc_ctx_tensors, work, ctypes.c_void_p(self.backend))
        size = ctypes.c_size_t(x.nbytes)
        self.base.ggml_backend_tensor_set(given, x.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(0), size)
        backend = ctypes.c_void_p(self.backend)

        def block() -> list[float]:
            found = []
            for _ in range(BLOCK):
                start = time.perf_counter_ns()
                self.base.ggml_backend_graph_compute(backend, graph)
                found.append(float(time.perf_counter_ns() - start))
            return found

        block()
        y = np.empty((case.tokens, rows), np.float32)
        end = ctypes.c_size_t(y.nbytes)
        self.base.ggml_backend_tensor_get(out, y.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(0), end)
        return block, y


def cases() -> Iterator[Case]:
    """Every layer in every format that its columns are whole blocks of."""
    for layer, (columns, _) in SHAPES.items():
        for format in TYPES:
            if columns % 256 == 0 or not format.endswith("K"):
                yield from (Case(layer, format, tokens) for tokens in TOKENS)


def measure(case: Case, ggml: Ggml, threads: int) -> dict[str, Any]:
    """Microseconds of both, the median of their ratios, and how far results are apart, of the largest."""
    columns, rows = SHAPES[case.layer]
    rng = np.random.default_rng(0)
    weights = blocks_of(case.format, rows, columns)(rng)
    x = rng.standard_normal((case.tokens, columns)).astype(np.float32)
    g = ModuleBuilder("product")
    e = g.entry("main")
    w = g.const("w", weights)
    e.output("y", group_dense(e, e.input("x", f32, x.shape), w, case.format))
    model = sdk.compile(g.module(), threads=threads)
    session, _, _ = connect(model.file, load_board("host"), None, BuildOptions(threads=threads))
    session.write(0, 0, x.tobytes())
    block, theirs = ggml.product(case, weights, x)
    ours = np.frombuffer(model(x=x)["y"].tobytes(), np.float32).reshape(theirs.shape)
    found: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        mine = min(session.run(0, dims=[], repeat=BLOCK).samples[DROP:])
        found.append((mine / 1e3, min(block()[DROP:]) / 1e3))
    session.close()
    model.close()
    apart = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    return {
        "name": case.name,
        "ours_us": min(a for a, _ in found),
        "ggml_us": min(b for _, b in found),
        "ratio": statistics.median(b / a for a, b in found),
        "apart": apart,
    }


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("ggml", type=Path, help="the folder of libggml-cpu.so")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="a word of the names to measure")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    ggml = Ggml(args.ggml, args.threads)
    rows = [measure(case, ggml, args.threads) for case in cases() if args.only in case.name]
    if args.json:
        print(json.dumps({"schema": 1, "products": rows}))
        return 0
    table = Table("product", "ours us", "ggml us", "ggml / ours", "apart")
    for r in rows:
        table.add_row(r["name"], f"{r['ours_us']:.0f}", f"{r['ggml_us']:.0f}", f"{r['ratio']:.2f}", f"{r['apart']:.1e}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
