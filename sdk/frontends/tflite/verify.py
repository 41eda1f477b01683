"""A structural check of a FlatBuffers file: every offset and length that is followed stays inside it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, Literal

from sdk.errors import BuildError

__all__ = ["has_identifier", "verify_file"]

IDENTIFIER: Final = b"TFL3"
Kind = Literal["scalar", "vector", "string", "table", "tables", "opaque"]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a table: its slot, and the bytes of a scalar or of an element of a vector."""

    slot: int
    name: str
    kind: Kind
    size: int = 4
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of a table that the reader uses."""

    name: str
    fields: tuple[Field, ...]


_BUFFER = Schema(
    "Buffer", (Field(0, "data", "vector", 1), Field(1, "offset", "scalar", 8), Field(2, "size", "scalar", 8))
)
_CODE = Schema(
    "OperatorCode",
    (
        Field(0, "deprecated_builtin_code", "scalar", 1),
        Field(1, "custom_code", "string"),
        Field(3, "builtin_code", "scalar"),
    ),
)
_QUANTIZATION = Schema(
    "QuantizationParameters",
    (
        Field(2, "scale", "vector", 4),
        Field(3, "zero_point", "vector", 8),
        Field(4, "details_type", "scalar", 1),
        Field(5, "details", "opaque"),
        Field(6, "quantized_dimension", "scalar"),
    ),
)
_TENSOR = Schema(
    "Tensor",
    (
        Field(0, "shape", "vector", 4),
        Field(1, "type", "scalar", 1),
        Field(2, "buffer", "scalar"),
        Field(3, "name", "string"),
        Field(4, "quantization", "table", schema=_QUANTIZATION),
        Field(5, "is_variable", "scalar", 1),
        Field(6, "sparsity", "opaque"),
        Field(7, "shape_signature", "vector", 4),
        Field(8, "has_rank", "scalar", 1),
    ),
)
_OPERATOR = Schema(
    "Operator",
    (
        Field(0, "opcode_index", "scalar"),
        Field(1, "inputs", "vector", 4),
        Field(2, "outputs", "vector", 4),
        Field(3, "builtin_options_type", "scalar", 1),
        Field(4, "builtin_options", "opaque"),
        Field(5, "custom_options", "vector", 1),
        Field(8, "intermediates", "vector", 4),
        Field(9, "large_custom_options_offset", "scalar", 8),
        Field(10, "large_custom_options_size", "scalar", 8),
        Field(11, "builtin_options_2_type", "scalar", 1),
        Field(12, "builtin_options_2", "opaque"),
    ),
)
_SUBGRAPH = Schema(
    "SubGraph",
    (
        Field(0, "tensors", "tables", schema=_TENSOR),
        Field(1, "inputs", "vector", 4),
        Field(2, "outputs", "vector", 4),
        Field(3, "operators", "tables", schema=_OPERATOR),
        Field(4, "name", "string"),
    ),
)
_MAP = Schema("TensorMap", (Field(0, "name", "string"), Field(1, "tensor_index", "scalar")))
_SIGNATURE = Schema(
    "SignatureDef",
    (
        Field(0, "inputs", "tables", schema=_MAP),
        Field(1, "outputs", "tables", schema=_MAP),
        Field(2, "signature_key", "string"),
        Field(4, "subgraph_index", "scalar"),
    ),
)
_MODEL = Schema(
    "Model",
    (
        Field(0, "version", "scalar"),
        Field(1, "operator_codes", "tables", schema=_CODE),
        Field(2, "subgraphs", "tables", schema=_SUBGRAPH),
        Field(4, "buffers", "tables", schema=_BUFFER),
        Field(7, "signature_defs", "tables", schema=_SIGNATURE),
    ),
)


@dataclass
class _Checker:
    data: bytes
    tables: int = 0
    limit: int = field(init=False)

    def __post_init__(self) -> None:
        # a table and the offset that leads to it take 8 bytes: more visits mean that tables are shared
        self.limit = len(self.data) // 8 + 8

    def number(self, code: str, at: int, what: str) -> int:
        if at < 0 or at + struct.calcsize(code) > len(self.data):
            raise malformed(f"{what} lies at byte {at}, outside the file of {len(self.data)} bytes")
        return int(struct.unpack_from(code, self.data, at)[0])

    def follow(self, at: int, what: str) -> int:
        """The place that the offset stored at ``at`` points to."""
        return at + self.number("<I", at, f"the offset of {what}")

    def length(self, at: int, size: int, what: str) -> int:
        """Elements of the vector at ``at``, all of them inside the file."""
        count = self.number("<I", at, f"the length of {what}")
        if at + 4 + count * size > len(self.data):
            raise malformed(f"{what} claims {count} elements at byte {at}, beyond the end of the file")
        return count

    def table(self, at: int, schema: Schema | None, path: str) -> None:
        self.tables += 1
        if self.tables > self.limit:
            raise malformed("the same tables are referred to over and over")
        vtable = at - self.number("<i", at, path)
        length = self.number("<H", vtable, f"the layout of {path}")
        size = self.number("<H", vtable + 2, f"the layout of {path}")
        if length < 4 or length % 2 or vtable + length > len(self.data) or at + size > len(self.data):
            raise malformed(f"{path} has an impossible layout at byte {vtable}")
        slots = [self.number("<H", vtable + k, path) for k in range(4, length, 2)]
        if any(slot >= size for slot in slots if slot):
            raise malformed(f"{path} has a field outside its {size} bytes")
        for item in schema.fields if schema else ():
            if item.slot < len(slots) and slots[item.slot]:
                self.field(at + slots[item.slot], item, f"{path}.{item.name}")

    def field(self, at: int, item: Field, path: str) -> None:
        match item.kind:
            case "scalar":
                if at + item.size > len(self.data):
                    raise malformed(f"{path} at byte {at} is cut off")
            case "vector":
                self.length(self.follow(at, path), item.size, path)
            case "string":
                self.length(self.follow(at, path), 1, path)
            case "table" | "opaque":
                self.table(self.follow(at, path), item.schema, path)
            case "tables":
                start = self.follow(at, path)
                for k in range(self.length(start, 4, path)):
                    self.table(self.follow(start + 4 + 4 * k, f"{path}[{k}]"), item.schema, f"{path}[{k}]")


def malformed(why: str) -> BuildError:
    """The error for a file that is not a whole TensorFlow Lite model."""
    return BuildError(
        "the file is not a valid TensorFlow Lite model", why=why, hint="export or download it again"
    )


def has_identifier(data: bytes) -> bool:
    """Whether ``data`` says of itself that it is a TensorFlow Lite model."""
    return data[4:8] == IDENTIFIER


def verify_file(data: bytes) -> None:
    """Checks identifier, tables, vectors and strings of a .tflite file.

    Raises:
        BuildError: something lies outside the file; says what and where.
    """
    if len(data) < 8:
        raise malformed(f"it has only {len(data)} bytes")
    if not has_identifier(data):
        raise malformed(f"its identifier is {data[4:8]!r} instead of {IDENTIFIER!r}")
    checker = _Checker(data)
    checker.table(checker.follow(0, "the model"), _MODEL, "model")
