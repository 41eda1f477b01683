"""PyTorch itself as an engine to compare with: the exported program, run as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Graph
from sdk.errors import BuildError
from sdk.frontends.base import ModelFile, Option
from sdk.frontends.torch.library import quiet, torch_package, trees
from sdk.frontends.torch.loading import load
from sdk.frontends.torch.names import is_computed

__all__ = ["Eager"]

Array = NDArray[Any]


class Eager:
    """The program of a file run by PyTorch on this processor; buffers keep their contents between steps.

    Raises:
        MissingToolError: torch is not installed.
        BuildError: the file holds no program.
    """

    name = "torch"
    options: Mapping[str, Option] = {"device": "cpu", "mode": "eager"}

    def __init__(self, model: ModelFile, graph: Graph) -> None:
        self.graph = graph
        self.torch = torch_package()
        self.trees = trees()
        program, _ = load(model.data)
        signature = program.graph_signature
        self.inputs = [s.arg for s in signature.input_specs if s.kind.name == "USER_INPUT"]
        self.tensors = [type(a).__name__ == "TensorArgument" for a in self.inputs]
        self.outputs = [is_computed(s.arg) for s in signature.output_specs if s.kind.name == "USER_OUTPUT"]
        self.spec = program.call_spec.in_spec
        with quiet():
            self.module = program.module()

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        """Outputs by name for inputs by name.

        Raises:
            BuildError: it fails on them.
        """
        given = iter(self.graph.params)
        flat = [
            self.torch.from_numpy(np.array(inputs[next(given).name])) if tensor else getattr(arg, "value", None)
            for arg, tensor in zip(self.inputs, self.tensors, strict=True)
        ]
        args, kwargs = self.trees.tree_unflatten(flat, self.spec)
        try:
            with quiet(), self.torch.no_grad():
                found = self.module(*args, **kwargs)
        except Exception as err:  # its errors share no base
            raise BuildError("PyTorch fails on this model", why=str(err), hint="use --against interp") from None
        leaves = [v for v, kept in zip(self.trees.tree_leaves(found), self.outputs, strict=True) if kept]
        arrays = [v.detach().numpy() if isinstance(v, self.torch.Tensor) else np.asarray(v, np.int64) for v in leaves]
        return {v.name: np.array(a) for v, a in zip(self.graph.results, arrays, strict=True)}
