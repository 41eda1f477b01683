"""Models run by the numpy interpreter, with any of their tensors told: floats, or integers as builds compute them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx

from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import TensorType
from sdk.compiler.passes.cleanup import Cleanup
from sdk.compiler.passes.inline import Inline
from sdk.compiler.passes.integer import Integer
from sdk.compiler.passes.pipeline import run_pipeline
from sdk.errors import BuildError
from sdk.frontends.onnx.importer import import_onnx
from sdk.quantizer.net import Array

__all__ = ["Engine", "fixed", "tensor_types"]


def fixed(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """The model with inputs of these shapes, and outputs of whatever follows from them.

    Raises:
        BuildError: an input has another rank, or another size that is fixed already.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value in made.graph.input:
        shape = shapes.get(value.name)
        dims = value.type.tensor_type.shape.dim
        if shape is None:
            continue
        fits = len(dims) == len(shape) and all(
            not d.HasField("dim_value") or d.dim_value == n for d, n in zip(dims, shape, strict=True)
        )
        if not fits:
            raise BuildError(f"the input {value.name} cannot have the shape {list(shape)}")
        for dim, size in zip(dims, shape, strict=True):
            dim.dim_value = size
    for value in made.graph.output:
        value.type.tensor_type.ClearField("shape")
    return made


def tensor_types(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> dict[str, TensorType]:
    """The element type and shape of every tensor that nodes make, and of the inputs.

    Raises:
        BuildError: the model cannot be imported.
    """
    tensors: dict[str, Value] = {}
    import_onnx(fixed(model, shapes), "m", tensors=tensors)
    return {name: value.type for name, value in tensors.items()}


class Engine:
    """A model with inputs of fixed shapes that tells its tensors ``told`` (None: its outputs).

    With ``integers`` quantised parts are computed by the integer kernels that builds have, bit for bit; else as reals
    between their roundings.

    Raises:
        BuildError: the model cannot be imported.
    """

    def __init__(
        self, model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], told: Sequence[str] | None = None, *,
        integers: bool = False,
    ) -> None:  # fmt: skip
        names = [p.name for p in model.graph.output] if told is None else list(told)
        if told is not None:
            model = _telling(model, names)
        module = import_onnx(fixed(model, shapes), "m")
        if integers:
            module = run_pipeline(replace(module, stage="typed"), (Inline(), Integer(), Cleanup()))
        self.module = module
        graph = module.graphs["main"]
        inputs = [p.name for p in model.graph.input if p.name not in {t.name for t in model.graph.initializer}]
        self.inputs = dict(zip(inputs, (p.name for p in graph.params), strict=True))
        self.told = dict(zip(names, (r.name for r in graph.results), strict=True))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """What is told, by name, for inputs by name."""
        found = run_graph(self.module, "main", {mine: inputs[name] for name, mine in self.inputs.items()})
        return {name: found[mine] for name, mine in self.told.items()}


def _telling(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """The model with these tensors as its outputs, and no more nodes than they need."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.output[:]
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return made
