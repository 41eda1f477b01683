"""Inputs of an ONNX graph as parameters: named and unnamed open sizes become dims with the user's bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sdk.compiler.ir.graph import Value, fresh_name
from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Var, free_vars, max_value, prove_ge
from sdk.errors import BuildError, UsageError
from sdk.frontends.base import OpenSizesError, UnknownDimsError
from sdk.frontends.builder import Builder
from sdk.frontends.moves import shape_text
from sdk.frontends.names import identifier
from sdk.frontends.onnx.reader import MAX_BYTES, MAX_RANK, element_name, element_type, malformed
from sdk.frontends.onnx.sizes import names_of, read_size

__all__ = ["Bounds", "Inputs", "elements", "parameters", "tensor_of"]

Bounds = int | tuple[int, ...]
MAX_ELEMENTS: Final = 1024  # of a sequence: each is an input of its own


@dataclass(frozen=True)
class Inputs:
    """Inputs that are tensors: ``protos`` those of the model, and the elements of its sequences, numbered; ``parts``
    the names of these by that of the sequence, ``lengths`` how long the user says they are, by the name of a dim."""

    protos: tuple[Any, ...]
    parts: Mapping[str, tuple[str, ...]]
    lengths: Mapping[str, int | None]

    def is_part(self, name: str) -> bool:
        """Whether an input is an element of a sequence."""
        return any(name in parts for parts in self.parts.values())


def elements(protos: Sequence[Any], dims: Mapping[str, Bounds]) -> Inputs:
    """Inputs with the elements of sequences in their place, as many as ``dims`` says: ``<input>_length``.
    Their open sizes are those of the type, or of an element alone where ``dims`` has ``<input>_<k>_<size>``.

    Raises:
        UsageError: it says no number.
    """
    found: list[Any] = []
    parts: dict[str, tuple[str, ...]] = {}
    lengths: dict[str, int | None] = {}
    for proto in protos:
        tensor = _sequence_of(proto)
        if tensor is None:
            found.append(proto)
            continue
        name = f"{identifier(proto.name)}_length"
        lengths[name] = length = _length(name, dims)
        count = 1 if length is None else length  # one, to find what else wants bounds
        parts[proto.name] = tuple(f"{proto.name}_{k}" for k in range(count))
        for part in parts[proto.name]:
            one = type(proto)(name=part)
            one.type.CopyFrom(tensor)
            for dim in one.type.tensor_type.shape.dim:
                own = f"{part}_{dim.dim_param.strip()}"
                if dim.dim_param and identifier(own) in dims:
                    dim.dim_param = own
            found.append(one)
    return Inputs(tuple(found), parts, lengths)


def _sequence_of(proto: Any) -> Any:
    """The type of the elements of an input that is a sequence, or an optional one that is there; None for others."""
    type = proto.type
    if type.WhichOneof("value") == "optional_type":
        type = type.optional_type.elem_type
    return type.sequence_type.elem_type if type.WhichOneof("value") == "sequence_type" else None


def _length(name: str, dims: Mapping[str, Bounds]) -> int | None:
    if name not in dims:
        return None
    given = dims[name]
    lo, hi, *_ = (given, given) if isinstance(given, int) else given
    if lo != hi or not 0 <= lo <= MAX_ELEMENTS:
        why = f"a sequence has one number of elements, up to {MAX_ELEMENTS}"
        raise UsageError(f"the dim {name} cannot lie in {lo}..{hi}", why=why, hint=f"--dim {name}=3")
    return lo


def parameters(
    builder: Builder, inputs: Inputs, dims: Mapping[str, Bounds], loops: bool = False
) -> tuple[dict[str, Value], tuple[Var, ...]]:
    """The parameters by ONNX name, and the dims of their shapes. ``dims`` gives each open size its number, or its
    inclusive bounds, with a number it is a multiple of as third; with ``loops`` other names may be theirs.

    Raises:
        OpenSizesError: open sizes have no bounds.
        UsageError: ``dims`` names what the model has not.
        BuildError: an input has no type, no shape, or an impossible one.
    """
    protos, lengths = inputs.protos, inputs.lengths
    dims = {name: bounds for name, bounds in dims.items() if lengths.get(name) is None}
    stems = {p.name: builder.value_name(p.name) for p in protos}
    shapes = {p.name: _shape(p, stems[p.name]) for p in protos}
    names = _identifiers([d for shape in shapes.values() for d in shape if isinstance(d, str)])
    needed = dict.fromkeys([*names.values(), *(name for name, count in lengths.items() if count is None)])
    if loops and all(name in dims for name in needed):
        builder.passes.given = {name: bounds for name, bounds in dims.items() if name not in needed}
        dims = {name: dims[name] for name in needed}
    _check_names(dims, needed)
    scope = {name: _symbol(name, dims[name]) for name in needed}
    params: dict[str, Value] = {}
    for proto in protos:
        shape = tuple(d if isinstance(d, int) else _dim(d, names, scope, proto.name) for d in shapes[proto.name])
        code = tensor_of(proto).elem_type
        kind = element_type(code)
        if kind is None:
            found = element_name(code)
            raise BuildError(f"the input {proto.name} has elements of type {found}, which is not supported")
        type = TensorType(kind, shape)
        maximum = max_value(type.nbytes)
        if maximum is not None and maximum > MAX_BYTES:
            asked = " ".join(f"--dim {name}=LO:HI" for name in scope if name in _symbols_of(shapes[proto.name], names))
            raise BuildError(
                f"the input {proto.name} of shape {shape_text(shape)} has more than {MAX_BYTES} bytes",
                hint=f"give a smaller upper bound: {asked}" if asked else None,
            )
        params[proto.name] = Value(stems[proto.name], type)
    used = {v for p in params.values() for d in p.type.shape for v in free_vars(d)}
    symbols = tuple(s for s in scope.values() if isinstance(s, Var) and s in used)
    builder.dims = {v.name: v for v in symbols}
    return params, symbols


def _symbols_of(sizes: Sequence[int | str], names: Mapping[str, str]) -> set[str]:
    """The identifiers of the names in some sizes of an input."""
    texts = [size for size in sizes if isinstance(size, str)]
    return {names[name] for size in texts for name in names_of(size) or (size,)}


def _shape(proto: Any, stem: str) -> list[int | str]:
    """The axes of an input: numbers, names, or expressions of names."""
    tensor = tensor_of(proto)
    if not tensor.HasField("shape"):
        raise BuildError(
            f"the input {proto.name} has no shape", hint="give it one, e.g. with onnx.tools.update_model_dims"
        )
    if len(tensor.shape.dim) > MAX_RANK:
        raise malformed(f"the input {proto.name} has {len(tensor.shape.dim)} axes")
    found: list[int | str] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
            found.append(int(dim.dim_value))
        else:
            found.append(dim.dim_param.strip() or f"{stem}_dim{axis}")
    return found


def tensor_of(proto: Any) -> Any:
    """The type of an input that is a tensor; of an optional one too, which is one that is there.

    Raises:
        BuildError: it is something else.
    """
    type = proto.type
    if type.WhichOneof("value") == "optional_type":
        type = type.optional_type.elem_type
    kind = type.WhichOneof("value") or "value without type"
    if kind != "tensor_type":
        what = kind.removesuffix("_type")
        raise BuildError(f"the input {proto.name} is a {what}: only tensors and sequences of them are taken")
    return type.tensor_type


def _identifiers(sizes: Sequence[str]) -> dict[str, str]:
    """The names in sizes and the identifier of each: of an expression the names it is made of, else the whole. Two
    names are two dims, however alike their identifiers would be."""
    found = {name: name for size in sizes for name in names_of(size) or ()}
    taken = set(found)
    for size in sizes:
        if names_of(size) is None and size not in found:
            found[size] = fresh_name(identifier(size), taken)
    return found


def _check_names(dims: Mapping[str, Bounds], needed: Mapping[str, None]) -> None:
    unknown = sorted(set(dims) - set(needed))
    if unknown:
        hint = f"open sizes: {', '.join(needed)}" if needed else "every size of this model is fixed"
        raise UnknownDimsError(tuple(unknown), hint)
    missing = [name for name in needed if name not in dims]
    if missing:
        raise OpenSizesError(tuple(missing))


def _symbol(name: str, given: Bounds) -> Dim | Var:
    """A number for a size with one value, else a symbol with its bounds."""
    lo, hi, *rest = (given, given) if isinstance(given, int) else given
    multiple = rest[0] if rest else 1
    if lo < 0 or lo > hi or multiple < 1:
        raise UsageError(f"the dim {name} cannot lie in {lo}..{hi}", hint=f"--dim {name}=1:64")
    return lo if lo == hi else Var(name, lo, hi, multiple)


def _dim(text: str, names: Mapping[str, str], scope: Mapping[str, Dim | Var], where: str) -> Dim:
    values = {n: s.expr if isinstance(s, Var) else s for n, s in scope.items()}
    if names_of(text) is None:
        return values[names[text]]
    size = read_size(text, values)
    if prove_ge(size, 0) is not True:
        raise UsageError(f"the size {text} of input {where} is below 0 for some of the values allowed")
    return size
