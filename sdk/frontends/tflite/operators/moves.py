"""Operators that choose among stored values: those of real tensors serve, where all tensors mean the same by them."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.types import I8, I16, U8
from sdk.errors import BuildError
from sdk.frontends.tflite.context import Importer, OpNode, Table
from sdk.frontends.tflite.operators import real

__all__ = ["TABLE"]

_NAMES: Final = (
    "BATCH_TO_SPACE_ND", "BROADCAST_TO", "DEPTH_TO_SPACE", "DYNAMIC_UPDATE_SLICE", "GATHER", "GATHER_ND",
    "MIRROR_PAD", "PACK", "REDUCE_MAX",
    "REDUCE_MIN", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_SEQUENCE", "REVERSE_V2", "SELECT", "SELECT_V2",
    "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "TILE", "UNPACK",
)  # fmt: skip


def _on_one_scale(importer: Importer) -> Importer:
    """The importer for quantised tensors that share scale and zero point."""

    def run(node: OpNode) -> None:
        ins = [node.tensor(k) for k in range(len(node.operator.inputs)) if node.has(k)]
        outs = [node.output(k) for k in range(len(node.operator.outputs))]
        if len({(t.scales, t.zero_points) for t in (*ins, *outs) if t.dtype in (I8, U8, I16)}) > 1:
            raise BuildError("the inputs and the output must share one scale and zero point")
        importer(node)

    return run


TABLE: Table = {
    **{name: _on_one_scale(real.TABLE[name]) for name in _NAMES},
    # positions, in the order of stored values
    "ARG_MAX": real.TABLE["ARG_MAX"],
    "ARG_MIN": real.TABLE["ARG_MIN"],
}
