"""What the operators of a .tflite file make, as values of the imported module."""

from __future__ import annotations

from collections.abc import Mapping

from sdk.compiler.ir.graph import Value, node_outs
from sdk.compiler.ir.module import Module
from sdk.errors import UsageError
from sdk.frontends.base import ModelFile
from sdk.frontends.outline import Layer
from sdk.frontends.tflite.custom_node import importers_of
from sdk.frontends.tflite.entries import entries_of
from sdk.frontends.tflite.importer import import_tflite
from sdk.frontends.tflite.reader import read_model, read_signatures

__all__ = ["tflite_layers"]


def tflite_layers(
    file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]], entry: str | None
) -> tuple[Module, tuple[Layer, ...]]:
    """The module of a file, and each tensor that an entry computes, by its number; None is the only entry.

    Raises:
        BuildError, UsageError: as of the import, or there is no such entry.
    """
    tensors: dict[int, tuple[Value, int]] = {}
    subgraphs = read_model(file.data, {})
    entries = {one.name: one.graph for one in entries_of(subgraphs, read_signatures(file.data, subgraphs))}
    if entry not in entries and (entry is not None or len(entries) > 1):
        raise UsageError("layers are those of one entry", hint=f"name one with --entry: {', '.join(entries)}")
    told = entry or next(iter(entries))
    module = import_tflite(
        file.data, name, dims=dims, custom_ops=importers_of(file.custom), tensors=tensors, told=told
    )
    made = {out.name for node in module.graphs[told].body for out in node_outs(node)}
    graph = entries[told]
    return module, tuple(
        Layer(operator.name, graph.tensors[k].title, str(k), *tensors[k])
        for operator in graph.operators for k in operator.outputs if k in tensors and tensors[k][0].name in made
    )  # fmt: skip
