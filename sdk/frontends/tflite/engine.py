"""TensorFlow Lite Micro and LiteRT as engines to compare with."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np
import tflite
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call, Graph
from sdk.errors import BuildError, MissingToolError, UsageError
from sdk.frontends.base import ModelFile, Option
from sdk.frontends.tflite.entries import entries_of
from sdk.frontends.tflite.reader import Signature, read_model, read_signatures
from sdk.frontends.tflite.schema import BUILTIN
from sdk.frontends.tflite.suited import unsuited
from sdk.frontends.tflite.unfilled import unfilled
from sdk.frontends.unsteady import moved_by
from sdk.installs import pip_command

__all__ = ["LiteRt", "LiteRtLayers", "TfliteMicro", "TfliteMicroLayers"]

Array = NDArray[Any]
ARENA_BYTES: Final = 16 << 20
_VERSION: Final = re.compile(r"builtin opcode '(\w+)' version '(\d+)'")
_VERSION_FIELD: Final = 8  # where the layout of an operator's code says where its version is
RESOLVERS: Final = {"reference": "BUILTIN_REF", "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES"}


def signature_of(data: bytes, entry: str) -> Signature | None:
    """The signature that an entry of a file is; None for the first subgraph.

    Raises:
        BuildError: the file is damaged.
    """
    subgraphs = read_model(data, {})
    found = {one.name: one.signature for one in entries_of(subgraphs, read_signatures(data, subgraphs))}
    return found.get(entry)


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
                hint=f"{pip_command('tflite-micro')}, or use --against interp",
            ) from None
        if signature_of(model.data, graph.name) is not None:
            hint = "use --against litert, or interp"
            raise BuildError("tflite-micro runs the first subgraph of a file, not its signatures", hint=hint)
        why = unsuited(model.data, self.name)
        if why is not None:
            raise BuildError("tflite-micro does not take this model", why=why, hint="use --against litert, or interp")
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
        try:
            self.engine.invoke()
        except RuntimeError as err:  # of a kernel that takes a type when it is prepared, and not when it runs
            raise BuildError("tflite-micro fails on this model", why=str(err), hint="use --against litert") from None
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


class LiteRt:
    """A file run by LiteRT on one thread; open sizes are those of the inputs.

    By its reference kernels, which compute each element by itself; where a model has operators that these lack (CEIL,
    ELU, ROUND), or compute otherwise than TensorFlow (the window of LOCAL_RESPONSE_NORMALIZATION ends one channel
    early; of weights with scales for blocks nothing comes), by its usual ones.

    Raises:
        MissingToolError: it is not installed.
        BuildError: it does not take the model.
    """

    name = "litert"
    keeps_all = False

    def __init__(self, model: ModelFile, graph: Graph) -> None:
        self.model, self.graph = model, graph
        try:
            self.runtime = import_module("ai_edge_litert.interpreter")
        except ImportError as err:
            raise MissingToolError(
                "the reference LiteRT is not installed",
                why=str(err),
                hint=f"{pip_command('ai-edge-litert')}, or use --against interp",
            ) from None
        why = unsuited(model.data, self.name)
        if why is not None:
            raise BuildError("LiteRT does not take this model", why=why, hint="use --against interp")
        otherwise = any(isinstance(node, Call) and node.callee == "lrn" for node in graph.body)
        parts = read_model(model.data, {})
        otherwise = otherwise or any(t.blocks for part in parts for t in part.tensors)
        self.stateful = any(t.variable for part in parts for t in part.tensors) or any(
            operator.name == "VAR_HANDLE" for part in parts for operator in part.operators
        )
        try:
            if otherwise:
                self._open(model.data, "builtin")
            else:
                self._open_reference(model.data)
        except (RuntimeError, ValueError):
            try:
                self._open(model.data, "builtin")
            except (RuntimeError, ValueError) as err:
                raise BuildError("LiteRT does not take this model", why=str(err), hint="use --against interp") from None
        self.signature = signature_of(model.data, graph.name)
        self.inputs = [detail["index"] for detail in self.engine.get_input_details()]
        self.outputs = [detail["index"] for detail in self.engine.get_output_details()]
        self.subgraph = 0 if self.signature is None else self.signature.subgraph
        self.unfilled = () if self.subgraph else unfilled(model.data)

    def _open_reference(self, data: bytes) -> None:
        """By the reference kernels. A file asks for versions of operators, and these are listed with older ones than
        the usual kernels, though their code is the same age: what a kernel does not know it refuses all the same."""
        while True:
            try:
                self._open(data, "reference")
                return
            except ValueError as err:
                found = _VERSION.search(str(err))
                if found is None or int(found[2]) < 2:
                    raise
                data = _older(data, found[1], int(found[2]) - 1)

    def _open(self, data: bytes, kernels: str) -> None:
        kind = getattr(self.runtime.OpResolverType, RESOLVERS[kernels])
        self.engine = self.runtime.Interpreter(
            model_content=data, experimental_op_resolver_type=kind, num_threads=1,
            experimental_preserve_all_tensors=self.keeps_all,
        )  # fmt: skip
        self.engine.allocate_tensors()
        self.options: Mapping[str, Option] = {"kernels": kernels, "threads": 1}

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        """Outputs by name for inputs by name.

        Raises:
            BuildError: it fails on them.
        """
        given = [np.asarray(inputs[value.name], order="C") for value in self.graph.params]
        try:
            if self.signature is not None:
                return self._signed(self.signature, given)
            if dims:
                for index, array in zip(self.inputs, given, strict=True):
                    self.engine.resize_tensor_input(index, array.shape)
                self.engine.allocate_tensors()
            for index, array in zip(self.inputs, given, strict=True):
                self.engine.set_tensor(index, array)
            self.engine.invoke()
            found = self._tensors(self.outputs)
        except (RuntimeError, ValueError) as err:
            raise BuildError("LiteRT fails on this model", why=str(err), hint="use --against interp") from None
        return {v.name: found[index] for v, index in zip(self.graph.results, self.outputs, strict=True)}

    def moved(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, float] | None:
        """How far floats of the outputs move, at most, where the last bits of float inputs do, or where LiteRT's usual
        kernels take the place of its reference kernels. Layers of dynamic range round what they read to 8 bits: a last
        bit moves a number to the next step, and what follows makes more of it. None for a model with state.
        """
        if self.stateful:
            return None
        engines = [LiteRt(self.model, self.graph) for _ in range(2)]
        engines[1]._open(self.model.data, "builtin")
        return moved_by([partial(one.step, dims=dims) for one in engines], inputs)

    def _signed(self, signature: Signature, given: Sequence[Array]) -> dict[str, Array]:
        """The outputs of an entry that is a signature."""
        run = self.engine.get_signature_runner(signature.key)
        found = run(**{name: array for (name, _), array in zip(signature.inputs, given, strict=True)})
        names = [name for name, _ in signature.outputs]
        return {v.name: np.array(found[name]) for v, name in zip(self.graph.results, names, strict=True)}

    def _tensors(self, numbers: Iterable[int]) -> dict[int, Array]:
        """Tensors by number, 0 where no kernel filled them."""
        found = {number: np.array(self.engine.get_tensor(number, self.subgraph)) for number in numbers}
        for results in self.unfilled:
            results.clear(found)
        return found


def _older(data: bytes, name: str, version: int) -> bytes:
    """A file that asks for a version of an operator."""
    found, model = bytearray(data), tflite.Model.GetRootAs(data)
    for k in range(model.OperatorCodesLength()):
        code = model.OperatorCodes(k)
        number = max(int(code.BuiltinCode()), int(code.DeprecatedBuiltinCode()))
        at = code._tab.Offset(_VERSION_FIELD)
        if BUILTIN.get(number) == name and at:
            struct.pack_into("<i", found, code._tab.Pos + at, version)
    if found == data:
        raise ValueError(f"no operator {name} asks for a version")
    return bytes(found)


class LiteRtLayers(LiteRt):
    """The same with all tensors kept, of which its outputs are some of the subgraph of the entry, by number.

    Raises:
        MissingToolError, BuildError: as above.
    """

    keeps_all = True

    def __init__(self, model: ModelFile, graph: Graph, keys: Sequence[str]) -> None:
        super().__init__(model, graph)
        self.keys = keys

    def step(self, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
        """Tensors by number for inputs by name."""
        super().step(inputs, dims)
        try:
            found = self._tensors(int(key) for key in self.keys)
            return {key: found[int(key)] for key in self.keys}
        except ValueError as err:
            hint = "use --against interp"
            raise BuildError("LiteRT does not tell a tensor of this model", why=str(err), hint=hint) from None
