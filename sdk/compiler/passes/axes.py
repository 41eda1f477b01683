"""Permutations of axes, and reshapes and attributes seen through them: what the layout pass computes with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.layout import Permute
from sdk.compiler.ops.traits import AxisRole
from sdk.compiler.sym import Dim, product, prove_eq

__all__ = ["moves_units_only", "renumbered", "reshape_through"]


def renumbered(role: AxisRole | None, value: Any, perm: Permute) -> Attr:
    """An attribute for the axes as they are before ``perm``; itself where it names none."""
    match role:
        case None:
            given: Attr = value
            return given
        case AxisRole.ONE:
            return perm.order[int(value)]
        case AxisRole.SOME:
            return tuple(sorted(perm.order[k] for k in value))
        case AxisRole.EACH:
            each: tuple[Attr, ...] = tuple(value)
            return tuple(each[k] for k in perm.inverse().order)
    assert_never(role)


def moves_units_only(shape: Sequence[Dim], perm: Permute) -> bool:
    """Whether permuting a tensor of ``shape`` leaves its elements in their order: only axes of extent 1 move."""
    real = [k for k in perm.order if shape[k] != 1]
    return real == sorted(real)


def _groups(old: Sequence[Dim], new: Sequence[Dim]) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
    """The axes that a reshape merges or splits: (old axes, new axes) with as many elements, axes of extent 1 left out;
    None where that cannot be told."""
    a = [k for k, d in enumerate(old) if d != 1]
    b = [k for k, d in enumerate(new) if d != 1]
    out: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    while a and b:
        sizes = ((i, j) for total in range(2, len(a) + len(b) + 1) for i in range(1, total) if (j := total - i) > 0)
        for i, j in sizes:
            if i <= len(a) and j <= len(b) and _equal(old, a[:i], new, b[:j]):
                out.append((tuple(a[:i]), tuple(b[:j])))
                a, b = a[i:], b[j:]
                break
        else:
            return None
    return out if not a and not b else None


def _equal(old: Sequence[Dim], a: Sequence[int], new: Sequence[Dim], b: Sequence[int]) -> bool:
    return prove_eq(product(tuple(old[k] for k in a)), product(tuple(new[k] for k in b))) is True


def reshape_through(
    base: Sequence[Dim], perm: Permute, shape: Sequence[Dim]
) -> tuple[tuple[Dim, ...], Permute] | None:
    """``reshape(permute(x, perm), shape)`` as ``permute(reshape(x, own), perm')`` for x of shape ``base``:
    ``own`` and ``perm'``. None where the reshape merges axes that do not lie together in ``x``."""
    groups = _groups(perm.shape(base), shape)
    if groups is None:
        return None
    real = [k for k in range(len(base)) if base[k] != 1]
    order: list[tuple[int, tuple[int, ...]]] = []
    for old, new in groups:
        places = [real.index(perm.order[k]) for k in old]
        if places != list(range(places[0], places[0] + len(places))):
            return None
        order.append((places[0], new))
    grouped = {k for _, new in order for k in new}
    axes: list[int] = []
    for _, new in sorted(order):
        axes += new
    for k in range(len(shape)):  # an axis of extent 1 stays beside the one before it
        if k not in grouped:
            axes.insert(axes.index(k - 1) + 1 if k else 0, k)
    return tuple(shape[k] for k in axes), Permute(tuple(axes)).inverse()
