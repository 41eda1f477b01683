"""Factorisations of matrices, and what is made of them, against PyTorch; vectors whose signs are free by products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import linalg as la
from torch.export import Dim
from torch_harness import Call, agree, compare, imported

import sdk
from sdk.errors import BuildError

BATCH = Dim("batch", min=1, max=4)
torch.manual_seed(3)
SQUARE = torch.randn(2, 4, 4)
POSITIVE = SQUARE @ SQUARE.mT + torch.eye(4)


def from_vectors(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What eigenvalues and singular values with their vectors are the factors of."""
    values, vectors = la.eigh(x + x.mT)
    u, s, v = la.svd(x, full_matrices=False)
    return values, vectors @ torch.diag_embed(values) @ vectors.mT, s, (u * s[..., None, :]) @ v, u.mT @ u


def test_cholesky() -> None:
    def factors(a: torch.Tensor) -> Any:
        lower, upper = la.cholesky(a), la.cholesky(a, upper=True)
        solved = torch.cholesky_solve(a[..., :2], lower), torch.cholesky_solve(a[..., :2], upper, upper=True)
        return lower, upper, *solved, *la.cholesky_ex(a), torch.linalg.cholesky(a.double())

    compare(factors, POSITIVE)


@pytest.mark.parametrize("shape", [(2, 4, 4), (5, 3), (2, 3, 5), (1, 3), (3, 1), (1, 1)])
def test_qr_has_the_signs_of_lapack(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    compare(lambda a: (*la.qr(a), *la.qr(a, mode="complete"), la.qr(a, mode="r")[1]), x)


def test_columns_that_are_done_already_are_not_turned() -> None:
    x = torch.zeros(3, 4, 3)
    x[0, 0], x[1, 2, 1] = 1.0, -2.0
    x[2] = torch.triu(torch.randn(4, 3))
    compare(la.qr, x)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_rotations_find_all_values(size: int) -> None:
    compare(from_vectors, torch.randn(2, size, size))


def test_rotations_of_equal_and_zero_values() -> None:
    ones = torch.diag(torch.tensor([1.0, 1, -1, -1]))
    equal = torch.stack([torch.eye(4) * 3, torch.zeros(4, 4), torch.ones(4, 4), ones])
    compare(lambda a: (la.eigvalsh(a), la.eigvalsh(a, UPLO="U"), la.svdvals(a)), equal)


@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5)])
def test_what_singular_values_are_for(shape: tuple[int, ...]) -> None:
    def made(a: torch.Tensor) -> Any:
        return la.pinv(a), la.pinv(a, rtol=0.5), la.svdvals(a), la.matrix_norm(a, 2), la.matrix_norm(a, "nuc")

    compare(made, torch.randn(shape))


@pytest.mark.parametrize("shape", [(2, 4, 4), (5, 3), (2, 2, 3, 5), (1, 3), (3, 1), (1, 1)])
def test_lu_has_the_pivots_of_lapack(shape: tuple[int, ...]) -> None:
    compare(lambda a: (*la.lu(a), *la.lu_factor(a), *torch.lu_unpack(*la.lu_factor(a))), torch.randn(shape))


def test_lu_of_matrices_without_an_inverse() -> None:
    x = torch.zeros(4, 4, 4)
    x[1], x[2], x[3, :, 1:] = torch.eye(4).flip(0), torch.ones(4, 4), torch.randn(4, 3)
    compare(lambda a: (*la.lu(a), *la.lu_factor_ex(a)[:2], *torch.lu_unpack(*la.lu_factor_ex(a)[:2])), x)


@pytest.mark.filterwarnings("ignore:torch:UserWarning")  # older names
def test_what_is_solved_by_factors() -> None:
    def solved(a: torch.Tensor, b: torch.Tensor) -> Any:
        found = la.lu_factor(a)
        lower = la.cholesky(a @ a.mT + torch.eye(4))
        return (
            *(la.lu_solve(*found, b, adjoint=flip) for flip in (False, True)),
            *(la.lu_solve(*found, b.mT, left=False, adjoint=flip) for flip in (False, True)),
            torch.lu_solve(b, *found), la.solve_ex(a, b)[0], la.solve_ex(a, b.mT, left=False)[0],
            *torch.triangular_solve(b, a), torch.triangular_solve(b, a, False, True, True)[0],
            torch.cholesky_inverse(lower), torch.cholesky_inverse(lower.mT, upper=True),
        )  # fmt: skip

    compare(solved, SQUARE, torch.randn(2, 4, 3))


def test_as_c_with_an_open_batch() -> None:
    def made(x: torch.Tensor) -> Any:
        factors = la.cholesky(x @ x.mT + torch.eye(3)), *la.qr(x), *la.lu(x), la.lu_solve(*la.lu_factor(x), x @ x)
        return *factors, la.eigvalsh(x + x.mT), la.svdvals(x)

    with sdk.compile(Call(made), torch.randn(2, 3, 3), dynamic_shapes=(({0: BATCH},),)) as model:
        x = torch.randn(3, 3, 3)
        for got, want in zip(model(args_0=x).values(), made(x), strict=True):
            agree(got, want.numpy())


@pytest.mark.parametrize(
    ("function", "x", "why"),
    [
        (la.eigvalsh, torch.zeros(17, 17), "of 1 to 16 rows and columns"),
        (lambda x: la.cholesky(x), torch.zeros(65, 65), "of 1 to 64 rows and columns"),
        (la.qr, torch.zeros(3, 0), "of 1 to 64 rows and columns"),
        (lambda x: la.lu(x)[0], torch.zeros(65, 3), "of 1 to 64 rows and columns"),
        (lambda x: la.eigvals(x).abs(), torch.zeros(3, 3), "linalg.eigh for symmetric matrices"),
        (lambda x: la.svd(x)[0], torch.zeros(4, 3), "vectors beyond the singular values"),
    ],
)
def test_what_is_refused(function: Any, x: torch.Tensor, why: str) -> None:
    with pytest.raises(BuildError) as error:
        imported(Call(function), (x,))
    assert why in str(error.value)


def test_lengths_whose_squares_are_too_large() -> None:
    a, b = np.array([0, 3e30, np.inf, -4, 1e-30, np.nan], np.float32), np.array([0, 4e30, 1, 3, 0, 1], np.float32)
    compare(torch.hypot, torch.from_numpy(a), torch.from_numpy(b))
    compare(torch.hypot, torch.tensor([np.inf, 2.0]), torch.tensor([np.inf, 1.0]))


def test_a_range_with_a_step_that_is_a_size() -> None:
    bag = torch.nn.EmbeddingBag(9, 4, mode="mean")
    words = torch.randint(0, 9, (3, 5))
    compare(bag, words, shapes=({0: BATCH, 1: Dim("words", min=1, max=8)},))
