"""The driver: what the commands and the Python API do, from a model file to results of a device."""

from sdk.driver.artifact import build
from sdk.driver.execute import bench, run, verify
from sdk.driver.explain import inspect, memory
from sdk.driver.model import Model, compile
from sdk.driver.options import BuildOptions

__all__ = ["BuildOptions", "Model", "bench", "build", "compile", "inspect", "memory", "run", "verify"]
