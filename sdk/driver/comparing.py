"""Two builds side by side: what each takes of memory and time, and whether their results are the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk import steps
from sdk.boards import Board
from sdk.compiler.sym import max_value
from sdk.devices.client import Session
from sdk.devices.messages import TensorInfo
from sdk.differences import DiffReport, OutputDiff, Side
from sdk.driver.agents import link_agent
from sdk.driver.built import Built
from sdk.driver.execute import SEED, difference, entry_name, random_bytes, resolve, signature, step
from sdk.driver.measuring import bench
from sdk.driver.options import BuildOptions
from sdk.driver.session import open_session
from sdk.errors import MissingToolError, NoDeviceError, UsageError
from sdk.frontends.base import ModelFile, UnknownDimsError

__all__ = ["diff"]

Array = NDArray[Any]
CASES: Final = 5
Target = Path | ModelFile


def diff(
    before: Target, after: Target, board: Board | None, options: BuildOptions, at: Mapping[str, int] | None = None,
    entry: str | None = None, cases: int = CASES,
) -> DiffReport:  # fmt: skip
    """Compares two model files, or folders that ``sdk build`` made: sizes, what a run costs, and what comes out of both
    for ``cases`` random inputs.

    A model file is built for ``board``; where that is None, for the board of the folder it is compared with. Inputs and
    outputs of the two belong together by name, else by their order. Where their types or scales differ, as those of a
    float model and its quantised one, the same real numbers go in, and real numbers are compared.

    Raises:
        UsageError: no board is given or known, or there is no such entry.
        BuildError: one cannot be compiled.
    """
    place = board or _board_of(before, after)
    sides = first, second = _resolved((before, after), board, place, options)
    notes: list[str] = []
    costs = []
    for target, side in zip((before, after), sides, strict=True):
        built, where = side.built, side.board
        name = entry_name(built, entry)
        try:
            cost = bench(target, where, None, side.options, dict(at or {}), 5, options.threads, name).to_json()
        except (NoDeviceError, MissingToolError) as error:
            notes.append(f"{built.report.model} was not run: {error.message}")
            cost = {}
        costs.append(cost)
    outputs: tuple[OutputDiff, ...] = ()
    if not notes:
        try:
            outputs = tuple(_outputs(first, second, dict(at or {}), entry, cases))
        except _UnlikeError as error:
            notes.append(f"results are not compared: {error}")
    one, other = (_side(side.built, entry, cost) for side, cost in zip(sides, costs, strict=True))
    return DiffReport(one, other, cases if outputs else 0, outputs, tuple(notes))


@dataclass(frozen=True)
class _Side:
    """A build, the board that it is for, and the options that are about its model."""

    built: Built
    board: Board
    options: BuildOptions

    def session(self) -> Session:
        """A session with its agent."""
        return open_session(None, self.board, link_agent(self.built.sources, self.board, self.options))


class _UnlikeError(Exception):
    """Models that take no same inputs, and how."""


def _folder(target: Target) -> bool:
    return isinstance(target, Path) and target.is_dir()


def _board_of(*targets: Target) -> Board:
    """The board of the first of them that is a build."""
    for target in targets:
        if _folder(target):
            return resolve(target, None, BuildOptions())[1]
    raise UsageError(
        "no board to build the models for", hint="add --board host for this machine; sdk boards lists others"
    )


def _resolved(
    targets: tuple[Target, Target], board: Board | None, place: Board, options: BuildOptions
) -> tuple[_Side, _Side]:
    """Both builds; a dim of the options may be one of either model alone."""
    found, unknown = [], []
    for target in targets:
        where, dims = board if _folder(target) else place, dict(options.dims)
        while True:
            try:
                given = replace(options, dims=dims)
                found.append(_Side(*resolve(target, where, given), given))
                break
            except UnknownDimsError as error:
                if not set(error.names) & dims.keys():
                    raise
                unknown.append(error)
                dims = {name: bounds for name, bounds in dims.items() if name not in error.names}
    names = [name for error in unknown for name in error.names]
    for unknown_dims in unknown:
        if any(names.count(name) == len(targets) for name in unknown_dims.names):
            raise unknown_dims  # no model has it
    return found[0], found[1]


def _side(built: Built, entry: str | None, cost: Mapping[str, Any]) -> Side:
    own = built.entries[entry_name(built, entry)]
    macs = [max_value(op.macs) for op in own.ops]
    return Side(
        build=built.report,
        operators=len(own.ops),
        macs=sum(m for m in macs if m is not None),
        model_macs=None if own.macs is None else max_value(own.macs),
        instructions=cost.get("instructions"),
        est_cycles=cost.get("est_cycles"),
        median_ms=cost.get("median_ms"),
    )


def _outputs(
    first: _Side, second: _Side, at: dict[str, int], entry: str | None, cases: int
) -> Iterator[OutputDiff]:
    """How far apart the outputs are, the most of all cases."""
    a, b = first.built, second.built
    worst: dict[str, OutputDiff] = {}
    with first.session() as one, second.session() as other:
        info_a, info_b = signature(one, a, entry), signature(other, b, entry)
        ins = _pairs("inputs", info_a.inputs, info_b.inputs)
        outs = _pairs("outputs", _own(info_a.outputs, a, entry), _own(info_b.outputs, b, entry))
        rng = np.random.default_rng(SEED)
        with steps.step("comparing"):
            for case in range(cases):
                steps.update(f"comparing: case {case + 1} of {cases}")
                drawn = {pair: _drawn(*pair, rng) for pair in ins}
                got_a = step(one, a, {p.name: x for (p, _), (x, _) in drawn.items()}, at, entry)[0]
                got_b = step(other, b, {q.name: y for (_, q), (_, y) in drawn.items()}, at, entry)[0]
                for p, q in outs:
                    found = _apart(p, q, got_a[p.name], got_b[q.name])
                    if p.name not in worst or not found.max_abs <= worst[p.name].max_abs:
                        worst[p.name] = found
    yield from worst.values()


def _own(tensors: tuple[TensorInfo, ...], built: Built, entry: str | None) -> tuple[TensorInfo, ...]:
    """The outputs without the sizes that a run computes."""
    shapes = built.entries[entry_name(built, entry)].shapes
    return tuple(t for t in tensors if t.name in shapes)


def _pairs(
    what: str, ours: tuple[TensorInfo, ...], theirs: tuple[TensorInfo, ...]
) -> list[tuple[TensorInfo, TensorInfo]]:
    """Tensors that belong together: by name where the names are the same, else in their order."""
    named = {t.name: t for t in theirs}
    if {t.name for t in ours} == set(named):
        pairs = [(t, named[t.name]) for t in ours]
    elif len(ours) == len(theirs):
        pairs = list(zip(ours, theirs, strict=True))
    else:
        raise _UnlikeError(f"{len(ours)} and {len(theirs)} {what}")
    for p, q in pairs:
        if what == "inputs" and tuple(p.shape) != tuple(q.shape):
            raise _UnlikeError(f"input {p.name} has shape {list(p.shape)} here and {list(q.shape)} there")
        if not _alike(p, q) and not (_has_reals(p) and _has_reals(q)):
            raise _UnlikeError(f"{p.name} has type {p.dtype} here and {q.dtype} there, and no scale that tells more")
    return pairs


def _alike(p: TensorInfo, q: TensorInfo) -> bool:
    return (p.dtype, p.scale, p.zero_point) == (q.dtype, q.scale, q.zero_point)


def _has_reals(tensor: TensorInfo) -> bool:
    """Whether its elements stand for real numbers that are known."""
    return np.dtype(tensor.dtype).kind == "f" or bool(tensor.scale)


def _drawn(p: TensorInfo, q: TensorInfo, rng: np.random.Generator) -> tuple[Array, Array]:
    """The same random contents for both: of the narrower type, whose numbers the other has too."""
    if _alike(p, q):
        value = _random(p, rng)
        return value, value
    source, other = (p, q) if np.dtype(p.dtype).itemsize <= np.dtype(q.dtype).itemsize else (q, p)
    value = _random(source, rng)
    same = _from_reals(other, _reals(source, value))
    return (value, same) if source is p else (same, value)


def _random(tensor: TensorInfo, rng: np.random.Generator) -> Array:
    return np.frombuffer(random_bytes(tensor, rng), dtype=np.dtype(tensor.dtype)).reshape(tensor.shape)


def _reals(tensor: TensorInfo, value: Array) -> Array:
    if np.dtype(tensor.dtype).kind == "f":
        return value.astype(np.float64)
    return (value.astype(np.float64) - tensor.zero_point) * tensor.scale


def _from_reals(tensor: TensorInfo, value: Array) -> Array:
    kind = np.dtype(tensor.dtype)
    if kind.kind == "f":
        return value.astype(kind)
    limits = np.iinfo(kind)
    return np.clip(np.round(value / tensor.scale) + tensor.zero_point, limits.min, limits.max).astype(kind)


def _apart(p: TensorInfo, q: TensorInfo, a: Array, b: Array) -> OutputDiff:
    if a.shape != b.shape:
        return OutputDiff(p.name, False, float("inf"), float("inf"), f"{list(a.shape)} and {list(b.shape)}")
    if not _alike(p, q):
        a, b = _reals(p, a), _reals(q, b)
    absolute, relative, _ = difference(a, b)
    return OutputDiff(p.name, absolute == 0, absolute, relative)
