"""The converters of ATen operators, a module per family; importing this package registers them all."""

from importlib import import_module
from pkgutil import iter_modules

from sdk.frontends.torch.context import OPERATORS

__all__ = ["OPERATORS"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
