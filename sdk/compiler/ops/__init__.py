"""The operators of the graph level, one declaration each; importing this package registers them all."""

from importlib import import_module
from pkgutil import iter_modules

from sdk.compiler.ops.registry import OPS, OpDef, Sample, get_op, infer

__all__ = ["OPS", "OpDef", "Sample", "get_op", "infer"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
