"""The ONNX backend interface: models compiled to C for this machine and run by its agent, call by call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from sdk.compiler.ir.graph import fresh_name
from sdk.driver.model import Model, compile
from sdk.errors import SdkError, UsageError
from sdk.frontends.base import OpenSizesError
from sdk.frontends.names import identifier
from sdk.frontends.onnx.importer import InputsDecideError, import_onnx
from sdk.frontends.onnx.reader import WIDER_TYPES

__all__ = [
    "CompiledModel", "SdkBackend", "fixed_inputs", "flat_inputs", "input_names", "modern", "prepare", "run_model",
    "run_node", "supports_device",
]  # fmt: skip

Array = NDArray[Any]
OLDEST = 7


def fixed_inputs(
    model: onnx.ModelProto, values: Mapping[str, Array], dims: Mapping[str, int | tuple[int, ...]]
) -> dict[str, Array]:
    """The inputs whose contents decide shapes (axes, a target shape), with their values: constants of the build.

    Raises:
        SdkError: the model cannot be imported with them either.
    """
    fixed: dict[str, Array] = {}
    while True:
        try:
            import_onnx(model, "model", dims=dims, fixed=fixed)
        except (InputsDecideError, OpenSizesError) as error:
            known = {name: np.asarray(values[name]) for name in error.inputs if name in values}
            if not known:
                raise
            fixed |= known
        else:
            return fixed


def input_names(model: onnx.ModelProto) -> list[str]:
    """The inputs of a model that have no default."""
    constants = {t.name for t in model.graph.initializer}
    return [p.name for p in model.graph.input if p.name not in constants]


def flat_inputs(model: onnx.ModelProto, inputs: Sequence[Any]) -> tuple[dict[str, Array], dict[str, int]]:
    """The tensors that a run is given by name, the elements of sequences numbered; and how long these are, as dims.

    Raises:
        UsageError: a list is given for a tensor, or there are too many inputs or too few.
    """
    names = input_names(model)
    if len(inputs) != len(names):
        raise UsageError(f"the model has {len(names)} inputs, {len(inputs)} are given")
    found: dict[str, Array] = {}
    lengths: dict[str, int] = {}
    for name, given in zip(names, inputs, strict=True):
        if isinstance(given, list):
            lengths[f"{identifier(name)}_length"] = len(given)
        parts = [(f"{name}_{k}", one) for k, one in enumerate(given)] if isinstance(given, list) else [(name, given)]
        found |= {part: _widened(np.asarray(one)) for part, one in parts}
    return found, lengths


def modern(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, converted where its opset is older than those that can be imported."""
    version = max((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), default=OLDEST)
    return model if version >= OLDEST else onnx.version_converter.convert_version(_by_channel(model), OLDEST)


def _by_channel(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with slopes of PRelu that broadcast by the rule of today. Before opset 7 they belonged to
    channels, axis 1, and the converter of the onnx package leaves them as they are."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = onnx.shape_inference.infer_shapes(made).graph
    shapes = {p.name: p.type.tensor_type.shape.dim for p in (*graph.input, *graph.value_info)}
    sizes = {t.name: tuple(t.dims) for t in made.graph.initializer}
    for k in reversed(range(len(made.graph.node))):
        node = made.graph.node[k]
        if node.op_type != "PRelu" or node.input[0] not in shapes:
            continue
        rank, slope = len(shapes[node.input[0]]), node.input[1]
        size = sizes.get(slope) or tuple(d.dim_value for d in shapes.get(slope, ()))
        if len(size) == 1 and size != (1,) and rank > 2:
            wide = f"{slope}_{node.output[0]}_by_channel"
            node.input[1] = wide
            made.graph.node.insert(k, helper.make_node("Unsqueeze", [slope], [wide], axes=list(range(1, rank - 1))))
    return made


def with_constants(model: onnx.ModelProto, fixed: Mapping[str, Array]) -> onnx.ModelProto:
    """The model with some inputs made constants."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = [p for p in made.graph.input if p.name not in fixed]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    made.graph.initializer.extend(onnx.numpy_helper.from_array(a, name) for name, a in fixed.items())
    return made


def _widened(array: Array) -> Array:
    """An input of a type narrower than ours in the wider one that holds its values."""
    if array.dtype.kind in "biuf":
        return array
    kind = WIDER_TYPES.get(helper.np_dtype_to_tensor_dtype(array.dtype))
    return array if kind is None else array.astype(kind.numpy)


def _narrowed(array: Array, code: int) -> Array:
    """An output in the type that the model states, where ours is wider."""
    return array.astype(helper.tensor_dtype_to_np_dtype(code)) if code in WIDER_TYPES else array


class CompiledModel(BackendRep):
    """A model ready to run. Inputs whose contents decide shapes are constants of a build: the first run with values
    not seen before builds anew."""

    def __init__(self, model: onnx.ModelProto, board: str, dims: Mapping[str, int | tuple[int, ...]]) -> None:
        self.model, self.board, self.dims = modern(model), board, dims
        self.outputs = [o.name for o in model.graph.output]
        self._built: dict[tuple[tuple[str, bytes], ...], Model] = {}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs in order (fields by name too) for inputs in order, or by name.

        Raises:
            SdkError: the model cannot be compiled for these inputs, or they do not fit it.
        """
        names = input_names(self.model)
        if isinstance(inputs, Mapping):
            inputs = [inputs[name] for name in names]
        elif isinstance(inputs, np.ndarray):
            inputs = [inputs]
        values, lengths = flat_inputs(self.model, inputs)
        model, fixed = self._compiled(values, {**self.dims, **lengths})
        given = {n: a for n, a in values.items() if n not in fixed}
        taken = {"main"}  # names that are alike as identifiers are numbered, as the importer does
        found = model(**{fresh_name(identifier(n), taken): a for n, a in given.items()})
        return namedtupledict("Outputs", self.outputs)(*self._results(found))

    def _results(self, found: Mapping[str, Array]) -> list[Array | list[Array]]:
        """The results as the model states them: narrow types, and lists for sequences, whose elements are numbered."""
        left = list(found.items())
        results: list[Array | list[Array]] = []
        for info in self.model.graph.output:
            if info.type.WhichOneof("value") != "sequence_type":
                results.append(_narrowed(left.pop(0)[1], info.type.tensor_type.elem_type))
                continue
            parts: list[Array] = []
            while left and left[0][0] == identifier(f"{info.name}_{len(parts)}"):
                parts.append(_narrowed(left.pop(0)[1], info.type.sequence_type.elem_type.tensor_type.elem_type))
            results.append(parts)
        return results

    def _compiled(
        self, values: Mapping[str, Array], dims: Mapping[str, int | tuple[int, ...]]
    ) -> tuple[Model, Mapping[str, Array]]:
        fixed = fixed_inputs(self.model, values, dims)
        key = (*((name, a.tobytes()) for name, a in sorted(fixed.items())), ("", repr(sorted(dims.items())).encode()))
        if key not in self._built:
            self._built[key] = compile(with_constants(self.model, fixed), board=self.board, dims=dims)
        return self._built[key], fixed


class SdkBackend(Backend):
    """What ``onnx.backend.test`` and other users of the interface call."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> CompiledModel:
        """The model, to be compiled for ``board`` ("host" by default) with bounds ``dims`` of its open sizes.

        Raises:
            UsageError: there is no such device.
        """
        if not cls.supports_device(device):
            raise UsageError(f"no device {device}", hint="CPU is the only one")
        return CompiledModel(model, kwargs.get("board", "host"), kwargs.get("dims") or {})

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Outputs of a model, compiled for this one run."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Outputs of one node, of the newest opset unless ``opset_version`` says otherwise."""
        arrays = [np.asarray(a) for a in inputs]
        names = [name for name in node.input if name]
        params = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names, arrays, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        graph = helper.make_graph([node], "node", params, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run there: "CPU"."""
        return device.split(":")[0].upper() == "CPU"

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be imported."""
        try:
            import_onnx(modern(model), "model", dims=kwargs.get("dims") or {})
        except InputsDecideError:
            return cls.supports_device(device)
        except SdkError:
            return False
        return cls.supports_device(device)


prepare = SdkBackend.prepare
run_model = SdkBackend.run_model
run_node = SdkBackend.run_node
supports_device = SdkBackend.supports_device
