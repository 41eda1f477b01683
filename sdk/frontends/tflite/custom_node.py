"""Importers of a user as importers of this format."""

from __future__ import annotations

from collections.abc import Mapping

from sdk.frontends.base import Custom
from sdk.frontends.custom import CustomImporter, CustomNode, run_importer
from sdk.frontends.tflite.context import Importer, OpNode
from sdk.frontends.tflite.flexbuffers import read_flags

__all__ = ["importers_of"]


def importers_of(custom: Custom | None) -> Mapping[str, Importer]:
    """Importers of custom operators by their code."""
    return {} if custom is None else {name: _importer(name, one) for name, one in custom.importers.items()}


def _importer(name: str, importer: CustomImporter) -> Importer:
    def run(node: OpNode) -> None:
        count, raw, emit = len(node.operator.inputs), node.operator.custom_options, node.emitter
        inputs = tuple(node.input(k) if node.has(k) else None for k in range(count))
        outputs = len(node.operator.outputs)
        given = CustomNode(
            emit.builder, emit.source, emit.stem, name, inputs, outputs, raw, lambda: read_flags(raw).values
        )
        for k, value in enumerate(run_importer(importer, given)):
            node.call("reshape", value, to=k, shape=value.type.shape)  # a view: it has the name of the output

    return run
