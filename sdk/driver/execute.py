"""Running what was built: once, many times for a measurement, or against a reference."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk import steps
from sdk.boards import Board, load_board
from sdk.compiler.interp.graph import init_values
from sdk.compiler.sym import Dim, evaluate, free_vars
from sdk.devices.client import Session
from sdk.devices.messages import ModelInfo, TensorInfo
from sdk.driver.agents import link_agent
from sdk.driver.artifact import build_sources
from sdk.driver.backends import backend_for, runtime_of
from sdk.driver.built import Built, BuiltEntry, load_built
from sdk.driver.device_model import FRESH_DIM, as_built
from sdk.driver.dims import dims_of_run
from sdk.driver.files import read_model_file
from sdk.driver.gpus import kept_kernels
from sdk.driver.importing import import_model
from sdk.driver.options import BuildOptions
from sdk.driver.prefix import prefix_of
from sdk.driver.reference import case_inputs, entry_graph, open_reference, random_dims
from sdk.driver.session import open_session
from sdk.errors import DeviceFault, UsageError
from sdk.frontends.base import ModelFile, SecondOpinion, Unsteady
from sdk.report import RunResult, VerifyReport
from sdk.text import wire_name

__all__ = [
    "GPU_NOTE", "SEED", "WARMUP", "connect", "difference", "entry_name", "linked", "prepare", "random_bytes",
    "resolve",
    "run", "signature", "step", "verify",
]  # fmt: skip

Array = NDArray[Any]
WARMUP = 2
SEED = 0
GPU_NOTE = "GPU: "  # begins what agents say of steps that a GPU does not run
ROOM = 2  # of what a reference's results move by with the last bits of its inputs: ours may be on the other side


def resolve(target: Path | ModelFile, board: Board | None, options: BuildOptions) -> tuple[Built, Board]:
    """The build of a model file for ``board``, or the one in a folder, for the board it was made for; one that runs.

    Raises:
        UsageError: the folder's build is for another board, or the backend's code cannot be run.
    """
    if isinstance(target, Path) and target.is_dir():
        built = load_built(target)
        if board is not None and board.name != built.report.board:
            raise UsageError(
                f"{target} was built for {built.report.board}, not for {board.name}",
                hint=f"sdk build MODEL --board {board.name} makes one for it",
            )
        runtime_of(built.sources.backend)
        return built, board or load_board(built.report.board)
    if board is None:
        raise UsageError("which board is the device?", hint="give --board NAME beside --device")
    runtime_of(backend_for(board, options).name)
    return build_sources(target, board, options), board


def connect(
    target: Path | ModelFile, board: Board | None, device: str | None, options: BuildOptions
) -> tuple[Session, Built, Board]:
    """A session with the agent of a model file or a built folder."""
    agent, built, place = linked(target, board, device, options)
    return open_session(device, place, agent, variables=kept_kernels(built)), built, place


def linked(
    target: Path | ModelFile, board: Board | None, device: str | None, options: BuildOptions
) -> tuple[Path, Built, Board]:
    """The agent of a model file or a built folder, its build, and the board that it is for."""
    built, place = resolve(target, board, options)
    return link_agent(built.sources, place, options, device=device), built, place


def entry_name(built: Built, entry: str | None) -> str:
    """The name of an entry; None is the only one.

    Raises:
        UsageError: there is no such entry, or several.
    """
    names = list(built.entries)
    if entry is None and len(names) > 1:
        raise UsageError(f"the model has {len(names)} entries", hint=f"name one with --entry: {', '.join(names)}")
    if entry is not None and entry not in names:
        raise UsageError(f"the model has no entry {entry!r}", hint=f"it has {', '.join(names)}")
    return names[0] if entry is None else entry


def _entry(session: Session, built: Built, entry: str | None) -> tuple[int, str]:
    """The number of an entry on the device, and its name; None is the only one."""
    name = entry_name(built, entry)
    if len(built.entries) == 1 and session.models():
        return 0, name
    wanted = wire_name(built.entries[name].name)
    for number, info in enumerate(session.models()):
        if info.name == wanted:
            return number, name
    raise UsageError(f"the device has no model {wanted}", hint="build and flash this model's firmware")


def signature(session: Session, built: Built, entry: str | None = None) -> ModelInfo:
    """Inputs and outputs of an entry, at their upper bounds, by the names of the build."""
    number, name = _entry(session, built, entry)
    return as_built(session.models()[number], built, name)


def step(
    session: Session, built: Built, inputs: Mapping[str, Array], at: Mapping[str, int], entry: str | None = None
) -> tuple[dict[str, Array], float, str]:
    """Writes inputs, runs an entry once, reads outputs: (outputs by name, the sample, its unit).

    Dims follow from the shapes of the inputs; ``at`` gives those that no shape tells, which else are at their upper
    bound. ``entry`` may be left out where the model has one.
    """
    number, name = _entry(session, built, entry)
    info, own = signature(session, built, entry), built.entries[name]
    _check_names(info, inputs)
    values = dims_of_run(info, own, inputs, at)
    dims = [values[d.name] for d in info.dims]
    env = {var: values[var.name] for var in own.dims}

    def shape(tensor: TensorInfo) -> tuple[int, ...]:
        return tuple(evaluate(dim, env) for dim in own.shapes[tensor.name])

    for k, tensor in enumerate(info.inputs):
        session.write(number, k, _bytes_of(tensor, shape(tensor), inputs, own.shapes[tensor.name]))
    try:
        stats = session.run(number, dims=dims)
    except DeviceFault as error:
        _explain(error, own, values)
        raise
    outputs = {}
    fresh = {wire_name(f"{FRESH_DIM}{var.name}"): var for var in own.fresh}
    for k, tensor in enumerate(info.outputs):  # a dim that the run computed stands among them as an i32
        if tensor.name in fresh:
            env[fresh[tensor.name]] = _computed(session, number, len(info.inputs) + k)
    for k, tensor in enumerate(info.outputs):
        if tensor.name not in own.shapes:
            continue
        kind, extent = np.dtype(tensor.dtype), shape(tensor)
        raw = session.read(number, len(info.inputs) + k, math.prod(extent) * kind.itemsize)
        outputs[tensor.name] = np.frombuffer(raw, dtype=kind).reshape(extent)
    return outputs, stats.samples[0], str(stats.counter)


def _explain(error: DeviceFault, entry: BuiltEntry, values: Mapping[str, int]) -> None:
    """Adds the sizes of a run to its error where it refused one of them: agents tell no more than that."""
    if "E_DIM" not in error.message or error.hint:
        return
    given = [f"{name} = {value}" for name, value in values.items()]
    found = [f"{var.name} in {var.lo}..{var.hi}" for var in entry.fresh]
    told = [f"it ran with {', '.join(given)}"] if given else []
    told += [f"it finds out {', '.join(found)}"] if found else []
    error.why = "; ".join(told) or None
    error.hint = "sizes that broadcast must be equal, or 1 on one side"
    if found:
        error.hint += f"; of a loop that data end more passes are built with --dim {entry.fresh[-1].name}=LO:HI"


def _computed(session: Session, number: int, tensor: int) -> int:
    """The value of a dim that a run computed."""
    return int.from_bytes(session.read(number, tensor, 4), "little", signed=True)


def _bytes_of(
    tensor: TensorInfo, shape: tuple[int, ...], inputs: Mapping[str, Array], declared: tuple[Dim, ...]
) -> bytes:
    """The bytes of an input, which must have ``shape`` in this run; ``declared`` is that with its open sizes.

    Raises:
        UsageError: it is missing, or has another type or shape.
    """
    want = np.dtype(tensor.dtype)
    if tensor.name not in inputs:
        file = f"{re.sub('[^0-9A-Za-z_]', '_', tensor.name)}.npy"
        save = f'python -c "import numpy as np; np.save({file!r}, np.zeros({shape}, {str(want)!r}))"'
        raise UsageError(
            f"input {tensor.name!r} is missing",
            why=f"the model wants {want}{list(shape)}",
            hint=f"--input {tensor.name}={file}, in Python {tensor.name}=ARRAY; a file to try with: {save}",
        )
    value = inputs[tensor.name]
    if not isinstance(value, (np.ndarray, np.generic)):
        raise UsageError(
            f"input {tensor.name!r} is a {type(value).__name__}, the model wants an array of {want}{list(shape)}",
            hint="np.load(x)" if isinstance(value, str) else f"np.array(x, {str(want)!r})",
        )
    if value.dtype != want:
        raise UsageError(
            f"input {tensor.name!r} has type {value.dtype}, the model wants {want}", hint=_conversion(value, tensor)
        )
    if value.ndim != len(shape) and any(map(free_vars, declared)):
        raise _other_rank(tensor.name, value, declared)
    if value.shape != shape:
        raise UsageError(
            f"input {tensor.name!r} has shape {list(value.shape)}, the model wants {list(shape)}",
            hint=f"x.reshape({shape})" if value.size == math.prod(shape) else f"give an array of shape {list(shape)}",
        )
    return np.ascontiguousarray(value).tobytes()


def _other_rank(name: str, value: Array, declared: tuple[Dim, ...]) -> UsageError:
    """The error for an input with more or fewer axes than a model wants whose sizes are open."""
    symbols = sorted({v for d in declared for v in free_vars(d)}, key=lambda v: v.name)
    fixed, open_axes = math.prod(d for d in declared if isinstance(d, int)), sum(bool(free_vars(d)) for d in declared)
    fits = open_axes == 1 and fixed > 0 and value.size % fixed == 0
    shape = ", ".join(str(d) if isinstance(d, int) or not fits else "-1" for d in declared)
    return UsageError(
        f"input {name!r} has {value.ndim} {'axis' if value.ndim == 1 else 'axes'} {list(value.shape)}, "
        f"the model wants {len(declared)}: "
        f"[{', '.join(map(str, declared))}]",
        why=f"{', '.join(f'{v.name} in {v.lo}..{v.hi}' for v in symbols)}, of any run",
        hint=f"x.reshape({shape})" if fits else f"give an array of shape [{shape}]",
    )


def _conversion(value: Array, tensor: TensorInfo) -> str:
    """What makes an input of another type into the model's; real numbers become the integers that stand for them."""
    want = np.dtype(tensor.dtype)
    if value.dtype.kind == "f" and want.kind in "iu" and tensor.scale:
        minimum, maximum = np.iinfo(want).min, np.iinfo(want).max
        real = f"x / {tensor.scale:.9g} + {tensor.zero_point}"
        return f"np.clip(np.round({real}), {minimum}, {maximum}).astype({str(want)!r}), for x in the model's real units"
    return f"x.astype({str(want)!r})"


def _check_names(info: ModelInfo, inputs: Mapping[str, Array]) -> None:
    extra = sorted(set(inputs) - {t.name for t in info.inputs})
    if extra:
        raise UsageError(
            f"the model has no input {extra[0]!r}", hint=f"it has {', '.join(t.name for t in info.inputs)}"
        )


def run(
    target: Path | ModelFile,
    board: Board | None,
    device: str | None,
    options: BuildOptions,
    at: Mapping[str, int],
    inputs: Mapping[str, Array],
    entry: str | None = None,
) -> RunResult:
    """``sdk run``: one run of an entry on given inputs."""
    session, built, place = connect(target, board, device, options)
    with session:
        outputs, sample, counter = step(session, built, inputs, at, entry)
        return RunResult(
            built.report.model,
            place.name,
            session.info.name,
            session.info.emulated,
            at,
            outputs,
            sample,
            counter,
            session.notes(GPU_NOTE),
        )


def prepare(session: Session, built: Built, entry: str | None, at: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """The number of an entry on the device, its inputs filled with random numbers, and its dims in order."""
    number, name = _entry(session, built, entry)
    info = signature(session, built, entry)
    rng = np.random.default_rng(SEED)
    for k, tensor in enumerate(info.inputs):
        session.write(number, k, random_bytes(tensor, rng))
    return number, dims_of_run(info, built.entries[name], {}, at)


def random_bytes(tensor: TensorInfo, rng: np.random.Generator) -> bytes:
    """Contents for a measurement: usual numbers for floats, whose speed may depend on them; small positions for wide
    integers."""
    kind = np.dtype(tensor.dtype)
    count = tensor.nbytes // kind.itemsize
    if kind.kind == "f":
        return rng.standard_normal(count).astype(kind).tobytes()
    return rng.bytes(tensor.nbytes) if kind.itemsize < 4 else rng.integers(0, 2, count).astype(kind).tobytes()


def verify(
    model: Path | ModelFile,
    board: Board | None,
    device: str | None,
    options: BuildOptions,
    against: str,
    cases: int,
    at: Mapping[str, int] | None = None,
    entry: str | None = None,
) -> VerifyReport:
    """``sdk verify``: ``cases`` inputs (for a model with state: as many steps) of an entry through the board and the
    reference, random ones and the extremes of their types, at the largest dims, the smallest, then random ones; ``at``
    fixes some. Integers must be equal; floats agree when |a - b| <= 1e-4 * max(1, max|reference|), where both are
    finite, and else are the same. A case that differs agrees too where it equals the model in float64, if its reference
    knows that: there the reference's own rounding chose the other side of half a step; or where floats differ by at
    most ``ROOM`` times what the reference's own results move by when only the last bits of its inputs do."""
    if isinstance(model, Path) and model.is_dir():
        raise UsageError(
            "verify wants the model file, not a folder of its build", hint="sdk verify MODEL --board B"
        )
    options = options.read()
    file = read_model_file(model, options.importers, options.tensors)
    module = import_model(file, options, prefix_of(file, options))
    graph, reference = entry_graph(module, entry), open_reference(against, file, module, entry)
    held = {var.name: value for var, value in init_values(module).items()}  # the agent binds them so
    rng = np.random.default_rng(SEED)
    exact, unrounded, unsteady, worst_abs, worst_rel, worst, passed = 0, 0, 0, 0.0, 0.0, "", True
    session, built, place = connect(file, board, device, options)
    with session, steps.step("comparing"):
        session.reset(0)
        for case in range(cases):
            steps.update(f"comparing with {reference.name}: case {case + 1} of {cases}")
            dims = random_dims(graph, rng, case, {**(at or {}), **held})
            inputs, drawn = case_inputs(graph, rng, dims, case)
            want = reference.step(inputs, dims)
            got, _, _ = step(session, built, inputs, {k: v for k, v in dims.items() if k not in held}, entry)
            # a result that is an input, a constant or another result has a name of its own in the build
            named = {value.name: array for value, array in zip(graph.results, got.values(), strict=True)}
            diffs = _differences(named, want)
            if not _agree(diffs) and isinstance(reference, SecondOpinion):
                second = reference.unrounded(inputs)
                if second is not None and _agree(of_second := _differences(named, second)):
                    diffs, unrounded = of_second, unrounded + 1
            if not _agree(diffs) and isinstance(reference, Unsteady):
                near = _within(diffs, reference.moved(inputs, dims) or {})
                unsteady += _agree(near)
                diffs = near if _agree(near) else diffs
            exact += all(d[0] == 0 for d in diffs.values())
            for name, (absolute, relative, ok) in diffs.items():
                passed = passed and ok
                if absolute > worst_abs:
                    worst_abs, worst = absolute, f"case {case} ({drawn}), output {name}"
                worst_rel = max(worst_rel, relative)
        return VerifyReport(
            built.report.model,
            place.name,
            session.info.name,
            session.info.emulated,
            reference.name,
            reference.options,
            cases,
            exact,
            worst_abs,
            worst_rel,
            passed,
            worst,
            unrounded,
            unsteady,
            session.notes(GPU_NOTE),
        )


_Difference = tuple[float, float, bool]


def _differences(got: Mapping[str, Array], want: Mapping[str, Array]) -> dict[str, _Difference]:
    return {name: difference(got[name], want[name]) for name in want}


def _within(found: Mapping[str, _Difference], moved: Mapping[str, float]) -> dict[str, _Difference]:
    """The same, taken for equal too where they are as near as the reference is to itself."""
    return {
        name: (absolute, relative, ok or absolute <= ROOM * moved.get(name, 0.0))
        for name, (absolute, relative, ok) in found.items()
    }


def _agree(found: Mapping[str, _Difference]) -> bool:
    return all(ok for _, _, ok in found.values())


def difference(got: Array, want: Array) -> _Difference:
    """How far two tensors are apart: (largest |a - b|, largest |a - b| / max(1, max|b|), whether ``verify`` takes them
    for the same)."""
    if got.dtype != want.dtype or got.size != want.size:
        return float("inf"), float("inf"), False
    a, b = got.reshape(-1), want.reshape(-1)
    same = a == b
    if want.dtype.kind == "f":
        same = same | (np.isnan(a) & np.isnan(b))
    if np.all(same):
        return 0.0, 0.0, True
    with np.errstate(invalid="ignore"):
        delta = np.where(same, 0.0, np.abs(a.astype(np.float64) - b.astype(np.float64)))  # 0 for some of 64 bits
    absolute = max(float(np.nan_to_num(delta, nan=np.inf).max()), float(np.finfo(np.float64).tiny))
    largest = np.abs(b[np.isfinite(b)].astype(np.float64)).max(initial=1.0)
    relative = absolute / float(largest)
    return absolute, relative, want.dtype.kind == "f" and relative <= 1e-4
