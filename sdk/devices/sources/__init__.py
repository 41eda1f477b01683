"""Where devices are looked for, one file per place; each registers itself when it is imported, and all are here.

No place is waited for longer than its deadline, whatever hangs there.
"""

from __future__ import annotations

import importlib
import pkgutil

from sdk.devices.sources.base import Found, State, Trouble, look, register_source

__all__ = ["Found", "State", "Trouble", "look", "register_source"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
