"""Images of most formats are [n, c, h, w], ours [n, h, w, c]: the way there and back, and windows on them."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import Dim
from sdk.frontends.emit import Emitter

__all__ = ["Window", "channels_first", "channels_last"]


def channels_last(node: Emitter, x: Value) -> Value:
    """``x[n, c, ..]`` as [n, .., c]; one axis of an image becomes two, the first of extent 1.

    Raises:
        BuildError: the image has no axis, or more than three.
    """
    axes = x.type.rank - 2
    if not 1 <= axes <= 3:
        node.fail(f"images of {max(axes, 0)} axes are not supported, only of 1, 2 and 3")
    last = node.call("transpose", x, perm=(0, *range(2, x.type.rank), 1))
    if axes > 1:
        return last
    n, w, c = last.type.shape
    return node.call("reshape", last, shape=(n, 1, w, c))


def channels_first(node: Emitter, y: Value, axes: int) -> Value:
    """The way back, to an image of ``axes`` axes."""
    if axes == 1:
        n, _, w, c = y.type.shape
        y = node.call("reshape", y, shape=(n, w, c))
    rank = y.type.rank
    return node.call("transpose", y, perm=(0, rank - 1, *range(1, rank - 1)))


@dataclass(frozen=True, slots=True)
class Window:
    """The numbers of a window along the axes of an image of ours (two axes where ONNX has one). ``pad`` may hold
    symbolic numbers: then they must become a ``pad`` of their own."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pad: tuple[Dim, ...]

    @property
    def fixed_pad(self) -> tuple[int, ...] | None:
        """The padding when it is numbers."""
        found = tuple(p for p in self.pad if isinstance(p, int))
        return found if len(found) == len(self.pad) else None
