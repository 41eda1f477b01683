"""Running what was built: once, many times for a measurement, or against a reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.boards import Board, load_board
from sdk.compiler.sym import Var, evaluate
from sdk.compiler.sym.text import parse_dim
from sdk.devices.client import Session
from sdk.devices.messages import ModelInfo, TensorInfo
from sdk.driver.agents import link_agent
from sdk.driver.artifact import Built, build_sources, load_built, prefix_of
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import import_model
from sdk.driver.reference import entry_graph, open_reference, random_inputs
from sdk.driver.session import open_session
from sdk.errors import UsageError
from sdk.report import BenchReport, RunResult, VerifyReport

__all__ = ["bench", "connect", "run", "step", "verify"]

Array = NDArray[Any]
WARMUP = 2
SEED = 0


def _built(target: Path, board: Board | None, options: BuildOptions) -> tuple[Built, Board]:
    """The build of a model file for ``board``, or the one in a folder, for the board it was made for."""
    if target.is_dir():
        built = load_built(target)
        if board is not None and board.name != built.report.board:
            raise UsageError(
                f"{target} was built for {built.report.board}, not for {board.name}",
                hint=f"sdk build MODEL --board {board.name} makes one for it",
            )
        return built, board or load_board(built.report.board)
    if board is None:
        raise UsageError("which board is the device?", hint="give --board NAME beside --device")
    return build_sources(target, board, options), board


def connect(
    target: Path, board: Board | None, device: str | None, options: BuildOptions
) -> tuple[Session, Built, Board]:
    """A session with the agent of a model file or a built folder."""
    built, place = _built(target, board, options)
    return open_session(device, place, link_agent(built.sources, place, options.toolchain)), built, place


def step(
    session: Session, built: Built, inputs: Mapping[str, Array], at: Mapping[str, int]
) -> tuple[dict[str, Array], float, str]:
    """Writes inputs, runs once, reads outputs: (outputs by name, the sample, its unit).

    Dims that ``at`` leaves out are at their upper bound; shapes follow the dims.
    """
    info = session.models()[0]
    dims = _dims(info, at)
    scope = {d.name: Var(d.name, d.lo, d.hi) for d in info.dims}
    env = {scope[d.name]: value for d, value in zip(info.dims, dims, strict=True)}

    def shape(tensor: TensorInfo) -> tuple[int, ...]:
        return tuple(evaluate(parse_dim(text, scope), env) for text in built.shapes[tensor.name])

    for k, tensor in enumerate(info.inputs):
        session.write(0, k, _bytes_of(tensor, shape(tensor), inputs))
    stats = session.run(0, dims=dims)
    outputs = {}
    for k, tensor in enumerate(info.outputs):
        kind, extent = np.dtype(tensor.dtype), shape(tensor)
        raw = session.read(0, len(info.inputs) + k, math.prod(extent) * kind.itemsize)
        outputs[tensor.name] = np.frombuffer(raw, dtype=kind).reshape(extent)
    return outputs, stats.samples[0], str(stats.counter)


def _dims(info: ModelInfo, at: Mapping[str, int]) -> list[int]:
    known = {d.name: d for d in info.dims}
    for name, value in at.items():
        if name not in known:
            raise UsageError(
                f"the model has no dimension {name!r}", hint=f"it has {', '.join(known) or 'none'}"
            )
        if not known[name].lo <= value <= known[name].hi:
            raise UsageError(
                f"dimension {name}={value} is outside {known[name].lo}..{known[name].hi}",
                hint=f"--at {name}={known[name].lo} to {known[name].hi}, or build with a wider --dim",
            )
    return [at.get(d.name, d.hi) for d in info.dims]


def _bytes_of(tensor: TensorInfo, shape: tuple[int, ...], inputs: Mapping[str, Array]) -> bytes:
    if tensor.name not in inputs:
        raise UsageError(f"input {tensor.name!r} is missing", hint=f"--input {tensor.name}=FILE.npy")
    value = np.asarray(inputs[tensor.name])
    want = np.dtype(tensor.dtype)
    if value.dtype != want:
        raise UsageError(
            f"input {tensor.name!r} has type {value.dtype}, the model wants {want}",
            hint=f"x.astype({str(want)!r})",
        )
    if value.shape != shape:
        raise UsageError(
            f"input {tensor.name!r} has shape {list(value.shape)}, the model wants {list(shape)}",
            hint=f"x.reshape({shape})" if value.size == math.prod(shape) else f"give an array of shape {list(shape)}",
        )
    return np.ascontiguousarray(value).tobytes()


def _check_names(info: ModelInfo, inputs: Mapping[str, Array]) -> None:
    extra = sorted(set(inputs) - {t.name for t in info.inputs})
    if extra:
        raise UsageError(
            f"the model has no input {extra[0]!r}", hint=f"it has {', '.join(t.name for t in info.inputs)}"
        )


def run(
    target: Path,
    board: Board | None,
    device: str | None,
    options: BuildOptions,
    at: Mapping[str, int],
    inputs: Mapping[str, Array],
) -> RunResult:
    """``sdk run``: one run on given inputs."""
    session, built, place = connect(target, board, device, options)
    with session:
        info = session.models()[0]
        _check_names(info, inputs)
        outputs, sample, counter = step(session, built, inputs, at)
        return RunResult(
            built.report.model,
            place.name,
            session.info.name,
            session.info.emulated,
            at,
            outputs,
            sample,
            counter,
        )


def bench(
    target: Path,
    board: Board | None,
    device: str | None,
    options: BuildOptions,
    at: Mapping[str, int],
    repeat: int,
    threads: int,
) -> BenchReport:
    """``sdk bench``: samples of ``repeat`` runs after two that do not count."""
    session, built, place = connect(target, board, device, options)
    with session:
        info = session.models()[0]
        rng = np.random.default_rng(SEED)
        for k, tensor in enumerate(info.inputs):
            session.write(0, k, rng.bytes(tensor.nbytes))
        stats = session.run(0, dims=_dims(info, at), repeat=repeat, warmup=WARMUP)
        return BenchReport(
            built.report.model,
            place.name,
            session.info.name,
            session.info.emulated,
            at,
            threads,
            tuple(stats.samples),
            str(stats.counter),
        )


def verify(
    model: Path, board: Board | None, device: str | None, options: BuildOptions, against: str, cases: int
) -> VerifyReport:
    """``sdk verify``: ``cases`` random inputs (for a model with state: as many steps) through the board and the
    reference. Integers must be equal; floats agree when |a - b| <= 1e-4 * max(1, max|reference|)."""
    if model.is_dir():
        raise UsageError(
            "verify wants the model file, not a folder of its build", hint="sdk verify MODEL --board B"
        )
    module = import_model(model, options, prefix_of(model, options))
    graph, reference = entry_graph(module), open_reference(against, model, module)
    rng = np.random.default_rng(SEED)
    exact, worst_abs, worst_rel, worst, passed = 0, 0.0, 0.0, "", True
    session, built, place = connect(model, board, device, options)
    with session:
        session.reset(0)
        for case in range(cases):
            inputs = random_inputs(graph, rng, {})
            want = reference.step(inputs)
            got, _, _ = step(session, built, inputs, {})
            diffs = {name: _difference(got[name], want[name]) for name in want}
            exact += all(d[0] == 0 for d in diffs.values())
            for name, (absolute, relative, ok) in diffs.items():
                passed = passed and ok
                if absolute > worst_abs:
                    worst_abs, worst = absolute, f"case {case}, output {name}"
                worst_rel = max(worst_rel, relative)
        return VerifyReport(
            built.report.model,
            place.name,
            session.info.name,
            session.info.emulated,
            reference.name,
            cases,
            exact,
            worst_abs,
            worst_rel,
            passed,
            worst,
        )


def _difference(got: Array, want: Array) -> tuple[float, float, bool]:
    """(largest |a - b|, largest |a - b| / max(1, max|b|), agrees)."""
    if got.dtype != want.dtype or got.size != want.size:
        return float("inf"), float("inf"), False
    a, b = got.reshape(-1).astype(np.float64), want.reshape(-1).astype(np.float64)
    if not a.size:
        return 0.0, 0.0, True
    delta = np.abs(a - b)
    absolute = float(np.nan_to_num(delta, nan=np.inf).max())
    relative = absolute / max(1.0, float(np.abs(b).max()))
    return absolute, relative, absolute == 0 if want.dtype.kind != "f" else relative <= 1e-4
