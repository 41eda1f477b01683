"""The driver: what the commands and the Python API do, from a model file to results of a device.

A build goes one way, each step a function with one result: ``read_model_file`` gives the bytes (``ModelFile``),
``job_of`` what is to be made of them (``Job``), ``imported`` and ``planned`` modules, ``generate`` sources with what
callers must know (``Built``), which ``build_sources`` keeps by content, and ``build`` writes as files. Runs,
measurements and comparisons link a ``Built`` into an agent and talk to that.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdk.driver.artifact import build
    from sdk.driver.choosing import fastest
    from sdk.driver.comparing import diff
    from sdk.driver.doctor_checks import doctor
    from sdk.driver.execute import run, verify
    from sdk.driver.explain import inspect, memory
    from sdk.driver.finding import attached
    from sdk.driver.fitting import fit
    from sdk.driver.flashing import flash, flash_plans
    from sdk.driver.history import remember
    from sdk.driver.layers import verify_layers
    from sdk.driver.linked import firmware_map
    from sdk.driver.measuring import bench, bench_pair, compare_with
    from sdk.driver.model import Model, compile
    from sdk.driver.options import BuildOptions
    from sdk.driver.plots.bench_page import bench_page
    from sdk.driver.plots.bench_trace import bench_trace
    from sdk.driver.plots.chrome_trace import chrome_trace
    from sdk.driver.plots.draw import draw
    from sdk.driver.plots.graph_page import graph_page, graph_svg
    from sdk.driver.plots.memory_page import memory_page, memory_svg
    from sdk.driver.plots.profile_page import profile_page
    from sdk.driver.profiling import profile
    from sdk.driver.roofline import fit_phones
    from sdk.driver.summary import summarise

__all__ = [
    "BuildOptions",
    "Model",
    "attached",
    "bench",
    "bench_page",
    "bench_pair",
    "bench_trace",
    "build",
    "chrome_trace",
    "compare_with",
    "compile",
    "diff",
    "doctor",
    "draw",
    "fastest",
    "firmware_map",
    "fit",
    "fit_phones",
    "flash",
    "flash_plans",
    "graph_page",
    "graph_svg",
    "inspect",
    "memory",
    "memory_page",
    "memory_svg",
    "profile",
    "profile_page",
    "remember",
    "run",
    "summarise",
    "verify",
    "verify_layers",
]
_MODULES = {
    "BuildOptions": "options",
    "Model": "model",
    "attached": "finding",
    "bench": "measuring",
    "bench_page": "plots.bench_page",
    "bench_pair": "measuring",
    "build": "artifact",
    "compare_with": "measuring",
    "fastest": "choosing",
    "bench_trace": "plots.bench_trace",
    "chrome_trace": "plots.chrome_trace",
    "compile": "model",
    "diff": "comparing",
    "doctor": "doctor_checks",
    "draw": "plots.draw",
    "fit": "fitting",
    "fit_phones": "roofline",
    "flash": "flashing",
    "flash_plans": "flashing",
    "graph_page": "plots.graph_page",
    "graph_svg": "plots.graph_page",
    "inspect": "explain",
    "firmware_map": "linked",
    "memory": "explain",
    "memory_page": "plots.memory_page",
    "memory_svg": "plots.memory_page",
    "profile": "profiling",
    "profile_page": "plots.profile_page",
    "remember": "history",
    "run": "execute",
    "summarise": "summary",
    "verify": "execute",
    "verify_layers": "layers",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for and no more: a build from the cache needs no compiler."""
    if name in _MODULES:
        return getattr(import_module(f"sdk.driver.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'sdk.driver' has no attribute {name!r}")
