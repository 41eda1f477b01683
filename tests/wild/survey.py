"""One model file on cores: exact there, within the bound, refused, too large, wrong, or what brings us down."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from differential.apart import apart
from differential.case import Array, Runs, inputs_of, interpreted
from differential.cores import board_of
from differential.engines import differences, load_engines, moved, unrounded
from differential.image import Compiled, compiled, link
from differential.machines import execute
from elftools.elf.constants import SH_FLAGS
from generate.engines import outputs

from sdk.boards import Board
from sdk.compiler.ir.graph import Call, Graph
from sdk.compiler.ir.module import Module
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import import_model
from sdk.driver.reference import entry_graph
from sdk.errors import MiscompileWarning, SdkError
from sdk.toolchains import BuildCache
from sdk.toolchains.elf import ElfFile

__all__ = ["BAD", "VERDICTS", "Row", "survey"]

Verdict = Literal["exact", "within bound", "too large", "refused", "wrong", "crash"]
VERDICTS: tuple[Verdict, ...] = ("exact", "within bound", "too large", "refused", "wrong", "crash")
BAD = ("wrong", "crash")
PREFIX = "model"


@dataclass(frozen=True)
class Row:
    """What came of a file on a core with a compiler; ``detail`` is the reason, or which reference agreed."""

    file: str
    core: str
    compiler: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True)
class Expected:
    """A model, its runs, and the outputs of each by a reference, "engine" or our interpreter."""

    path: Path
    module: Module
    runs: Runs
    want: list[list[Array]]
    reference: str
    is_qdq: bool = False


def survey(path: Path, cores: Sequence[tuple[str, str]], cases: int, seed: int, timeout_s: float) -> list[Row]:
    """A row for each of ``cores`` (core, compiler), from a process of its own: no file can bring this one down.

    ``timeout_s`` is for all of a file's rows.
    """
    load_engines()
    found, died = apart(lambda: _rows(path, cores, cases, seed, timeout_s), timeout_s)
    rows = list(found)
    if died is not None:
        core, compiler = cores[len(rows)] if len(rows) < len(cores) else cores[-1]
        rows.append(Row(path.name, core, compiler, "crash", str(died)))
        rows += [Row(path.name, *at, "crash", "not reached") for at in cores[len(rows) :]]
    return rows


def _rows(
    path: Path, cores: Sequence[tuple[str, str]], cases: int, seed: int, timeout_s: float
) -> Iterator[Row]:
    try:
        expected = _expected(path, cases, seed, timeout_s)
    except SdkError as err:
        yield from (Row(path.name, *at, "refused", err.message) for at in cores)
        return
    for core, compiler in cores:
        verdict, detail = _one(expected, core, compiler, timeout_s)
        yield Row(path.name, core, compiler, verdict, detail)


def _expected(path: Path, cases: int, seed: int, timeout_s: float) -> Expected:
    module = import_model(path, BuildOptions(), PREFIX)
    graph = entry_graph(module)
    runs = inputs_of(module, cases, seed)
    arrays = [[given[p.name] for p in graph.params] for given in runs.inputs]
    work = partial(outputs, path, path.suffix.lower(), arrays, len(graph.results))
    found, died = apart(lambda: [work()], timeout_s)
    if died is None:
        quantised = path.suffix.lower() == ".onnx" and _is_quantised(graph)
        return Expected(path, module, runs, found[0], "engine", quantised)
    ours = [[np.asarray(o[r.name]) for r in graph.results] for o in interpreted(module, runs)]
    return Expected(path, module, runs, ours, "interpreter only")


def _is_quantised(graph: Graph) -> bool:
    return any(isinstance(n, Call) and n.callee in ("quantize", "dequantize") for n in graph.body)


def _one(expected: Expected, core: str, compiler: str, timeout_s: float) -> tuple[Verdict, str]:
    board, lacks = board_of(core), ""
    for memory in ("time", "min"):
        options = BuildOptions(toolchain=compiler, memory=memory)
        with tempfile.TemporaryDirectory() as name:
            image = Path(name) / "image"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", MiscompileWarning)  # what it is about is not in the code
                    one = compiled(expected.module, PREFIX, core, options)
                left, rejected = link([one], core, compiler, BuildCache(Path(name)), image)
            except SdkError as err:
                return "refused", err.message
            if rejected:
                return "wrong", f"does not compile: {next(iter(rejected.values()))[:300]}"
            lacks = _lacks(image, board)
            if not lacks:
                return _judged(expected, image, core, left, timeout_s)
    return "too large", lacks


def _lacks(image: Path, board: Board) -> str:
    """What a board has too little of for an image; "" where it fits, the agent's own few KB apart."""
    if board.hosted:
        return ""
    sections = [s for s in ElfFile(image).sections if s.flags & SH_FLAGS.SHF_ALLOC]
    ram = sum(s.size for s in sections if s.flags & SH_FLAGS.SHF_WRITE) + board.runtime.stack_bytes
    flash = sum(s.size for s in sections if not s.flags & SH_FLAGS.SHF_WRITE)
    if ram > (board.ram_bytes or 0):
        return f"{ram} bytes of RAM"
    return f"{flash} bytes of flash" if flash > (board.flash_bytes or 0) else ""


def _judged(
    expected: Expected, image: Path, core: str, models: list[Compiled], timeout_s: float
) -> tuple[Verdict, str]:
    (outcome,) = execute(image, core, models, [expected.runs], timeout_s)
    if isinstance(outcome, str):
        return "crash", outcome
    got = [[run[name] for name in models[0].plan.outputs] for run in outcome]
    want, given = expected.want, [list(arrays.values()) for arrays in expected.runs.inputs]
    if expected.is_qdq and differences(want, got):
        want = unrounded(expected.path.read_bytes(), given, want, got)
    lines = differences(want, got)
    if lines and expected.reference == "engine" and not expected.module.states:
        lines = _beyond_last_bits(expected.path, given, want, got)
    if lines:
        return "wrong", f"{len(lines)} differ, {lines[0]}"
    pairs = [pair for x, y in zip(want, got, strict=True) for pair in zip(x, y, strict=True)]
    same = all(a.tobytes() == b.tobytes() for a, b in pairs)
    return "exact" if same else "within bound", expected.reference


def _beyond_last_bits(
    path: Path, given: list[list[Array]], want: list[list[Array]], got: list[list[Array]]
) -> list[str]:
    """What differs by more than the model makes of the last bits of its inputs (dynamic range rounds in between)."""
    differing = [k for k, pair in enumerate(zip(want, got, strict=True)) if differences(*([one] for one in pair))]
    inputs, wanted, found = ([runs[k] for k in differing] for runs in (given, want, got))
    return differences(wanted, found, room=moved(path.read_bytes(), path.suffix.lower(), inputs, wanted))
