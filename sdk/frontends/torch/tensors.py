"""What the operators of an exported program make, as values of the imported module."""

from __future__ import annotations

from collections.abc import Mapping

from sdk.compiler.ir.graph import Value, node_outs
from sdk.compiler.ir.module import Module
from sdk.frontends.base import ModelFile
from sdk.frontends.outline import Layer
from sdk.frontends.torch.importer import import_torch

__all__ = ["torch_layers"]


def torch_layers(file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]]) -> tuple[Module, tuple[Layer, ...]]:
    """The module of a file, and each tensor that an operator of its program computes in a run, by its name.

    Raises:
        BuildError, UsageError: as of the import.
    """
    tensors: dict[str, tuple[str, Value]] = {}
    module = import_torch(file.data, name, dims=dims, tensors=tensors)
    made = {out.name for node in module.graphs["main"].body for out in node_outs(node)}
    return module, tuple(
        Layer(operator, key, key, value) for key, (operator, value) in tensors.items() if value.name in made
    )
