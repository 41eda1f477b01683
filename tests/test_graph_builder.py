"""The graph builder: types, operators, errors that say where, several entries, states, programs as files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdk
from sdk import driver
from sdk.boards import load_board
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.ops import get_op
from sdk.driver.files import read_model_file
from sdk.driver.options import BuildOptions
from sdk.driver.program import save_program
from sdk.errors import BuildError, SdkError, UsageError
from sdk.frontends.program.reader import read_program
from sdk.graph import Entry, ModuleBuilder, Tensor, boolean, f32, i32, i64
from sdk.source import ParseError
from tests.ir.round_trip import check_round_trip

TABLE = np.arange(24, dtype=np.float32).reshape(6, 4) / 8


def started() -> tuple[ModuleBuilder, Entry, Tensor]:
    g = ModuleBuilder("net")
    n = g.dim("n", 1, 8)
    e = g.entry("main")
    return g, e, e.input("x", f32, (n, 4))


def two_entries() -> Module:
    """``learn`` adds rows to a state and looks numbers up; ``recall`` gives the state, scaled by the same table."""
    g = ModuleBuilder("memory")
    n, at = g.dim("n", 1, 8), g.dim("at", 0, 9)
    table = g.const("table", TABLE)
    total = g.state("total", f32, (1, 4), init=1)
    with g.entry("learn") as e:
        x = e.input("x", f32, (n, 4))
        rows = e.reduce_sum(x, axes=(0,))
        e.write(total, e.read(total) + e.reshape(rows, shape=(1, 4)))
        e.output("y", x @ e.transpose(table, perm=(1, 0)) + at)
    with g.entry("recall") as e:
        picked = e.gather(table, e.input("x", i64, (2,)), axis=0)
        e.output("y", picked * e.read(total))
    return g.module()


def run(module: Module, inputs: dict[str, np.ndarray], **dims: int) -> np.ndarray:
    (found,) = run_graph(module, "main", inputs, initial_states(module), dims).values()
    return found


def test_types_are_inferred() -> None:
    _, e, x = started()
    n = x.shape[0]
    assert e.softmax(x).shape == (n, 4)
    assert e.less(x, 0).dtype == boolean
    assert e.cast(x, to=i32).dtype == i32
    assert e.concat(x, x, axis=0).shape == (2 * n, 4)
    values, places = e.topk(x, k=2, axis=1, largest=True)
    assert (values.shape, places.dtype) == ((n, 2), i64)
    assert repr(values).endswith(": f32[n, 2]")
    assert {"softmax", "input"} <= set(dir(e))


@pytest.mark.parametrize(
    ("make", "want"),
    [
        (lambda x, w: x + w, lambda x, w: x + w),
        (lambda x, w: 1 - x * 2, lambda x, w: 1 - x * 2),
        (lambda x, w: 2 / (x + 3) - 0.5, lambda x, w: 2 / (x + 3) - 0.5),
        (lambda x, w: -x + np.float32(2), lambda x, w: 2 - x),
        (lambda x, w: w - x, lambda x, w: w - x),
        (lambda x, w: x @ x.entry.transpose(w, perm=(1, 0)), lambda x, w: x @ w.T),
        (lambda x, w: x * x.shape[0], lambda x, w: x * len(x)),
    ],
)
def test_operators(make: Callable[..., Any], want: Callable[..., Any]) -> None:
    g, e, x = started()
    data = np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4)
    e.output("y", make(x, g.const("w", data)))
    given = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    np.testing.assert_allclose(run(g.module(), {"x": given}), want(given, data), rtol=1e-6)


def test_equal_scalars_are_one_constant() -> None:
    g, e, x = started()
    e.output("y", x * 0.5 + 0.5)
    e.output("z", e.cast(x, to=i32) + 1)
    assert [c.type.dtype for c in g.module().consts.values()] == [f32, i32]


def test_results_have_their_names() -> None:
    g, e, x = started()
    y = e.exp(x, name="log")
    e.output("exp", e.log(y))
    e.output("log", e.exp(x))
    e.output("same", x)
    (graph,) = g.module().graphs.values()
    assert [r.name for r in graph.results] == ["exp", "log", "same"]
    found = run_graph(g.module(), "main", {"x": np.ones((1, 4), np.float32)})
    np.testing.assert_allclose(found["log"], np.full((1, 4), np.e), rtol=1e-6)
    np.testing.assert_allclose(found["exp"], np.ones((1, 4)), rtol=1e-6)


def test_a_dim_that_only_a_run_knows() -> None:
    g = ModuleBuilder("net")
    k = g.dim("k", 0, 6)
    e = g.entry("main")
    x = e.input("x", i32, (6,))
    e.bind(k, e.count_nonzero(x))
    e.output("places", e.nonzero(x, count=k))
    module = g.module()
    assert module.graphs["main"].dims == ()
    np.testing.assert_array_equal(run(module, {"x": np.array([0, 3, 0, 1, 1, 0], np.int32)}), [[1, 3, 4]])


def test_match_cast_states_a_shape() -> None:
    g, e, x = started()
    m = g.dim("m", 1, 8)
    y = e.input("y", f32, (m, 4))
    with pytest.raises(BuildError, match="not known to be equal"):
        x + y
    e.output("z", x + e.match_cast(y, x.shape))
    ones = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(run(g.module(), {"x": ones, "y": ones}), 2 * ones)
    with pytest.raises(UsageError, match="match_cast does not hold"):
        run(g.module(), {"x": ones, "y": ones[:2]})


def wrong(e: Entry, x: Tensor) -> dict[str, tuple[Callable[[], Any], str]]:
    g = e.builder
    other = ModuleBuilder("other")
    strange = other.entry("main").input("x", f32, (1, 4))
    state = g.state("s", f32, (2, 4))
    return {
        "op": (lambda: e.op("sofmax", x), "unknown op sofmax"),
        "arguments": (lambda: e.softmax(), "takes 1 arguments"),
        "attribute": (lambda: e.softmax(x, axis=1), "has no attribute axis"),
        "missing": (lambda: e.iota(extent=3), "also needs dtype, start, step"),
        "kind of attribute": (lambda: e.cast(x, to=object()), "is no attribute"),
        "shapes": (lambda: x @ x, "not known to be equal"),
        "number": (lambda: x + "1", "no number"),
        "fraction": (lambda: e.cast(x, to=i32) * 0.5, "0.5 is no i32"),
        "array": (lambda: np.ones(4, np.float32) * x, "ndarray is no number"),
        "entry": (lambda: x + strange, "is of entry main"),
        "module": (lambda: x + other.const("w", TABLE), "of another module"),
        "constants": (lambda: g.const("a", TABLE) + g.const("b", TABLE), "constants alone"),
        "input twice": (lambda: e.input("x", f32, ()), "is a value already"),
        "output twice": (lambda: e.output("x", x), "is an input or output already"),
        "name twice": (lambda: g.dim("n", 1, 2), "exists already"),
        "no name": (lambda: g.entry(""), "needs a name"),
        "element type": (lambda: g.const("c", np.ones(1, complex)), "complex128 are not supported"),
        "state": (lambda: e.write(state, x), "does not fit the state s"),
        "other state": (lambda: e.read(other.state("s", f32, ())), "of another module"),
        "axis": (lambda: g.state("t", f32, (4,), axis=1), "axis 1 of a tensor of rank 1"),
        "not a dim": (lambda: e.bind(x.shape[0] + 1, x), "is not a dim"),
        "no output": (g.module, "no output"),
        "name of a constant": (lambda: (g.const("x", 0.5), e.output("y", x), g.module()), "'x' is a constant or state"),
    }


@pytest.mark.parametrize("what", wrong(*started()[1:]))
def test_errors_say_what_is_wrong(what: str) -> None:
    _, e, x = started()
    make, message = wrong(e, x)[what]
    with pytest.raises(SdkError, match=message):
        make()


def test_errors_say_where() -> None:
    _, e, x = started()
    with pytest.raises(BuildError) as caught:
        e.matmul(x, x, trans_a=True, trans_b=True)
    assert caught.value.where == "entry main: matmul(f32[n, 4], f32[n, 4])"
    with pytest.raises(AttributeError, match="did you mean softmax"):
        e.softmx(x)


def test_entries_share_constants_and_states() -> None:
    module = two_entries()
    assert list(module.consts) == ["table"]
    assert [v.name for v in module.graphs["learn"].dims] == ["n", "at"]
    assert module.graphs["recall"].dims == ()
    states = initial_states(module)
    x = np.ones((3, 4), np.float32)
    y = run_graph(module, "learn", {"x": x}, states, {"at": 5})["y"]
    np.testing.assert_allclose(y, x @ TABLE.T + 5)
    got = run_graph(module, "recall", {"x": np.array([1, 5])}, states)["y"]
    np.testing.assert_allclose(got, TABLE[[1, 5]] * 4)


def test_a_ring_keeps_the_last_rows() -> None:
    g = ModuleBuilder("ring")
    n, cap, pos = g.dim("n", 1, 8), g.dim("cap", 2, 4), g.dim("pos", 0, 99)
    ring = g.state("ring", i32, (cap,), layout="ring")
    e = g.entry("main")
    e.write(ring, e.input("x", i32, (n,)), at=pos)
    e.output("y", e.read(ring))
    module = g.module()
    states = initial_states(module, {"cap": 3})
    for at, rows, want in ((0, [1, 2], [1, 2, 0]), (2, [3, 4], [4, 2, 3]), (4, [5, 6, 7, 8], [7, 8, 6])):
        got = run_graph(module, "main", {"x": np.array(rows, np.int32)}, states, {"pos": at})["y"]
        np.testing.assert_array_equal(got, want)


def test_compiled_entries() -> None:
    with sdk.compile(two_entries()) as model:
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        np.testing.assert_allclose(model.run("learn", {"x": x}, {"at": 2})["y"], x @ TABLE.T + 2, rtol=1e-6)
        got = model.run("recall", {"x": np.array([0, 3])})["y"]
        np.testing.assert_allclose(got, TABLE[[0, 3]] * (1 + x.sum(axis=0)), rtol=1e-6)
        assert len(model.bench(2, "recall").samples) == 2
        with pytest.raises(UsageError, match="the model has 2 entries"):
            model(x=x)
        with pytest.raises(UsageError, match="no entry 'main'"):
            model.run("main", {"x": x})


def test_text_reads_back() -> None:
    module = two_entries()
    check_round_trip(module)


def test_a_program_as_a_file(tmp_path: Path) -> None:
    module, path = two_entries(), tmp_path / "model.ir"
    save_program(module, path)
    assert read_program(read_model_file(path)) == module
    result = driver.run(
        path, load_board("host"), None, BuildOptions(), {}, {"x": np.array([2, 4])}, entry="recall"
    )
    np.testing.assert_allclose(result.outputs["y"], TABLE[[2, 4]])
    found = driver.verify(path, load_board("host"), None, BuildOptions(), "auto", 4, entry="learn")
    assert (found.passed, found.reference) == (True, "interp")
    with pytest.raises(UsageError, match="2 entries"):
        driver.verify(path, load_board("host"), None, BuildOptions(), "auto", 4)
    with pytest.raises(UsageError, match="states the bounds"):
        read_program(read_model_file(path), {"n": (1, 2)})
    path.with_suffix(".npz").write_bytes(b"PK")
    with pytest.raises(UsageError, match="cannot read"):
        read_program(read_model_file(path))
    path.with_suffix(".npz").unlink()
    with pytest.raises(ParseError, match="none of the given blobs"):
        read_program(read_model_file(path))


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).resolve().parent.parent / "docs" / "graph.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec("".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), {})
    assert capsys.readouterr().out.startswith("203")
    assert (tmp_path / "tiny.ir").read_text(encoding="utf-8").startswith("module tiny imported")
    listed = re.findall(r"^\| (`.*?) \|.*?\| ?(.*?) ?\|$", text, re.MULTILINE)
    assert len(listed) > 10
    for names, attributes in listed:
        for name in re.findall(r"`(\w+)`", names):
            known = {key for sample in get_op(name).samples for key, _ in sample.attrs}
            assert known == set(re.findall(r"`(\w+)`", attributes)), name
