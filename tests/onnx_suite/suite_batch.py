"""Many models compiled together into one agent: one compiler call and one process for a whole batch."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from suite_cases import Case

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.codegen_c.program.glue import models_file
from sdk.compiler.ir.types import SCALARS, TensorType
from sdk.compiler.sym import Dim, Var, free_vars, substitute
from sdk.devices.client import Session, open_device
from sdk.devices.messages import ModelInfo
from sdk.driver.agents import runtime_parts
from sdk.driver.backends import runtime_of
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.driver.targets import capabilities
from sdk.errors import BuildError, DeviceFault, LinkError, SdkError
from sdk.frontends.onnx.importer import import_onnx
from sdk.onnx_backend import fixed_inputs, flat_inputs, modern
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from differential.image import renamed

BOARD = load_board("host")
OPTIONS = BuildOptions()
NUMPY_TYPES = {str(t.numpy) for t in SCALARS.values()}


@dataclass
class Built:
    """C of one case, the inputs it takes, and the element types and shapes of its outputs."""

    case: Case
    prefix: str
    source: str
    headers: dict[str, str]
    blobs: dict[str, bytes]
    records: list[str]
    wanted: list[int]
    outputs: list[TensorType]


def generate(case: Case, prefix: str) -> Built:
    """Imports and compiles a case to C.

    Raises:
        SdkError: what the case needs is not supported.
    """
    model = modern(case.model)
    inputs = case.runs[0][0] if case.runs else []
    if not all(isinstance(v, np.ndarray) for v in flattened(inputs)):
        raise BuildError("an input is no tensor")
    values, lengths = flat_inputs(model, inputs)
    dims = {**_dims(model, inputs), **lengths}
    fixed = fixed_inputs(model, values, dims)
    module = import_onnx(model, prefix, fixed=fixed, dims=dims)
    planned = lower_module(module, default_passes(BOARD, OPTIONS))
    choice = EmitOptions(source="case.onnx", model_hash=hashlib.sha256(prefix.encode()).hexdigest(), board="host")
    emitted = get_backend("c99").emit(planned, prefix, isa=capabilities(BOARD, OPTIONS), options=choice)
    glue = f"{prefix}_glue.c"
    files = {**emitted.files, glue: renamed(emitted.agent[glue], prefix)}
    text = "\n".join(t for n, t in sorted(files.items()) if n.endswith((".c", ".S")) and isinstance(t, str))
    headers = {n: t for n, t in files.items() if n.endswith(".h") and isinstance(t, str)}
    blobs = {n: t for n, t in files.items() if isinstance(t, bytes)}
    wanted = [k for k, n in enumerate(values) if n not in fixed]
    (plan,) = planned.plans.values()
    outputs = [plan.buffer(name).type for name in plan.outputs]
    return Built(case, prefix, text, headers, blobs, list(emitted.entries.values()), wanted, outputs)


def flattened(values: Sequence[Any]) -> list[Any]:
    """Tensors, and the elements of lists."""
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def _dims(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> dict[str, int]:
    """The numbers that the inputs of the case give to the model's named sizes."""
    found: dict[str, int] = {}
    constants = {t.name for t in model.graph.initializer}
    params = [p for p in model.graph.input if p.name not in constants]
    for param, array in zip(params, inputs, strict=False):
        if isinstance(array, list):  # whose elements may differ in size
            element = param.type.sequence_type.elem_type.tensor_type
            for k, one in enumerate(array):
                sizes = zip(element.shape.dim, one.shape, strict=False)
                found |= {f"{param.name}_{k}_{dim.dim_param}": size for dim, size in sizes if dim.dim_param}
        for dim, size in zip(param.type.tensor_type.shape.dim, getattr(array, "shape", ()), strict=False):
            if dim.dim_param:
                found[dim.dim_param] = size
    return found


def link(batch: Sequence[Built], folder: Path, opt: str) -> Path:
    """An agent that holds all models of the batch, optimised as ``opt`` says.

    Raises:
        BuildError: the C does not compile.
    """
    toolchain, target = get_toolchain("zig"), target_for(BOARD)
    runtime, defines, _ = runtime_parts(runtime_of("c99"), BOARD)
    choice = EmitOptions(source="cases", model_hash="0" * 64, board="host")
    models = models_file([name for b in batch for name in b.records], "0" * 32, choice)
    headers = tuple(SourceText(n, t) for b in batch for n, t in b.headers.items())
    include = (data_dir("c_runtime") / "include",)
    jobs = [
        CompileJob(SourceText("cases.c", "\n".join(b.source for b in batch)), target, headers=headers,
                   include_dirs=include, pic=True, opt=opt),
        CompileJob(SourceText("models.c", models), target, include_dirs=include, pic=True),
        *(CompileJob(SourceText(n, t), target, include_dirs=include, defines=defines) for n, t in runtime.items()),
    ]  # fmt: skip
    agent = folder / f"agent_{batch[0].prefix}"
    toolchain.link(LinkJob("executable", tuple(toolchain.compile_all(jobs)), target), agent)
    return agent


class Runner:
    """A session with an agent; opened anew when a model brings it down."""

    def __init__(self, agent: Path) -> None:
        self.agent = agent
        self.session: Session | None = None

    def run(self, index: int, built: Built) -> str:
        """"" when the model gives what its case expects, else what differs."""
        try:
            if self.session is None:
                self.session = open_device("local:", artifact=self.agent, emulator=None, timeout_s=20.0)
            return _outcome(self.session, index, built)
        except (DeviceFault, LinkError) as error:
            self.close()
            return f"crash: {error.message}"
        except SdkError as error:
            return error.message

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None


def _outcome(session: Session, index: int, built: Built) -> str:
    info = session.models()[index]
    for inputs, outputs in built.case.runs:
        tensors = flattened(inputs)
        given = [np.ascontiguousarray(tensors[k]) for k in built.wanted]
        if any(a.nbytes != t.nbytes for a, t in zip(given, info.inputs, strict=True)):
            return "another run of the case has other shapes"
        for k, array in enumerate(given):
            if array.nbytes:
                session.write(index, k, array.tobytes())
        session.run(index, dims=[])
        env = _computed_dims(session, index, built, info)
        for k, (type, want) in enumerate(zip(built.outputs, flattened(outputs), strict=True)):
            shape = tuple(substitute(d, env) for d in type.shape)
            problem = _differs(session, index, len(info.inputs) + k, type, shape, np.asarray(want), built.case)
            if problem:
                return f"output {k}: {problem}"
    return ""


def _computed_dims(session: Session, model: int, built: Built, info: ModelInfo) -> dict[Var, Dim]:
    """The dims that the run found out: they stand after the outputs."""
    env: dict[Var, Dim] = {}
    names = {v.name: v for t in built.outputs for d in t.shape for v in free_vars(d)}
    for k, tensor in enumerate(info.outputs):
        if tensor.name.startswith("dim ") and tensor.name[4:] in names:
            raw = session.read(model, len(info.inputs) + k, 4)
            env[names[tensor.name[4:]]] = int.from_bytes(raw, "little", signed=True)
    return env


def _differs(
    session: Session, model: int, number: int, type: TensorType, shape: tuple[Dim, ...], want: np.ndarray, case: Case
) -> str:
    kind, resolved = type.dtype.numpy, _resolution(want.dtype)
    if want.dtype.kind == "V" or want.dtype.name not in NUMPY_TYPES:
        want = want.astype(kind)  # a narrow type, which a wider one stands for
    if kind != want.dtype or shape != want.shape:
        return f"{kind}{list(shape)} instead of {want.dtype}{list(want.shape)}"
    raw = session.read(model, number, want.nbytes) if want.size else b""
    got = np.frombuffer(raw, dtype=kind).reshape(want.shape)
    if kind.kind != "f":
        return "" if np.array_equal(got, want) else "other integers"
    got, want = got.astype(np.float64), want.astype(np.float64)
    rtol = max(case.rtol, 2 * resolved)
    close = np.allclose(got, want, rtol, case.atol, equal_nan=True)
    return "" if close else f"off by {np.nanmax(np.abs(got - want)):g}"


def _resolution(kind: np.dtype) -> float:
    """What a float type resolves, relative; 0 for others."""
    return {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(kind.name, 0.0)


def outcomes(names: Sequence[str], read: Any, folder: Path, opt: str = "3") -> Mapping[str, str]:
    """Of each case "" when its compiled model gives what is expected, else why not. ``opt``: what the compiler
    optimises, which is most of the time."""
    found: dict[str, str] = {}
    built: list[Built] = []
    for k, name in enumerate(names):
        try:
            case = read(name)
            built.append(generate(case, f"case{k}"))
        except SdkError as error:
            found[name] = _reason(error)
    for batch, agent in _agents(built, folder, opt, found):
        runner = Runner(agent)
        for index, one in enumerate(batch):
            found[one.case.name] = runner.run(index, one)
        runner.close()
    return found


def _agents(built: list[Built], folder: Path, opt: str, found: dict[str, str]) -> list[tuple[list[Built], Path]]:
    """Agents for batches; a batch that does not compile is split until the culprit stands alone."""
    if not built:
        return []
    try:
        return [(built, link(built, folder, opt))]
    except BuildError as error:
        if len(built) == 1:
            found[built[0].case.name] = f"the C does not compile: {error.why or error.message}"
            return []
    half = len(built) // 2
    return _agents(built[:half], folder, opt, found) + _agents(built[half:], folder, opt, found)


def _reason(error: SdkError) -> str:
    """The first of the reasons an importer gave, without the node it is about."""
    return (error.where or error.message).splitlines()[0].split(": ", 1)[-1] if error.where else error.message
