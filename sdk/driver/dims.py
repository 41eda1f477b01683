"""Dims of a run: bounds as a user gives them, and the values that follow from the shapes of the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.graph import bind_dims
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.sym import Var, free_vars
from sdk.devices.messages import ModelInfo
from sdk.driver.built import BuiltEntry
from sdk.errors import UsageError

__all__ = ["check_at", "dims_of_run"]


def check_at(at: Mapping[str, int], known: Mapping[str, Var]) -> None:
    """Checks the values that ``--at`` gives to dims, by name, against the dims of the model.

    Raises:
        UsageError: the model has no such dim, or its value is outside the bounds or no multiple.
    """
    for name, value in at.items():
        if name not in known:
            raise UsageError(f"the model has no dimension {name!r}", hint=f"it has {', '.join(known) or 'none'}")
        var = known[name]
        if value % var.multiple:
            hint = f"--at {name}={var.maximum}"
            raise UsageError(f"dimension {name}={value} is not a multiple of {var.multiple}", hint=hint)
        if not var.holds(value):
            raise UsageError(
                f"dimension {name}={value} is outside {var.lo}..{var.hi}",
                hint=f"--at {name}={var.lo} to {var.hi}, or build with a wider --dim",
            )


def dims_of_run(
    info: ModelInfo,
    entry: BuiltEntry,
    inputs: Mapping[str, NDArray[Any]],
    at: Mapping[str, int],
) -> dict[str, int]:
    """The value of each dim of a model: those that ``at`` gives, those that the shapes of ``inputs`` tell, the upper
    bound of the others.

    Raises:
        UsageError: a value is outside its bounds, or two inputs disagree; names the input, the axis, the value and
            the bound.
    """
    named = {v.name: v for v in entry.dims}
    known = {d.name: named[d.name] for d in info.dims}  # in the order of the device
    check_at(at, known)
    params = []
    for tensor in info.inputs:
        shape = entry.shapes[tensor.name]
        open_dims = {v.name for d in shape for v in free_vars(d)} - set(at)
        # an input that tells no dim is compared with the model when it is written
        if tensor.name in inputs and open_dims and len(shape) == np.ndim(inputs[tensor.name]):
            params.append(Value(tensor.name, TensorType(F32, shape)))
    # a symbol that some given input has alone is solved from it; others must be known before
    alone = {v for p in params for d in p.type.shape for v in free_vars(d) if v.expr is d}
    given = {known[name]: value for name, value in at.items()}
    assumed = {v: v.maximum for v in known.values() if v not in alone and v not in given}
    env = bind_dims(tuple(params), {p.name: np.shape(inputs[p.name]) for p in params}, {**assumed, **given})
    return {v.name: env.get(v, v.maximum) for v in known.values()}
