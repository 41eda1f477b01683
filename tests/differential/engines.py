"""Engines that results are compared with, run on a whole sequence of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from generate.engines import outputs
from numpy.typing import NDArray

from differential.case import Array
from sdk.frontends.onnx.doubles import Doubles

__all__ = ["differences", "load_engines", "moved", "unrounded"]

BOUND = 5e-4  # of the largest number of an output, or of 1: how far reals may be apart
STEPS = 3  # of QDQ models in our interpreter, whose sums of floats may end on either side of a half; layers scale that
QDQ_BOUND = 0.02  # reals of QDQ models, which such steps end in
NUDGES = 4  # times that inputs are moved by their last bit
LARGEST = float(np.finfo(np.float32).max)
ROOM = 32  # of what outputs move by then: other operations are off by a last bit or two as well


def load_engines() -> None:
    """Imports them, so that a child process need not."""
    for engine in ("onnxruntime", "tflite_micro.python.tflite_micro.runtime", "ai_edge_litert.interpreter"):
        import_module(engine)


def moved(
    file: bytes, suffix: str, inputs: Sequence[Sequence[Array]], want: Sequence[Sequence[Array]]
) -> list[list[float]]:
    """How far reals of each output of each run move, at most, where the inputs' last bits do: what a network makes of
    an error that no engine can avoid (a difference of large numbers, scaled up)."""
    rng, found = np.random.default_rng(0), [[0.0] * len(one) for one in want]
    for _ in range(NUDGES):
        nudged = [[_nudged(a, rng) for a in one] for one in inputs]
        for run, (one, two) in enumerate(zip(want, outputs(file, suffix, nudged, len(want[0])), strict=True)):
            for k, (a, b) in enumerate(zip(one, two, strict=True)):
                if a.dtype.kind == "f" and a.shape == b.shape:
                    gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
                    found[run][k] = max(found[run][k], ROOM * float(gap[np.isfinite(gap)].max(initial=0.0)))
    return found


def unrounded(
    file: bytes, inputs: Sequence[Sequence[Array]], want: list[list[Array]], got: Sequence[Sequence[Array]]
) -> list[list[Array]]:
    """``want``, and where ``got`` differs the outputs of the QDQ model in float64, if its operators are known there:
    onnxruntime's sums of float32 may fall on the other side of half a step."""
    model, found = onnx.load_model_from_string(file), list(want)
    names = [value.name for value in model.graph.input]
    try:
        doubles = Doubles(model)
        for run, (one, two) in enumerate(zip(want, got, strict=True)):
            if differences([one], [two]):
                found[run] = doubles.step(dict(zip(names, inputs[run], strict=True)))
    except Exception:  # the evaluator's errors share no base
        return want
    return found


def _nudged(a: Array, rng: np.random.Generator) -> Array:
    if a.dtype.kind != "f":
        return a
    return np.nextafter(a, np.where(rng.random(a.shape) < 0.5, -np.inf, np.inf).astype(a.dtype))


def differences(
    want: Sequence[Sequence[Array]],
    got: Sequence[Sequence[Array]],
    quantised: bool = False,
    room: Sequence[Sequence[float]] | None = None,
) -> list[str]:
    """What differs, a line for each output of each run: integers in any bit, reals by more than the bound, and
    ``room`` (see ``moved``) where it is given; of ``quantised`` (QDQ) models integers by more than ``STEPS``; nothing
    where all agree."""
    return [
        f"run {run}, output {k}: {text}"
        for run, (one, two) in enumerate(zip(want, got, strict=True))
        for k, (a, b) in enumerate(zip(one, two, strict=True))
        if (text := _difference(a, b, quantised, room[run][k] if room else 0.0))
    ]


def _difference(a: Array, b: Array, quantised: bool, room: float) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}"
    wrong: NDArray[Any]
    if a.dtype.kind == "f":
        wrong = _apart(a.astype(np.float64), b.astype(np.float64), QDQ_BOUND if quantised else BOUND, room)
    elif quantised and a.dtype.kind in "iu":
        wrong = np.abs(a.astype(np.int64) - b.astype(np.int64)) > STEPS
    else:
        wrong = a != b
    places = np.flatnonzero(wrong)
    if not len(places):
        return ""
    at = int(places[0])
    found, expected = b.reshape(-1)[at], a.reshape(-1)[at]
    return f"{len(places)} of {a.size} elements, the first at {at}: {found} instead of {expected}"


def _apart(a: NDArray[Any], b: NDArray[Any], bound: float, room: float) -> NDArray[Any]:
    # LiteRT holds what overflows to the largest number before it goes on; we do not
    overflows = bool((np.abs(a) == LARGEST).any())
    same = (a == b) | (np.isnan(a) & np.isnan(b)) | (overflows & ~np.isfinite(b))
    finite = np.isfinite(a) & np.isfinite(b)
    scale = max(1.0, float(np.abs(a[finite]).max(initial=0.0)))
    gap = np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))
    return ~same & (~finite | (gap > bound * scale + room))

