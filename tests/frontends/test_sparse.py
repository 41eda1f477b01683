"""Sparse constants of .tflite files, against LiteRT and numpy; damaged ones end in an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import litert_outputs
from tflite_files import ModelFile, Sparse

from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

Array = np.ndarray[Any, Any]


def stored(
    dense: Array, order: list[int], csr: set[int], blocks: dict[int, int], kind: str = "uint8"
) -> tuple[Array, Sparse]:
    """A tensor as a file has it: its axes cut to blocks, in an order, the levels in ``csr`` with their places alone."""
    rank = dense.ndim
    parts = [d for k, d in enumerate(dense.shape) for d in ((d // blocks[k], blocks[k]) if k in blocks else (d,))]
    cut, outer, inner = dense.reshape(parts), [], {}
    at = 0
    for k in range(rank):
        outer.append(at)
        at += 1
        if k in blocks:
            inner[k] = at
            at += 1
    turned = cut.transpose([([*outer, *(inner[k] for k in blocks)])[k] for k in order])
    nodes: list[tuple[int, ...]] = [()]
    levels: list[Any] = []
    for level, size in enumerate(turned.shape):
        children = [[i for i in range(size) if level not in csr or turned[(*n, i)].any()] for n in nodes]
        if level in csr:
            levels.append((kind, np.cumsum([0, *map(len, children)]).tolist(), [i for c in children for i in c]))
        else:
            levels.append(size)
        nodes = [(*n, i) for n, c in zip(nodes, children, strict=True) for i in c]
    return np.array([turned[n] for n in nodes], dense.dtype), Sparse(order, list(blocks), levels)


def model(dense: Array, values: Array, sparse: Sparse) -> bytes:
    """x + DENSIFY(sparse)"""
    m = ModelFile()
    x = m.input("x", dense.shape, "float32")
    w = m.tensor("w", dense.shape, "float32", data=values.reshape(-1), sparse=sparse)
    d, y = m.tensor("d", dense.shape, "float32"), m.output("y", dense.shape, "float32")
    m.op("DENSIFY", [w], [d])
    m.op("ADD", [x, d], [y], "AddOptions", FusedActivationFunction=0)
    return m.build()


CASES: list[tuple[tuple[int, ...], list[int], set[int], dict[int, int], str]] = [
    ((5, 7), [0, 1], {1}, {}, "uint8"),
    ((5, 7), [0, 1], {0, 1}, {}, "uint16"),
    ((5, 7), [1, 0], {1}, {}, "int32"),
    ((8, 6), [0, 1, 2, 3], {1}, {0: 4, 1: 2}, "uint8"),
    ((6, 8), [0, 1, 2], {1}, {1: 4}, "uint8"),
    ((4, 1, 1, 6), [0, 1, 2, 3], {3}, {}, "uint8"),
    ((3, 4, 5), [2, 0, 1], {0, 2}, {}, "uint8"),
]


@pytest.mark.parametrize("case", CASES)
def test_sparse_constants(case: tuple[tuple[int, ...], list[int], set[int], dict[int, int], str]) -> None:
    shape, order, csr, blocks, kind = case
    rng = np.random.default_rng(4)
    dense = (rng.standard_normal(shape) * (rng.random(shape) < 0.3)).astype(np.float32)
    dense[tuple(slice(0, (n + 1) // 2) for n in shape)] = 0
    values, sparse = stored(dense, order, csr, blocks, kind)
    data, x = model(dense, values, sparse), rng.standard_normal(shape).astype(np.float32)
    assert values.size < dense.size
    np.testing.assert_array_equal(run_graph(import_tflite(data, "m"), "main", {"x": x})["y"], x + dense)


def test_as_litert() -> None:
    """Its kernel takes all levels sparse, or the last alone, of matrices."""
    rng = np.random.default_rng(5)
    dense = (rng.standard_normal((8, 12)) * (rng.random((8, 12)) < 0.3)).astype(np.float32)
    data = model(dense, *stored(dense, [0, 1], {1}, {}))
    x = rng.standard_normal((8, 12)).astype(np.float32)
    ((want,),) = litert_outputs(data, [[x]])
    np.testing.assert_array_equal(run_graph(import_tflite(data, "m"), "main", {"x": x})["y"], want)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: s.order.reverse(), "has an axis of 5 places where it is 7"),
        (lambda s: s.order.append(2), "has the axes"),
        (lambda s: s.blocks.append(9), "has the axes"),
        (lambda s: s.levels.__setitem__(0, 1 << 30), "has an axis of 1073741824 places"),
        (lambda s: s.levels.pop(), "has the axes"),
        (lambda s: s.levels[1][1].__setitem__(2, 99), "the places of the sparse tensor"),
        (lambda s: s.levels[1][1].pop(), "the places of the sparse tensor"),
        (lambda s: s.levels[1][2].__setitem__(0, 7), "the places of the sparse tensor"),
        (lambda s: s.levels[1][2].append(1), "the places of the sparse tensor"),
        (lambda s: s.levels.__setitem__(1, ("none", [], [])), "has no places"),
    ],
)
def test_what_does_not_fit_is_refused(change: Any, why: str) -> None:
    dense = np.eye(5, 7, dtype=np.float32)
    values, sparse = stored(dense, [0, 1], {1}, {})
    change(sparse)
    with pytest.raises(BuildError, match="not a valid TensorFlow Lite model") as error:
        import_tflite(model(dense, values, sparse), "m")
    assert why in str(error.value)


def test_elements_blocks_and_sizes_that_do_not_fit() -> None:
    dense = np.ones((4, 6), np.float32)
    values, sparse = stored(dense, [0, 1], {1}, {})
    with pytest.raises(BuildError, match="not a valid") as error:
        import_tflite(model(dense, values[:-1], sparse), "m")
    assert "places of f32" in str(error.value)
    values, sparse = stored(dense, [0, 1, 2], {1}, {1: 2})
    sparse.levels[2] = 4
    with pytest.raises(BuildError, match="not a valid") as error:
        import_tflite(model(dense, values, sparse), "m")
    assert "has blocks of" in str(error.value)
    m = ModelFile()
    x, y = m.input("x", (4,), "float32"), m.output("y", (4,), "float32")
    m.op("DENSIFY", [x], [y])
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(m.build(), "m")
    assert "must be a constant of the file" in str(error.value)


def test_many_places_for_few_elements_are_refused_before_they_are_made() -> None:
    values, sparse = np.ones(1, np.float32), Sparse([0, 1, 2], [0], [("uint8", [0, 1], [0]), 2, 1 << 20])
    with pytest.raises(BuildError, match="not a valid"):
        import_tflite(model(np.ones((1 << 20, 2), np.float32), values, sparse), "m")


def test_damaged_files_with_sparse_tensors(tmp_path: Path) -> None:
    dense = np.eye(5, 7, dtype=np.float32)
    whole, rng, ends = model(dense, *stored(dense, [0, 1], {1}, {})), np.random.default_rng(6), set()
    for _ in range(600):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), 2):
            data[at] = int(rng.integers(256))
        try:
            import_tflite(bytes(data), "m")
            ends.add("whole")
        except BuildError:
            ends.add("refused")
    assert ends == {"whole", "refused"}
