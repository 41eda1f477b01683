"""Names of kernels give way to a model's dims, and to nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.graph import attrs
from sdk.compiler.ir.loops import For, Let, Loops
from sdk.compiler.ir.types import F32, I32, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.ops.apart import derives, loops_apart
from sdk.compiler.ops.registry import get_op
from sdk.compiler.sym import Dim, Var
from sdk.compiler.verify.loops import verify_loops


def _resample(rows: Var, columns: Var, dims: tuple[str, ...] = ()) -> Loops:
    """A kernel with loops i0 and t, a scalar at that stands in an index, and rows row_lo..row_hi."""
    x = TensorType(F32, (rows.expr, columns.expr))
    index, weight = TensorType(I32, (3, 2)), TensorType(F32, (3, 2))
    out = TensorType(F32, (rows.expr, 3))
    op = get_op("resample")

    def make(types: object, outs: object, given: object) -> Loops:
        return op.loops("f", types, outs, given)  # type: ignore[arg-type, misc]

    return loops_apart(make, (x, index, weight), (out,), attrs(axis=1), dims)


def _declared(loops: Loops) -> set[str]:
    found = {s.var.name for s in walk(loops.body) if isinstance(s, For)}
    found |= {s.name for s in walk(loops.body) if isinstance(s, Let)}
    return found | ({loops.rows.lo.name, loops.rows.hi.name} if loops.rows else set())


def _run(loops: Loops, rows: str, columns: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.standard_normal((4, 6)).astype(np.float32),
        "index": np.array([[0, 1], [5, 2], [3, 3]], np.int32),
        "weight": rng.standard_normal((3, 2)).astype(np.float32),
        "o": np.zeros((4, 3), np.float32),
    }
    run_loops(loops, arrays, {rows: 4, columns: 6})
    return arrays["o"]


@pytest.mark.parametrize(
    ("rows", "columns"),
    [("at", "t"), ("row_lo", "row_hi"), ("i0", "i1"), ("i0_o", "t_i"), ("t_", "t"), ("acc", "x"), ("at_0", "i0__o")],
)
def test_dims_of_any_name_keep_theirs(rows: str, columns: str) -> None:
    maximum = 7  # as many values as the loops have: a dim of the same bounds would be the loop variable itself
    loops = _resample(Var(rows, 0, maximum), Var(columns, 0, maximum))
    found: list[str] = []
    verify_loops(loops, lambda where, text: found.append(f"{where}: {text}"))
    assert found == []
    assert [v.name for v in loops.dims] == sorted([rows, columns])
    assert not [own for own in _declared(loops) for dim in (rows, columns) if derives(dim, own)]
    plain = _resample(Var("A", 0, maximum), Var("B", 0, maximum))
    np.testing.assert_array_equal(_run(loops, rows, columns), _run(plain, "A", "B"))


def test_dims_of_other_functions_are_kept_clear_of_too() -> None:
    n = Var("n", 0, 7)
    assert "at" in _declared(_resample(n, Var("m", 0, 7)))
    assert "at" not in _declared(_resample(n, Var("m", 0, 7), ("at",)))


def test_nothing_is_renamed_without_need() -> None:
    plain = _resample(Var("n", 0, 7), Var("m", 0, 7), ("batch", "atlas", "time"))
    assert {"i0", "t", "at", "row_lo", "row_hi"} <= _declared(plain)


def test_what_schedules_derive() -> None:
    assert all(derives(name, "i0") for name in ("i0", "i0_o", "i0_i_t4", "i02"))
    assert not any(derives(name, "i0") for name in ("i", "i1", "i0x", "xi0"))


def test_an_attribute_that_is_a_dim_stays_apart() -> None:
    """A dim that stands in no shape, with the name and the bounds of a loop variable."""
    taken = Var("i0", 0, 3)
    op = get_op("full")
    value: Dim = taken.expr
    loops = loops_apart(
        lambda types, outs, given: op.loops("f", types, outs, given),  # type: ignore[misc]
        (), (TensorType(I32, (4,)),), attrs(shape=(4,), value=value, dtype="i32"),
    )  # fmt: skip
    out = np.zeros(4, np.int32)
    run_loops(loops, {next(p.buffer.name for p in loops.params): out}, {"i0": 2})
    assert out.tolist() == [2, 2, 2, 2]
