"""ATen's views of memory by strides."""

from __future__ import annotations

from collections.abc import Sequence

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I64
from sdk.compiler.sym import Dim
from sdk.frontends.torch.context import TorchNode, aten

__all__: list[str] = []


@aten("as_strided.default", "as_strided_copy.default")
def as_strided(
    node: TorchNode, x: Value, size: Sequence[Dim], stride: Sequence[Dim], offset: Dim | None = None
) -> Value:
    """Elements of the memory of a tensor, evenly spaced along each axis: of one that lies there in order."""
    if not node.in_order:
        node.fail("it reads the memory of a tensor that is a view of another", hint="call contiguous() before it")
    places = node.tensor(0 if offset is None else offset, I64)
    for axis, (extent, step) in enumerate(zip(size, stride, strict=True)):
        line = node.call("iota", extent=extent, start=0, step=1, dtype=str(I64))
        line = node.call("mul", line, node.tensor(step, I64))
        shape = tuple(extent if k == axis else 1 for k in range(len(size)))
        places = node.call("add", places, node.call("reshape", line, shape=shape))
    flat = node.call("reshape", x, shape=(x.type.size,))
    return node.call("gather", flat, places, axis=0)
