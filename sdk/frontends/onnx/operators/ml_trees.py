"""Decision trees of ai.onnx.ml: tables of nodes that the op ``tree_leaves`` walks, then sums of what leaves weigh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdk.budget import FOLDED
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32
from sdk.frontends.moves import part
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.operators.ml_common import (
    DOMAIN,
    TRANSFORMS,
    class_count,
    labelled,
    ml_array,
    post_transform,
    real_matrix,
    single,
)
from sdk.frontends.onnx.operators.ml_forest import MODES, Branch, Forest, forest

__all__: list[str] = []

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Weights:
    """What leaves weigh: ``leaf`` and ``target`` of each weight, and the tree of each leaf."""

    leaf: Array
    target: Array
    weight: Array
    leaves: int


# --- reading the attributes -----------------------------------------------------------------------------------------


def _numbered(node: OnnxNode, x: Value, what: str) -> tuple[Forest, _Weights]:
    """The trees of the older operators, whose nodes have numbers of their own in each tree."""
    trees, ids = node.ints("nodes_treeids", ()), node.ints("nodes_nodeids", ())
    modes, features = node.texts("nodes_modes", ()), node.ints("nodes_featureids", ())
    yes, no = node.ints("nodes_truenodeids", ()), node.ints("nodes_falsenodeids", ())
    values = ml_array(node, "nodes_values")
    missing = node.ints("nodes_missing_value_tracks_true", ()) or (0,) * len(ids)
    if not ids or len({len(v) for v in (trees, ids, modes, features, yes, no, values, missing)}) != 1:
        node.fail("the lists of its nodes are not equally long, or empty")
    keys = list(zip(trees, ids, strict=True))
    kept = [k for k, mode in enumerate(modes) if mode != "LEAF"]
    leaves = [k for k, mode in enumerate(modes) if mode == "LEAF"]
    place = {keys[k]: n for n, k in enumerate(kept)} | {keys[k]: -1 - n for n, k in enumerate(leaves)}
    if len(place) != len(keys):
        node.fail("two nodes of a tree have one number")
    branches = []
    for k in kept:
        ends = [(trees[k], yes[k]), (trees[k], no[k])]
        if any(end not in place for end in ends):
            node.fail(f"node {ids[k]} of tree {trees[k]} has a child that is not there")
        branches.append(
            Branch(features[k], float(values[k]), modes[k], place[ends[0]], place[ends[1]], bool(missing[k]))
        )
    children = {(trees[k], child) for k in kept for child in (yes[k], no[k])}
    roots = [place[key] for key in keys if key not in children]
    if len(roots) != len(set(trees)):
        node.fail("not every one of its trees has one root")
    where = zip(node.ints(f"{what}_treeids", ()), node.ints(f"{what}_nodeids", ()), strict=True)
    at = np.array([-1 - place[key] if place.get(key, 0) < 0 else -1 for key in where], np.int64)
    target = np.array(node.ints(f"{what}_ids", ()), np.int64)
    weights = ml_array(node, f"{what}_weights")
    if at.size and at.min() < 0:
        node.fail("a weight is of no leaf")
    if not len(at) == len(target) == len(weights):
        node.fail("the lists of its weights are not equally long")
    _check_features(node, branches, x)
    return forest(node, roots, branches, x.type.dtype.numpy), _Weights(at, target, weights, len(leaves))


def _check_features(node: OnnxNode, branches: Sequence[Branch], x: Value) -> None:
    width = x.type.shape[1]
    used = [b.feature for b in branches]
    if used and (min(used) < 0 or (isinstance(width, int) and max(used) >= width)):
        node.fail(f"its trees ask for element {min(used) if min(used) < 0 else max(used)} of rows of {width}")


def _places(node: OnnxNode, flags: Sequence[int], ends: Sequence[int], leaves: int) -> list[int]:
    """Children of TreeEnsemble: nodes as they are, leaves as negative numbers."""
    if any(not 0 <= end < (leaves if flag else len(ends)) for flag, end in zip(flags, ends, strict=True)):
        node.fail("a node has a child that is not there")
    return [-1 - end if flag else end for flag, end in zip(flags, ends, strict=True)]


def _members(node: OnnxNode, count: int) -> list[list[float]]:
    """The values of each node that tests for being one of several, between NaNs."""
    found: list[list[float]] = [[]]
    given = node.array("membership_values")
    for value in [] if given is None else given.reshape(-1).astype(np.float64).tolist():
        if value != value:
            found.append([])
        else:
            found[-1].append(value)
    if len(found) < count:
        node.fail(f"values for {len(found)} of the {count} nodes that test for one of several")
    return found


def _tables(node: OnnxNode, x: Value) -> tuple[Forest, _Weights]:
    """The trees of TreeEnsemble."""
    modes, splits, weights = node.array("nodes_modes"), node.array("nodes_splits"), node.array("leaf_weights")
    if modes is None or splits is None or weights is None:
        node.fail("its modes, splits or weights are missing")
    features = node.ints("nodes_featureids", ())
    targets, leaves = np.array(node.ints("leaf_targetids", ()), np.int64), weights.size
    sides = [
        _places(node, node.ints(f"nodes_{way}leafs", ()), node.ints(f"nodes_{way}nodeids", ()), leaves)
        for way in ("true", "false")
    ]
    missing = node.ints("nodes_missing_value_tracks_true", ()) or (0,) * len(features)
    codes = modes.reshape(-1).tolist()
    if not features or len({len(v) for v in (features, codes, splits, missing, *sides)}) != 1 or targets.size != leaves:
        node.fail("the lists of its nodes, or of its leaves, are not equally long")
    sets = iter(_members(node, codes.count(len(MODES))))
    branches: list[Branch] = []
    more: list[Branch] = []  # a node that tests for one of several becomes as many
    for k, code in enumerate(codes):
        if not 0 <= code <= len(MODES):
            node.fail(f"the comparison {code} of a node is not supported")
        value, flag = float(splits.reshape(-1)[k]), bool(missing[k])
        if code < len(MODES):
            branches.append(Branch(features[k], value, MODES[code], sides[0][k], sides[1][k], flag))
            continue
        values = next(sets) or [float("nan")]
        ends = [*(len(codes) + len(more) + j for j in range(len(values) - 1)), sides[1][k]]
        chain = [
            Branch(features[k], v, "BRANCH_EQ", sides[0][k], end, flag) for v, end in zip(values, ends, strict=True)
        ]
        branches.append(chain[0])
        more += chain[1:]
    _check_features(node, branches, x)
    roots = node.ints("tree_roots", ())
    if not roots or not all(0 <= r < len(codes) for r in roots):
        node.fail("the roots of its trees are missing, or are no nodes")
    found = forest(node, roots, [*branches, *more], x.type.dtype.numpy)
    return found, _Weights(np.arange(leaves), targets, weights.reshape(-1), leaves)


# --- scores -------------------------------------------------------------------------------------------------------


def _scores(node: OnnxNode, x: Value, trees: Forest, weights: _Weights, targets: int, how: str) -> Value:
    """What the trees say of each target together, [n, targets]."""
    if how not in ("SUM", "AVERAGE", "MIN", "MAX"):
        node.fail(f"the aggregate_function {how} is not supported")
    if targets < 1 or (weights.target.size and not 0 <= weights.target.min() <= weights.target.max() < targets):
        node.fail(f"a weight is of none of its {targets} targets")
    node.builder.budget.spend(FOLDED, 4 * weights.leaves * targets, node.source)
    tables = (trees.roots, trees.features, trees.limits, trees.children)
    names = ("roots", "features", "limits", "children")
    args = (node.const(table, name) for table, name in zip(tables, names, strict=True))
    leaf = node.call("tree_leaves", x, *args, depth=trees.depth)
    empty = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0.0)
    kind = x.type.dtype.numpy
    table = np.zeros((max(weights.leaves, 1), targets), kind)
    np.add.at(table, (weights.leaf, weights.target), weights.weight.astype(kind))
    if empty:
        has = np.zeros(table.shape, bool)
        has[weights.leaf, weights.target] = True
        table = np.where(has, table, kind.type(empty))
    single_target = _single_targets(weights, trees, targets) if how in ("SUM", "AVERAGE") and targets > 1 else None
    if single_target is not None:
        flat = node.call("gather", node.const(table.sum(axis=1), "weights"), leaf, axis=0)
        found = node.call("matmul", flat, node.const(single_target.astype(kind), "targets"))
    else:
        each = node.call("gather", node.const(table, "weights"), leaf, axis=0)
        reduce = {"MIN": "reduce_min", "MAX": "reduce_max"}.get(how, "reduce_sum")
        found = node.call("reshape", node.call(reduce, each, axes=(1,)), shape=(x.type.shape[0], targets))
    if empty:
        found = node.call(
            "where", node.call("is_inf", found, negative=True, positive=True), node.scalar(0.0, found.type), found
        )
    if how == "AVERAGE":
        found = node.call("div", found, node.scalar(float(trees.roots.size), found.type))
    return found


def _single_targets(weights: _Weights, trees: Forest, targets: int) -> Array | None:
    """Which target each tree is for, as a matrix of 0 and 1; None where one is for several, or trees share nodes."""
    if weights.leaf.size != np.unique(weights.leaf).size:
        return None
    maximum = 4 * (trees.features.size + weights.leaves + trees.roots.size)  # steps through trees that are apart
    target_of = dict(zip(weights.leaf.tolist(), weights.target.tolist(), strict=True))
    found = np.zeros((trees.roots.size, targets))
    for tree, root in enumerate(trees.roots.tolist()):
        waiting, seen = [root], set()
        while waiting:
            at, maximum = waiting.pop(), maximum - 1
            if maximum < 0:
                return None
            if at < 0 and -1 - at in target_of:
                found[tree, target_of[-1 - at]] = 1
            elif at >= 0 and at not in seen:
                seen.add(at)
                waiting += trees.children[at].tolist()
    return found if (found.sum(axis=1) <= 1).all() else None


def _with_base(node: OnnxNode, scores: Value) -> Value:
    base = ml_array(node, "base_values")
    if not base.size:
        return scores
    if base.size not in (1, scores.type.shape[1]):
        node.fail(f"{base.size} base values for {scores.type.shape[1]} targets")
    return node.call("add", scores, node.const(base.astype(scores.type.dtype.numpy), "base"))


# --- operators ----------------------------------------------------------------------------------------------------


@onnx_op("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(node: OnnxNode) -> Value:
    """Numbers that trees agree on."""
    x = real_matrix(node, node.x(0))
    trees, weights = _numbered(node, x, "target")
    scores = _scores(node, x, trees, weights, node.int("n_targets", 1), node.text("aggregate_function", "SUM"))
    return post_transform(node, single(node, _with_base(node, scores)), node.text("post_transform", "NONE"))


@onnx_op("TreeEnsemble", domain=DOMAIN)
def tree_ensemble(node: OnnxNode) -> Value:
    """The same, of nodes and leaves in tables of their own."""
    x = real_matrix(node, node.x(0))
    trees, weights = _tables(node, x)
    how = node.int("aggregate_function", 1)
    names = ("AVERAGE", "SUM", "MIN", "MAX")
    if not 0 <= how < len(names) or not 0 <= node.int("post_transform", 0) < len(TRANSFORMS):
        node.fail(
            f"the aggregate_function {how} or the post_transform {node.int('post_transform', 0)} is not supported"
        )
    scores = _scores(node, x, trees, weights, node.int("n_targets", 1), names[how])
    y = post_transform(node, scores, TRANSFORMS[node.int("post_transform", 0)])
    return (
        y
        if y.type.dtype == node.type(0).dtype or not node.type(0).dtype.is_float
        else (node.call("cast", y, to=str(node.type(0).dtype)))
    )


@onnx_op("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(node: OnnxNode) -> tuple[Value, Value]:
    """Labels, and scores of classes."""
    x, count = real_matrix(node, node.x(0)), class_count(node)
    trees, weights = _numbered(node, x, "class")
    transform = node.text("post_transform", "NONE")
    if count == 2:
        return _of_two(node, x, trees, weights, transform)
    scores = _with_base(node, _scores(node, x, trees, weights, count, "SUM"))
    label = labelled(node, node.call("argmax", scores, axis=1, last=False))
    return label, post_transform(node, single(node, scores), transform)


def _of_two(node: OnnxNode, x: Value, trees: Forest, weights: _Weights, transform: str) -> tuple[Value, Value]:
    """Two classes, of which trees may score only one: then the second is chosen where that is above 0, or above 1/2
    where no weight is negative, as in onnxruntime, and a score of the first alone is taken for one of the second."""
    base, known = ml_array(node, "base_values"), set(np.unique(weights.target).tolist())
    if base.size > 2 or (base.size == 2 and 1 in known):
        node.fail(
            f"{base.size} base values for two classes, the second of which has scores",
            hint="add them to the weights of leaves",
        )
    scores = single(node, _scores(node, x, trees, weights, 2, "SUM"))
    positive = bool((weights.weight >= 0).all())
    first, second = (node.call("reshape", part(node, scores, 1, k, 1), shape=(x.type.shape[0], 1)) for k in range(2))
    if base.size and 0 in known:
        first = node.call("add", first, node.scalar(float(base[0]), F32))
    middle = node.scalar(0.5 if positive else 0.0, F32)
    decides = (second, first) if known >= {0, 1} else (second if 1 in known else first, middle)
    label = labelled(node, node.call("cast", node.call("greater", *decides), to="i64"))
    if 1 in known or base.size == 2:
        return label, post_transform(node, node.call("concat", first, second, axis=1), transform)
    if transform == "LOGISTIC":  # of a score alone nothing else is made
        both = node.call("concat", node.call("neg", first), first, axis=1)
        return label, node.call("sigmoid", both)
    if transform == "PROBIT":
        node.fail("PROBIT of one score for two classes is not supported")
    other = node.call("sub", node.scalar(1.0, F32), first) if positive else node.call("neg", first)
    return label, node.call("concat", other, first, axis=1)
