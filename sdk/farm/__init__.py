"""A rack: devices of several hosts behind one queue, on Dask's scheduler, workers and resources.

``place`` says where the scheduler is and who may reach it, ``serve`` runs it and the workers of a host's devices,
``work`` is what travels and what a worker does, ``campaign`` queues the jobs of a command over a ``link`` and gathers
their results, ``kept`` is the file that these are kept in. Dask pickles: whoever reaches a scheduler or a worker can
run programs as its user.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdk.farm.campaign import bench_farm
    from sdk.farm.place import Place
    from sdk.farm.serve import devices_of, serve_devices, serve_scheduler

__all__ = ["Place", "bench_farm", "devices_of", "serve_devices", "serve_scheduler"]
_MODULES = {
    "Place": "place",
    "bench_farm": "campaign",
    "devices_of": "serve",
    "serve_devices": "serve",
    "serve_scheduler": "serve",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for."""
    if name in _MODULES:
        return getattr(import_module(f"sdk.farm.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'sdk.farm' has no attribute {name!r}")
