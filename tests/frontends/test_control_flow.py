"""IF, WHILE, CALL and composites of .tflite files: subgraphs in place of operators, against LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import interpreter as litert
from reference import litert_outputs
from tflite_files import ModelFile

from sdk.budget import ENDINGS, NODES
from sdk.compiler import ops
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.verify.module import check
from sdk.errors import BuildError
from sdk.frontends import loops
from sdk.frontends.base import OpenSizesError, UnknownDimsError
from sdk.frontends.tflite import inlining
from sdk.frontends.tflite.importer import import_tflite

Array = np.ndarray[Any, Any]
NONE = {"FusedActivationFunction": 0}


def same_as_litert(
    data: bytes, draw: Callable[[np.random.Generator], list[Array]], runs: int = 4, kernels: str = "BUILTIN_REF",
    dims: dict[str, tuple[int, ...]] | None = None,
) -> Module:  # fmt: skip
    module = import_tflite(data, "m", dims=dims)
    check(module, ops)
    graph, rng = module.graphs["main"], np.random.default_rng(0)
    given = [draw(rng) for _ in range(runs)]
    seen = set()
    for arrays, want in zip(given, litert_outputs(data, given, kernels), strict=True):
        got = run_graph(module, "main", {p.name: a for p, a in zip(graph.params, arrays, strict=True)})
        for r, w in zip(graph.results, want, strict=True):
            assert np.asarray(got[r.name]).dtype == w.dtype
            np.testing.assert_allclose(got[r.name], w, rtol=1e-6, atol=1e-6)
            seen.add(w.tobytes())
    assert len(seen) > 1
    return module


def floats(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]


def one_operator(op: str, options: str = "", **fields: Any) -> ModelFile:
    """A subgraph of one operator of two tensors [2, 3]."""
    m = ModelFile()
    a, b, y = m.input("a", (2, 3), "float32"), m.input("b", (2, 3), "float32"), m.output("y", (2, 3), "float32")
    m.op(op, [a, b], [y], options, **fields)
    return m


# --- IF -----------------------------------------------------------------------------------------------------------


def branching(constant: bool | None) -> bytes:
    """a + b or a * b, then NEG; a condition of the file, or an input."""
    m = ModelFile()
    c = m.input("c", (), "bool") if constant is None else m.const("c", constant, "bool")
    a, b = m.input("a", (2, 3), "float32"), m.input("b", (2, 3), "float32")
    y, z = m.tensor("y", (2, 3), "float32"), m.output("z", (2, 3), "float32")
    m.op("IF", [c, a, b], [y], "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    m.op("NEG", [y], [z])
    return m.build(one_operator("ADD", "AddOptions", **NONE), one_operator("MUL", "MulOptions", **NONE))


@pytest.mark.parametrize("constant", [True, False])
def test_a_condition_of_the_file_chooses_at_import(constant: bool) -> None:
    module = same_as_litert(branching(constant), floats((2, 3), (2, 3)))
    assert ("mul" in str(module.graphs["main"].body)) is not constant


def test_a_condition_of_the_run_chooses_between_both() -> None:
    def draw(rng: np.random.Generator) -> list[Array]:
        return [np.asarray(rng.random() < 0.5), *floats((2, 3), (2, 3))(rng)]

    module = same_as_litert(branching(None), draw, 8)
    assert module.graphs["main"].results[0].name == "z"


def cases(constant: int | None, count: int = 3) -> bytes:
    """a + b, a * b or a - b by a number."""
    m = ModelFile()
    c = m.input("c", (), "int32") if constant is None else m.const("c", constant)
    a, b, y = m.input("a", (2, 3), "float32"), m.input("b", (2, 3), "float32"), m.output("y", (2, 3), "float32")
    branches = np.arange(1, count + 1, dtype=np.int32)
    m.op("STABLEHLO_CASE", [c, a, b], [y], "StablehloCaseOptions", BranchSubgraphIndices=branches)
    kinds = (("ADD", "AddOptions"), ("MUL", "MulOptions"), ("SUB", "SubOptions"))
    return m.build(*(one_operator(*kind, **NONE) for kind in kinds))


@pytest.mark.parametrize("constant", [0, 2, -1, 7])
def test_a_number_of_the_file_chooses_one_of_several(constant: int) -> None:
    same_as_litert(cases(constant), floats((2, 3), (2, 3)), kernels="BUILTIN_WITHOUT_DEFAULT_DELEGATES")


def test_a_number_of_the_run_chooses_one_of_several() -> None:
    def draw(rng: np.random.Generator) -> list[Array]:
        return [np.asarray(rng.integers(-2, 5), np.int32), *floats((2, 3), (2, 3))(rng)]

    same_as_litert(cases(None), draw, 12, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
    with pytest.raises(BuildError, match="0 branches by"):
        import_tflite(cases(None, 0), "m")


def test_branches_that_assign_or_differ_are_refused() -> None:
    m = ModelFile()
    c, a = m.input("c", (), "bool"), m.input("a", (2, 3), "float32")
    m.op("IF", [c, a, a], [m.output("y", (2, 3), "float32")], "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    writes = one_operator("ADD", "AddOptions", **NONE)
    handle = writes.tensor("handle", (1,), "int32")
    writes.op("VAR_HANDLE", [], [handle], "VarHandleOptions", SharedName="v")
    writes.op("ASSIGN_VARIABLE", [handle, 2], [])
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(m.build(writes, one_operator("MUL", "MulOptions", **NONE)), "m")
    assert "a branch assigns a variable" in str(error.value)
    other = one_operator("LESS")
    other.tensors[2].dtype = "bool"
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(m.build(one_operator("ADD", "AddOptions", **NONE), other), "m")
    assert "its branches give tensors of different types" in str(error.value)


# --- WHILE --------------------------------------------------------------------------------------------------------


def counted(limit: int, start: int, body: Callable[[ModelFile, int, int, int], int], width: int = 4) -> bytes:
    """Over the rows of x [limit, width]: h = body(row, h) from 0, the pattern of recurrent layers; h and the count."""
    m = ModelFile()
    x, k = m.input("x", (limit, width), "float32"), m.const("start", start)
    h0 = m.const("h0", np.zeros((1, width)), "float32")
    outs = [m.tensor("k_out", (), "int32"), m.output("h", (1, width), "float32")]
    outs += [m.tensor("x_out", (limit, width), "float32")]
    m.op("WHILE", [k, h0, x], outs, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    test = ModelFile()
    i = test.input("i", (), "int32")
    test.input("h", (1, width), "float32"), test.input("x", (limit, width), "float32")
    test.op("LESS", [i, test.const("limit", limit)], [test.output("more", (), "bool")])
    b = ModelFile()
    i, h, rows = b.input("i", (), "int32"), b.input("h", (1, width), "float32"), b.input("x", (limit, width), "float32")
    at, row = b.tensor("at", (1,), "int32"), b.tensor("row", (1, width), "float32")
    b.op("RESHAPE", [i, b.const("one", [1])], [at])
    b.op("GATHER", [rows, at], [row], "GatherOptions", Axis=0)
    after = b.tensor("after", (), "int32")
    b.op("ADD", [i, b.const("step", 1)], [after], "AddOptions", **NONE)
    b.outputs = [after, body(b, row, h, width), rows]
    return m.build(test, b)


def recurrent(b: ModelFile, row: int, h: int, width: int) -> int:
    """tanh(row @ w + h @ u)"""
    rng = np.random.default_rng(1)
    parts = []
    for name, value in (("w", row), ("u", h)):
        weights = b.const(name, rng.standard_normal((width, width)) / 2, "float32")
        parts.append(b.tensor(f"{name}_out", (1, width), "float32"))
        b.op("FULLY_CONNECTED", [value, weights, -1], parts[-1:], "FullyConnectedOptions", **NONE)
    total, y = b.tensor("total", (1, width), "float32"), b.tensor("y", (1, width), "float32")
    b.op("ADD", parts, [total], "AddOptions", **NONE)
    b.op("TANH", [total], [y])
    return y


@pytest.mark.parametrize(("limit", "start"), [(5, 0), (3, 2)])
def test_a_recurrent_layer_of_known_length(limit: int, start: int) -> None:
    module = same_as_litert(counted(limit, start, recurrent), floats((limit, 4)))
    assert str(module.graphs["main"].body).count("tanh") == limit - start
    assert module.graphs["main"].results[0].name == "h"


def test_a_loop_that_never_runs() -> None:
    module = import_tflite(counted(2, 2, recurrent), "m")
    (got,) = run_graph(module, "main", {"x": np.ones((2, 4), np.float32)}).values()
    np.testing.assert_array_equal(got, np.zeros((1, 4), np.float32))


def test_a_loop_inside_a_branch_inside_a_loop() -> None:
    """The outer loop doubles its value; twice the inner one adds to it, as long as the count is even."""
    m = ModelFile()
    y = m.input("y", (2,), "float32")
    outs = [m.tensor("k_out", (), "int32"), m.output("out", (2,), "float32")]
    m.op("WHILE", [m.const("k", 0), y], outs, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)

    def ends(limit: int) -> ModelFile:
        t = ModelFile()
        i = t.input("i", (), "int32")
        t.input("y", (2,), "float32")
        t.op("LESS", [i, t.const("limit", limit)], [t.output("more", (), "bool")])
        return t

    def step(inner: str) -> ModelFile:
        b = ModelFile()
        i, v = b.input("i", (), "int32"), b.input("y", (2,), "float32")
        after, new = b.tensor("after", (), "int32"), b.tensor("new", (2,), "float32")
        b.op("ADD", [i, b.const("one", 1)], [after], "AddOptions", **NONE)
        if inner == "branch":
            half, even = b.tensor("half", (), "int32"), b.tensor("even", (), "bool")
            b.op("FLOOR_MOD", [i, b.const("two", 2)], [half])
            b.op("EQUAL", [half, b.const("zero", 0)], [even])
            b.op("IF", [even, v], [new], "IfOptions", ThenSubgraphIndex=3, ElseSubgraphIndex=4)
        else:
            b.op("ADD", [v, b.const("three", 3.0, "float32")], [new], "AddOptions", **NONE)
        b.outputs = [after, new]
        return b

    loop = ModelFile()
    v = loop.input("v", (2,), "float32")
    outs = [loop.tensor("k_out", (), "int32"), loop.output("out", (2,), "float32")]
    loop.op("WHILE", [loop.const("k", 0), v], outs, "WhileOptions", CondSubgraphIndex=5, BodySubgraphIndex=6)
    double = ModelFile()
    v = double.input("v", (2,), "float32")
    double.op("ADD", [v, v], [double.output("out", (2,), "float32")], "AddOptions", **NONE)
    same_as_litert(m.build(ends(4), step("branch"), loop, double, ends(2), step("sum")), floats((2,)))


def until(limit: int | None, rows: int = 3, change: str = "") -> bytes:
    """x + y again and again, while its sum is below 6 and (perhaps) the count below a limit; the count and the sum."""
    m, shape = ModelFile(), (rows, 2)
    x, y = m.input("x", shape, "float32"), m.input("y", shape, "float32")
    outs = [m.output("count", (), "int32"), m.output("sum", shape, "float32"), m.tensor("y_out", shape, "float32")]
    m.op("WHILE", [m.const("zero", 0), x, y], outs, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    t = ModelFile()
    i, a = t.input("i", (), "int32"), t.input("a", shape, "float32")
    t.input("b", shape, "float32")
    total, below, fewer = t.tensor("total", (), "float32"), t.tensor("below", (), "bool"), t.tensor("fewer", (), "bool")
    t.op("SUM", [a, t.const("axes", [0, 1])], [total], "ReducerOptions", KeepDims=False)
    t.op("LESS", [total, t.const("six", 6.0, "float32")], [below])
    t.op("LESS", [i, t.const("limit", limit or 0)], [fewer])
    more = t.output("more", (), "bool")
    t.op("LOGICAL_AND", [below if limit is None else fewer, below], [more])
    b = ModelFile()
    i, a, c = b.input("i", (), "int32"), b.input("a", shape, "float32"), b.input("b", shape, "float32")
    after, new = b.tensor("after", (), "int32"), b.tensor("new", shape, "float32")
    b.op("ADD", [i, b.const("one", 1)], [after], "AddOptions", **NONE)
    b.op("ADD", [a, c], [new], "AddOptions", **NONE)
    b.outputs = [after, new, c]
    if change == "variable":
        handle = b.tensor("handle", (1,), "int32")
        b.op("VAR_HANDLE", [], [handle], "VarHandleOptions", SharedName="v")
        b.op("ASSIGN_VARIABLE", [handle, new], [])
    return m.build(t, b)


def rising(rng: np.random.Generator) -> list[Array]:
    """Numbers of which the loop adds some none, some few, some as many as it may."""
    return [rng.uniform(-2, 3, (3, 2)).astype(np.float32), rng.uniform(-0.1, 0.3, (3, 2)).astype(np.float32)]


def test_a_loop_that_data_end() -> None:
    module = same_as_litert(until(9), rising, 24)
    graph, rng, seen = module.graphs["main"], np.random.default_rng(0), set()
    for _ in range(24):
        given = dict(zip((p.name for p in graph.params), rising(rng), strict=True))
        seen.add(int(run_graph(module, "main", given)["count"]))
    assert {0, 9} < seen
    assert len(seen) > 3


def test_loops_that_data_end_and_nothing_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "ENDINGS", replace(ENDINGS, maximum=20))  # to be quick
    with pytest.raises(OpenSizesError) as error:
        import_tflite(until(None), "m")
    assert error.value.names == ("count_passes",)
    same_as_litert(until(None), rising, 12, dims={"count_passes": (0, 60)})
    for data, why in (
        (until(1 << 30), "passes of loops that data may end"),
        (until(9, change="variable"), "a pass assigns a variable"),
    ):
        with pytest.raises(BuildError, match="cannot be imported") as refused:
            import_tflite(data, "m")
        assert why in str(refused.value)
    with pytest.raises(UnknownDimsError, match="no dim loop_passes"):
        import_tflite(until(9), "m", dims={"loop_passes": (0, 9)})


def variable(m: ModelFile, name: str) -> int:
    handle = m.tensor(name, (1,), "int32")
    m.op("VAR_HANDLE", [], [handle], "VarHandleOptions", SharedName=name)
    return handle


def test_the_run_chooses_no_variable() -> None:
    branches = []
    for name in ("a", "b"):
        branches.append(ModelFile())
        branches[-1].outputs = [variable(branches[-1], name)]
    m = ModelFile()
    c = m.input("c", (), "bool")
    m.op("IF", [c], [m.output("y", (1,), "int32")], "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(m.build(*branches), "m")
    assert "its condition is known only at run time, and chooses a variable" in str(error.value)
    m = ModelFile()
    more, held = m.input("more", (), "bool"), variable(m, "a")
    outs = [m.output("last", (), "bool"), m.tensor("which", (1,), "int32")]
    m.op("WHILE", [more, held], outs, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    t, b = ModelFile(), ModelFile()
    for g in (t, b):
        g.input("more", (), "bool"), g.input("held", (1,), "int32")
    t.outputs = [0]
    b.outputs = [0, variable(b, "b")]
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(m.build(t, b), "m", dims={"last_passes": (0, 4)})
    assert "its end is known only at run time, and a pass exchanges variables" in str(error.value)


def test_a_loop_over_an_open_number_of_steps() -> None:
    """The pattern of recurrent layers over as many rows as there are."""
    m, width = ModelFile(), 2
    x = m.input("x", (1, width), "float32", signature=(-1, width))
    size, first = m.tensor("size", (2,), "int32"), m.tensor("first", (1,), "int32")
    m.op("SHAPE", [x], [size], "ShapeOptions", OutType=2)
    m.op("SLICE", [size, m.const("begin", [0]), m.const("one", [1])], [first])
    count = m.tensor("count", (), "int32")
    m.op("RESHAPE", [first, m.const("none", np.zeros(0))], [count])
    outs = [m.tensor("k", (), "int32"), m.output("h", (1, width), "float32"), m.tensor("n", (), "int32")]
    outs += [m.tensor("rows", (1, width), "float32", signature=(-1, width))]
    start = m.const("h0", np.zeros((1, width)), "float32")
    m.op("WHILE", [m.const("zero", 0), start, count, x], outs, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    t, b = ModelFile(), ModelFile()
    for g in (t, b):
        g.input("i", (), "int32"), g.input("h", (1, width), "float32"), g.input("n", (), "int32")
        g.input("x", (1, width), "float32", signature=(-1, width))
    t.op("LESS", [0, 2], [t.output("more", (), "bool")])
    at, after = b.tensor("at", (1,), "int32"), b.tensor("after", (), "int32")
    row = b.tensor("row", (1, width), "float32")
    b.op("RESHAPE", [0, b.const("one", [1])], [at])
    b.op("GATHER", [3, at], [row], "GatherOptions", Axis=0)
    b.op("ADD", [0, b.const("step", 1)], [after], "AddOptions", **NONE)
    b.outputs = [after, recurrent(b, row, 1, width), 2, 3]
    data = m.build(t, b)
    module = import_tflite(data, "m", dims={"x_0": (1, 5)})
    check(module, ops)
    rng = np.random.default_rng(0)
    engine = litert.Interpreter(model_content=data, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    for steps in (1, 3, 5):
        rows = rng.standard_normal((steps, width)).astype(np.float32)
        engine.resize_tensor_input(0, rows.shape)
        engine.allocate_tensors()
        engine.set_tensor(0, rows)
        engine.invoke()
        (got,) = run_graph(module, "main", {"x": rows}, dims={"x_0": steps}).values()
        want = engine.get_tensor(engine.get_output_details()[0]["index"])
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_what_the_run_decides_is_refused_and_no_loop_is_endless() -> None:
    m = ModelFile()
    k = m.input("k", (), "int32")
    m.op("WHILE", [k], [m.output("y", (), "int32")], "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    test, body = ModelFile(), ModelFile()
    test.op("LESS", [test.input("i", (), "int32"), test.const("n", 9)], [test.output("more", (), "bool")])
    i = body.input("i", (), "int32")
    body.op("ADD", [i, body.const("one", 1)], [body.output("next", (), "int32")], "AddOptions", **NONE)
    with pytest.raises(OpenSizesError) as asked:
        import_tflite(m.build(test, body), "m")
    assert asked.value.names == ("y_passes",)
    draw = lambda rng: [np.asarray(rng.integers(0, 12), np.int32)]  # noqa: E731
    same_as_litert(m.build(test, body), draw, 8, dims={"y_passes": (0, 9)})
    forever = ModelFile()
    forever.input("i", (), "int32")
    forever.outputs = [forever.const("true", True, "bool")]
    m = ModelFile()
    m.input("x", (1,), "float32")
    out = m.output("y", (), "int32")
    m.op("WHILE", [m.const("k", 0)], [out], "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    still = ModelFile()
    still.outputs = [still.input("i", (), "int32")]
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(m.build(forever, still), "m")
    assert "passes of unrolled loops" in str(error.value)


def test_calls_of_calls_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty subgraphs that each call the next one twice, 2**30 calls of nothing; with a lower limit, to be quick."""
    monkeypatch.setattr(inlining, "NODES", replace(NODES, maximum=500))
    m = ModelFile()
    m.op("CALL", [m.input("x", (2,), "float32")], [m.output("y", (2,), "float32")], "CallOptions", Subgraph=1)
    others = []
    for k in range(30):
        b = ModelFile()
        values = [b.input("a", (2,), "float32"), b.tensor("b", (2,), "float32"), b.output("c", (2,), "float32")]
        for one, other in pairwise(values):
            b.op("CALL", [one], [other], "CallOptions", Subgraph=k + 2)
        others.append(b)
    last = ModelFile()
    last.outputs = [last.input("a", (2,), "float32")]
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(m.build(*others, last), "m")
    assert "nodes once functions are inlined" in str(error.value)


# --- calls, and what holds for all --------------------------------------------------------------------------------


def calling(index: int, count: int = 2) -> ModelFile:
    m = ModelFile()
    a, b = m.input("a", (2, 3), "float32"), m.input("b", (2, 3), "float32")
    m.op("CALL", [a, b][:count], [m.output("y", (2, 3), "float32")], "CallOptions", Subgraph=index)
    return m


def test_calls() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    data = calling(1).build(calling(2), one_operator("SUB", "SubOptions", **NONE))
    got = run_graph(import_tflite(data, "m"), "main", {"a": x, "b": x * x})
    np.testing.assert_array_equal(got["y"], x - x * x)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (lambda: calling(7).build(), "the subgraph 7 does not exist"),
        (lambda: calling(0).build(), "levels of functions"),
        (lambda: calling(1, 1).build(one_operator("SUB", "SubOptions", **NONE)), "has 2 inputs, it is given 1"),
        (lambda: calling(1).build(one_operator("RFFT2D")), "subgraph 1, node 0 RFFT2D: "),
    ],
)
def test_subgraphs_that_do_not_fit(model: Callable[[], bytes], why: str) -> None:
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(model(), "m")
    assert why in str(error.value)


def test_arguments_results_and_types_that_do_not_fit() -> None:
    whole = one_operator("SUB", "SubOptions", **NONE)
    wide, twice, more, missing = (one_operator("SUB", "SubOptions", **NONE) for _ in range(4))
    wide.tensors[0].shape = (2, 4)
    twice.inputs = [0, 0]
    more.outputs = [2, 2]
    missing.outputs = [missing.tensor("nothing", (2, 3), "float32")]
    bad = {
        "is float32[2, 4], it is given f32[2, 3]": wide, "has its input a twice": twice,
        "has 2 outputs, it has 1": more, "is never computed": missing,
    }  # fmt: skip
    assert import_tflite(calling(1).build(whole), "m").graphs["main"].body
    for why, graph in bad.items():
        with pytest.raises(BuildError, match="cannot be imported") as error:
            import_tflite(calling(1).build(graph), "m")
        assert why in str(error.value)


def test_a_variable_passed_to_a_subgraph_is_the_same_one() -> None:
    m = ModelFile()
    x, handle = m.input("x", (2,), "float32"), m.tensor("handle", (1,), "int32")
    m.op("VAR_HANDLE", [], [handle], "VarHandleOptions", SharedName="v")
    m.op("CALL", [handle, x], [m.output("y", (2,), "float32")], "CallOptions", Subgraph=1)
    b = ModelFile()
    inner, v = b.input("h", (1,), "int32"), b.input("x", (2,), "float32")
    old, new = b.tensor("old", (2,), "float32"), b.output("new", (2,), "float32")
    b.op("READ_VARIABLE", [inner], [old])
    b.op("ADD", [old, v], [new], "AddOptions", **NONE)
    b.op("ASSIGN_VARIABLE", [inner, new], [])
    module = import_tflite(m.build(b), "m")
    states, x_value = initial_states(module), np.array([1, 2], np.float32)
    for k in (1, 2, 3):
        np.testing.assert_array_equal(run_graph(module, "main", {"x": x_value}, states)["y"], k * x_value)
