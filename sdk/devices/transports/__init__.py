"""One file per transport; each registers its URI scheme when it is imported, and all are imported here."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
