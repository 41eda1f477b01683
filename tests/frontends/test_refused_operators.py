"""Operators that are refused, with the reason, and limits of those that are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from tflite_files import ModelFile

from sdk.errors import BuildError
from sdk.frontends.failures import OUT_OF_MEMORY
from sdk.frontends.outline import Refusal
from sdk.frontends.tflite.importer import import_tflite
from sdk.frontends.tflite.operators import OPERATORS
from sdk.frontends.tflite.operators.refused import REFUSED


def one(
    op: str, *inputs: Any, custom: str = "", options: str = "", outputs: int = 1, kind: str = "float32",
    others: Sequence[ModelFile] = (), **fields: Any,
) -> bytes:  # fmt: skip
    """An operator of inputs (shapes) and constants (arrays as lists)."""
    m = ModelFile()
    numbers = [
        m.input(f"x{k}", given, "float32") if isinstance(given, tuple)
        else m.const(f"c{k}", given, "float32" if isinstance(given, float) else "int32")
        for k, given in enumerate(inputs)
    ]  # fmt: skip
    m.op(op, numbers, [m.output(f"y{k}", (), kind) for k in range(outputs)], options, custom, **fields)
    return m.build(*others)


def refusal(data: bytes) -> Refusal:
    found: list[Refusal] = []
    with pytest.raises(BuildError, match="cannot be imported"):
        import_tflite(data, "m", refusals=found)
    return found[0]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_told_with_the_reason(name: str) -> None:
    assert name not in OPERATORS
    found, (why, hint) = refusal(one(name, (2, 3))), REFUSED[name]
    assert (found.why, found.hint) == (f"unsupported operator ({why})", hint)


def test_every_builtin_operator_is_taken_or_refused_with_a_reason() -> None:
    names = {k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)} - {"CUSTOM"}
    assert names == set(OPERATORS) | set(REFUSED)


def test_memory_that_runs_out_is_an_error_of_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(node: Any) -> None:
        raise MemoryError

    monkeypatch.setitem(OPERATORS, "NEG", replace(OPERATORS["NEG"], real=hungry))
    assert refusal(one("NEG", (2, 3))).why == OUT_OF_MEMORY


def test_custom_operators_and_those_of_tensorflow() -> None:
    assert refusal(one("CUSTOM", (2,), custom="Mine")).hint == "import it by --custom FILE.py"
    assert "it is an operator of TensorFlow" in refusal(one("CUSTOM", (2,), custom="FlexErf")).why



def long(numbers: Sequence[int]) -> np.ndarray:
    return np.asarray(numbers, np.int64)


def padded(low: Sequence[int] = (0, 0), gaps: Sequence[int] = (0, 0)) -> bytes:
    fields = {"EdgePaddingLow": long(low), "EdgePaddingHigh": long((0, 0)), "InteriorPadding": long(gaps)}
    return one("STABLEHLO_PAD", (2, 3), 0.5, options="StablehloPadOptions", **fields)


def windows(kernel: Sequence[int] = (1, 1), how: int = 1) -> bytes:
    return one("REDUCE_WINDOW", (2, 3), 0.5, kernel, [1, 1], [1, 1], options="ReduceWindowOptions", ReduceFunction=how)


def body(*ops: str, index: int = 1) -> bytes:
    """A reduction over windows by a chain of operators."""
    graph, ones = ModelFile(), long((1, 1))
    numbers = [graph.input("a", (), "float32"), graph.input("b", (), "float32")]
    for op in ops:
        numbers.append(graph.tensor(op, (), "float32"))
        graph.op(op, [numbers[-2], numbers[-3]], [numbers[-1]])
    graph.outputs.append(numbers[-1])
    fields = {"WindowDimensions": ones, "WindowStrides": ones, "WindowDilations": ones, "BaseDilations": ones,
              "Padding": long((0,) * 4), "BodySubgraphIndex": index}  # fmt: skip
    options = "StablehloReduceWindowOptions"
    return one("STABLEHLO_REDUCE_WINDOW", (2, 3), 0.5, options=options, others=[graph], **fields)


def gathered(
    sizes: Sequence[int] = (1, 3), maps: Sequence[int] = (0,), dropped: Sequence[int] = (0,),
    offsets: Sequence[int] = (1,), vector: int = 1,
) -> bytes:  # fmt: skip
    fields = {"OffsetDims": long(offsets), "CollapsedSliceDims": long(dropped), "StartIndexMap": long(maps),
              "SliceSizes": long(sizes), "IndexVectorDim": vector}  # fmt: skip
    return one("STABLEHLO_GATHER", (2, 3), [[0], [1]], options="StablehloGatherOptions", **fields)


def scattered(windows: Sequence[int]) -> bytes:
    graph = ModelFile()
    graph.input("a", (), "float32")
    graph.outputs.append(graph.input("b", (), "float32"))
    first = long((0,))
    fields = {"UpdateWindowDims": long(windows), "InsertedWindowDims": first, "ScatterDimsToOperandDims": first,
              "IndexVectorDim": 1, "UpdateComputationSubgraphIndex": 1}  # fmt: skip
    options = "StablehloScatterOptions"
    return one("STABLEHLO_SCATTER", (6, 4), [[0], [1], [2]], (3, 4), options=options, others=[graph], **fields)


def sparse(how: int) -> bytes:
    options = "EmbeddingLookupSparseOptions"
    return one(
        "EMBEDDING_LOOKUP_SPARSE", [0, 1], [[0, 0], [0, 1]], [1, 2], (2,), (3, 4), options=options, Combiner=how
    )


def nms(count: int, *, scores: tuple[int, ...] = (4,), overlap: Any = 0.5, sigma: float = 0.0) -> bytes:
    return one("NON_MAX_SUPPRESSION_V5", (4, 4), scores, count, overlap, 0.1, sigma, outputs=3)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (lambda: nms(0), "0 boxes that overlap by less than 0.5"),
        (lambda: nms(3, overlap=2.0), "that overlap by less than 2.0"),
        (lambda: nms(3, overlap=7), "must be one float"),
        (lambda: nms(3, scores=(5,)), "with scores [5]"),
        (lambda: nms(3, sigma=0.5), "scores lowered by overlap"),
        (lambda: one("SEGMENT_SUM", (3, 2), [0, 2, 3]), "they must ascend from 0 without gaps"),
        (lambda: one("SEGMENT_SUM", (3, 2), [1, 1, 2]), "they must ascend from 0 without gaps"),
        (lambda: one("SEGMENT_SUM", (3, 2), [0, 0]), "they must ascend from 0 without gaps"),
        (lambda: one("UNSORTED_SEGMENT_SUM", (3, 2), [0, 0], 3), "3 segments by numbers [2] of [3, 2]"),
        (lambda: one("UNIQUE", (3, 2), outputs=2), "it takes tensors of rank 1"),
        (lambda: one("MATRIX_DIAG", ()), "a scalar is no diagonal"),
        (lambda: one("MATRIX_SET_DIAG", (3, 2), (3,)), "diagonals [3] for matrices [3, 2]"),
        (lambda: one("BUCKETIZE", (3,), options="BucketizeOptions", Boundaries=[2.0, 1.0]), "do not ascend"),
        (lambda: one("STABLEHLO_ADD", (2, 3), (3,)), "which must be alike"),
        (lambda: one("ATAN2", (2, 3), (3,)), "its inputs are f32[2, 3] and f32[3]"),
        (lambda: one("DILATE", (2, 3), [0, 1], 0.5), "dilations [0, 1] of a tensor of rank 2"),
        (lambda: one("DILATE", (2, 3), [2, 1], [[1, 2]]), "what fills a tensor of f32 is i32[1, 2]"),
        (lambda: padded(low=(1,)), "the option EdgePaddingLow has 1 numbers instead of 2"),
        (lambda: padded(gaps=(-1, 0)), "the interior padding [-1, 0] is negative"),
        (lambda: windows(kernel=[3, 9]), "a window of 3 does not fit into 2"),
        (lambda: windows(kernel=[0, 1]), "must be positive"),
        (lambda: windows(how=5), "the reduction number 5 of f32"),
        (lambda: body("ADD", "MUL"), "the subgraph 1 of ADD, MUL is not supported"),
        (lambda: body("SUB"), "the subgraph 1 of SUB is not supported"),
        (lambda: body(), "the reduction of f32 by no operator"),
        (lambda: body("ADD", index=7), "the subgraph 7 does not exist"),
        (lambda: gathered(sizes=(1, 4)), "must be of numbers, and not larger"),
        (lambda: gathered(maps=(0, 0)), "at positions along axes [0, 0]"),
        (lambda: gathered(maps=(0, 1)), "1 numbers a position along 2 axes"),
        (lambda: gathered(dropped=(1,)), "the axes [1] of slices [1, 3] cannot be dropped"),
        (lambda: gathered(offsets=(4,)), "the axes [4] of a result of rank 2"),
        (lambda: gathered(vector=3), "positions along axis 3 of a tensor of rank 2"),
        (lambda: one("SPARSE_TO_DENSE", [1, 3], [4, 5], 0.5, 0.0), "in a tensor of rank 2"),
        (lambda: one("SPARSE_TO_DENSE", [1, 3], [4], (3,), 0.0), "values f32[3] for 2 positions"),
        (lambda: one("SPARSE_TO_DENSE", [1, 3], [4], 0.5, [0.0, 1.0]), "in a tensor of rank 1 filled with i32[2]"),
        (lambda: scattered(windows=(3,)), "windows along axes [3] of f32[3, 4], and [0] of f32[6, 4]"),
        (lambda: scattered(windows=(0, 1)), "windows along axes [0, 1]"),
        (lambda: sparse(7), "of rank 2, combined by number 7"),
        (lambda: one("HASHTABLE_LOOKUP", [1, 3], [4, 2], (2,)), "its keys do not ascend"),
        (lambda: one("HASHTABLE_LOOKUP", [1, 3], [1, 2], (3,)), "2 keys for 3 rows"),
        (lambda: one("BITCAST", (2, 3), kind="int64"), "has not 2 elements along its last axis"),
        (lambda: one("BITCAST", (2, 3), kind="bool"), "has type BOOL"),
        (lambda: one("FAKE_QUANT", (2,), options="FakeQuantOptions", Min=1.0, Max=2.0, NumBits=8), "8 bits from 1.0"),
    ],
)
def test_limits_of_operators(data: Callable[[], bytes], why: str) -> None:
    assert why in refusal(data()).why
