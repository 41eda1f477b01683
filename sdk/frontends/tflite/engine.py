"""TensorFlow Lite Micro as an engine to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Graph
from sdk.errors import BuildError, MissingToolError, UsageError
from sdk.frontends.base import ModelFile, Option

__all__ = ["TfliteMicro"]

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
            self.engine = runtime.Interpreter.from_bytes(model.data, arena_size=ARENA_BYTES)
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
