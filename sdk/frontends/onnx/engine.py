"""onnxruntime as an engine to compare with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Graph
from sdk.errors import BuildError, MissingToolError
from sdk.frontends.base import ModelFile, Option
from sdk.frontends.names import identifier
from sdk.frontends.onnx.doubles import Doubles
from sdk.frontends.onnx.externals import Externals
from sdk.frontends.onnx.reader import embedded
from sdk.installs import pip_command

__all__ = ["OnnxRuntime", "OnnxRuntimeLayers", "session_options"]

Array = NDArray[Any]
OPTIONS: Final[Mapping[str, Option]] = {
    "graph_optimizations": "off",
    "threads": 1,
    "deterministic": True,
    "provider": "CPUExecutionProvider",
}


def session_options(runtime: Any) -> Any:
    """The settings of onnxruntime (the package ``runtime``) that ``OPTIONS`` tells of."""
    made = runtime.SessionOptions()
    made.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    made.intra_op_num_threads = made.inter_op_num_threads = OPTIONS["threads"]
    made.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    made.use_deterministic_compute = OPTIONS["deterministic"]
    # sums of products of u8 and i8 saturate on processors without VNNI unless this is set
    made.add_session_config_entry("session.x64quantprecision", "1")
    return made


class OnnxRuntime:
    """A file run by onnxruntime without its graph optimisations: they replace quantised parts by kernels that round
    elsewhere, which depend on the processor, and two optimised runs of it may differ.

    Raises:
        MissingToolError: it is not installed.
        BuildError: it does not take the model, or data beside that is missing.
    """

    name = "onnxruntime"
    options = OPTIONS

    def __init__(self, model: ModelFile, graph: Graph) -> None:
        self.graph = graph
        try:
            runtime = import_module("onnxruntime")
        except ImportError as err:
            raise MissingToolError(
                "the reference onnxruntime is not installed",
                why=str(err),
                hint=f"{pip_command('onnxruntime')}, or use --against interp",
            ) from None
        runtime.set_default_logger_severity(3)
        self.data = data = embedded(model.data, model.beside) if isinstance(model.beside, Externals) else model.data
        try:
            self.session = runtime.InferenceSession(data, session_options(runtime), providers=[OPTIONS["provider"]])
        except Exception as err:  # its errors share no base
            hint = "use --against interp"
            raise BuildError("onnxruntime does not take this model", why=str(err), hint=hint) from None
        self.given = self.session.get_inputs()
        self.told = [value.name for value in graph.results]  # what outputs are called here, in the model's order

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        """Outputs by name for inputs by name.

        Raises:
            BuildError: it fails on them.
        """
        given = self._given([(p.name, inputs[p.name]) for p in self.graph.params])
        try:
            found = self.session.run(None, given)
        except Exception as err:  # its errors share no base
            raise BuildError("onnxruntime fails on this model", why=str(err), hint="use --against interp") from None
        return dict(zip(self.told, [a for one in found for a in _tensors(one)], strict=True))

    def _given(self, left: list[tuple[str, Array]]) -> dict[str, Any]:
        """What the model takes for our inputs in order: of a sequence the elements are inputs of their own here."""
        given: dict[str, Any] = {}
        for info in self.given:
            if "seq(" not in info.type:
                given[info.name] = left.pop(0)[1]
                continue
            given[info.name] = []
            while left and left[0][0] == identifier(f"{info.name}_{len(given[info.name])}"):
                given[info.name].append(left.pop(0)[1])
        return given

    def unrounded(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        """The same in float64, of models with quantised tensors: what onnxruntime's sums of float32 make of halves of a
        step is chance. None for others, and where the evaluator does not take the model."""
        given = self._given([(p.name, inputs[p.name]) for p in self.graph.params])
        try:
            found = Doubles(onnx.load_model_from_string(self.data)).step(given)
        except Exception:  # the evaluator's errors share no base; there is no second opinion then
            return None
        return dict(zip(self.told, found, strict=True))


def _tensors(found: Any) -> list[Array]:
    """An output as tensors: of a list of maps a column for each key, in order, which is what is made of ZipMap; the
    elements of a sequence."""
    if isinstance(found, list) and found and isinstance(found[0], dict):
        return [np.array([[row[key] for key in sorted(row)] for row in found], np.float32)]
    return [*map(np.asarray, found)] if isinstance(found, list) else [np.asarray(found)]


class OnnxRuntimeLayers(OnnxRuntime):
    """The same, with tensors of the main graph as its outputs, by name.

    Raises:
        MissingToolError, BuildError: as above.
    """

    def __init__(self, model: ModelFile, graph: Graph, keys: Sequence[str]) -> None:
        data = embedded(model.data, model.beside) if isinstance(model.beside, Externals) else model.data
        proto = onnx.load_model_from_string(data)
        del proto.graph.output[:]
        proto.graph.output.extend(onnx.helper.make_empty_tensor_value_info(key) for key in dict.fromkeys(keys))
        super().__init__(replace(model, data=proto.SerializeToString(), beside=None), graph)
        self.told = [p.name for p in self.session.get_outputs()]
