"""The PyTorch frontend: an exported program (``torch.export``) becomes a module of our operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sdk.frontends.base import Engine, Frontend, ModelFile, Objects, Reference
from sdk.frontends.torch.sniff import is_exported

if TYPE_CHECKING:
    from sdk.compiler.ir.graph import Graph
    from sdk.compiler.ir.module import Module
    from sdk.frontends.outline import Layer, Refusal
    from sdk.frontends.tensors import Tensors

__all__ = ["FRONTEND"]


def _load(file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]], refusals: list[Refusal]) -> Module:
    from sdk.frontends.torch.importer import import_torch

    return import_torch(file.data, name, dims=dims, refusals=refusals)


def _open(file: ModelFile, graph: Graph) -> Reference:
    from sdk.frontends.torch.engine import Eager

    return Eager(file, graph)


def _layers(
    file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]], entry: str | None
) -> tuple[Module, tuple[Layer, ...]]:
    from sdk.frontends.torch.tensors import torch_layers

    return torch_layers(file, name, dims)


def _open_layers(file: ModelFile, graph: Graph, keys: Sequence[str]) -> Reference:
    from sdk.frontends.torch.engine import EagerLayers

    return EagerLayers(file, graph, keys)


def _pack(model: object) -> tuple[str, bytes] | None:
    from sdk.frontends.torch.archive import pack

    return pack(model)


def _trace(model: object, example: Any, dynamic_shapes: Any) -> tuple[str, bytes] | None:
    from sdk.frontends.torch.archive import trace

    return trace(model, example, dynamic_shapes)


def _retensor(data: bytes, tensors: Tensors) -> bytes:
    from sdk.frontends.torch.weights import retensored

    return retensored(data, tensors)


FRONTEND = Frontend(
    name="torch",
    title="exported PyTorch program",
    suffixes=(".pt2",),
    sniff=is_exported,
    load=_load,
    retensor=_retensor,
    layers=_layers,
    engines=(Engine("torch", "torch", _open, lambda graph: True, _open_layers),),
    objects=Objects("an ExportedProgram or a module of PyTorch with example inputs", _pack, _trace),
)
