"""PyTorch itself as an engine to compare with: the exported program, run as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Graph
from sdk.errors import BuildError
from sdk.frontends.base import ModelFile, Option
from sdk.frontends.torch.library import quiet, torch_package, trees
from sdk.frontends.torch.loading import load
from sdk.frontends.torch.lowering import lowered
from sdk.frontends.torch.names import is_computed

__all__ = ["Eager", "EagerLayers"]

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


class EagerLayers:
    """The same program node by node, as it is imported; its outputs are the results of these nodes.

    Raises:
        MissingToolError, BuildError: as above.
    """

    name = "torch"
    options = Eager.options

    def __init__(self, model: ModelFile, graph: Graph, keys: Sequence[str]) -> None:
        self.graph, self.keys = graph, frozenset(keys)
        self.torch = torch_package()
        program, _ = load(model.data)
        with quiet():
            self.program = lowered(program)
        held = {**self.program.constants, **self.program.state_dict}
        self.held = {name: value.detach().clone() for name, value in held.items()}

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        """Results by name for inputs by name.

        Raises:
            BuildError: it fails on them.
        """
        told: dict[str, Array] = {}
        keys = self.keys

        class Telling(import_module("torch.fx").Interpreter):  # type: ignore[misc]
            def run_node(self, node: Any) -> Any:
                found = super().run_node(node)
                if node.name in keys:
                    told[node.name] = np.array(found.detach().numpy())
                return found

        given = iter(self.graph.params)
        flat = [self._value(spec, inputs, given) for spec in self.program.graph_signature.input_specs]
        try:
            with quiet(), self.torch.no_grad():
                found = Telling(self.program.graph_module).run(*flat)
        except Exception as err:  # its errors share no base
            raise BuildError("PyTorch fails on this model", why=str(err), hint="use --against interp") from None
        for spec, value in zip(self.program.graph_signature.output_specs, found, strict=True):
            if spec.target in self.held:
                self.held[spec.target] = value.detach().clone()
        return told

    def _value(self, spec: Any, inputs: Mapping[str, Array], given: Any) -> Any:
        if spec.kind.name != "USER_INPUT":
            return self.held[spec.target]
        if type(spec.arg).__name__ != "TensorArgument":
            return getattr(spec.arg, "value", None)
        return self.torch.from_numpy(np.array(inputs[next(given).name]))
