"""Shapes as values, and the same elements in another shape: no run-time work unless a size is used as data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I64
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, dmax, floordiv, product, prove_eq, prove_ge, prove_lt
from sdk.frontends.builder import contents_of
from sdk.frontends.moves import reshaped, shape_text
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.spread import joint_size, require_joint, spread

__all__: list[str] = []


@onnx_op("Shape")
def shape(node: OnnxNode) -> Value:
    """The sizes of a tensor, or some of them."""
    sizes = node.type(0).shape
    return node.shape_value(sizes[node.int("start", 0) : node.int("end", None)])


@onnx_op("Size")
def size(node: OnnxNode) -> Value:
    """The number of elements."""
    return node.known(contents_of([node.type(0).size], I64, ()))


@onnx_op("Reshape")
def reshape(node: OnnxNode) -> Value:
    """Another shape of as many elements; 0 keeps a size, -1 stands for the rest."""
    x = node.x(0)
    given = node.dims(1)
    keep = not node.int("allowzero", 0)
    wanted: list[Dim] = []
    for k, dim in enumerate(given):
        if keep and isinstance(dim, int) and dim == 0:
            if k >= x.type.rank:
                node.fail(f"the shape {shape_text(given)} keeps axis {k} of a tensor of rank {x.type.rank}")
            wanted.append(x.type.shape[k])
        else:
            wanted.append(dim)
    open_axes = [k for k, d in enumerate(wanted) if isinstance(d, int) and d == -1]
    if len(open_axes) > 1 or any(isinstance(d, int) and d < -1 for d in wanted):
        node.fail(f"the shape {shape_text(given)} is no shape")
    if open_axes:
        rest = product(tuple(d for k, d in enumerate(wanted) if k != open_axes[0]))
        wanted[open_axes[0]] = _quotient(node, x.type.size, rest, given)
    if any(prove_ge(d, 0) is not True for d in wanted):
        node.fail(f"the shape {shape_text(wanted)} is negative for some values of its dims")
    return reshaped(node, x, wanted)


def _quotient(node: OnnxNode, size: Dim, rest: Dim, given: Sequence[Dim]) -> Dim:
    """``size / rest`` where that is proved to have no remainder."""
    if isinstance(rest, int) and rest == 0:
        node.fail(f"the shape {shape_text(given)} leaves the size of its -1 open")
    if prove_ge(rest, 1) is not True:
        node.fail(f"the shape {shape_text(given)} may have a size of 0 beside its -1")
    found = floordiv(size, rest)
    if prove_eq(found * rest, size) is not True:
        node.fail(f"{size} elements are not known to divide by {rest} for the shape {shape_text(given)}")
    return found


@onnx_op("Flatten")
def flatten(node: OnnxNode) -> Value:
    """A matrix of the sizes before an axis and from it on."""
    x = node.x(0)
    value = node.int("axis", 1)
    if not -x.type.rank <= value <= x.type.rank:
        node.fail(f"the axis {value} is outside rank {x.type.rank}")
    axis = value if value >= 0 else value + x.type.rank
    return reshaped(node, x, (product(x.type.shape[:axis]), product(x.type.shape[axis:])))


def _axes(node: OnnxNode) -> tuple[int, ...] | None:
    """The axes of Squeeze and Unsqueeze: an input since opset 13."""
    if node.opset < 13:
        found: tuple[int, ...] | None = node.ints("axes", None)
        return found
    data = node.data(1)
    if data is None:
        if node.given_input(1):
            node.fail("its axes must be known when the model is built")
        return None
    return tuple(int(v) for v in np.asarray(data).reshape(-1))


@onnx_op("Squeeze")
def squeeze(node: OnnxNode) -> Value:
    """Drops axes of size 1: those named, or all. Which these are is proved when the model is built: an open size that
    may be 1 is refused, for the rank of the result would depend on the run."""
    x, axes = node.x(0), _axes(node)
    if not axes:
        unsure = [str(d) for d in x.type.shape if not (isinstance(d, int) or prove_ge(d, 2) or prove_lt(d, 1))]
        if unsure:
            node.fail(f"whether the size {unsure[0]} is 1 depends on its value; name the axes")
        dropped = {k for k, d in enumerate(x.type.shape) if d == 1}
    else:
        dropped = {node.axis(a, x.type.rank) for a in axes}
    for k in dropped:
        if prove_eq(x.type.shape[k], 1) is not True:
            node.fail(f"axis {k} of size {x.type.shape[k]} cannot be dropped, only one of size 1")
    return reshaped(node, x, tuple(d for k, d in enumerate(x.type.shape) if k not in dropped))


@onnx_op("Unsqueeze")
def unsqueeze(node: OnnxNode) -> Value:
    """Inserts axes of size 1."""
    x, axes = node.x(0), _axes(node)
    if axes is None:
        node.fail("its axes are missing")
    rank = x.type.rank + len(axes)
    places = {node.axis(a, rank) for a in axes}
    if len(places) != len(axes):
        node.fail(f"the axes {list(axes)} name one twice")
    rest = iter(x.type.shape)
    return reshaped(node, x, tuple(1 if k in places else next(rest) for k in range(rank)))


@onnx_op("Expand")
def expand(node: OnnxNode) -> Value:
    """A tensor repeated along axes of size 1, to what it and a shape broadcast to."""
    x, given = node.x(0), node.dims(1)
    rank = max(x.type.rank, len(given))
    own = (*(1 for _ in range(rank - x.type.rank)), *x.type.shape)
    wanted = (*(1 for _ in range(rank - len(given))), *given)
    shape = tuple(_joint(node, a, b) for a, b in zip(own, wanted, strict=True))
    met = min(x.type.rank, len(given))  # axes that both have
    for axis, given_size in zip(range(-met, 0), given[len(given) - met :], strict=True):
        k = x.type.rank + axis
        if joint_size((x.type.shape[k], given_size)) is not None:
            x = require_joint(node, spread(node, x, k, shape[axis]), k, given_size)
    if len(shape) == x.type.rank and all(map(same_extent, shape, x.type.shape)):
        return x
    return node.call("broadcast_to", x, shape=shape)


def _joint(node: OnnxNode, own: Dim, wanted: Dim) -> Dim:
    """The size two sizes broadcast to."""
    if same_extent(own, wanted) or (isinstance(wanted, int) and wanted == 1):
        return own
    if isinstance(own, int) and own == 1:
        return wanted
    found = joint_size((own, wanted))
    if found is not None:
        return found
    node.fail(f"the sizes {own} and {wanted} are neither known to be equal, nor is one of them 1")


@onnx_op("Range")
def range_(node: OnnxNode) -> Value:
    """Numbers from a start by a step, up to a limit that does not belong to them."""
    kind = node.type(0).dtype
    if kind.is_float:
        numbers = [node.data(k) for k in range(3)]
        if any(n is None for n in numbers):
            node.fail("a range of floats must be known when the model is built")
        first, limit, step = (float(n.reshape(-1)[0]) for n in numbers if n is not None)
        if step == 0:
            node.fail("the step is 0")
        extent: Dim = max(int(np.ceil((limit - first) / step)), 0)
        return node.call("iota", extent=extent, start=first, step=step, dtype=str(kind))
    (start,), (end,), (delta,) = (node.dims(k) for k in range(3))
    if not isinstance(delta, int) or delta == 0:
        node.fail(f"the step {delta} must be a number other than 0")
    length = end - start if delta > 0 else start - end
    extent = dmax(0, -floordiv(-length, abs(delta)))
    return node.call("iota", extent=extent, start=start, step=delta, dtype=str(kind))
