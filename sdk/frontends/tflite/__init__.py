"""The TensorFlow Lite frontend: a .tflite file becomes a module of exact integer operators."""

from sdk.frontends.tflite.context import Importer, OpNode
from sdk.frontends.tflite.importer import import_tflite

__all__ = ["Importer", "OpNode", "import_tflite"]
