"""Custom operators whose meaning runtimes share: the importers by the code that files have for them."""

from collections.abc import Mapping

from sdk.frontends.tflite.context import OperatorSpec, Table
from sdk.frontends.tflite.operators.custom import convolution, detection, fourier, signal, streams

__all__ = ["CUSTOM"]

_TABLE: Table = {**convolution.TABLE, **detection.TABLE, **fourier.TABLE, **signal.TABLE, **streams.TABLE}
CUSTOM: Mapping[str, OperatorSpec] = {
    name: OperatorSpec("", (), None, importer, importer, "convert") for name, importer in _TABLE.items()
}
