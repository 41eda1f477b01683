"""The operators of the graph level, one declaration each, found by name in the registry."""

from sdk.compiler.ops.registry import OPS, OpDef, Sample, get_op, infer, load_ops

__all__ = ["OPS", "OpDef", "Sample", "get_op", "infer", "load_ops"]
