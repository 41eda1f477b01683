"""Lists of tensors, which layers that loop over a sequence are converted to: the TensorList operators of TensorFlow,
and of LiteRT under the same names without ``Flex``.

The import alone knows a list: its length and every position are known when the model is built, as loops are written out
pass by pass, and what remains are the elements.
"""

from __future__ import annotations

import numpy as np

from sdk.budget import TRIPS, check_limit
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I32
from sdk.compiler.sym import Dim
from sdk.errors import BuildError
from sdk.frontends.builder import contents_of
from sdk.frontends.moves import row_inside
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.custom.terms import whole

__all__ = ["TABLE"]

_Parts = tuple[Value, ...]


def _parts(node: OpNode) -> _Parts:
    """The elements of the list that is input 0; one that nothing has set is the value of no elements."""
    return node.builder.sequences[node.list_of(0).name] or ()


def _keep(node: OpNode, parts: _Parts) -> None:
    node.keep_list(node.builder.sequence(parts, node.output().name))


def _unset(node: OpNode) -> Value:
    return node.builder.sequence(None, f"{node.output().name}_unset")


def _is_set(node: OpNode, value: Value) -> bool:
    return value.name not in node.builder.sequences


def _number(node: OpNode, k: int) -> int:
    """The one integer that input ``k`` is."""
    found = node.dims(k)
    if len(found) != 1 or not isinstance(found[0], int):
        raise BuildError(f"input {k} ({node.tensor(k).title}) must be one integer known when the model is built")
    return found[0]


def _length(node: OpNode, k: int) -> int:
    found = _number(node, k)
    if found < 0:
        raise BuildError(f"a list of {found} tensors")
    check_limit(TRIPS, found, f"the list {node.output().title}")
    return found


def _place(node: OpNode, k: int, parts: _Parts) -> int:
    found = _number(node, k)
    if not 0 <= found < len(parts):
        raise BuildError(f"the position {found} in a list of {len(parts)}")
    return found


def _shape(node: OpNode, k: int, like: _Parts) -> tuple[Dim, ...]:
    """The shape of elements: that of one that is set, else what input ``k`` says."""
    for value in like:
        if _is_set(node, value):
            return value.type.shape
    found = node.data(k)
    if found is None or found.ndim != 1 or found.dtype.kind not in "iu" or (found < 0).any():
        raise BuildError("nothing sets the elements of its list, and the file does not say their shape")
    return tuple(int(size) for size in found)


def _item(node: OpNode, value: Value, shape: tuple[Dim, ...]) -> Value:
    """An element; zeros where nothing has set it."""
    if _is_set(node, value):
        return value
    kind = node.output(len(node.operator.outputs) - 1).dtype
    if kind is None or not all(isinstance(size, int) for size in shape):
        raise BuildError(f"an element of the list is never set, and its shape {list(map(str, shape))} is open")
    sizes = tuple(size for size in shape if isinstance(size, int))
    return node.emitter.call("full", shape=sizes, value=0.0, dtype=str(kind))


def reserve(node: OpNode) -> None:
    """TensorListReserve: inputs (shape of the elements, their number)."""
    whole(node, 2, 1)
    _keep(node, (_unset(node),) * _length(node, 1))


def empty(node: OpNode) -> None:
    """EmptyTensorList: inputs (shape of the elements, the most of them)."""
    whole(node, 2, 1)
    _keep(node, ())


def from_tensor(node: OpNode) -> None:
    """TensorListFromTensor: inputs (a tensor, shape of the elements): the rows of the first axis."""
    whole(node, 2, 1)
    x = node.input(0)
    count = x.type.shape[0] if x.type.rank else None
    if not isinstance(count, int):
        raise BuildError(f"a list of the rows of a tensor {list(map(str, x.type.shape))}, of an open number")
    check_limit(TRIPS, count, f"the list {node.output().title}")
    _keep(node, tuple(row_inside(node.emitter, x, 0, k) for k in range(count)))


def set_item(node: OpNode) -> None:
    """TensorListSetItem: inputs (a list, a position, the element there)."""
    whole(node, 3, 1)
    parts = _parts(node)
    at = _place(node, 1, parts)
    _keep(node, (*parts[:at], node.input(2), *parts[at + 1 :]))


def get_item(node: OpNode) -> None:
    """TensorListGetItem: inputs (a list, a position, shape of the elements)."""
    whole(node, 3, 1)
    parts = _parts(node)
    found = _item(node, parts[_place(node, 1, parts)], _shape(node, 2, parts))
    node.call("reshape", found, shape=found.type.shape)


def push_back(node: OpNode) -> None:
    """TensorListPushBack: inputs (a list, one more element)."""
    whole(node, 2, 1)
    parts = _parts(node)
    check_limit(TRIPS, len(parts) + 1, f"the list {node.output().title}")
    _keep(node, (*parts, node.input(1)))


def pop_back(node: OpNode) -> None:
    """TensorListPopBack: inputs (a list, shape of the elements), results (the list without its last element, that)."""
    whole(node, 2, 2)
    parts = _parts(node)
    if not parts:
        raise BuildError("its list is empty")
    found = _item(node, parts[-1], _shape(node, 1, parts))
    _keep(node, parts[:-1])
    node.call("reshape", found, to=1, shape=found.type.shape)


def resize(node: OpNode) -> None:
    """TensorListResize: inputs (a list, how long it is to be)."""
    whole(node, 2, 1)
    parts, count = _parts(node), _length(node, 1)
    _keep(node, (*parts[:count], *[_unset(node)] * (count - len(parts))))


def length(node: OpNode) -> None:
    """TensorListLength: of a list."""
    whole(node, 1, 1)
    node.known(contents_of([len(_parts(node))], I32, ()))


def stack(node: OpNode) -> None:
    """TensorListStack: inputs (a list, shape of the elements): all of them along a new first axis."""
    whole(node, 2, 1)
    parts = _parts(node)
    shape = _shape(node, 1, parts)
    items = [_item(node, value, shape) for value in parts]
    other = next((v for v in items if v.type.shape != shape or v.type.dtype != items[0].type.dtype), None)
    if other is not None:
        raise BuildError(f"its list has elements of {items[0].type} and of {other.type}")
    rows = [node.emitter.call("reshape", value, shape=(1, *shape)) for value in items]
    if not rows:
        kind = node.output().dtype
        if kind is None:
            raise BuildError(f"output {node.output().title} has type {node.output().type_name}")
        sizes = tuple(size for size in shape if isinstance(size, int))
        rows = [node.const("none", np.zeros((0, *sizes), kind.numpy))]
    if len(rows) == 1:
        node.call("reshape", rows[0], shape=rows[0].type.shape)
    else:
        node.call("concat", *rows, axis=0)


_OPERATORS: Table = {
    "EmptyTensorList": empty,
    "TensorListFromTensor": from_tensor,
    "TensorListGetItem": get_item,
    "TensorListLength": length,
    "TensorListPopBack": pop_back,
    "TensorListPushBack": push_back,
    "TensorListReserve": reserve,
    "TensorListResize": resize,
    "TensorListSetItem": set_item,
    "TensorListStack": stack,
}
TABLE: Table = {f"{maker}{name}": importer for maker in ("", "Flex") for name, importer in _OPERATORS.items()}
