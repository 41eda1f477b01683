"""Models of one LSTM of int8 with the parts that LiteRT alone has integer kernels for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tflite_files import ModelFile

__all__ = ["FORMS", "SEQUENCE", "STEP", "integer_lstm"]

Rng = np.random.Generator
SEQUENCE, STEP = "UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM"


def single(value: float) -> float:
    return float(np.float32(value))


def integer_lstm(
    rng: Rng, *, op: str = SEQUENCE, batch: int = 1, steps: int = 3, inputs: int = 5, units: int = 4,
    outputs: int | None = None, coupled: bool = False, peephole: bool = False, norm: bool = False, major: bool = False,
    clips: tuple[float, float] = (0.0, 0.0), power: int = -11, loud: float = 1.0, bias: bool = True,
    signature: bool = False, between: int = 5, alter: dict[str, dict[str, Any]] | None = None,
    more: dict[int, str] | None = None, **fields: Any,
) -> bytes:  # fmt: skip
    """``outputs`` makes a projection, ``loud`` saturates; ``alter`` says what is wrong with tensors, ``more`` which
    inputs are others, by name ("" for none)."""
    m, size, gates = ModelFile(), outputs or units, range(1 if coupled else 0, 4)
    zero, h_zero, mid_zero = (int(v) for v in (rng.integers(-128, 128), *rng.integers(-20, 20, 2)))
    x_scale, h_scale = (single(v / 128) for v in (rng.uniform(1, 4), rng.uniform(0.9, 1.2)))
    shape = (batch, inputs) if op == STEP else (steps, batch, inputs) if major else (batch, steps, inputs)
    opened = [(-1 if k == (0 if major else 1) else d) for k, d in enumerate(shape)] if signature else None
    given = [m.input("x", shape, "int8", x_scale, zero, signature=opened), *([-1] * 23)]
    gate_scale = [single(rng.uniform(2, 6) * loud / 32768) if norm else 2.0**-12 for _ in range(4)]
    for g in gates:
        for place, columns in ((1, inputs), (5, size)):
            scale = single(rng.uniform(0.3, 1) * loud / 127 / np.sqrt(columns))
            given[place + g] = m.const(
                f"w{place + g}", rng.integers(-127, 128, (units, columns)), "int8", scale=scale
            )
        largest, scale = (1 << 18, 2.0**-25) if norm else (500, single(x_scale * loud / 127))
        given[12 + g] = m.const(f"b{12 + g}", rng.integers(-largest, largest, units), "int32", scale=scale)
        if norm:
            data = rng.integers(-32767, 32768, units) if rng.random() < 0.5 else rng.integers(9000, 32767, units)
            given[20 + g] = m.const(f"n{20 + g}", data, "int16", scale=single(rng.uniform(0.3, 1.5) / 32767))
        if peephole and g != 2:
            place = 9 + (g if g < 2 else 2)
            data = rng.integers(-32767, 32768, units)
            given[place] = m.const(f"p{place}", data, "int16", scale=single(rng.uniform(0.1, 1) * loud / 32767))
    if outputs:
        scale = single(rng.uniform(0.5, 1.5) / 127 / np.sqrt(units))
        given[16] = m.const("w16", rng.integers(-127, 128, (size, units)), "int8", scale=scale)
        if bias:
            given[17] = m.const("b17", rng.integers(-3000, 3000, size), "int32", scale=scale * h_scale)
    given[18] = m.tensor("hidden", (batch, size), "int8", h_scale, h_zero, variable=True)
    given[19] = m.tensor("cells", (batch, units), "int16", 2.0**power, 0, variable=True)
    mid = (single(rng.uniform(0.7, 1.1) / 128), mid_zero) if outputs else (h_scale, h_zero)
    kept = [m.tensor(f"between{k}", (0,), "int16", s, 0) for k, s in enumerate(gate_scale)]
    kept.append(m.tensor("between4", (0,), "int8", *mid))
    kept += [m.tensor(f"between{k}", (0,), "int8", 0.01, 0) for k in range(5, between)]
    y = m.output("y", (*shape[:-1], size), "int8", h_scale, h_zero, signature=opened and [*opened[:-1], size])
    for k, name in (more or {}).items():
        given[k] = -1 if not name else m.const(name, np.ones(units), "int16", scale=0.001)
    options = {"CellClip": clips[0], "ProjClip": clips[1], "FusedActivationFunction": 4, **fields}
    kind = "LSTMOptions" if op == STEP else "UnidirectionalSequenceLSTMOptions"
    if op == SEQUENCE:
        options["TimeMajor"] = major
    m.op(op, given, [y], kind, intermediates=kept[:between], **options)
    m.tensors = [replace(t, **(alter or {}).get(t.name, {})) for t in m.tensors]
    return m.build()


# Every part once by itself, then several, over sizes, batches, orders of axes, scales of cells and clips.
FORMS: dict[str, dict[str, Any]] = {
    "coupled": {"coupled": True, "batch": 2},
    "peephole": {"peephole": True, "batch": 2, "steps": 4, "loud": 3.0, "power": -12},
    "normalised": {"norm": True, "units": 7, "batch": 2, "power": -13},
    "projected": {"outputs": 3, "batch": 2, "units": 6, "power": -15},
    "projected without a bias": {"outputs": 7, "bias": False, "power": -9, "loud": 4.0},
    "coupled, normalised, time-major": {"coupled": True, "norm": True, "major": True, "batch": 3, "units": 8},
    "few outputs see few cells": {"peephole": True, "outputs": 2, "batch": 3, "units": 5},
    "clips": {"coupled": True, "outputs": 4, "clips": (0.2, 0.3), "batch": 2, "loud": 3.0},
    "clips that are nothing": {"outputs": 4, "clips": (0.00001, 0.0001), "power": -10},
    "all": {"peephole": True, "norm": True, "outputs": 6, "units": 6, "batch": 2, "clips": (0.4, 0.5), "major": True},
    "all coupled": {"peephole": True, "norm": True, "outputs": 4, "coupled": True, "units": 9, "clips": (1.0, 0.8)},
    "one unit": {"norm": True, "units": 1, "inputs": 1, "steps": 1, "peephole": True},
    "many units": {"norm": True, "units": 37, "inputs": 20, "outputs": 17, "coupled": True, "batch": 2},
    "step": {"op": STEP, "batch": 2},
    "step of all": {"op": STEP, "peephole": True, "norm": True, "outputs": 4, "batch": 2, "clips": (0.7, 0.5)},
    "step coupled": {"op": STEP, "coupled": True, "outputs": 3, "loud": 5.0},
}
