"""The way of a model through the compiler: one default pipeline, the same for every board, chosen by capabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from sdk.boards import Board
from sdk.compiler import ops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.verify import check
from sdk.compiler.memory.verify_plan import check_plan
from sdk.compiler.passes.accumulate import Accumulate
from sdk.compiler.passes.base import Pass
from sdk.compiler.passes.canonicalize import Canonicalize
from sdk.compiler.passes.cleanup import Cleanup
from sdk.compiler.passes.dispatch import Dispatch
from sdk.compiler.passes.eliminate import Eliminate
from sdk.compiler.passes.fold import Fold
from sdk.compiler.passes.fold_offset import FoldOffset
from sdk.compiler.passes.fold_pad import FoldPad
from sdk.compiler.passes.fold_scale import FoldScale
from sdk.compiler.passes.fuse import Fuse
from sdk.compiler.passes.inline import Inline
from sdk.compiler.passes.integer import Integer
from sdk.compiler.passes.layout import Layout
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.order import Order
from sdk.compiler.passes.pipeline import run_pipeline
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.passes.recognize import Recognize
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.compiler.passes.simplify_graph import SimplifyGraph
from sdk.compiler.passes.simplify_loops import SimplifyLoops
from sdk.compiler.schedules.rules import core_for
from sdk.compiler.sym import max_value
from sdk.driver.memories import rooms_of
from sdk.driver.options import BuildOptions
from sdk.driver.program import read_program
from sdk.errors import BuildError, UsageError
from sdk.frontends.tflite import import_tflite

__all__ = ["Observer", "capabilities", "default_passes", "import_model", "lower_module"]

INDEX_LIMIT = (1 << 31) - 1  # offsets in generated code are 32 bits
CACHE_LINE = 64  # where vectors are wide, none of a buffer then lies across two lines
WORDS = 16  # bytes: what the widest load of a microcontroller wants
Observer = Callable[[Pass, Module], None]


def import_model(path: Path, options: BuildOptions, prefix: str) -> Module:
    """Reads a model file into a module of stage "imported".

    Raises:
        UsageError: the file cannot be read or is of no known kind.
        BuildError: the file is damaged or uses what the importer does not know.
    """
    try:
        data = path.read_bytes()
    except OSError as err:
        raise UsageError(
            f"cannot read {path}", why=err.strerror or str(err), hint="give the path of a .tflite, .onnx or .ir file"
        ) from None
    kind = path.suffix.lower()
    if kind not in _FRONTENDS:
        raise UsageError(f"{path.name} is not a model this version reads", hint="give a .tflite, .onnx or .ir file")
    try:
        return _FRONTENDS[kind](path, data, prefix, options)
    except BuildError as err:
        err.where = err.where or str(path)
        raise


def _tflite(_: Path, data: bytes, prefix: str, options: BuildOptions) -> Module:
    return import_tflite(data, prefix, dims=options.dims)


def _onnx(path: Path, data: bytes, prefix: str, options: BuildOptions) -> Module:
    # the onnx package takes long to import, so only a model of its kind loads it
    frontend = import_module("sdk.frontends.onnx")
    module: Module = frontend.import_onnx(data, prefix, dims=options.dims, folder=path.parent)
    return module


def _program(path: Path, data: bytes, prefix: str, options: BuildOptions) -> Module:
    return read_program(path, data, options.dims)


_FRONTENDS = {".tflite": _tflite, ".onnx": _onnx, ".ir": _program}


def capabilities(board: Board, options: BuildOptions) -> frozenset[str]:
    """What generated code may use: the board's capabilities, or those of them that ``isa`` names.

    Raises:
        UsageError: the board lacks one of ``isa``.
    """
    if options.isa is None:
        return board.capabilities
    wanted = frozenset(filter(None, options.isa.split("+")))
    if wanted == {"scalar"}:
        return frozenset()
    missing = wanted - board.capabilities
    if missing:
        raise UsageError(
            f"{board.name} has no {', '.join(sorted(missing))}",
            hint=f"it has {', '.join(sorted(board.capabilities)) or 'nothing special'}, or use --isa scalar",
        )
    return wanted


def default_passes(board: Board, options: BuildOptions) -> Sequence[Pass]:
    """The passes in order."""
    have = capabilities(board, options)
    core = core_for(have)
    streams = options.memory == "min" or options.arena_limit is not None
    return (
        Inline(),
        Dispatch(),
        Integer(),
        Fold(),
        SimplifyGraph(),
        Layout(),
        FoldPad(),
        FoldScale(),
        Recognize(),
        Canonicalize(),
        Cleanup(),
        Eliminate(multiple=max(core.lanes, core.floats.lanes)),
        FoldOffset(x_offset=128 if core.unsigned else 0),
        Cleanup(),
        *([Accumulate()] if streams else []),
        Lower(),
        Fuse(),
        SimplifyLoops(),
        ScheduleLoops(isa=".".join(sorted(have)), threads=1 if streams else options.threads),
        SimplifyLoops(),
        Cleanup(),
        Order(io="caller" if board.hosted else "arena", align=CACHE_LINE if board.hosted else WORDS),
        PlanMemory(
            io="caller" if board.hosted else "arena",
            align=CACHE_LINE if board.hosted else WORDS,
            memory="min" if options.memory == "min" else "time",
            limit=options.arena_limit,
            rooms=rooms_of(board, options),
            threads=options.threads,
            offsets="scaled" if board.hosted else "fixed",
        ),
    )


def lower_module(module: Module, passes: Sequence[Pass], observe: Observer | None = None) -> Module:
    """Runs the passes, then both verifiers; ``observe(pass, module)`` sees the module after each.

    Raises:
        BuildError: a pass fails, or a verifier finds something.
    """
    module = run_pipeline(replace(module, stage="typed"), passes, observe)
    check(module, ops)
    for region in (r for plan in module.plans.values() for r in plan.regions):
        size = max_value(region.bytes)
        if size is None or size > INDEX_LIMIT:
            raise BuildError(
                f"the {region.name} needs {size or 'unbounded'} bytes, generated code indexes at most {INDEX_LIMIT}",
                hint="give smaller bounds with --dim",
            )
    for plan in module.plans.values():
        check_plan(module, plan)
    return module
