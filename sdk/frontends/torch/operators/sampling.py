"""ATen operators that read images at computed places, or put windows back into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F16, F32
from sdk.frontends.grids import sampled
from sdk.frontends.refolding import refolded
from sdk.frontends.torch.context import TorchNode, aten

__all__: list[str] = []

_MODES: Final = ("linear", "nearest", "cubic")  # by PyTorch's numbers
_PADDINGS: Final = ("zeros", "border", "reflection")


@aten("grid_sampler_2d.default", "grid_sampler_3d.default", "grid_sampler.default")
def grid_sampler(node: TorchNode, x: Value, grid: Value, mode: int, padding: int, aligned: bool) -> Value:
    """An image at the places of a grid."""
    wide = F32 if node.kind == F16 else node.kind
    found = sampled(node, node.cast(x, wide), node.cast(grid, wide), _MODES[mode], _PADDINGS[padding], aligned)
    return node.cast(found, node.kind)


@aten("col2im.default")
def col2im(
    node: TorchNode, x: Value, size: Sequence[int], kernel: Sequence[int], dilation: Sequence[int],
    padding: Sequence[int], stride: Sequence[int],
) -> Value:  # fmt: skip
    """Windows summed at their places in an image."""
    if not all(isinstance(d, int) for d in size):
        node.fail(f"the size {', '.join(map(str, size))} of the image is open")
    blocks = x if x.type.rank == 3 else node.call("reshape", x, shape=(1, *x.type.shape))
    found = refolded(node, blocks, size, kernel, stride, dilation, (*padding, *padding))
    return found if x.type.rank == 3 else node.call("reshape", found, shape=node.out.shape)
