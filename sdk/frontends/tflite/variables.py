"""What a model keeps from run to run: resources, which handles name, and variable tensors of recurrent operators."""

from __future__ import annotations

from sdk.compiler.ir.graph import ReadState, Value, WriteState
from sdk.compiler.ir.module import State
from sdk.compiler.ir.types import I8, DType, TensorType
from sdk.errors import BuildError
from sdk.frontends.tflite.context import Builder, OpNode, tensor_quant
from sdk.frontends.tflite.reader import Tensor

__all__ = ["read_kept", "state_of", "tensor_type", "write_kept"]


def tensor_type(tensor: Tensor) -> TensorType:
    """The type of a tensor as the file states it.

    Raises:
        BuildError: elements of a type without counterpart here.
    """
    if tensor.dtype is None:
        raise BuildError(f"tensor {tensor.name} has type {tensor.type_name}")
    return TensorType(tensor.dtype, tensor.shape, tensor_quant(tensor))


def state_of(builder: Builder, key: str | int, type: TensorType, stem: str = "") -> str:
    """The state of a variable, made at its first use and named after it, or ``stem``; its type never changes.

    Raises:
        BuildError: it was used with another type.
    """
    if key in builder.state_names:
        state = builder.states[builder.state_names[key]]
        _same_type(stem or key, state.type, type)
        return state.name
    name = builder.value_name(stem or str(key))
    builder.states[name] = State(name, type, _initial(builder, key, name, type))
    builder.state_names[key] = name
    return name


def _same_type(key: str | int, one: TensorType, two: TensorType) -> None:
    if (one.dtype, one.shape) != (two.dtype, two.shape):
        raise BuildError(f"variable {key} is {one.dtype}{list(one.shape)} and {two.dtype}{list(two.shape)}")


def _initial(builder: Builder, key: str | int, name: str, type: TensorType) -> str | int:
    """The constant a variable starts from, or its one value; the stored zero when nothing assigns it."""
    first = builder.initial.get(key) if isinstance(key, str) else None
    if first is None or first.data is None:
        return type.quant.zero_point if type.quant else 0
    _same_type(key, tensor_type(first), type)
    values = first.data.reshape(-1)
    if values.size and (values == values[0]).all() and not type.dtype.is_float:
        return int(values[0])
    return builder.const(f"{name}_init", first.data).name


def read_kept(node: OpNode, k: int, kind: DType, shape: tuple[int, ...]) -> Value:
    """Input ``k``, a variable tensor, as the last run left it, its elements taken as a tensor of ``shape``. Before the
    first run it holds the stored zero.

    Raises:
        BuildError: it is no variable, or has other elements.
    """
    tensor = node.tensor(k)
    type = TensorType(kind, shape, tensor_quant(tensor))
    found = tensor_type(tensor)
    if not tensor.variable:
        raise BuildError(f"input {k} ({tensor.title}) is no variable: it must be kept from run to run")
    if found.dtype != kind or found.size != type.size:
        has = f"keeps {found.dtype}{list(tensor.shape)}"
        raise BuildError(f"input {k} ({tensor.title}) {has}, needed: {type.size} elements of {kind}")
    if kind != I8 and type.quant is not None and type.quant.zero_point:
        raise BuildError(f"tensor {tensor.name} of {kind} has the zero point {type.quant.zero_point}")
    state = state_of(node.builder, tensor.index, type, tensor.title)
    value = Value(node.builder.value_name(f"{state}_before"), type)
    node.builder.body.append(ReadState(value, state, source=node.source))
    return value


def write_kept(node: OpNode, k: int, value: Value) -> None:
    """Replaces what input ``k``, a variable tensor that was read, keeps for the next run."""
    state = node.builder.state_names[node.tensor(k).index]
    node.builder.body.append(WriteState(state, node.builder.materialize(value, node.source), source=node.source))
