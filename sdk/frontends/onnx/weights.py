"""Initialisers of an ONNX model replaced by others."""

from __future__ import annotations

from typing import Final

import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import TensorProto

from sdk.errors import BuildError
from sdk.frontends.tensors import Tensors, matched

__all__ = ["retensored"]

_KINDS: Final = {
    TensorProto.BOOL: "BOOL", TensorProto.UINT8: "U8", TensorProto.INT8: "I8", TensorProto.UINT16: "U16",
    TensorProto.INT16: "I16", TensorProto.FLOAT16: "F16", TensorProto.BFLOAT16: "BF16", TensorProto.UINT32: "U32",
    TensorProto.INT32: "I32", TensorProto.FLOAT: "F32", TensorProto.UINT64: "U64", TensorProto.INT64: "I64",
    TensorProto.DOUBLE: "F64",
}  # fmt: skip
_FIELDS: Final = (
    "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data", "external_data",
    "data_location",
)  # fmt: skip


def retensored(data: bytes, given: Tensors) -> bytes:
    """The file of a model whose initialisers of these names hold these elements; the others keep their own.

    Raises:
        UsageError: the names, types or shapes are not the model's.
        BuildError: the file is damaged.
    """
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise BuildError("the file is not a valid ONNX model", why=str(error)[:200]) from None
    tensors = {t.name: t for t in model.graph.initializer}
    known = {name: (_KINDS.get(t.data_type, ""), tuple(t.dims)) for name, t in tensors.items()}
    for name, content in matched(given, known, (), "initialiser").items():
        for field in _FIELDS:
            tensors[name].ClearField(field)
        tensors[name].raw_data = content
    try:
        return bytes(model.SerializeToString())
    except (ValueError, EncodeError) as error:
        raise BuildError("with these tensors the model is no file of less than 2 GB", why=str(error)[:200]) from None
