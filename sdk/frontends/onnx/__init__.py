"""The ONNX frontend: a model with fixed or symbolic sizes becomes a module of our operators."""

from sdk.frontends.onnx import operators  # registers every converter
from sdk.frontends.onnx.context import OPERATORS, Converter, OnnxNode, onnx_op
from sdk.frontends.onnx.importer import InputsDecideError, import_onnx

__all__ = ["OPERATORS", "Converter", "InputsDecideError", "OnnxNode", "import_onnx", "onnx_op", "operators"]
