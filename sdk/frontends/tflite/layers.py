"""What the operators of a .tflite file make, as values of the imported module."""

from __future__ import annotations

from collections.abc import Mapping

from sdk.compiler.ir.graph import Value, node_outs
from sdk.compiler.ir.module import Module
from sdk.frontends.base import ModelFile
from sdk.frontends.outline import Layer
from sdk.frontends.tflite.custom_node import importers_of
from sdk.frontends.tflite.importer import import_tflite
from sdk.frontends.tflite.outline import outline_tflite

__all__ = ["tflite_layers"]


def tflite_layers(file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]]) -> tuple[Module, tuple[Layer, ...]]:
    """The module of a file, and each tensor that is computed, by its number.

    Raises:
        BuildError, UsageError: as of the import.
    """
    tensors: dict[int, tuple[Value, int]] = {}
    module = import_tflite(
        file.data, name, dims=dims, custom_ops=importers_of(file.custom), tensors=tensors
    )
    made = {out.name for node in module.graphs["main"].body for out in node_outs(node)}
    outline = outline_tflite(file.data)
    return module, tuple(
        Layer(node.kind, outline.tensors[k].name, str(k), *tensors[k])
        for node in outline.nodes for k in node.outputs if k in tensors and tensors[k][0].name in made
    )  # fmt: skip
