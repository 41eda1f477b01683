"""Importers of custom operators that users write: one kind of function for every format that has such operators."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import TensorType
from sdk.errors import BuildError, SdkError
from sdk.frontends.emit import Array, Emitter

__all__ = ["CustomImporter", "CustomNode", "run_importer"]


@dataclass
class CustomNode(Emitter):
    """A custom operator being imported. ``inputs`` are its values, None where one is left out; ``outputs`` how many
    results it has; ``raw`` the bytes of its options where the format has such; ``read_options`` reads them."""

    name: str
    inputs: tuple[Value | None, ...]
    outputs: int
    raw: bytes
    read_options: Callable[[], Mapping[str, Any]] = field(repr=False)

    def x(self, k: int) -> Value:
        """Input ``k`` as a value of the graph.

        Raises:
            BuildError: it is left out.
        """
        value = self.inputs[k] if 0 <= k < len(self.inputs) else None
        if value is None:
            self.fail(f"input {k} is missing")
        return value

    def type(self, k: int) -> TensorType:
        """The type of input ``k``: its element type ``dtype``, its ``shape``, its ``quant``.

        Raises:
            BuildError: it is left out.
        """
        return self.x(k).type

    def data(self, k: int) -> Array | None:
        """The contents of input ``k`` where they are known when the model is built; else None."""
        return self.numbers(self.x(k))

    @property
    def options(self) -> Mapping[str, Any]:
        """Attributes of ONNX, or the FlexBuffers map of TensorFlow Lite, by name.

        Raises:
            BuildError: the bytes of the options are no such map; ``raw`` has them.
        """
        return self.read_options()


CustomImporter = Callable[[CustomNode], Value | tuple[Value, ...]]


def run_importer(importer: CustomImporter, node: CustomNode) -> tuple[Value, ...]:
    """The results of a custom operator.

    Raises:
        BuildError: the importer refuses it, fails (with the place in its file), or gives no results of this number.
    """
    try:
        made = importer(node)
    except SdkError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise BuildError(f"the importer of {node.name} fails at {_place(error, importer)}: {why}") from error
    results = made if isinstance(made, tuple) else (made,)
    if len(results) != node.outputs or not all(isinstance(v, Value) for v in results):
        found = ", ".join(type(v).__name__ for v in results)
        raise BuildError(f"the importer of {node.name} gives {found}, it must give {node.outputs} values of the graph")
    return results


def _place(error: Exception, importer: CustomImporter) -> str:
    """File and line of the innermost call in the importer's own file."""
    frames = traceback.extract_tb(error.__traceback__)
    own = getattr(getattr(importer, "__code__", None), "co_filename", None)
    found = [frame for frame in frames if frame.filename == own] or frames
    return f"{found[-1].filename}:{found[-1].lineno}"
