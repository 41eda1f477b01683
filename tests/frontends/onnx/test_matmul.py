"""Matrix products: every node case of ONNX, every way to write an einsum, transposes and factors in constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import compare, one_node, run
from node_cases import cases_of, check

from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.module import Module
from sdk.errors import BuildError


@pytest.mark.parametrize("name", cases_of("Det", "Einsum", "Gemm", "MatMul"))
def test_node_case(name: str) -> None:
    check(name)


RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ops_of(module: Module) -> list[str]:
    return [n.callee for n in module.graphs["main"].body if isinstance(n, Call)]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((4,), (4,)),
        ((4,), (4, 3)),
        ((2, 4), (4,)),
        ((5, 2, 4), (4,)),
        ((4,), (5, 4, 3)),
        ((5, 1, 2, 4), (3, 4, 6)),
    ],
)
def test_ranks(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    compare("MatMul", {"a": floats(*a), "b": floats(*b)})


@pytest.mark.parametrize("kind", [np.float64, np.int32, np.int64, np.uint32])
def test_types(kind: Any) -> None:
    a, b = (RNG.integers(0, 1 << 20, s).astype(kind) for s in ((3, 4), (4, 5)))
    compare("MatMul", {"a": a, "b": b})


@pytest.mark.parametrize("constants", [(), ("b",), ("b", "c")])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(constants: tuple[str, ...], trans_a: int, trans_b: int) -> None:
    a, b = floats(*((4, 3) if trans_a else (3, 4))), floats(*((5, 4) if trans_b else (4, 5)))
    how: dict[str, Any] = {"transA": trans_a, "transB": trans_b, "alpha": 0.5, "beta": 1.5}
    module = compare("Gemm", {"a": a, "b": b, "c": floats(5)}, constants=constants, **how)
    if constants == ("b", "c"):
        assert ops_of(module) == ["matmul", "add"]


SIZES = {"i": 2, "j": 3, "k": 4, "l": 5, "b": 2, "h": 3}


@pytest.mark.parametrize(
    "equation",
    [
        "ij,jk->ik", "ij,kj->ik", "ij,jk", "ij->ji", "ij->i", "ij->", "ii->i", "ii", "i,j->ij", "bij,bjk->bik",
        "bhik,bhjk->bhij", "bhij,bjhk->bihk", "ij,jk,kl->il", "...ij,...jk->...ik", "b...i,i->b...", "ij,ij->ij",
        "ij,ij", "bij,bik->jk", "iij->ij", "ijk,k->jik", "i...->...", "bh,bi,bj->bhij",
    ],
)  # fmt: skip
def test_einsum(equation: str) -> None:
    inputs = equation.split("->")[0].split(",")
    given = {
        f"x{k}": floats(*(2 if c == "." else SIZES[c] for c in text.replace("...", ".")))
        for k, text in enumerate(inputs)
    }
    compare("Einsum", given, equation=equation)


def test_einsum_of_symbolic_sizes() -> None:
    how: dict[str, Any] = {
        "shapes": {"q": ("b", "n", 3, 4), "k": ("b", "m", 3, 4)},
        "dims": {"b": (1, 4), "n": (1, 300), "m": (1, 300)},
    }
    compare("Einsum", {"q": floats(2, 5, 3, 4), "k": floats(2, 6, 3, 4)}, equation="bnhd,bmhd->bhnm", **how)


def test_an_equation_that_does_not_fit_is_refused() -> None:
    model = one_node("Einsum", {"a": floats(2, 3)}, equation="ijk->i")
    with pytest.raises(BuildError) as caught:
        run(model, {})
    assert "'ijk'" in str(caught.value.where)
