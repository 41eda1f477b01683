"""An ONNX file as a checked protobuf: its opsets, its tensors as arrays, data beside the file included."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from sdk.compiler.ir.types import F32, I8, SCALARS, U8, DType
from sdk.errors import BuildError

__all__ = [
    "STAND_INS", "Source", "element_code", "element_name", "element_type", "external_files", "malformed",
    "opset_versions", "read_model", "tensor_array",
]  # fmt: skip

Array = NDArray[Any]
MAX_BYTES: Final = (1 << 31) - 1
MAX_RANK: Final = 32
OLDEST_OPSET: Final = 7
_ELEMENTS: Final[dict[int, str]] = {
    TensorProto.FLOAT: "f32", TensorProto.DOUBLE: "f64", TensorProto.FLOAT16: "f16",
    TensorProto.INT8: "i8", TensorProto.INT16: "i16", TensorProto.INT32: "i32", TensorProto.INT64: "i64",
    TensorProto.UINT8: "u8", TensorProto.UINT16: "u16", TensorProto.UINT32: "u32", TensorProto.UINT64: "u64",
    TensorProto.BOOL: "bool",
}  # fmt: skip
_BYTES: Final = {name: getattr(TensorProto, name, 0) for name in ("INT4", "INT2", "UINT4", "UINT2")}
_FLOATS: Final = (
    "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0", "FLOAT4E2M1"
)  # fmt: skip
# Types without a counterpart of their own, and the type that holds their values.
STAND_INS: Final[dict[int, DType]] = {
    **{code: U8 if name.startswith("U") else I8 for name, code in _BYTES.items() if code},
    **{getattr(TensorProto, name): F32 for name in _FLOATS if hasattr(TensorProto, name)},
}


@dataclass(frozen=True)
class Source:
    """A model read: the protobuf, the folder that data outside of it lies in, versions of its operator sets."""

    model: Any
    folder: Path | None
    opsets: Mapping[str, int]


def malformed(why: str) -> BuildError:
    """The error for a file that is not a whole ONNX model."""
    return BuildError("the file is not a valid ONNX model", why=why, hint="export or download it again")


def element_type(code: int) -> DType | None:
    """Our type for ONNX's number of an element type, a wider one for those narrower than ours; None when there is none
    (text, complex numbers)."""
    return STAND_INS.get(code) or SCALARS.get(_ELEMENTS.get(code, ""))


def element_name(code: int) -> str:
    """How ONNX calls an element type."""
    try:
        return str(TensorProto.DataType.Name(code)).lower()
    except ValueError:
        return f"number {code}"


def read_model(model: bytes | Any, folder: Path | None) -> Source:
    """The model of a file's bytes, or a ModelProto as it is; ``folder`` is where its external data may lie.

    Raises:
        BuildError: it is damaged, or of a version outside those supported.
    """
    if isinstance(model, bytes):
        if not model:
            raise malformed("it has only 0 bytes")
        try:
            model = onnx.load_model_from_string(model)
        except (DecodeError, ValueError, RuntimeError) as error:
            raise malformed(f"the protobuf cannot be decoded ({str(error) or type(error).__name__})") from error
    _check_text(model)
    if not model.HasField("graph"):
        raise malformed("it has no graph")
    opsets = opset_versions(model)
    _check_opset(opsets)
    return Source(model, folder, opsets)


def _check_text(message: Any) -> None:
    """Refuses names that are no text: the protobuf package hands them on as bytes."""
    for field, value in message.ListFields():
        several = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        if field.type == field.TYPE_MESSAGE:
            for one in value if several else (value,):
                _check_text(one)
        elif field.type == field.TYPE_STRING and not all(isinstance(v, str) for v in (value if several else (value,))):
            raise malformed(f"{field.name} {value!r} is no text")


def opset_versions(owner: Any) -> dict[str, int]:
    """The version of each operator set that a model or function imports, by domain."""
    return {("" if e.domain == "ai.onnx" else e.domain): int(e.version) for e in owner.opset_import}


def _check_opset(opsets: Mapping[str, int]) -> None:
    newest = onnx.defs.onnx_opset_version()
    if "" not in opsets:
        return
    version = opsets[""]
    if version < OLDEST_OPSET:
        raise BuildError(
            f"the model uses opset {version}, supported are {OLDEST_OPSET} to {newest}",
            hint="convert it: onnx.version_converter.convert_version(model, 18)",
        )
    if version > newest:
        raise BuildError(
            f"the model uses opset {version}, the installed onnx package knows up to {newest}",
            hint="pip install --upgrade onnx, or export with an older opset",
        )


def tensor_array(tensor: Any, folder: Path | None) -> Array:
    """The contents of a TensorProto.

    Raises:
        BuildError: its type is not supported, its data does not fit its shape, or lies outside the model's folder.
    """
    kind = element_type(tensor.data_type)
    if kind is None:
        raise BuildError(f"constant {tensor.name!r} has elements of type {element_name(tensor.data_type)}")
    dims = tuple(int(d) for d in tensor.dims)
    if any(d < 0 for d in dims) or len(dims) > MAX_RANK:
        raise malformed(f"constant {tensor.name!r} has the shape {list(dims)}")
    if math.prod(dims) * kind.nbytes > MAX_BYTES:
        raise BuildError(f"constant {tensor.name!r} has more than {MAX_BYTES} bytes")
    if tensor.data_type in STAND_INS:
        return _narrow(tensor, kind, dims, folder)
    size = math.prod(dims) * kind.nbytes
    if tensor.data_location == TensorProto.EXTERNAL:
        raw = _external(tensor, folder, size)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        return _typed(tensor, kind, dims)
    if len(raw) != size:
        raise malformed(f"constant {tensor.name!r} has {len(raw)} bytes, its shape {list(dims)} of {kind} needs {size}")
    return np.frombuffer(raw, dtype=kind.numpy.newbyteorder("<")).astype(kind.numpy).reshape(dims)


def _narrow(tensor: Any, kind: DType, dims: tuple[int, ...], folder: Path | None) -> Array:
    """Contents of a type narrower than ours, in the type that stands for it."""
    if tensor.data_location == TensorProto.EXTERNAL:
        bits = int(_packed_bits(tensor.data_type))
        raw = _external(tensor, folder, -(-math.prod(dims) * bits // 8))
        inner = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=raw)
    else:
        inner = tensor
    try:
        return np.asarray(numpy_helper.to_array(inner)).astype(kind.numpy).reshape(dims)
    except (ValueError, TypeError, OverflowError, AttributeError) as error:
        raise malformed(f"constant {tensor.name!r} cannot be read ({error})") from error


def _packed_bits(code: int) -> int:
    """Bits of an element of a narrow type as a file packs it."""
    name = element_name(code)
    return next(bits for text, bits in (("16", 16), ("8", 8), ("4", 4), ("2", 2)) if text in name)


def _typed(tensor: Any, kind: DType, dims: tuple[int, ...]) -> Array:
    """Contents kept as a list of numbers."""
    lists = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data)
    if math.prod(dims) and sum(map(len, lists)) != math.prod(dims):
        raise malformed(f"constant {tensor.name!r} of shape {list(dims)} holds {sum(map(len, lists))} numbers")
    try:
        return np.asarray(numpy_helper.to_array(tensor), dtype=kind.numpy).reshape(dims)
    except (ValueError, TypeError, OverflowError, AttributeError) as error:
        raise malformed(f"constant {tensor.name!r} cannot be read ({error})") from error


def external_files(data: bytes) -> list[str]:
    """Names of the files that hold data of a model, relative to its folder."""
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError, RuntimeError):
        return []  # reading the model says what is wrong with it
    found = {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}
    return sorted(found)


def _external(tensor: Any, folder: Path | None, size: int) -> bytes:
    """Bytes of a tensor that lie in a file beside the model."""
    entries = {e.key: e.value for e in tensor.external_data}
    what = f"the data of constant {tensor.name!r}"
    location = entries.get("location", "")
    if folder is None:
        raise BuildError(f"{what} is in the file {location!r}, and the model was given without a folder")
    root = folder.resolve()
    path = Path(os.path.normpath(root / location))
    if not location or not path.resolve().is_relative_to(root):
        raise BuildError(f"{what} is in {location!r}, outside the model's folder")
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", str(size)))
    except ValueError as error:
        raise malformed(f"{what} has no proper place ({error})") from None
    if offset < 0 or length != size:
        raise malformed(f"{what} is {length} bytes from {offset} of {location!r}, its shape needs {size}")
    try:
        with path.open("rb") as file:
            file.seek(offset)
            raw = file.read(length)
    except OSError as error:
        raise BuildError(
            f"{what} cannot be read", where=location, why=error.strerror, hint="keep it beside the model"
        ) from None
    if len(raw) != length:
        raise malformed(f"{what} ends {length - len(raw)} bytes early in {location!r}")
    return raw


def element_code(kind: DType) -> int:
    """ONNX's number of an element type."""
    return next(code for code, name in _ELEMENTS.items() if name == str(kind))
