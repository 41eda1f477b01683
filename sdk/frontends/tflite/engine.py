"""TensorFlow Lite Micro as an engine to compare with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Graph
from sdk.errors import BuildError, MissingToolError, UsageError
from sdk.frontends.base import ModelFile, Option

__all__ = ["TfliteMicro", "TfliteMicroLayers"]

Array = NDArray[Any]
ARENA_BYTES: Final = 16 << 20


class TfliteMicro:
    """A file run by tflite-micro's reference kernels.

    Raises:
        UsageError: sizes are open.
        MissingToolError: it is not installed.
        BuildError: it does not take the model.
    """

    name = "tflite-micro"
    config = "kAllocationRecording"
    options: Mapping[str, Option] = {"kernels": "reference", "arena_bytes": ARENA_BYTES}

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
            config = getattr(runtime.InterpreterConfig, self.config)
            self.engine = runtime.Interpreter.from_bytes(
                model.data, arena_size=ARENA_BYTES, intrepreter_config=config
            )
        except (RuntimeError, ValueError) as err:
            raise BuildError(
                "tflite-micro does not take this model", why=str(err), hint="use --against interp"
            ) from None

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        """Outputs by name for inputs by name."""
        for k, value in enumerate(self.graph.params):
            self.engine.set_input(np.ascontiguousarray(inputs[value.name]), k)
        self.engine.invoke()
        return {v.name: np.array(self.engine.get_output(k)) for k, v in enumerate(self.graph.results)}


class TfliteMicroLayers(TfliteMicro):
    """The same with all tensors kept, of which its outputs are some of the main subgraph, by number.

    Raises:
        UsageError, MissingToolError, BuildError: as above.
    """

    config = "kPreserveAllTensors"

    def __init__(self, model: ModelFile, graph: Graph, keys: Sequence[str]) -> None:
        super().__init__(model, graph)
        self.keys = keys

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        """Tensors by number for inputs by name."""
        super().step(inputs, dims)
        return {key: np.array(self.engine.GetTensor(int(key), 0)["tensor_data"]) for key in self.keys}
