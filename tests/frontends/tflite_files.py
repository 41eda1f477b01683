"""Small .tflite files written by hand for tests, with the FlatBuffers builder of the schema package."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

# A subgraph by number, its inputs and its outputs: tensors by name.
Signature = tuple[int, Mapping[str, int], Mapping[str, int]]
TYPES = {
    np.dtype("int8"): tflite.TensorType.INT8,
    np.dtype("uint8"): tflite.TensorType.UINT8,
    np.dtype("int16"): tflite.TensorType.INT16,
    np.dtype("int32"): tflite.TensorType.INT32,
    np.dtype("int64"): tflite.TensorType.INT64,
    np.dtype("uint32"): tflite.TensorType.UINT32,
    np.dtype("uint64"): tflite.TensorType.UINT64,
    np.dtype("float16"): tflite.TensorType.FLOAT16,
    np.dtype("float32"): tflite.TensorType.FLOAT32,
    np.dtype("bool"): tflite.TensorType.BOOL,
}

# The least version of an operator that runtimes still have, where that is not the first.
_PLACE = b"mark%04d"  # where a place in the file will stand
VERSIONS = {tflite.BuiltinOperator.BROADCAST_TO: 2}


@dataclass
class Sparse:
    """How a constant is stored sparse: levels are numbers of places, or (type, segments, indices)."""

    order: list[int]
    blocks: list[int]
    levels: list[Any]


@dataclass
class TensorSpec:
    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: Sequence[float]
    zero_points: Sequence[int]
    axis: int
    data: np.ndarray | None
    signature: tuple[int, ...] | None
    type: int | None
    variable: bool
    sparse: Sparse | None
    blocks: tuple[int, int, int] | None


@dataclass
class OperatorSpec:
    code: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: str
    fields: dict[str, Any]
    custom: str
    flags: dict[str, Any] | bytes
    intermediates: Sequence[int] = ()


@dataclass
class ModelFile:
    """One subgraph (or several, ``then``): tensors and operators are added, ``build`` gives the bytes."""

    tensors: list[TensorSpec] = field(default_factory=list)
    operators: list[OperatorSpec] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "int8",
        scale: float | Sequence[float] | None = None,
        zero: int | Sequence[int] = 0,
        *,
        axis: int = 0,
        data: Any = None,
        signature: Sequence[int] | None = None,
        type: int | None = None,
        variable: bool = False,
        sparse: Sparse | None = None,
        blocks: tuple[int, int, int] | None = None,
    ) -> int:
        """``blocks`` are the numbers of the tensors of scales and zero points, and the elements that have one."""
        scales = [] if scale is None else [scale] if isinstance(scale, float) else list(scale)
        zeros = [zero] * len(scales) if isinstance(zero, int) else list(zero)
        array = None if data is None else np.ascontiguousarray(data, dtype=dtype)
        open_shape = None if signature is None else tuple(signature)
        rest = (array, open_shape, type, variable, sparse, blocks)
        self.tensors.append(TensorSpec(name, tuple(shape), dtype, scales, zeros, axis, *rest))
        return len(self.tensors) - 1

    def const(self, name: str, data: Any, dtype: str = "int32", **given: Any) -> int:
        array = np.asarray(data, dtype=dtype)
        return self.tensor(name, array.shape, dtype, data=array, **given)

    def input(self, name: str, shape: Sequence[int], *given: Any, **named: Any) -> int:
        self.inputs.append(self.tensor(name, shape, *given, **named))
        return self.inputs[-1]

    def output(self, name: str, shape: Sequence[int], *given: Any, **named: Any) -> int:
        self.outputs.append(self.tensor(name, shape, *given, **named))
        return self.outputs[-1]

    def op(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str = "",
        custom: str = "",
        flags: dict[str, Any] | bytes = b"",
        intermediates: Sequence[int] = (),
        **fields: Any,
    ) -> None:
        """``flags`` are options of a custom operator: bytes, or what FlexBuffers are made of."""
        code = tflite.BuiltinOperator.CUSTOM if custom else getattr(schema.BuiltinOperator, name)
        self.operators.append(OperatorSpec(code, inputs, outputs, options, fields, custom, flags, intermediates))

    def build(
        self, *others: ModelFile, signatures: Mapping[str, Signature] | None = None, behind: bool = False
    ) -> bytes:
        """``signatures`` give a subgraph by number, and inputs and outputs, tensors by name, for each key; with
        ``behind`` constants and options of custom operators stand behind the tables, as in files of many GB."""
        return _Writer([self, *others], behind).finish(signatures or {})


class _Writer:
    def __init__(self, graphs: list[ModelFile], behind: bool) -> None:
        self.b = flatbuffers.Builder(4096)
        self.behind: list[bytes] | None = [] if behind else None
        self.buffers: list[int] = [self.table("Buffer")]
        self.codes: dict[tuple[int, str], int] = {}
        self.graphs = [self.subgraph(g) for g in graphs]

    def finish(self, signatures: Mapping[str, Signature]) -> bytes:
        codes = [self.code(*key) for key in self.codes]
        fields = {
            "Version": 3,
            "OperatorCodes": self.offsets(codes),
            "Subgraphs": self.offsets(self.graphs),
            "Buffers": self.offsets(self.buffers),
        }
        if signatures:
            fields["SignatureDefs"] = self.offsets([self.signature(k, *s) for k, s in signatures.items()])
        self.b.Finish(self.table("Model", **fields), b"TFL3")
        found = bytes(self.b.Output())
        for number, raw in enumerate(self.behind or []):
            found += bytes(-len(found) % 16)
            found = found.replace(_PLACE % number, struct.pack("<Q", len(found))) + raw
        return found

    def outside(self, raw: bytes, names: tuple[str, str]) -> dict[str, int]:
        """Fields that say where bytes behind the tables stand: a mark until the tables are written."""
        assert self.behind is not None
        self.behind.append(raw)
        place = struct.unpack("<Q", _PLACE % (len(self.behind) - 1))[0]
        return dict(zip(names, (place, len(raw)), strict=True))

    def table(self, kind: str, **fields: Any) -> int:
        of = tflite if hasattr(tflite, f"{kind}Start") else schema  # the newer of the two
        start: Callable[[Any], None] = getattr(of, f"{kind}Start")
        end: Callable[[Any], int] = getattr(of, f"{kind}End")
        start(self.b)
        for name, value in fields.items():
            getattr(of, f"{kind}Add{name}")(self.b, value)
        return end(self.b)

    def offsets(self, items: Sequence[int]) -> int:
        self.b.StartVector(4, len(items), 4)
        for item in reversed(items):
            self.b.PrependUOffsetTRelative(item)
        return self.b.EndVector()

    def vector(self, values: Any, dtype: str) -> int:
        array = np.asarray(values, dtype=dtype)
        return self.b.CreateNumpyVector(array)

    def bytes(self, raw: bytes) -> int:
        """A byte vector aligned to 16, as the runtime wants constants."""
        self.b.StartVector(1, len(raw), 16)
        self.b.head = self.b.Head() - len(raw)
        self.b.Bytes[self.b.Head() : self.b.Head() + len(raw)] = raw
        return self.b.EndVector()

    def code(self, number: int, custom: str) -> int:
        text = {"CustomCode": self.b.CreateString(custom)} if custom else {}
        return self.table(
            "OperatorCode", DeprecatedBuiltinCode=min(number, 127), BuiltinCode=number,
            Version=VERSIONS.get(number, 1), **text,
        )  # fmt: skip

    def signature(self, key: str, subgraph: int, *sides: Mapping[str, int]) -> int:
        names = [[(self.b.CreateString(name), number) for name, number in side.items()] for side in sides]
        maps = [self.offsets([self.table("TensorMap", Name=n, TensorIndex=k) for n, k in side]) for side in names]
        text = self.b.CreateString(key)
        return self.table("SignatureDef", SignatureKey=text, SubgraphIndex=subgraph, Inputs=maps[0], Outputs=maps[1])

    def subgraph(self, graph: ModelFile) -> int:
        tensors = self.offsets([self.tensor(t) for t in graph.tensors])
        operators = self.offsets([self.operator(o) for o in graph.operators])
        fields = {
            "Tensors": tensors,
            "Inputs": self.vector(graph.inputs, "int32"),
            "Outputs": self.vector(graph.outputs, "int32"),
            "Operators": operators,
        }
        return self.table("SubGraph", **fields)

    def tensor(self, t: TensorSpec) -> int:
        number = 0
        if t.data is not None:
            raw = t.data.tobytes()
            inside = {} if self.behind is not None else {"Data": self.bytes(raw)}
            self.buffers.append(self.table("Buffer", **(inside or self.outside(raw, ("Offset", "Size")))))
            number = len(self.buffers) - 1
        fields: dict[str, Any] = {
            "Name": self.b.CreateString(t.name),
            "Shape": self.vector(t.shape, "int32"),
            "Type": TYPES[np.dtype(t.dtype)] if t.type is None else t.type,
            "Buffer": number,
        }
        if t.scales:
            fields["Quantization"] = self.table(
                "QuantizationParameters",
                Scale=self.vector(t.scales, "float32"),
                ZeroPoint=self.vector(t.zero_points, "int64"),
                QuantizedDimension=t.axis,
            )
        if t.blocks is not None:
            names = ("Scales", "ZeroPoints", "BlockSize")
            details = self.table("BlockwiseQuantization", **dict(zip(names, t.blocks, strict=True)))
            kind = schema.QuantizationDetails.BlockwiseQuantization
            fields["Quantization"] = self.table("QuantizationParameters", Details=details, DetailsType=kind)
        if t.variable:
            fields["IsVariable"] = True
        if t.sparse is not None:
            fields["Sparsity"] = self.sparsity(t.sparse)
        if t.signature:
            fields["ShapeSignature"] = self.vector(t.signature, "int32")
        return self.table("Tensor", **fields)

    def sparsity(self, s: Sparse) -> int:
        levels = []
        for level in s.levels:
            if isinstance(level, int):
                levels.append(self.table("DimensionMetadata", Format=0, DenseSize=level))
                continue
            kind, *parts = level
            fields: dict[str, Any] = {"Format": 1}
            for name, numbers in zip(("ArraySegments", "ArrayIndices"), parts, strict=True):
                if kind != "none":
                    vector = f"{kind.capitalize()}Vector"
                    fields[name] = self.table(vector, Values=self.vector(numbers, kind))
                    fields[f"{name}Type"] = getattr(tflite.SparseIndexVector, vector)
            levels.append(self.table("DimensionMetadata", **fields))
        return self.table(
            "SparsityParameters", TraversalOrder=self.vector(s.order, "int32"), BlockMap=self.vector(s.blocks, "int32"),
            DimMetadata=self.offsets(levels),
        )  # fmt: skip

    def value(self, value: Any) -> Any:
        """What a field of options holds: a number, or the place of a text, of integers (a tuple), floats (a list), an
        array."""
        if isinstance(value, np.ndarray):
            return self.b.CreateNumpyVector(value)
        if isinstance(value, str):
            return self.b.CreateString(value)
        if isinstance(value, list):
            return self.vector(value, "float32")
        return self.vector(value, "int32") if isinstance(value, tuple) else value

    def operator(self, o: OperatorSpec) -> int:
        number = self.codes.setdefault((o.code, o.custom), len(self.codes))
        fields: dict[str, Any] = {
            "OpcodeIndex": number,
            "Inputs": self.vector(o.inputs, "int32"),
            "Outputs": self.vector(o.outputs, "int32"),
        }
        if o.intermediates:
            fields["Intermediates"] = self.vector(o.intermediates, "int32")
        if o.options:
            given = {k: self.value(v) for k, v in o.fields.items()}
            second = "" if hasattr(tflite.BuiltinOptions, o.options) else "2"
            fields[f"BuiltinOptions{second}Type"] = getattr(getattr(schema, f"BuiltinOptions{second}"), o.options)
            fields[f"BuiltinOptions{second}"] = self.table(o.options, **given)
        if o.flags:
            raw = o.flags if isinstance(o.flags, bytes) else bytes(flexbuffers.Dumps(o.flags))
            if self.behind is None:
                fields["CustomOptions"] = self.bytes(raw)
            else:
                fields |= self.outside(raw, ("LargeCustomOptionsOffset", "LargeCustomOptionsSize"))
        return self.table("Operator", **fields)
