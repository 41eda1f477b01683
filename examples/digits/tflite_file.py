"""Writing a .tflite file: int8 tensors and the operators between them, by the schema of ``tflite``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import tflite
from numpy.typing import NDArray

__all__ = ["Op", "Quant", "Tensor", "conv2d", "fully_connected", "reshape", "softmax", "write"]

BUFFER_ALIGNMENT = 16  # what the schema asks of a tensor's data
TYPES = {"int8": tflite.TensorType.INT8, "int32": tflite.TensorType.INT32}


@dataclass(frozen=True)
class Quant:
    """real = scale * (q - zero_point); one scale, or one per slice of axis 0."""

    scale: tuple[float, ...]
    zero_point: int = 0


@dataclass(frozen=True)
class Tensor:
    """A tensor of the model; ``data`` is a constant's, None for what is computed."""

    name: str
    shape: tuple[int, ...]
    quant: Quant | None = None
    data: NDArray[Any] | None = None

    @property
    def type(self) -> str:
        """Its element type: int8 unless its data say another."""
        return "int8" if self.data is None else str(self.data.dtype)


@dataclass(frozen=True)
class Op:
    """An operator: its code and options, and the names of its inputs and outputs."""

    code: int
    version: int
    options_type: int
    options: Callable[[flatbuffers.Builder], int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def conv2d(stride: int, inputs: tuple[str, ...], output: str) -> Op:
    """CONV_2D, padding SAME, relu."""

    def options(b: flatbuffers.Builder) -> int:
        tflite.Conv2DOptionsStart(b)
        tflite.Conv2DOptionsAddPadding(b, tflite.Padding.SAME)
        tflite.Conv2DOptionsAddStrideW(b, stride)
        tflite.Conv2DOptionsAddStrideH(b, stride)
        tflite.Conv2DOptionsAddFusedActivationFunction(b, tflite.ActivationFunctionType.RELU)
        return int(tflite.Conv2DOptionsEnd(b))

    return Op(
        tflite.BuiltinOperator.CONV_2D, 3, tflite.BuiltinOptions.Conv2DOptions, options, inputs, (output,)
    )


def fully_connected(inputs: tuple[str, ...], output: str) -> Op:
    """FULLY_CONNECTED without an activation."""

    def options(b: flatbuffers.Builder) -> int:
        tflite.FullyConnectedOptionsStart(b)
        return int(tflite.FullyConnectedOptionsEnd(b))

    kind = tflite.BuiltinOptions.FullyConnectedOptions
    return Op(tflite.BuiltinOperator.FULLY_CONNECTED, 4, kind, options, inputs, (output,))


def reshape(shape: tuple[int, ...], inputs: tuple[str, ...], output: str) -> Op:
    """RESHAPE; the second of ``inputs`` is the shape as a constant."""

    def options(b: flatbuffers.Builder) -> int:
        new_shape = _vector(b, np.array(shape, np.int32))
        tflite.ReshapeOptionsStart(b)
        tflite.ReshapeOptionsAddNewShape(b, new_shape)
        return int(tflite.ReshapeOptionsEnd(b))

    return Op(
        tflite.BuiltinOperator.RESHAPE, 1, tflite.BuiltinOptions.ReshapeOptions, options, inputs, (output,)
    )


def softmax(source: str, output: str) -> Op:
    """SOFTMAX with beta 1."""

    def options(b: flatbuffers.Builder) -> int:
        tflite.SoftmaxOptionsStart(b)
        tflite.SoftmaxOptionsAddBeta(b, 1.0)
        return int(tflite.SoftmaxOptionsEnd(b))

    return Op(
        tflite.BuiltinOperator.SOFTMAX, 2, tflite.BuiltinOptions.SoftmaxOptions, options, (source,), (output,)
    )


def write(
    tensors: Sequence[Tensor], ops: Sequence[Op], inputs: Sequence[str], outputs: Sequence[str], about: str
) -> bytes:
    """The bytes of a model with one subgraph; the same arguments give the same bytes."""
    b = flatbuffers.Builder(1 << 16)
    index = {tensor.name: k for k, tensor in enumerate(tensors)}
    codes = sorted({(op.code, op.version) for op in ops})
    constants = [t.data for t in tensors if t.data is not None]
    buffers = [_buffer(b, None), *(_buffer(b, data) for data in constants)]  # buffer 0 is the empty one
    made, used = [], 0
    for tensor in tensors:
        used += tensor.data is not None
        made.append(_tensor(b, tensor, used if tensor.data is not None else 0))
    subgraph = _subgraph(
        b,
        made,
        [_operator(b, op, codes.index((op.code, op.version)), index) for op in ops],
        [index[name] for name in inputs],
        [index[name] for name in outputs],
    )
    fields = (
        ("OperatorCodes", _tables(b, [_code(b, *code) for code in codes])),
        ("Subgraphs", _tables(b, [subgraph])),
        ("Description", b.CreateString(about)),
        ("Buffers", _tables(b, buffers)),
    )
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    for name, value in fields:
        getattr(tflite, f"ModelAdd{name}")(b, value)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def _vector(b: flatbuffers.Builder, values: NDArray[Any]) -> int:
    return int(b.CreateNumpyVector(values))


def _tables(b: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())


def _buffer(b: flatbuffers.Builder, data: NDArray[Any] | None) -> int:
    vector = None
    if data is not None:
        raw = data.tobytes()
        b.StartVector(1, len(raw), BUFFER_ALIGNMENT)
        for byte in reversed(raw):
            b.PrependByte(byte)
        vector = b.EndVector()
    tflite.BufferStart(b)
    if vector is not None:
        tflite.BufferAddData(b, vector)
    return int(tflite.BufferEnd(b))


def _tensor(b: flatbuffers.Builder, tensor: Tensor, buffer: int) -> int:
    name, shape = b.CreateString(tensor.name), _vector(b, np.array(tensor.shape, np.int32))
    quant = None if tensor.quant is None else _quantization(b, tensor.quant)
    tflite.TensorStart(b)
    tflite.TensorAddShape(b, shape)
    tflite.TensorAddType(b, TYPES[tensor.type])
    tflite.TensorAddBuffer(b, buffer)
    tflite.TensorAddName(b, name)
    if quant is not None:
        tflite.TensorAddQuantization(b, quant)
    return int(tflite.TensorEnd(b))


def _quantization(b: flatbuffers.Builder, quant: Quant) -> int:
    scale = _vector(b, np.array(quant.scale, np.float32))
    zero = _vector(b, np.full(len(quant.scale), quant.zero_point, np.int64))
    tflite.QuantizationParametersStart(b)
    tflite.QuantizationParametersAddScale(b, scale)
    tflite.QuantizationParametersAddZeroPoint(b, zero)
    return int(tflite.QuantizationParametersEnd(b))


def _code(b: flatbuffers.Builder, code: int, version: int) -> int:
    tflite.OperatorCodeStart(b)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, code)  # all codes here are below 127, old readers want it
    tflite.OperatorCodeAddVersion(b, version)
    tflite.OperatorCodeAddBuiltinCode(b, code)
    return int(tflite.OperatorCodeEnd(b))


def _operator(b: flatbuffers.Builder, op: Op, code: int, index: dict[str, int]) -> int:
    options = op.options(b)
    inputs = _vector(b, np.array([index[name] for name in op.inputs], np.int32))
    outputs = _vector(b, np.array([index[name] for name in op.outputs], np.int32))
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, code)
    tflite.OperatorAddInputs(b, inputs)
    tflite.OperatorAddOutputs(b, outputs)
    tflite.OperatorAddBuiltinOptionsType(b, op.options_type)
    tflite.OperatorAddBuiltinOptions(b, options)
    return int(tflite.OperatorEnd(b))


def _subgraph(
    b: flatbuffers.Builder, tensors: list[int], ops: list[int], inputs: list[int], outputs: list[int]
) -> int:
    fields = (
        ("Tensors", _tables(b, tensors)),
        ("Inputs", _vector(b, np.array(inputs, np.int32))),
        ("Outputs", _vector(b, np.array(outputs, np.int32))),
        ("Operators", _tables(b, ops)),
        ("Name", b.CreateString("main")),
    )
    tflite.SubGraphStart(b)
    for name, value in fields:
        getattr(tflite, f"SubGraphAdd{name}")(b, value)
    return int(tflite.SubGraphEnd(b))
