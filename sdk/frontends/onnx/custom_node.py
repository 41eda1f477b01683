"""Importers of a user as converters of this format."""

from __future__ import annotations

from collections.abc import Mapping

from sdk.compiler.ir.graph import Value
from sdk.frontends.base import Custom
from sdk.frontends.custom import CustomImporter, CustomNode, run_importer
from sdk.frontends.onnx.context import Converter, OnnxNode

__all__ = ["converters_of"]


def converters_of(custom: Custom | None) -> Mapping[str, Converter]:
    """Converters of operators by "domain::Name"."""
    return {} if custom is None else {name: _converter(name, one) for name, one in custom.importers.items()}


def _converter(name: str, importer: CustomImporter) -> Converter:
    def run(node: OnnxNode) -> tuple[Value, ...]:
        given = CustomNode(
            node.builder, node.source, node.stem, name, node.inputs, node.outputs, b"", lambda: node.given
        )
        return run_importer(importer, given)

    return run
