"""References that results are compared with: TensorFlow Lite Micro, onnxruntime, or our own interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.graph import Call, Graph, Value
from sdk.compiler.ir.module import Module
from sdk.compiler.sym import evaluate
from sdk.driver.files import ModelFile, read_model_file
from sdk.errors import BuildError, MissingToolError, UsageError

__all__ = [
    "Option", "Reference", "case_inputs", "entry_graph", "onnxruntime_options", "open_reference", "random_dims",
    "random_inputs",
]  # fmt: skip

Array = NDArray[Any]
Option = str | int | bool
TFLM_ARENA = 16 << 20
EXTREMES = ("lowest", "highest", "zero point")  # of cases 1, 2 and 3
ONNXRUNTIME: Mapping[str, Option] = {
    "graph_optimizations": "off",
    "threads": 1,
    "deterministic": True,
    "provider": "CPUExecutionProvider",
}
FLOAT_EXTREME = 4.0  # about where 100,000 draws of a normal distribution end


class Reference(Protocol):
    """Runs a model step by step; keeps its state between steps."""

    name: str
    options: Mapping[str, Option]  # what its results depend on, and how it is set here

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        """Outputs by name for inputs by name; ``dims`` are those of the run."""
        ...


def entry_graph(module: Module, entry: str | None = None) -> Graph:
    """An entry of an imported module by name; None is the only one.

    Raises:
        UsageError: it has several, or none of that name.
    """
    entries = {g.name: g for g in module.graphs.values() if g.entry}
    if entry is None and len(entries) != 1:
        raise UsageError(f"the model has {len(entries)} entries", hint=f"name one with --entry: {', '.join(entries)}")
    if entry is not None and entry not in entries:
        raise UsageError(f"the model has no entry {entry!r}", hint=f"it has {', '.join(entries)}")
    return next(iter(entries.values())) if entry is None else entries[entry]


class _Interp:
    name = "interp"
    options: Mapping[str, Option] = {"graph": "as imported, before any pass", "engine": "numpy"}

    def __init__(self, module: Module, entry: str) -> None:
        self.module, self.entry = module, entry
        self.states = initial_states(module)

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        return run_graph(self.module, self.entry, inputs, self.states, dims)


class _TfliteMicro:
    name = "tflite-micro"
    options: Mapping[str, Option] = {"kernels": "reference", "arena_bytes": TFLM_ARENA}

    def __init__(self, model: ModelFile, graph: Graph) -> None:
        self.graph = graph
        if graph.dims:
            raise UsageError(
                "tflite-micro runs fixed shapes only",
                where=f"dimensions {', '.join(v.name for v in graph.dims)}",
                hint="use --against interp, or leave --dim away",
            )
        try:
            runtime = import_module("tflite_micro.python.tflite_micro.runtime")
        except ImportError as err:
            raise MissingToolError(
                "the reference tflite-micro is not installed",
                why=str(err),
                hint="pip install 'crosslevel[verify]'",
            ) from None
        try:
            self.engine = runtime.Interpreter.from_bytes(model.data, arena_size=TFLM_ARENA)
        except (RuntimeError, ValueError) as err:
            raise BuildError(
                "tflite-micro does not take this model", why=str(err), hint="use --against interp"
            ) from None

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        for k, value in enumerate(self.graph.params):
            self.engine.set_input(np.ascontiguousarray(inputs[value.name]), k)
        self.engine.invoke()
        return {v.name: np.array(self.engine.get_output(k)) for k, v in enumerate(self.graph.results)}


def onnxruntime_options(runtime: Any) -> Any:
    """The settings of onnxruntime (the package ``runtime``) that ``ONNXRUNTIME`` tells of."""
    made = runtime.SessionOptions()
    made.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    made.intra_op_num_threads = made.inter_op_num_threads = ONNXRUNTIME["threads"]
    made.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    made.use_deterministic_compute = ONNXRUNTIME["deterministic"]
    # sums of products of u8 and i8 saturate on processors without VNNI unless this is set
    made.add_session_config_entry("session.x64quantprecision", "1")
    return made


class _OnnxRuntime:
    """Without its graph optimisations: they replace quantised parts by kernels that round elsewhere, which depend on
    the processor, and two optimised runs of it may differ."""

    name = "onnxruntime"
    options = ONNXRUNTIME

    def __init__(self, model: ModelFile, graph: Graph) -> None:
        self.graph = graph
        try:
            runtime = import_module("onnxruntime")
        except ImportError as err:
            raise MissingToolError(
                "the reference onnxruntime is not installed",
                why=str(err),
                hint="pip install 'crosslevel[verify]', or use --against interp",
            ) from None
        runtime.set_default_logger_severity(3)
        data = model.data
        if model.externals is not None:
            data = import_module("sdk.frontends.onnx.reader").embedded(data, model.externals)
        try:
            self.session = runtime.InferenceSession(
                data, onnxruntime_options(runtime), providers=[ONNXRUNTIME["provider"]]
            )
        except Exception as err:  # its errors share no base
            hint = "use --against interp"
            raise BuildError("onnxruntime does not take this model", why=str(err), hint=hint) from None
        self.names = [p.name for p in self.session.get_inputs()]

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        given = {name: inputs[p.name] for name, p in zip(self.names, self.graph.params, strict=True)}
        try:
            found = self.session.run(None, given)
        except Exception as err:  # its errors share no base
            raise BuildError("onnxruntime fails on this model", why=str(err), hint="use --against interp") from None
        return {v.name: np.asarray(a) for v, a in zip(self.graph.results, found, strict=True)}


def open_reference(
    against: str, model: ModelFile | Path, module: Module, entry: str | None = None
) -> Reference:
    """The reference called ``against`` for an entry (None is the only one); "auto" is onnxruntime for .onnx models,
    tflite-micro for integer .tflite models, else the interpreter.

    Raises:
        UsageError: no such reference for this kind of model.
        MissingToolError: its package is not installed.
    """
    file = read_model_file(model)
    graph, kind = entry_graph(module, entry), file.kind
    if against == "auto":
        integer = all(not v.type.dtype.is_float for v in (*graph.params, *graph.results))
        against = "onnxruntime" if kind == ".onnx" else "tflite-micro" if kind == ".tflite" and integer else "interp"
    for name, suffix, made in (("tflite-micro", ".tflite", _TfliteMicro), ("onnxruntime", ".onnx", _OnnxRuntime)):
        if against == name:
            if kind != suffix:
                raise UsageError(f"{name} runs {suffix} files only", hint="use --against interp")
            return made(file, graph)
    if against == "interp":
        return _Interp(module, graph.name)
    raise UsageError(
        f"no reference {against!r} for {file.name}", hint="one of auto, onnxruntime, tflite-micro, interp"
    )


def random_dims(graph: Graph, rng: np.random.Generator, case: int, at: Mapping[str, int]) -> dict[str, int]:
    """Values of the dims of a run: those in ``at``; of the others the largest in case 0, the smallest in case 1, any
    in others."""
    found: dict[str, int] = {}
    for var in graph.dims:
        if case < 2:
            chosen = (var.most, var.least)[case]
        else:
            step = var.multiple
            chosen = step * int(rng.integers(var.least // step, var.most // step, endpoint=True))
        found[var.name] = at.get(var.name, chosen)
    return found


def case_inputs(
    graph: Graph, rng: np.random.Generator, dims: Mapping[str, int], case: int
) -> tuple[dict[str, Array], str]:
    """Inputs of a case and what they are: in cases 1, 2 and 3 every element the lowest, the highest, the zero point of
    its type (of floats -4, 4 and 0; wide integers as ``random_inputs`` draws them), else random ones."""
    found = random_inputs(graph, rng, dims)
    if not 1 <= case <= len(EXTREMES):
        return found, "random"
    tables = _tables(graph)
    for value in graph.params:
        kind, quant = value.type.dtype, value.type.quant
        lo, hi = (-FLOAT_EXTREME, FLOAT_EXTREME) if kind.is_float else _range(value, tables)
        zero = quant.zero_point if quant is not None else 0
        found[value.name] = np.full(found[value.name].shape, (lo, hi, zero)[case - 1], kind.numpy)
    return found, f"all {EXTREMES[case - 1]}"


def _range(value: Value, tables: Mapping[str, int]) -> tuple[int, int]:
    """The integers that an input may hold: all of a small type; of a wide one, positions in a table, or 0 and 1."""
    kind = value.type.dtype
    return kind.limits if kind.bits < 32 else (0, tables.get(value.name, 2) - 1)


def random_inputs(graph: Graph, rng: np.random.Generator, dims: Mapping[str, int]) -> dict[str, Array]:
    """Inputs over the whole range of small integers, or standard normal for floats; wide integers are positions where
    they index a table, else 0 or 1. ``dims`` gives every symbol its value."""
    values = {v: dims[v.name] for v in graph.dims}
    tables = _tables(graph)
    out: dict[str, Array] = {}
    for value in graph.params:
        shape, kind = tuple(evaluate(d, values) for d in value.type.shape), value.type.dtype
        if kind.is_float:
            out[value.name] = rng.standard_normal(shape).astype(kind.numpy)
            continue
        lo, hi = _range(value, tables)
        out[value.name] = rng.integers(lo, hi, shape, endpoint=True).astype(kind.numpy)
    return out


def _tables(graph: Graph) -> dict[str, int]:
    """For each parameter that a gather takes positions from, the entries of the smallest table."""
    found: dict[str, int] = {}
    for node in graph.body:
        if isinstance(node, Call) and node.callee == "gather":
            table, positions = node.args
            axis = dict(node.attrs).get("axis", 0)
            extent = table.type.shape[axis] if isinstance(axis, int) else 1
            if isinstance(extent, int):
                found[positions.name] = min(extent, found.get(positions.name, extent))
    return found
