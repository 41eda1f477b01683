"""Layers of .tflite files that remember: a window over the last rows, and a running sum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .builders import Op
from .draw import Draw
from .fills import integers
from .network import Layer, Spec, Unfit, layer

__all__ = ["STATEFUL", "TABLE"]

STATEFUL = ("WINDOW", "RUNNING")
HANDLE = 13  # the type of a resource


def _variable(b: Any, one: Layer, spec: Spec) -> int:
    """The handle of a variable named after the layer, with its first value where the layer has one."""
    from .tflite_builder import limits

    name = f"{one.outputs[0]}_state"
    handle = b.file.tensor(f"{name}_handle", (), type=HANDLE)
    b.op("VAR_HANDLE", [], [handle], "VarHandleOptions", Container="", SharedName=name)
    if one["first"] is not None:
        there = b.init.tensor(f"{name}_first_handle", (), type=HANDLE)
        values = integers(spec.shape, one["first"], *limits(spec.dtype))
        start = b.init.const(f"{name}_first", values, spec.dtype, scale=spec.scale, zero=spec.zero)
        b.init.op("VAR_HANDLE", [], [there], "VarHandleOptions", Container="", SharedName=name)
        b.init.op("ASSIGN_VARIABLE", [there, start], [], "AssignVariableOptions")
    b.counted(weights=spec.elements)
    return handle


def _draw_window(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: b.quantised(s) and 2 <= len(s.shape) <= 4)
    if x is None:
        return None
    first = d.fill() if d.chance(0.6) else None
    return layer("WINDOW", [x], b.fresh(), rows=d.one((1, 2, 3, 4, 7)), first=first)


def _window(b: Any, one: Layer) -> None:
    """The last rows kept along axis 1, and the new ones after them."""
    spec, rows = b.specs[one.inputs[0]], one["rows"]
    if not b.quantised(spec) or not 2 <= len(spec.shape) <= 4 or rows < 1:
        raise Unfit(f"WINDOW of {spec}")
    held = replace(spec, shape=(spec.shape[0], rows, *spec.shape[2:]))
    longer = replace(spec, shape=(spec.shape[0], rows + spec.shape[1], *spec.shape[2:]))
    name = one.outputs[0]
    out = b.make(name, longer)
    handle = _variable(b, one, held)
    before, after = b.hidden(f"{name}_before", held), b.hidden(f"{name}_after", held)
    b.op("READ_VARIABLE", [handle], [before], "ReadVariableOptions")
    b.op("CONCATENATION", [before, b.index[one.inputs[0]]], [out], "ConcatenationOptions", Axis=1)
    rank = len(spec.shape)
    begin = [spec.shape[1] if k == 1 else 0 for k in range(rank)]
    cut = [b.const(begin), b.const(longer.shape), b.const([1] * rank)]
    b.op("STRIDED_SLICE", [out, *cut], [after], "StridedSliceOptions")
    b.op("ASSIGN_VARIABLE", [handle, after], [], "AssignVariableOptions")


def _draw_running(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, b.quantised)
    if x is None:
        return None
    return layer("RUNNING", [x], b.fresh(), first=d.fill() if d.chance(0.6) else None)


def _running(b: Any, one: Layer) -> None:
    """The sum of all steps so far, saturated."""
    spec = b.specs[one.inputs[0]]
    if not b.quantised(spec):
        raise Unfit(f"RUNNING of {spec}")
    name = one.outputs[0]
    out = b.make(name, spec)
    handle = _variable(b, one, spec)
    before = b.hidden(f"{name}_before", spec)
    b.op("READ_VARIABLE", [handle], [before], "ReadVariableOptions")
    b.op("ADD", [before, b.index[one.inputs[0]]], [out], "AddOptions", PotScaleInt16=False)
    b.op("ASSIGN_VARIABLE", [handle, out], [], "AssignVariableOptions")


TABLE = {"WINDOW": Op(_draw_window, _window, 1), "RUNNING": Op(_draw_running, _running, 1)}
