"""Fits prices of events to what layers executed in all their ways, and writes the table of the compiler."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cost_sample import Sample
from numpy.typing import NDArray

__all__ = ["TABLE_FILE", "fitted", "written"]

Array = NDArray[Any]
TABLE_FILE = Path(__file__).resolve().parent.parent / "sdk" / "compiler" / "schedules" / "prices.py"
USUAL_CALL = 20.0  # instructions of a call; all else is usually one
PULL, LEAST_ERROR, ROUNDS, SWEEPS = 0.003, 0.02, 8, 10_000
BESIDE = 1.0  # what an error between two ways of a layer counts, by an error of one of them
ENOUGH = 1e-7  # change of a price in a sweep that ends the search
WIDTH = 100  # of the table's text


def fitted(samples: Sequence[Sample]) -> dict[str, float]:
    """The prices of all events of the samples that have the least errors: of what each is expected to execute, and of
    how the ways of a layer compare."""
    names = sorted({name for s in samples for name, count in s.events.items() if count})
    matrix = np.array([[s.events.get(name, 0.0) / s.counted for name in names] for s in samples])
    usual: Array = np.array([USUAL_CALL if name == "call" else 1.0 for name in names])
    beside = _beside(samples, matrix)
    rows = np.vstack([matrix, BESIDE * beside])
    wanted = np.concatenate([np.ones(len(matrix)), np.zeros(len(beside))])
    return dict(zip(names, map(float, _least_errors(rows, wanted, usual)), strict=True))


def _beside(samples: Sequence[Sample], matrix: Array) -> Array:
    """Each way of a layer less the mean of its ways: what is right of all of them is nothing."""
    layers: defaultdict[int, list[int]] = defaultdict(list)
    for row, sample in enumerate(samples):
        layers[sample.layer].append(row)
    apart = [matrix[rows] - matrix[rows].mean(axis=0) for rows in layers.values() if len(rows) > 1]
    return np.vstack([np.zeros((0, matrix.shape[1])), *apart])


def _least_errors(matrix: Array, wanted: Array, usual: Array) -> Array:
    """The x >= 0 with the least sum of errors of ``matrix @ x - wanted``, pulled a little towards what is usual: least
    squares, over and over, in which an error counts the less the larger it was."""
    rows = np.vstack([matrix, np.diag(np.sqrt(PULL) / usual)])
    goal = np.concatenate([wanted, np.full(len(usual), np.sqrt(PULL))])
    weights, x = np.ones(len(goal)), usual
    for _ in range(ROUNDS):
        x = _least_squares(rows * weights[:, None], goal * weights)
        errors = np.abs(matrix @ x - wanted)
        weights[: len(matrix)] = 1.0 / np.sqrt(np.maximum(errors, LEAST_ERROR))
    return x


def _least_squares(matrix: Array, wanted: Array) -> Array:
    """The x >= 0 with the least squares of ``matrix @ x - wanted``, by coordinates in turn."""
    scale: Array = np.maximum(np.linalg.norm(matrix, axis=0), 1e-12)
    scaled = matrix / scale
    gram, right = scaled.T @ scaled, scaled.T @ wanted
    x: Array = np.zeros(len(scale))
    for _ in range(SWEEPS):
        before = x.copy()
        for k in range(len(x)):
            x[k] = max(0.0, x[k] + (right[k] - gram[k] @ x) / gram[k, k])
        if np.abs(x - before).max() < ENOUGH:
            break
    out: Array = x / scale
    return out


def written(tables: Mapping[str, Mapping[str, float]], old: str) -> str:
    """The text of the table's file, ``old``, with the rows of these capabilities replaced."""
    head, _, rest = old.partition("= (\n")
    rows = dict(_row(text) for text in rest.removesuffix(")\n").split("    (\n")[1:])
    for needs, prices in tables.items():
        rows[needs] = " ".join(f"{name} {round(price, 2):g}" for name, price in sorted(prices.items()))
    return head + "= (\n" + "".join(_text(needs, each) for needs, each in rows.items()) + ")\n"


def _row(text: str) -> tuple[str, str]:
    needs, *lines = text.split('"')[1::2]
    return needs, "".join(lines).strip()


def _text(needs: str, each: str) -> str:
    words = each.split()
    lines = [""]
    for name, price in zip(words[::2], words[1::2], strict=True):
        if len(lines[-1]) + len(name) + len(price) + 2 > WIDTH:
            lines.append("")
        lines[-1] += f"{name} {price} "
    return f'    (\n        "{needs}",\n' + "\n".join(f'        "{line}"' for line in lines) + ",\n    ),\n"
