"""The TensorFlow Lite frontend: a .tflite file becomes a module of exact integer operators, or of floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sdk.frontends.base import Engine, Frontend, ModelFile, Reference
from sdk.frontends.tflite.verify import has_identifier

if TYPE_CHECKING:
    from sdk.compiler.ir.graph import Graph
    from sdk.compiler.ir.module import Module
    from sdk.frontends.outline import Layer, Outline, Refusal

__all__ = ["FRONTEND"]

_CONVERTING = ("QUANTIZE ", "DEQUANTIZE ")  # operators, as nodes tell where they come from


def _load(file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]], refusals: list[Refusal]) -> Module:
    from sdk.frontends.tflite.custom_node import importers_of
    from sdk.frontends.tflite.importer import import_tflite

    return import_tflite(file.data, name, dims=dims, custom_ops=importers_of(file.custom), refusals=refusals)


def _outline(data: bytes) -> Outline:
    from sdk.frontends.tflite.outline import outline_tflite

    return outline_tflite(data)


def _constants(data: bytes) -> int:
    from sdk.frontends.tflite.outline import constant_elements

    return constant_elements(data)


def _open_micro(file: ModelFile, graph: Graph) -> Reference:
    from sdk.frontends.tflite.engine import TfliteMicro

    return TfliteMicro(file, graph)


def _open_litert(file: ModelFile, graph: Graph) -> Reference:
    from sdk.frontends.tflite.engine import LiteRt

    return LiteRt(file, graph)


def _is_for_micro(graph: Graph) -> bool:
    """Of integers, with floats at most converted at its ends, or with operators of the audio front end, which LiteRT
    does not have."""
    from sdk.compiler.ir.graph import Call
    from sdk.frontends.tflite.suited import SIGNAL

    calls = [node for node in graph.body if isinstance(node, Call)]
    if any(node.source.startswith(SIGNAL) for node in calls):
        return True
    inside = [node for node in calls if not node.source.startswith(_CONVERTING)]
    return not any(value.type.dtype.is_float for node in inside for value in (*node.args, *node.outs))


def _layers(
    file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]], entry: str | None
) -> tuple[Module, tuple[Layer, ...]]:
    from sdk.frontends.tflite.layers import tflite_layers

    return tflite_layers(file, name, dims, entry)


def _micro_layers(file: ModelFile, graph: Graph, keys: Sequence[str]) -> Reference:
    from sdk.frontends.tflite.engine import TfliteMicroLayers

    return TfliteMicroLayers(file, graph, keys)


def _litert_layers(file: ModelFile, graph: Graph, keys: Sequence[str]) -> Reference:
    from sdk.frontends.tflite.engine import LiteRtLayers

    return LiteRtLayers(file, graph, keys)


FRONTEND = Frontend(
    name="tflite",
    title="TensorFlow Lite model",
    suffixes=(".tflite",),
    sniff=has_identifier,
    load=_load,
    outline=_outline,
    constants=_constants,
    layers=_layers,
    engines=(
        Engine("tflite-micro", "tflite-micro", _open_micro, _is_for_micro, _micro_layers),
        Engine("litert", "ai-edge-litert", _open_litert, lambda graph: True, _litert_layers),
    ),
    custom=True,
)
