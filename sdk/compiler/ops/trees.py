"""Decision trees as tables: the leaf that each row of a matrix reaches in each tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.path_conditions import PathConditions
from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, If, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, F32, F64, I8, I16, I32, TensorType, dtype_of
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.numerics import require_float
from sdk.compiler.ops.positions import unproved
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(
    x: TensorType, roots: TensorType, features: TensorType, limits: TensorType, children: TensorType, *, depth: int
) -> TensorType:
    require_float("tree_leaves", x)
    count = features.shape[0] if features.rank == 1 else None
    tables = (limits.rank, children.rank, roots.rank, x.rank) == (2, 2, 1, 2)
    if not tables or not isinstance(count, int) or limits.shape[0] != count or children.shape != (count, 3):
        raise BuildError("tree_leaves wants x[n, f], roots[t], features[m], limits[m, 1 or 2], children[m, 3]")
    if limits.shape[1] not in (1, 2) or limits.dtype != x.dtype or x.dtype not in (F32, F64) or depth < 0:
        raise BuildError(f"tree_leaves of {x.dtype} with limits {limits.dtype}{list(limits.shape)} and depth {depth}")
    if any(t.dtype.kind not in "iu" or t.dtype.bits > 32 for t in (roots, features, children)):
        raise BuildError("tree_leaves wants tables of integers of up to 32 bits")
    return TensorType(I32, (x.shape[0], roots.shape[0]))


def _ref(x: Array, roots: Array, features: Array, limits: Array, children: Array, *, depth: int) -> Array:
    """A child of 0 or more is a node, one below 0 the leaf ``-1 - child``; of its three children the first is for
    elements within the limits (an upper one, or a lower and an upper one), the second for others, the third for NaN."""
    at = np.broadcast_to(roots.astype(np.int64), (x.shape[0], roots.size)).copy()
    for _ in range(depth):
        node = np.clip(at, 0, max(features.size - 1, 0))
        inside = (at >= 0) & (at < features.size)
        if not inside.any():
            break
        feature = features[node].astype(np.int64)
        inside &= (feature >= 0) & (feature < x.shape[1])
        value = np.take_along_axis(x, np.where(inside, feature, 0), axis=1)
        within = value <= limits[node, -1]
        if limits.shape[1] == 2:
            within &= value >= limits[node, 0]
        which = np.where(np.isnan(value), 2, np.where(within, 0, 1))
        at = np.where(inside, children[node, which], at)
    return (-1 - at).astype(np.int32)


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """For each row and tree: from the root, as long as the place is a node, to the child that its element says."""
    x, roots, features, limits, children = types
    over = nest(outs[0].shape)
    row, tree = over.index
    at, node, feature = Load("at", (), I32), Var("node", *I32.limits).expr, Var("feature", *I32.limits).expr
    value = Ref("value", x.dtype)
    last = limits.shape[1] - 1
    within: ValueExpr = op("le", value, Load("limits", (node, last), x.dtype))
    if limits.shape[1] == 2:
        within = op("and", within, op("ge", value, Load("limits", (node, 0), x.dtype)))
    child = [cast(Load("children", (node, k), children.dtype), I32) for k in range(3)]
    chosen = op("select", Ref("within", BOOL), child[0], child[1], dtype=I32)
    step = (
        Let("value", Load("x", (row, feature), x.dtype)),
        Let("within", within),
        Store("at", (), op("select", op("isnan", value), child[2], chosen, dtype=I32)),
    )
    has = unproved([(feature, x.shape[1])], PathConditions())
    there = unproved([(node, features.shape[0])], PathConditions())
    found: tuple[Stmt, ...] = (Let("feature", cast(Load("features", (node,), features.dtype), I32)),)
    found += (If(has, Block(step)),) if has is not None else step
    inner: tuple[Stmt, ...] = (Let("node", at), *((If(there, Block(found)),) if there is not None else found))
    levels = loop(variable("level", given["depth"]), given["depth"], *inner) if given["depth"] else Block(())
    body = over.around(
        Alloc(Buffer("at", I32, (), "register")),
        Store("at", (), cast(Load("roots", (tree,), roots.dtype), I32)),
        levels,
        Store("o", (row, tree), op("sub", imm(-1), at)),
    )
    names = ("x", "roots", "features", "limits", "children")
    params = [*(param(n, t) for n, t in zip(names, types, strict=True)), param("o", outs[0], "write")]
    return function(name, params, [body], over.rows)


def _fixed(*rows: Any, kind: Any) -> Any:
    return lambda rng: np.array(rows, kind)


_T = TensorType
_N = Var("n", 1, 7).expr
# a tree of three nodes and four leaves, and one that is a leaf
_CHILDREN = ((1, 2, 1), (-1, -2, -2), (-3, -4, -4))


def _tables(kind: Any, limits: Array) -> dict[int, Any]:
    return {
        1: _fixed(0, -3, kind=np.int16), 2: _fixed(0, 2, 1, kind=np.int8),
        3: lambda rng: limits.astype(kind), 4: _fixed(*_CHILDREN, kind=np.int16),
    }  # fmt: skip


_UPPER, _BOTH = np.array([[0.1], [-0.5], [0.3]]), np.array([[-np.inf, 0.1], [-1, 1], [0.25, 0.25]])
_SAMPLES = tuple(
    sample(
        _T(dtype_of(np.zeros(0, kind)), (rows, 3)), _T(I16, (2,)), _T(I8, (3,)),
        _T(dtype_of(np.zeros(0, kind)), limits.shape), _T(I16, (3, 3)), values=_tables(kind, limits), depth=2,
    )
    for kind, rows, limits in ((np.float32, _N, _UPPER), (np.float64, 5, _BOTH))
)  # fmt: skip
define(
    OpDef(
        "tree_leaves", ("x", "roots", "features", "limits", "children"), _infer, _ref, _loops, samples=_SAMPLES,
        kind=OPAQUE,
    )
)  # fmt: skip
