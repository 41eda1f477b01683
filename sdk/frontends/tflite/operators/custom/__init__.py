"""Custom operators whose meaning runtimes share: the importers by the code that files have for them."""

from collections.abc import Mapping

from sdk.frontends.tflite.context import OperatorSpec, Table
from sdk.frontends.tflite.operators.custom import (
    complex,
    convolution,
    detection,
    fourier,
    lists,
    pooling,
    poses,
    signal,
    speech,
    streams,
)

__all__ = ["CUSTOM"]

_FAMILIES = (complex, convolution, detection, fourier, lists, pooling, poses, signal, speech, streams)
_TABLE: Table = {name: importer for family in _FAMILIES for name, importer in family.TABLE.items()}
CUSTOM: Mapping[str, OperatorSpec] = {
    name: OperatorSpec("", (), None, importer, importer, "convert") for name, importer in _TABLE.items()
}
