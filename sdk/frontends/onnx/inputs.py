"""Inputs of an ONNX graph as parameters: named and unnamed open sizes become dims with the user's bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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

__all__ = ["Bounds", "parameters", "tensor_of"]

Bounds = int | tuple[int, ...]


def parameters(
    builder: Builder, protos: list[Any], dims: Mapping[str, Bounds]
) -> tuple[dict[str, Value], tuple[Var, ...]]:
    """The parameters by ONNX name, and the dims of their shapes. ``dims`` gives each open size its number, or its
    inclusive bounds, with a number it is a multiple of as third.

    Raises:
        OpenSizesError: open sizes have no bounds.
        UsageError: ``dims`` names what the model has not.
        BuildError: an input has no type, no shape, or an impossible one.
    """
    stems = {p.name: builder.value_name(p.name) for p in protos}
    shapes = {p.name: _shape(p, stems[p.name]) for p in protos}
    names = _identifiers([d for shape in shapes.values() for d in shape if isinstance(d, str)])
    needed = dict.fromkeys(names.values())
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
        raise BuildError(f"the input {proto.name} is a {kind.removesuffix('_type')}, only tensors are supported")
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
