"""Decision trees of a model as tables: nodes, children, leaves and what leaves weigh."""

from __future__ import annotations

import graphlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdk.frontends.onnx.context import OnnxNode

__all__ = ["Branch", "Forest", "forest"]

Array = np.ndarray[Any, Any]
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@dataclass(frozen=True)
class Branch:
    """A node: the element ``feature`` compared with ``value`` by ``mode``; ``yes`` and ``no`` are nodes from 0 on,
    leaves ``-1 - child`` below; ``missing`` says that NaN goes to ``yes``."""

    feature: int
    value: float
    mode: str
    yes: int
    no: int
    missing: bool


@dataclass(frozen=True)
class Forest:
    """Tables as the op ``tree_leaves`` takes them."""

    roots: Array
    features: Array
    limits: Array
    children: Array
    depth: int


def forest(node: OnnxNode, roots: Sequence[int], branches: Sequence[Branch], kind: Any) -> Forest:
    """The tables of trees whose thresholds are compared with elements of the numpy type ``kind``.

    Raises:
        BuildError: nodes go around in circles or lead nowhere, or a mode is not known.
    """
    depth = _depth(node, roots, branches)
    rows = [_limits(node, b, np.dtype(kind)) for b in branches]
    lower = any(lo != -np.inf for lo, _, _ in rows)
    limits = np.array([(lo, hi) if lower else (hi,) for lo, hi, _ in rows], kind).reshape(len(rows), 1 + lower)
    children = [child for _, _, child in rows]
    features = [b.feature for b in branches]
    return Forest(_small(roots), _small(features), limits, _small(children).reshape(len(rows), 3), depth)


def _small(numbers: Any) -> Array:
    """Integers in the smallest type that has them all."""
    wide = np.asarray(numbers, np.int64)
    for kind in (np.int8, np.int16):
        if wide.size == 0 or (np.iinfo(kind).min <= wide.min() and wide.max() <= np.iinfo(kind).max):
            return wide.astype(kind)
    return wide.astype(np.int32)


def _depth(node: OnnxNode, roots: Sequence[int], branches: Sequence[Branch]) -> int:
    """The most nodes on a way from a root to a leaf."""
    below = {k: {c for c in (b.yes, b.no) if c >= 0} for k, b in enumerate(branches)}
    if any(c not in below for found in (roots, *below.values()) for c in found if c >= 0):
        node.fail("its trees go to nodes that are not there")
    depths: dict[int, int] = {}
    try:
        for at in graphlib.TopologicalSorter(below).static_order():  # what is below a node comes before it
            depths[at] = 1 + max((depths[c] for c in below[at]), default=0)
    except graphlib.CycleError:
        node.fail("its trees go around in circles")
    return max((depths[r] for r in roots if r >= 0), default=0)


def _limits(node: OnnxNode, branch: Branch, kind: np.dtype[Any]) -> tuple[Any, Any, tuple[int, int, int]]:
    """The limits of a node within which an element goes to its first child, and its children: (within, not, NaN)."""
    value = kind.type(branch.value)
    infinity = kind.type(np.inf)
    below = np.nextafter(value, -infinity, dtype=kind) if value != -infinity else kind.type(np.nan)
    yes, no = branch.yes, branch.no
    nan = yes if branch.missing or branch.mode == "BRANCH_NEQ" else no
    match branch.mode:
        case "BRANCH_LEQ":
            return -infinity, value, (yes, no, nan)
        case "BRANCH_LT":
            return -infinity, below, (yes, no, nan)
        case "BRANCH_GTE":
            return -infinity, below, (no, yes, nan)
        case "BRANCH_GT":
            return -infinity, value, (no, yes, nan)
        case "BRANCH_EQ":
            return value, value, (yes, no, nan)
        case "BRANCH_NEQ":
            return value, value, (no, yes, nan)
    node.fail(f"the comparison {branch.mode} of a node is not supported")
