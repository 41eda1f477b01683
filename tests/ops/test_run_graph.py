"""The graph interpreter: binding of dims, checks of arguments, states in order, calls of loops and graphs."""

from __future__ import annotations

import numpy as np
import pytest

from sdk.compiler.interp.graph import bind_dims, initial_states, run_graph
from sdk.compiler.ir.graph import Call, Graph, MatchCast, ReadState, Value, WriteState, attrs
from sdk.compiler.ir.module import Module, State
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.ops import get_op
from sdk.compiler.sym import Var
from sdk.errors import BuildError, UsageError

N = Var("n", 2, 8, 2)
X = Value("x", TensorType(F32, (N.expr, 3)))
Y = Value("y", TensorType(F32, (N.expr, 3)))


def module(*body, results=(Y,), params=(X,), **given) -> Module:
    return Module("m", graphs={"main": Graph("main", (N,), params, body, results)}, **given)


def values(n: int) -> np.ndarray:
    return np.arange(3 * n, dtype=np.float32).reshape(n, 3) - 4


def test_ops_run_by_their_reference() -> None:
    m = module(Call((Y,), "op", "relu", (X,)))
    found = run_graph(m, "main", {"x": values(4)})
    np.testing.assert_array_equal(found["y"], np.maximum(values(4), 0))


def test_loops_calls_run_their_loops() -> None:
    loops = get_op("relu").loops("f", (X.type,), (Y.type,), {})
    m = module(Call((Y,), "loops", "f", (X,)), loops={"f": loops})
    np.testing.assert_array_equal(run_graph(m, "main", {"x": values(6)})["y"], np.maximum(values(6), 0))


def test_graphs_call_graphs() -> None:
    inner = Graph("inner", (N,), (X,), (Call((Y,), "op", "relu", (X,)),), (Y,), entry=False)
    m = module(Call((Y,), "graph", "inner", (X,)))
    m = m.with_graph(inner)
    np.testing.assert_array_equal(run_graph(m, "main", {"x": values(2)})["y"], np.maximum(values(2), 0))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "missing x"),
        ({"x": values(2), "z": values(2)}, "unknown z"),
        ({"x": values(2).astype(np.int8)}, "x has type int8"),
        ({"x": values(2)[0]}, "'x' has 1 axes, the model wants 2"),
        ({"x": np.zeros((2, 4), np.float32)}, "'x' has 4 elements on axis 1, the model wants 3"),
        ({"x": np.zeros((10, 3), np.float32)}, r"x axis 0 makes n = 10, outside its bounds 2..8"),
        ({"x": np.zeros((3, 3), np.float32)}, "x axis 0 makes n = 3, which is not a multiple of 2"),
    ],
)
def test_arguments_are_checked(given: dict[str, np.ndarray], words: str) -> None:
    m = module(Call((Y,), "op", "relu", (X,)))
    with pytest.raises(UsageError, match=words):
        run_graph(m, "main", given)


def test_dims_are_solved_and_must_agree() -> None:
    twice = Value("z", TensorType(F32, (2 * N.expr + 1,)))
    assert bind_dims((twice,), {"z": (9,)}) == {N: 4}
    assert bind_dims((X, twice), {"x": (4, 3), "z": (9,)}) == {N: 4}
    with pytest.raises(UsageError, match="'z' has 7 elements on axis 0, the model wants 9") as error:
        bind_dims((X, twice), {"x": (4, 3), "z": (7,)})
    assert error.value.why == "the extent is 2*n + 1 with n = 4"


def test_unknown_entry() -> None:
    with pytest.raises(UsageError, match="no entry other") as error:
        run_graph(module(results=(X,)), "other", {"x": values(2)})
    assert error.value.hint == "entries: main"


def test_states_are_read_and_written_in_order() -> None:
    kind = TensorType(F32, (1, 3))
    before, after, last = Value("before", kind), Value("after", kind), Value("last", kind)
    step = Value("step", kind)
    body = (
        ReadState(before, "total"),
        Call((after,), "op", "add", (before, step)),
        WriteState("total", after),
        ReadState(last, "total"),
    )
    graph = Graph("main", (), (step,), body, (before, last))
    m = Module("m", graphs={"main": graph}, states={"total": State("total", kind, 5)})
    states = initial_states(m)
    one = np.ones((1, 3), np.float32)
    first = run_graph(m, "main", {"step": one}, states)
    second = run_graph(m, "main", {"step": one}, states)
    assert first["before"][0, 0] == 5
    assert first["last"][0, 0] == second["before"][0, 0] == 6
    assert states["total"][0, 0] == 7
    assert run_graph(m, "main", {"step": one})["last"][0, 0] == 6


def test_match_cast_is_checked() -> None:
    cast = Value("c", TensorType(F32, (4, 3)))
    m = module(MatchCast(cast, X), Call((Y,), "op", "relu", (cast,)))
    assert run_graph(m, "main", {"x": values(4)})["y"].shape == (4, 3)
    with pytest.raises(UsageError, match="%c has 6 elements on axis 0, its type says 4"):
        run_graph(m, "main", {"x": values(6)})


def test_views_and_attributes() -> None:
    flat = Value("y", TensorType(F32, (3 * N.expr,)))
    m = module(Call((flat,), "op", "reshape", (X,), attrs(shape=(-1,))), results=(flat,))
    np.testing.assert_array_equal(run_graph(m, "main", {"x": values(4)})["y"], values(4).reshape(-1))


def test_library_symbols_are_refused() -> None:
    with pytest.raises(BuildError, match="numpy cannot run the library symbol blas"):
        run_graph(module(Call((Y,), "extern", "blas", (X,))), "main", {"x": values(2)})
