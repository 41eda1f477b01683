"""A model's inputs and outputs as the C around it names them, read from the record that its agent tells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sdk.errors import BuildError

__all__ = ["Entry", "Port", "entries_of"]

_TYPES: Final = {
    "I8": "int8_t", "U8": "uint8_t", "I16": "int16_t", "U16": "uint16_t", "I32": "int32_t", "U32": "uint32_t",
    "I64": "int64_t", "U64": "uint64_t", "F16": "uint16_t", "F32": "float", "F64": "double", "BOOL": "bool",
}  # fmt: skip
_BYTES: Final = {"8": 1, "16": 2, "32": 4, "64": 8, "OOL": 1}
_TEXT: Final = r'"((?:[^"\\]|\\.)*)"'
_TENSORS: Final = re.compile(r"static const sdk_rt_tensor_t (\w+)_tensors\[\] = \{\n(.*?)\n\};", re.DOTALL)
_TENSOR: Final = re.compile(rf"    \{{ {_TEXT}, SDK_RT_(\w+), (\d+), (\w+), (\d+)u, ([^,]+), ([^,]+) \}},")
_SHAPE: Final = re.compile(r"static const int32_t (\w+_shape_\d+)\[\] = \{([^}]*)\};")
_RECORD: Final = re.compile(r"^const sdk_rt_model_t (\w+)_rt_model = \{\n(.*?)\n\};", re.DOTALL | re.MULTILINE)
_PLACE: Final = r"    case (\d+)u:\n        return (?:{0}_?_(?:in|out)_(?:(\w+)\(&context|(\w+)_bytes;)|&\w+\[(\d+)\])"
_BOUNDS: Final = re.compile(rf"    \{{ {_TEXT}, (-?\d+), (-?\d+) \}},")


@dataclass(frozen=True)
class Port:
    """An input or output: its name as the agent tells it, the one in C, the type of an element in C and as SDK_RT has
    it, how many, and what they mean; ``scale`` is 0 where elements are plain values."""

    name: str
    field: str
    c_type: str
    elements: int
    shape: str
    meaning: str
    zero: str  # the element that stands for the real number 0
    kind: str
    scale: float


@dataclass(frozen=True)
class Entry:
    """An entry: what its functions begin with, its ports in order, and its dims with their bounds."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    dims: tuple[tuple[str, int, int], ...]


def entries_of(glue: str) -> list[Entry]:
    """The entries of a model, from the text of its ``<name>_glue.c``.

    Raises:
        BuildError: it is no such text.
    """
    shapes = {name: text for name, text in _SHAPE.findall(glue)}
    tables = {name: _TENSOR.findall(body) for name, body in _TENSORS.findall(glue)}
    found = []
    for name, body in _RECORD.findall(glue):
        told = dict(re.findall(r"\.(\w+) = ([^,\n]+),", body))
        count, own = int(told["input_count"]), told["tensors"].removesuffix("_tensors")
        ports = tables.get(own, [])
        outputs = int(re.sub(r"\D.*", "", told["output_count"]))
        if len(ports) != count + outputs:
            raise BuildError(f"the record of {name} tells other inputs and outputs than it has")
        bounds = re.search(rf"static const sdk_rt_dim_t {own}_bounds\[\] = \{{\n(.*?)\n\}};", glue, re.DOTALL)
        body_of = re.search(rf"static void \*{own}_data\(uint16_t index\)\n{{(.*?)\n}}", glue, re.DOTALL)
        places = re.findall(_PLACE.format(name), body_of[1]) if body_of else []
        fields = {int(k): in_arena or of_caller or f"dim{number}" for k, in_arena, of_caller, number in places}
        if sorted(fields) != list(range(len(ports))):
            raise BuildError(f"the record of {name} does not tell where its inputs and outputs are")
        dims = [(n, int(lo), int(hi)) for n, lo, hi in _BOUNDS.findall(bounds[1])] if bounds else []
        inputs, results = _ports(0, ports[:count], shapes, fields), _ports(count, ports[count:], shapes, fields)
        found.append(Entry(name, inputs, results, tuple(dims)))
    if not found:
        raise BuildError("the model's agent has no record")
    return found


def _ports(
    first: int, rows: Iterable[tuple[str, ...]], shapes: dict[str, str], fields: dict[int, str]
) -> tuple[Port, ...]:
    out = []
    for number, (name, kind, _, shape, nbytes, scale, zero) in enumerate(rows, first):
        width = next(size for end, size in _BYTES.items() if kind.endswith(end))
        zero_point = zero.strip("()")
        factor = float(scale.rstrip("fF"))
        real = f"real value = {scale} * (stored - {zero})" if factor else "plain values"
        text = shapes.get(shape, "")
        c_type = _TYPES[kind]
        size = int(nbytes) // width
        out.append(Port(name, fields[number], c_type, size, f"[{text}]", real, zero_point, kind, factor))
    return tuple(out)
