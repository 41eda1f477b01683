"""DENSIFY: sparse constants were made dense when the file was read."""

from __future__ import annotations

from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table

__all__ = ["TABLE"]


def densify(node: OpNode) -> None:
    """DENSIFY of a constant."""
    found = node.contents(0)
    if found is None or node.tensor(0).data is None:
        raise BuildError(f"input 0 ({node.tensor(0).title}) must be a constant of the file")
    node.known(found)


TABLE: Table = {"DENSIFY": densify}
