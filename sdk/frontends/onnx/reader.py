"""An ONNX file as a checked protobuf: its opsets, its tensors as arrays, data beside the file included."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from sdk.compiler.ir.types import F32, I8, SCALARS, U8, DType
from sdk.errors import BuildError
from sdk.frontends.onnx.externals import Externals, Place, read_places

__all__ = [
    "WIDER_TYPES", "Source", "element_code", "element_name", "element_type", "embedded", "externals_of", "malformed",
    "opset_versions", "read_externals", "read_model", "tensor_array",
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
WIDER_TYPES: Final[dict[int, DType]] = {
    **{code: U8 if name.startswith("U") else I8 for name, code in _BYTES.items() if code},
    **{getattr(TensorProto, name): F32 for name in _FLOATS if hasattr(TensorProto, name)},
}


@dataclass(frozen=True)
class Source:
    """A model read: the protobuf, the data outside of it, versions of its operator sets."""

    model: Any
    externals: Externals
    opsets: Mapping[str, int]


def malformed(why: str) -> BuildError:
    """The error for a file that is not a whole ONNX model."""
    return BuildError("the file is not a valid ONNX model", why=why, hint="export or download it again")


def element_type(code: int) -> DType | None:
    """Our type for ONNX's number of an element type, a wider one for those narrower than ours; None when there is none
    (text, complex numbers)."""
    return WIDER_TYPES.get(code) or SCALARS.get(_ELEMENTS.get(code, ""))


def element_name(code: int) -> str:
    """How ONNX calls an element type."""
    try:
        return str(TensorProto.DataType.Name(code)).lower()
    except ValueError:
        return f"number {code}"


def read_model(model: bytes | Any, folder: Path | None, externals: Externals | None = None) -> Source:
    """The model of a file's bytes, or a ModelProto as it is, with the data outside of it: ``externals`` where that was
    read already, else what lies in ``folder``.

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
    return Source(model, read_externals(model, folder) if externals is None else externals, opsets)


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


def tensor_array(tensor: Any, externals: Externals) -> Array:
    """The contents of a TensorProto.

    Raises:
        BuildError: its type is not supported, its data does not fit its shape, or could not be read beside the model.
    """
    kind = element_type(tensor.data_type)
    if kind is None:
        raise _untyped(tensor)
    dims = _shape(tensor, kind)
    if tensor.data_type in WIDER_TYPES:
        return _narrow(tensor, kind, dims, externals)
    size = _stored_bytes(tensor, kind, dims)
    raw: bytes | memoryview
    if tensor.data_location == TensorProto.EXTERNAL:
        raw = _external(tensor, externals, size)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        return _typed(tensor, kind, dims)
    if len(raw) != size:
        raise malformed(f"constant {tensor.name!r} has {len(raw)} bytes, its shape {list(dims)} of {kind} needs {size}")
    return np.frombuffer(raw, dtype=kind.numpy.newbyteorder("<")).astype(kind.numpy).reshape(dims)


def _untyped(tensor: Any) -> BuildError:
    return BuildError(f"constant {tensor.name!r} has elements of type {element_name(tensor.data_type)}")


def _shape(tensor: Any, kind: DType) -> tuple[int, ...]:
    """The shape of a tensor of a sound size."""
    dims = tuple(int(d) for d in tensor.dims)
    if any(d < 0 for d in dims) or len(dims) > MAX_RANK:
        raise malformed(f"constant {tensor.name!r} has the shape {list(dims)}")
    if math.prod(dims) * kind.nbytes > MAX_BYTES:
        raise BuildError(f"constant {tensor.name!r} has more than {MAX_BYTES} bytes")
    return dims


def _stored_bytes(tensor: Any, kind: DType, dims: tuple[int, ...]) -> int:
    """Bytes that a tensor takes in a file."""
    bits = _packed_bits(tensor.data_type) if tensor.data_type in WIDER_TYPES else 8 * kind.nbytes
    return -(-math.prod(dims) * bits // 8)


def _narrow(tensor: Any, kind: DType, dims: tuple[int, ...], externals: Externals) -> Array:
    """Contents of a type narrower than ours, in the type that stands for it."""
    if tensor.data_location == TensorProto.EXTERNAL:
        raw = bytes(_external(tensor, externals, _stored_bytes(tensor, kind, dims)))
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


def read_externals(model: Any, folder: Path | None) -> Externals:
    """What tensors anywhere in a ModelProto have in files of ``folder``: in graphs, attributes and functions."""
    places = []
    for tensor in _tensors(model) if folder is not None else ():
        with suppress(BuildError):  # what is wrong with a tensor is said where it is used
            kind = element_type(tensor.data_type)
            if tensor.data_location == TensorProto.EXTERNAL and kind is not None:
                places.append(_place(tensor, _stored_bytes(tensor, kind, _shape(tensor, kind))))
    return read_places(places, folder)


def externals_of(data: bytes, folder: Path) -> Externals | None:
    """What the model of a file's bytes has in files of ``folder``; None where they are no model, or need no file."""
    try:
        found = read_externals(onnx.load_model_from_string(data), folder)
    except (DecodeError, ValueError, RuntimeError):
        return None  # reading the model says what is wrong with it
    return found if found.digest else None


def _tensors(message: Any) -> Iterator[Any]:
    """Every tensor in a message, however deep."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            several = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
            for one in value if several else (value,):
                if field.message_type.name == "TensorProto":
                    yield one
                else:
                    yield from _tensors(one)


def embedded(data: bytes, externals: Externals) -> bytes:
    """A model file that needs no other beside it: its bytes with the data of ``externals`` inside.

    Raises:
        BuildError: data is missing, or the whole does not fit one file.
    """
    if not externals.digest:
        return data
    model = onnx.load_model_from_string(data)
    for tensor in _tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            kind = element_type(tensor.data_type)
            if kind is None:
                raise _untyped(tensor)
            raw = _external(tensor, externals, _stored_bytes(tensor, kind, _shape(tensor, kind)))
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = bytes(raw)
    try:
        return bytes(model.SerializeToString())
    except (ValueError, EncodeError) as error:
        message = f"with the data beside it the model is no file of less than {MAX_BYTES} bytes"
        raise BuildError(message, hint="compare with our own interpreter: --against interp") from error


def _place(tensor: Any, size: int) -> Place:
    """Where the data of a tensor of ``size`` bytes lies."""
    entries = {e.key: e.value for e in tensor.external_data}
    what, location = _what(tensor), entries.get("location", "")
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", str(size)))
    except ValueError as error:
        raise malformed(f"{what} has no proper place ({error})") from None
    if not 0 <= offset < 1 << 63 or length != size:
        raise malformed(f"{what} is {length} bytes from {offset} of {location!r}, its shape needs {size}")
    return Place(location, offset, size)


def _what(tensor: Any) -> str:
    return f"the data of constant {tensor.name!r}"


def _external(tensor: Any, externals: Externals, size: int) -> memoryview:
    """Bytes of a tensor that lie in a file beside the model."""
    return externals.at(_place(tensor, size), _what(tensor))


def element_code(kind: DType) -> int:
    """ONNX's number of an element type."""
    return next(code for code, name in _ELEMENTS.items() if name == str(kind))
