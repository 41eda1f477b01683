"""Medians, running extremes, buckets, bilinear layers and linear algebra, against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_harness import compare

from sdk.errors import BuildError

torch.manual_seed(4)
N = torch.export.Dim("n", min=1, max=9)
X = torch.randn(4, 7)
HOLES = X.masked_fill(X > 1.2, float("nan"))
BOUNDS = torch.tensor([-1.0, -0.5, -0.5, 0.0, 1.0])
SQUARES = torch.randn(2, 3, 4, 4) + 3 * torch.eye(4)


def test_places_among_boundaries() -> None:
    def run(x: torch.Tensor, rows: torch.Tensor) -> Any:
        return (
            torch.bucketize(x, BOUNDS), torch.bucketize(x, BOUNDS, right=True, out_int32=True),
            torch.searchsorted(rows, x), torch.searchsorted(rows, x, side="right"), torch.bucketize(x.int(), BOUNDS),
            torch.searchsorted(BOUNDS, 0.0), torch.bucketize(torch.round(x * 2) / 2, BOUNDS, right=True),
        )  # fmt: skip

    rows = torch.randn(4, 5).sort(1)[0]
    compare(run, X, rows, shapes=({0: N}, {0: N}), more=[(X[:1], rows[:1])])
    compare(lambda x: torch.bucketize(x, BOUNDS), HOLES)
    with pytest.raises(BuildError) as caught:
        compare(lambda x, rows, order: torch.searchsorted(rows, x, sorter=order), X, rows, rows.argsort(1))
    assert "sorter" in str(caught.value.where)


def test_medians_and_running_extremes() -> None:
    def run(x: torch.Tensor) -> Any:
        return (
            *x.median(1), *x.median(0, keepdim=True), x.median(), *x.kthvalue(2, 1), *x.cummax(1), *x.cummin(0),
            *(x * 9).int().cummax(-1), (x * 9).int().median(1)[0],
        )  # fmt: skip

    length = torch.export.Dim("m", min=2, max=9)
    compare(run, X, shapes=({0: N, 1: length},), more=[(torch.randn(1, 2),), (torch.randn(9, 8),)])
    compare(lambda x: (x.median(1)[0], x.median(), x.cummax(1)[0], x.cummin(1)[0]), HOLES)
    compare(lambda x: (*x.cummax(1), *x.cummin(1)), torch.tensor([[2.0, 2, 1, 3, 3, 1, 1]]))
    ends = torch.tensor([[0, 255, 255, 0], [0, 0, 7, 255]], dtype=torch.uint8)
    compare(lambda x: (*x.cummax(1), *x.cummin(0)), ends)
    compare(lambda x: (*x.cummax(0), *x.cummin(1)), torch.tensor([[-math.inf, math.inf], [-math.inf, math.nan]]))


def test_values_once() -> None:
    def run(x: torch.Tensor) -> Any:
        x = torch.round(x * 2).int()
        return torch.unique(x[0]), *torch.unique(x, return_inverse=True, return_counts=True)

    compare(run, X, shapes=({0: N},), more=[(torch.randn(1, 7),), (torch.zeros(9, 7),)])


def test_places_of_the_largest_and_back() -> None:
    def run(x: torch.Tensor) -> Any:
        values, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        line, at = F.max_pool1d(x[:, 0], 2, return_indices=True)
        whole = F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)
        return values, places, line, at, whole, *F.max_pool2d(x[0], (2, 3), 1, ceil_mode=True, return_indices=True)

    compare(run, torch.randn(2, 3, 6, 8), shapes=({0: N},), more=[(torch.randn(1, 3, 6, 8),)])
    with pytest.raises(BuildError) as caught:
        compare(lambda x: F.max_pool3d(x, 2, return_indices=True)[1], torch.randn(1, 1, 4, 4, 4))
    assert "its result 1 is not supported" in str(caught.value.where)


def test_bilinear_layers() -> None:
    compare(nn.Bilinear(7, 5, 3), X, torch.randn(4, 5), shapes=({0: N}, {0: N}), more=[(X[:2], torch.randn(2, 5))])
    compare(nn.Bilinear(7, 5, 3, bias=False), X.view(2, 2, 7), torch.randn(2, 2, 5))
    compare(lambda a, b, c: torch._trilinear(a, b, c, [1, 3], [0], [1, 2], [2, 3]), X, torch.randn(3, 7, 5), X[:, :5])


def test_systems_of_equations() -> None:
    def run(a: torch.Tensor, b: torch.Tensor) -> Any:
        la = torch.linalg
        return (
            la.inv(a), a.inverse(), la.inv_ex(a)[0], la.solve(a, b), la.solve(a, b[..., 0]),
            la.solve(a, b.mT, left=False), la.solve(a, b[0, 0]), la.det(a), la.slogdet(a)[1],
            a.det().sign() * la.slogdet(a)[0], la.matrix_power(a, 3),
            la.solve_triangular(a, b, upper=True), la.solve_triangular(a, b, upper=False, unitriangular=True),
            la.solve_triangular(a, b.mT, upper=True, left=False), (a @ a.mT).logdet(), la.matrix_norm(a),
        )  # fmt: skip

    b = torch.randn(2, 3, 4, 5)
    compare(run, SQUARES, b, shapes=({0: N}, {0: N}), more=[(SQUARES[:1], b[:1])])
    swapped = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    compare(lambda a: (torch.linalg.inv(a), torch.linalg.det(a)), swapped)
    with pytest.raises(BuildError) as caught:
        compare(torch.linalg.inv, SQUARES[0, 0], shapes=({0: N, 1: N},))
    assert "a fixed size" in str(caught.value.where)


def test_running_sums_of_exponentials() -> None:
    far = torch.tensor([[-200.0, 0, 3, 200], [-np.inf, -np.inf, 1, np.inf]])
    compare(lambda a: (torch.logcumsumexp(a, 1), torch.logcumsumexp(a, 0), torch.logcumsumexp(a[0, 0], 0)), far)
    compare(lambda a: (torch.logcumsumexp(a, -1), torch.logcumsumexp(a, 1)), torch.randn(2, 3, 4))


def test_signs_powers_and_distances() -> None:
    x = torch.randn(3, 5)
    x[0, :4] = torch.tensor([0.0, -0.0, np.inf, np.nan])
    compare(lambda a: (torch.copysign(a, -a), torch.copysign(a, -0.0), torch.copysign(a[1:].int(), a[1:])), x)
    compare(lambda a: torch.ldexp(a, torch.tensor([1, -2, 3, 0, 140])), x)
    compare(lambda a: (torch.dist(a, a * 2), torch.dist(a, a[0], 1), torch.dist(a, a + 1, np.inf)), x[1:])


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_shifts(kind: torch.dtype) -> None:
    by = torch.tensor([0, 1, 2, 0, 3, 1, 1]).to(kind)
    x = torch.tensor([0, 1, 5, 100, -7, -128, 127]).to(kind)
    compare(lambda a: (a << 2, a >> 1, a << by, a >> by, torch.bitwise_right_shift(a, 3)), x)
