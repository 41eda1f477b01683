"""A .tflite file as plain data: tensors and operators, checked as far as later code relies on it."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import tflite
from numpy.typing import NDArray

from sdk.compiler.ir.types import BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, DType
from sdk.errors import BuildError
from sdk.frontends.tflite.schema import (
    BLOCKWISE,
    BUILTIN,
    OPTIONS,
    OPTIONS2,
    TYPE_NAMES,
    BlockwiseQuantization,
    options_table,
)
from sdk.frontends.tflite.sparse import densified
from sdk.frontends.tflite.verify import malformed, verify_file

__all__ = ["Blocks", "Operator", "OptionFields", "Signature", "Subgraph", "Tensor", "read_model", "read_signatures"]

OptionFields = Mapping[str, tuple[str, tuple[str, ...]]]
MAX_BYTES: Final = (1 << 31) - 1
_DTYPES: Final = {
    "BOOL": BOOL, "INT8": I8, "UINT8": U8, "INT16": I16, "UINT16": U16, "INT32": I32, "UINT32": U32,
    "INT64": I64, "UINT64": U64, "FLOAT16": F16, "FLOAT32": F32, "FLOAT64": F64,
}  # fmt: skip
# What a reader of a damaged table can raise once its outline is verified.
_DAMAGE: Final = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Scales for each ``size`` elements of a row, in the tensors numbered ``scales`` and ``zero_points`` (-1: none)."""

    scales: int
    zero_points: int
    size: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a subgraph. ``dtype`` is None for a type without counterpart here (``type_name`` names it);
    ``signature`` has -1 where an extent is open; ``ranked`` is False where the file does not know the rank; ``data`` is
    the constant; one or many scales on ``axis``, or a scale for each of the ``blocks`` of rows; a ``variable`` is what
    an operator keeps from run to run."""

    index: int
    name: str
    type_name: str
    dtype: DType | None
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    ranked: bool
    data: NDArray[Any] | None
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int
    variable: bool = False
    blocks: Blocks | None = None

    @property
    def title(self) -> str:
        """The name for people: the first of those that the converter merged."""
        return self.name.split(";")[0]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its builtin name or custom code, tensor numbers (-1 = absent) and decoded options; ``intermediates``
    are tensors that state no more than how its kernel stores what is in between."""

    index: int
    name: str
    custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]
    custom_options: bytes
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Tensors, operators in order, and the tensor numbers of inputs and outputs."""

    index: int
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a file calls an entry (``key``), and the inputs and outputs of that by name, with their tensor numbers."""

    key: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


def read_signatures(data: bytes, subgraphs: tuple[Subgraph, ...]) -> tuple[Signature, ...]:
    """The signatures of a file whose subgraphs were read.

    Raises:
        BuildError: one names a subgraph or a tensor that there is not, or two have one key.
    """
    model = tflite.Model.GetRootAs(data)
    found = tuple(_signature(model.SignatureDefs(k), subgraphs) for k in range(model.SignatureDefsLength()))
    if len({one.key for one in found}) < len(found):
        raise malformed("two signatures have one key")
    return found


def _signature(table: Any, subgraphs: tuple[Subgraph, ...]) -> Signature:
    key, number = _text(table.SignatureKey()), int(table.SubgraphIndex())
    _in_range(number, 0, len(subgraphs), f"the subgraph of signature {key}")
    sides = []
    for side in ("Inputs", "Outputs"):
        maps = [getattr(table, side)(k) for k in range(getattr(table, f"{side}Length")())]
        sides.append(tuple((_text(m.Name()), int(m.TensorIndex())) for m in maps))
        for name, at in sides[-1]:
            _in_range(at, 0, len(subgraphs[number].tensors), f"the tensor {name} of signature {key}")
    return Signature(key, number, *sides)


def read_model(data: bytes, fields: OptionFields) -> tuple[Subgraph, ...]:
    """The subgraphs of a file; ``fields`` names, per operator, its options table and the accessors to read.

    Raises:
        BuildError: the file is cut off or damaged, or a tensor is impossible (its size, its constant).
    """
    verify_file(data)
    try:
        model = tflite.Model.GetRootAs(data)
        if model.SubgraphsLength() == 0:
            raise malformed("it has no subgraph")
        return tuple(_subgraph(model, k, fields) for k in range(model.SubgraphsLength()))
    except _DAMAGE as error:
        raise malformed(f"a table cannot be read ({type(error).__name__}: {error})") from error


def _subgraph(model: Any, index: int, fields: OptionFields) -> Subgraph:
    graph = model.Subgraphs(index)
    tensors = tuple(_tensor(model, graph.Tensors(k), k) for k in range(graph.TensorsLength()))
    operators = tuple(_operator(model, graph.Operators(k), k, fields) for k in range(graph.OperatorsLength()))
    inputs = _ints(graph, "Inputs")
    given = {*inputs, *(n for o in operators for n in o.outputs)}
    tensors = tuple(t if t.index in given else _empty_constant(t) for t in tensors)
    found = Subgraph(index, tensors, operators, inputs, _ints(graph, "Outputs"))
    for tensor in tensors:
        if tensor.blocks is not None:
            for number in (tensor.blocks.scales, tensor.blocks.zero_points):
                _in_range(number, -1, len(tensors), f"the scales or zero points of tensor {tensor.name}")
    for number in (*found.inputs, *found.outputs):
        _in_range(number, 0, len(tensors), f"an input or output of subgraph {index}")
    for operator in operators:
        for number in (*operator.inputs, *operator.outputs, *operator.intermediates):
            _in_range(number, -1, len(tensors), f"a tensor of operator {operator.index} of subgraph {index}")
    return found


def _in_range(number: int, lo: int, count: int, what: str) -> None:
    if not lo <= number < count:
        raise malformed(f"{what} is number {number} of {count}")


def _ints(table: Any, name: str) -> tuple[int, ...]:
    if getattr(table, f"{name}Length")() == 0:
        return ()
    return tuple(getattr(table, f"{name}AsNumpy")().tolist())


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


def _tensor(model: Any, table: Any, index: int) -> Tensor:
    name = _text(table.Name()) or f"tensor_{index}"
    type_name = TYPE_NAMES.get(table.Type(), f"type {table.Type()}")
    dtype = _DTYPES.get(type_name)
    shape = _ints(table, "Shape")
    signature = _ints(table, "ShapeSignature") or shape
    if any(d < 0 for d in shape) or len(signature) != len(shape) or len(shape) > 8:
        raise malformed(f"tensor {name} has the shape {list(shape)} and the signature {list(signature)}")
    if math.prod(shape) * (dtype.nbytes if dtype else 1) > MAX_BYTES:
        raise malformed(f"tensor {name} of shape {list(shape)} has more than {MAX_BYTES} bytes")
    scales, zero_points, axis = _quantization(table, name)
    blocks = _blocks(table, name)
    if type_name == "INT4" and (data := _nibbles(model, table, name, shape)) is not None:
        dtype = I8
    else:
        data = _constant(model, table, name, dtype, shape)
    ranked = bool(shape) or bool(table.HasRank())
    variable = bool(table.IsVariable())
    if variable and data is not None:  # LiteRT refuses it, tflite-micro clears it
        raise BuildError(f"tensor {name} is a variable with contents in the file, and would start with others")
    return Tensor(
        index, name, type_name, dtype, shape, signature, ranked, data, scales, zero_points, axis, variable, blocks
    )


def _quantization(table: Any, name: str) -> tuple[tuple[float, ...], tuple[int, ...], int]:
    found = table.Quantization()
    if found is None or found.DetailsType() == BLOCKWISE or found.ScaleLength() == 0:
        return (), (), 0  # what scales are beside other details means nothing
    if found.DetailsType() != 0:
        raise BuildError(
            "quantisation other than by scale and zero point cannot be imported", where=f"tensor {name}"
        )
    scales = tuple(float(v) for v in found.ScaleAsNumpy())
    zero_points = _ints(found, "ZeroPoint") or (0,) * len(scales)
    if len(zero_points) != len(scales):  # what the scales are matters where an operator computes with them
        raise malformed(f"tensor {name} has {len(scales)} scales and {len(zero_points)} zero points")
    return scales, zero_points, int(found.QuantizedDimension())


def _blocks(table: Any, name: str) -> Blocks | None:
    found = table.Quantization()
    if found is None or found.DetailsType() != BLOCKWISE:
        return None
    if found.Details() is None:
        raise malformed(f"tensor {name} has blocks of an unknown size")
    given = BlockwiseQuantization(found.Details())
    return Blocks(given.Scales(), given.ZeroPoints(), given.BlockSize())


def _contents(model: Any, table: Any, name: str) -> NDArray[np.uint8]:
    """The bytes of a tensor's buffer, where they stand in the file: in a table, or behind all tables, as converters
    write large models; none for a tensor that is computed."""
    number = int(table.Buffer())
    _in_range(number, 0, model.BuffersLength(), f"the buffer of tensor {name}")
    buffer = model.Buffers(number)
    if buffer.DataLength() != 0:
        return np.asarray(buffer.DataAsNumpy())
    return _outside(model, int(buffer.Offset()), int(buffer.Size()), f"the constant {name}")


def _outside(model: Any, start: int, size: int, what: str) -> NDArray[np.uint8]:
    """``size`` bytes of the file from ``start``; a start of 0 or 1 says that there are none."""
    file = model._tab.Bytes
    if start <= 1:
        return np.zeros(0, np.uint8)
    if start + size > len(file):
        raise malformed(f"{what} has {size} bytes from byte {start}, beyond the end of the file")
    return np.frombuffer(file, np.uint8, size, start)


def _nibbles(model: Any, table: Any, name: str, shape: tuple[int, ...]) -> NDArray[np.int8] | None:
    """A constant of 4 bits as i8: two elements a byte, the lower bits first; None for a tensor that is computed."""
    raw, count = _contents(model, table, name), math.prod(shape)
    if raw.size == 0:
        return None
    if raw.size != (count + 1) // 2:
        raise malformed(
            f"the constant {name} has {raw.size} bytes, its shape {list(shape)} of 4 bits needs {(count + 1) // 2}"
        )
    pairs = raw.view(np.int8)
    both = np.stack([np.left_shift(pairs, 4) >> 4, pairs >> 4], axis=1)
    return both.reshape(-1)[:count].reshape(shape)


def _constant(
    model: Any, table: Any, name: str, dtype: DType | None, shape: tuple[int, ...]
) -> NDArray[Any] | None:
    raw = _contents(model, table, name)
    if raw.size == 0 or dtype is None:
        return None
    if table.Sparsity() is not None:
        return densified(raw.tobytes(), table.Sparsity(), name, dtype, shape)
    expected = math.prod(shape) * dtype.nbytes
    if raw.size != expected:
        raise malformed(
            f"the constant {name} has {raw.size} bytes, its shape {list(shape)} of {dtype} needs {expected}"
        )
    return np.frombuffer(raw.data, dtype=dtype.numpy.newbyteorder("<")).reshape(shape)


def _empty_constant(tensor: Tensor) -> Tensor:
    """A tensor that nothing computes: where it has no elements, a constant whose buffer is empty."""
    if tensor.data is not None or tensor.dtype is None or 0 not in tensor.shape or -1 in tensor.signature:
        return tensor
    return replace(tensor, data=np.zeros(tensor.shape, tensor.dtype.numpy))


def _operator(model: Any, table: Any, index: int, fields: OptionFields) -> Operator:
    _in_range(int(table.OpcodeIndex()), 0, model.OperatorCodesLength(), f"the code of operator {index}")
    code = model.OperatorCodes(table.OpcodeIndex())
    number = max(int(code.BuiltinCode()), int(code.DeprecatedBuiltinCode()))
    custom = number == tflite.BuiltinOperator.CUSTOM
    name = _text(code.CustomCode()) if custom else BUILTIN.get(number, f"builtin {number}")
    payload = _custom_options(model, table, index) if custom else b""
    options = {} if custom else _options(table, name, fields)
    inputs, outputs, between = (_ints(table, side) for side in ("Inputs", "Outputs", "Intermediates"))
    return Operator(index, name, custom, inputs, outputs, options, payload, between)


def _custom_options(model: Any, table: Any, index: int) -> bytes:
    if table.CustomOptionsLength():
        return bytes(table.CustomOptionsAsNumpy())
    start, size = int(table.LargeCustomOptionsOffset()), int(table.LargeCustomOptionsSize())
    return _outside(model, start, size, f"the options of operator {index}").tobytes()


def _options(table: Any, name: str, fields: OptionFields) -> dict[str, Any]:
    """The options of an operator by accessor name; empty where the file has none."""
    union, known = table.BuiltinOptions(), OPTIONS.get(table.BuiltinOptionsType())
    if union is None:
        union, known = table.BuiltinOptions2(), OPTIONS2.get(table.BuiltinOptions2Type())
    if name not in fields or union is None:
        return {}
    kind, accessors = fields[name]
    if not kind or known != kind:
        return {}
    options = options_table(kind, union.Bytes, union.Pos)
    return {a: _option(getattr(options, a)()) for a in accessors}


def _option(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    if isinstance(value, bytes):
        return _text(value)
    return () if value is None else value
