"""Channels spread over blocks of pixels, and gathered from them."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.frontends.images import channels_first, channels_last
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []


def _block(node: OnnxNode) -> tuple[int, int]:
    size = node.int("blocksize", 0)
    if node.type(0).rank != 4 or size < 1:
        node.fail(f"blocks of {size} of a tensor of rank {node.type(0).rank}")
    return size, size


def _exchanged(node: OnnxNode, op: str) -> Value:
    mode = node.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        node.fail(f"the mode {mode} is not supported")
    given = {"inner": True} if mode == "CRD" else {}
    block = _block(node)
    return channels_first(node, node.call(op, channels_last(node, node.x(0)), block=block, **given), 2)


@onnx_op("DepthToSpace")
def depth_to_space(node: OnnxNode) -> Value:
    """Each group of channels becomes a block of pixels."""
    return _exchanged(node, "depth_to_space")


@onnx_op("SpaceToDepth")
def space_to_depth(node: OnnxNode) -> Value:
    """Each block of pixels becomes a group of channels."""
    return _exchanged(node, "space_to_depth")
