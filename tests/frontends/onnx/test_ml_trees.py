"""Decision trees of ai.onnx.ml, against onnxruntime: random trees, all comparisons, sums and transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from harness import Array, agree, one_node, record, run
from onnx import TensorProto, helper

from sdk.errors import SdkError
from sdk.frontends.onnx.importer import import_onnx

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
FEATURES = 5


class Trees:
    """Random trees as lists of nodes: each (tree, number, mode, feature, value, yes, no), and leaves (tree, number)."""

    def __init__(self, seed: int, count: int = 4, depth: int = 4, modes: tuple[str, ...] = ("BRANCH_LEQ",)) -> None:
        self.rng, self.modes, self.depth = np.random.default_rng(seed), modes, depth
        self.nodes: list[tuple[int, int, str, int, float, int, int]] = []
        for tree in range(count):
            self.free = 0
            self.grow(tree, 0)

    def grow(self, tree: int, level: int) -> int:
        number, self.free = self.free, self.free + 1
        at = len(self.nodes)
        if level and (level >= self.depth or self.rng.random() < 0.2):
            self.nodes.append((tree, number, "LEAF", 0, 0.0, 0, 0))
            return number
        mode = str(self.rng.choice(self.modes))
        self.nodes.append((tree, number, mode, 0, 0.0, 0, 0))
        yes, no = self.grow(tree, level + 1), self.grow(tree, level + 1)
        value = float(np.float32(self.rng.integers(-4, 5) / 2))
        self.nodes[at] = (tree, number, mode, int(self.rng.integers(FEATURES)), value, yes, no)
        return number

    @property
    def leaves(self) -> list[tuple[int, int]]:
        return [(tree, number) for tree, number, mode, *_ in self.nodes if mode == "LEAF"]

    def attributes(self) -> dict[str, Any]:
        names = ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids")
        return {f"nodes_{n}": list(v) for n, v in zip(names, zip(*self.nodes, strict=True), strict=True)}

    def weights(self, what: str, targets: list[int] | None, low: float = -1.0) -> dict[str, Any]:
        """A weight for each target of each leaf; one of its tree's own where ``targets`` is None."""
        rows = [(t, n, c) for t, n in self.leaves for c in ([t % 3] if targets is None else targets)]
        names = (f"{what}_treeids", f"{what}_nodeids", f"{what}_ids")
        given = {n: list(v) for n, v in zip(names, zip(*rows, strict=True), strict=True)}
        given[f"{what}_weights"] = self.rng.uniform(low, 1.0, len(rows)).astype(np.float32).tolist()
        return given


def rows(kind: Any = np.float32, count: int = 9) -> Array:
    """Values that are often just the thresholds."""
    rng = np.random.default_rng(1)
    return (rng.integers(-6, 7, (count, FEATURES)) / (1 if np.issubdtype(kind, np.integer) else 2)).astype(kind)


def compare(op: str, x: Array, outputs: tuple[str, ...] = ("y",), version: int = 3, **attributes: Any) -> None:
    """Compares one node with onnxruntime."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    model = one_node(op, {"x": x}, outputs=outputs, domain="ai.onnx.ml", **attributes)
    model.opset_import[1].version = version
    kinds = {"label": TensorProto.INT64, "y": TensorProto.FLOAT}
    for info in model.graph.output:
        info.type.tensor_type.elem_type = kinds[info.name]
        if version == 5:
            info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(x.dtype)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})
    _, got = run(model, {"x": x})
    record(model, {"x": x}, wanted)
    for name, want in zip(outputs, wanted, strict=True):
        agree(got[name], want)


def test_two_classes_with_scores_of_their_own() -> None:
    """onnxruntime then gives 1 where the second score is above 0; the standard wants the label of the higher one."""
    trees = Trees(17, count=2, depth=3)
    given = {**trees.attributes(), **trees.weights("class", [0, 1])}
    model = one_node(
        "TreeEnsembleClassifier",
        {"x": rows()},
        outputs=("label", "y"),
        domain="ai.onnx.ml",
        classlabels_int64s=[3, 8],
        **given,
    )
    model.opset_import[1].version = 3
    found = run(model, {"x": rows()})[1]
    np.testing.assert_array_equal(found["label"], np.array([3, 8])[found["y"].argmax(axis=1)])
    assert len(set(found["label"].tolist())) == 2
    sums = {k.replace("class_", "target_"): v for k, v in given.items()}
    compare("TreeEnsembleRegressor", rows(), n_targets=2, **sums)
    agree(found["y"], run(one_node("TreeEnsembleRegressor", {"x": rows()}, domain="ai.onnx.ml", n_targets=2, **sums),
                          {"x": rows()})[1]["y"])  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_comparisons(mode: str) -> None:
    trees = Trees(3, modes=(mode,))
    given = {**trees.attributes(), **trees.weights("target", [0])}
    compare("TreeEnsembleRegressor", rows(), n_targets=1, **given)


def test_comparisons_mixed_and_what_is_missing() -> None:
    trees = Trees(5, modes=MODES)
    given = {**trees.attributes(), **trees.weights("target", [0, 1])}
    x = rows()
    x[::2, 1] = np.nan
    compare("TreeEnsembleRegressor", x, n_targets=2, **given)
    flags = np.random.default_rng(2).integers(0, 2, len(trees.nodes)).tolist()
    compare("TreeEnsembleRegressor", x, n_targets=2, nodes_missing_value_tracks_true=flags, **given)


@pytest.mark.parametrize("kind", [np.float64])  # onnxruntime has the regressor for floats only
def test_element_types(kind: Any) -> None:
    trees = Trees(7)
    given = {**trees.attributes(), **trees.weights("target", [0])}
    compare("TreeEnsembleRegressor", rows(kind), n_targets=1, **given)


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("base", [False, True])
def test_aggregates(how: str, base: bool) -> None:
    trees = Trees(11)
    given = {**trees.attributes(), **trees.weights("target", [0, 1, 2])}
    given |= {"base_values": [0.5, -1.0, 2.0]} if base else {}
    compare("TreeEnsembleRegressor", rows(), n_targets=3, aggregate_function=how, **given)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("own", [False, True])
def test_classes(transform: str, own: bool) -> None:
    """Each leaf weighs for every class, or each tree is for one."""
    trees = Trees(13, count=6)
    given = {**trees.attributes(), **trees.weights("class", None if own else [0, 1, 2])}
    compare(
        "TreeEnsembleClassifier",
        rows(),
        ("label", "y"),
        classlabels_int64s=[4, 7, 9],
        post_transform=transform,
        **given,
    )


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize("classes", [[0], [1]])
@pytest.mark.parametrize("base", [0, 1, 2])
def test_two_classes(transform: str, low: float, classes: list[int], base: int) -> None:
    trees = Trees(17, count=2, depth=3)
    given = {**trees.attributes(), **trees.weights("class", classes, low)}
    given |= {"base_values": [0.25, -0.125][:base]} if base else {}
    given |= {"classlabels_int64s": [3, 8], "post_transform": transform}
    if base == 2 and 1 in classes:  # onnxruntime leaves out some of the scores then
        model = one_node("TreeEnsembleClassifier", {"x": rows()}, outputs=("label", "y"), domain="ai.onnx.ml", **given)
        with pytest.raises(SdkError, match="2 base values for two classes"):
            import_onnx(model, "m")
        return
    compare("TreeEnsembleClassifier", rows(), ("label", "y"), **given)


def ensemble(modes: Array, **more: Any) -> dict[str, Any]:
    """TreeEnsemble of two trees: one of two nodes and one of one."""
    return {
        "tree_roots": [0, 2], "nodes_modes": onnx.numpy_helper.from_array(modes, "m"),
        "nodes_featureids": [0, 2, 1],
        "nodes_splits": onnx.numpy_helper.from_array(np.array([0.5, 1, -1], np.float32), "s"),
        "nodes_truenodeids": [1, 0, 2], "nodes_trueleafs": [0, 1, 1], "nodes_falsenodeids": [1, 3, 4],
        "nodes_falseleafs": [1, 1, 1], "leaf_targetids": [0, 1, 0, 1, 1],
        "leaf_weights": onnx.numpy_helper.from_array(np.array([1, 2.5, -3, 4, 0.5], np.float32), "w"),
        "n_targets": 2, **more,
    }  # fmt: skip


def test_ensembles_of_tables() -> None:
    for modes in ([0, 1, 2], [3, 4, 5]):
        for how in range(4):
            compare("TreeEnsemble", rows(), version=5, aggregate_function=how, **ensemble(np.array(modes, np.uint8)))
    members = np.array([1, 3, 2, np.nan, 0, np.nan], np.float32)  # onnxruntime wants integers
    given = ensemble(np.array([6, 0, 6], np.uint8), membership_values=onnx.numpy_helper.from_array(members, "members"))
    x = rows(np.int64).astype(np.float32)
    compare("TreeEnsemble", x, version=5, **given)
    plain, logistic = (
        run(one_node("TreeEnsemble", {"x": x}, domain="ai.onnx.ml", post_transform=k, **given), {"x": x})[1]["y"]
        for k in (0, 2)
    )
    agree(logistic, 1 / (1 + np.exp(-plain)))  # onnxruntime counts them in another order than the standard


def test_rows_of_an_open_number() -> None:
    trees = Trees(19)
    given = {**trees.attributes(), **trees.weights("target", [0])}
    x = rows(count=3)
    model = one_node(
        "TreeEnsembleRegressor", {"x": x}, shapes={"x": ["n", FEATURES]}, domain="ai.onnx.ml", n_targets=1, **given
    )
    model.opset_import[1].version = 3
    fixed = one_node("TreeEnsembleRegressor", {"x": x}, domain="ai.onnx.ml", n_targets=1, **given)
    fixed.opset_import[1].version = 3
    agree(run(model, {"x": x}, {"n": (1, 8)})[1]["y"], run(fixed, {"x": x})[1]["y"])


def test_damaged_trees() -> None:
    trees = Trees(23)
    good = {**trees.attributes(), **trees.weights("target", [0])}
    nodes = good["nodes_truenodeids"]
    inner = next(k for k, n in enumerate(trees.nodes) if n[2] != "LEAF" and n[1] != 0)
    circle = list(nodes)
    circle[inner] = trees.nodes[inner][1]
    for change, message in (
        ({"nodes_truenodeids": circle}, "one root|in circles"),
        ({"nodes_truenodeids": [999] * len(nodes)}, "not there"),
        ({"nodes_featureids": [99] * len(nodes)}, "element 99 of rows of 5"), ({"nodes_values": [1.0]}, "equally long"),
        ({"target_ids": [5] * len(good["target_ids"])}, "none of its 1 targets"),
        ({"nodes_modes": ["BRANCH_NEAR" if m != "LEAF" else m for m in good["nodes_modes"]]}, "BRANCH_NEAR"),
        ({"post_transform": "SOMETHING"}, "post_transform"),
        ({"target_nodeids": [0] * len(good["target_ids"])}, "of no leaf"),
    ):  # fmt: skip
        model = one_node("TreeEnsembleRegressor", {"x": rows()}, domain="ai.onnx.ml", n_targets=1, **{**good, **change})
        model.opset_import[1].version = 3
        with pytest.raises(SdkError, match=message):
            import_onnx(model, "m")
    around = {**ensemble(np.array([0, 1, 2], np.uint8)), "nodes_trueleafs": [0, 0, 1]}
    model = one_node("TreeEnsemble", {"x": rows()}, domain="ai.onnx.ml", **around)
    with pytest.raises(SdkError, match="in circles"):
        import_onnx(model, "m")
    given = {**trees.attributes(), **trees.weights("class", [0, 1, 2])}
    model = one_node("TreeEnsembleClassifier", {"x": rows()}, outputs=("label", "y"), domain="ai.onnx.ml",
                     classlabels_strings=["a", "b", "c"], **given)  # fmt: skip
    with pytest.raises(SdkError, match="labels that are text"):
        import_onnx(model, "m")


def test_trees_that_share_their_nodes_take_no_longer() -> None:
    """Ten thousand nodes, each below two others: as many ways through them as no loop could go."""
    count = 10000
    given = {
        "tree_roots": [0] * 100, "nodes_modes": onnx.numpy_helper.from_array(np.zeros(count, np.uint8), "m"),
        "nodes_featureids": [0] * count, "nodes_splits": onnx.numpy_helper.from_array(np.zeros(count, np.float32), "s"),
        "nodes_truenodeids": [*range(1, count), 0], "nodes_trueleafs": [0] * (count - 1) + [1],
        "nodes_falsenodeids": [*range(2, count), 0, 0], "nodes_falseleafs": [0] * (count - 2) + [1, 1],
        "leaf_targetids": [0], "leaf_weights": onnx.numpy_helper.from_array(np.ones(1, np.float32), "w"),
    }  # fmt: skip
    model = one_node("TreeEnsemble", {"x": rows()}, domain="ai.onnx.ml", n_targets=2, **given)
    calls = import_onnx(model, "m").graphs["main"].body
    walk = next(call for call in calls if getattr(call, "callee", "") == "tree_leaves")
    assert dict(walk.attrs)["depth"] == count
