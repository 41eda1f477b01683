"""Core ATen, PyTorch's own list of operators that every backend must know: which are taken, and why others are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F
from torch_harness import Call, compare, imported

from sdk.errors import BuildError
from sdk.frontends.failures import OUT_OF_MEMORY
from sdk.frontends.torch.importer import import_exported
from sdk.frontends.torch.operators import OPERATORS
from sdk.frontends.torch.refused import REFUSED

# They give numbers made of sizes, which the importer knows.
NUMBERS = frozenset({"sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "_local_scalar_dense"})
GENERATOR = torch.Generator().manual_seed(2)


def _core() -> Iterator[Any]:
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            one = getattr(packet, overload)
            if torch.Tag.core in one.tags:
                yield one


def real(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=GENERATOR)


def test_every_core_operator_is_taken_or_refused_with_a_reason() -> None:
    decomposed = set(torch.export.default_decompositions())
    core = {str(one): one for one in _core()}
    assert len(core) > 180
    missing = {
        name for name, one in core.items()
        if name not in OPERATORS and name not in REFUSED and one not in decomposed
        and name.split(".")[1] not in NUMBERS
    }  # fmt: skip
    assert missing == set()
    assert not set(OPERATORS) & set(REFUSED)
    for name in REFUSED:  # each is an operator that there is
        _, packet, overload = name.split(".")
        assert hasattr(getattr(torch.ops.aten, packet), overload)


IMAGE, ROWS = real(2, 3, 5, 6), real(3, 4)
PLACES = torch.tensor([[0, 1, 2, 0], [1, 1, 0, 2], [2, 0, 1, 1]])
GRID = torch.rand(2, 4, 7, 2, generator=GENERATOR) * 2.4 - 1.2
WAYS = ("sum", "prod", "mean", "amax", "amin")


def _sampled(x: Tensor, grid: Tensor) -> Any:
    return tuple(
        F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=aligned)
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for aligned in (True, False)
    )


def _met(x: Tensor, y: Tensor) -> Any:
    found = [x.scatter_reduce(0, PLACES, y, way, include_self=own) for way in WAYS for own in (True, False)]
    return *found, x.scatter(0, PLACES, y, reduce="add"), x.scatter(0, PLACES, y, reduce="multiply")


CASES: dict[str, tuple[Any, ...]] = {
    "distances": (
        lambda a, b: (*(torch.cdist(a, b, p) for p in (2.0, 1.0, 3.0, float("inf"), 0.0)), F.pdist(a[0])),
        real(2, 3, 4), real(2, 5, 4),
    ),
    "bags": (nn.EmbeddingBag(7, 3, mode="mean"), torch.tensor([[0, 1, 2], [6, 6, 5]])),
    "bags of largest": (
        nn.EmbeddingBag(7, 3, mode="max"), torch.tensor([1, 2, 3, 4, 5, 6, 0]), torch.tensor([0, 2, 2, 5]),
    ),
    "bags without some": (
        nn.EmbeddingBag(7, 3, mode="sum", padding_idx=2, include_last_offset=True), torch.tensor([1, 2, 2, 4, 2]),
        torch.tensor([0, 1, 3, 5]),
    ),
    "grids": (_sampled, IMAGE, GRID),
    "grids of volumes": (
        lambda x, g: F.grid_sample(x, g, align_corners=True), real(1, 2, 3, 4, 5), torch.tanh(real(1, 2, 2, 2, 3)),
    ),
    "windows": (
        lambda x, y: (F.fold(x, (5, 6), (2, 3), padding=1, stride=2), F.unfold(y, (2, 3), dilation=2, padding=1)),
        real(2, 12, 9), IMAGE,
    ),
    "meetings": (_met, ROWS, real(3, 4)),
    "meetings of integers": (_met, (ROWS * 9).long(), (real(3, 4) * 9).long()),
    "masked": (
        lambda x, mask, y: (x.masked_scatter(mask, y), x.masked_scatter(mask[0], y), torch.index_put(x, (mask,), y[0])),
        ROWS, ROWS > 0, real(20),
    ),
    "memory": (lambda x: (torch.as_strided(x, (2, 3), (1, 2), 1), (x + 1).as_strided((2, 2), (2, 1))), ROWS),
    "with statistics": (
        lambda x: (
            torch.native_layer_norm(x, [6], None, None, 1e-5)[0],
            torch.native_group_norm(x, None, None, 2, 3, 30, 3, 1e-5)[0],
            torch.ops.aten._native_batch_norm_legit(x, None, None, torch.zeros(3), torch.ones(3), False, 0.1, 1e-5)[0],
            torch.ops.aten._adaptive_avg_pool2d(x, (2, 3)),
        ),
        IMAGE,
    ),
    "an element": (lambda x: x * x.sum().item(), ROWS),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:The reduce argument")
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    module, *args = CASES[name]
    compare(module, *args)


def test_as_many_as_the_data_say() -> None:
    def run(x: Tensor, y: Tensor) -> Any:
        flags = x > 0
        return torch.nonzero(flags), x[flags] * 2, torch.masked_select(x, flags[0]), x[x[:, 0] > 0], y[:, flags[0]] + 1

    n = Dim("n", min=1, max=8)
    args = [(real(k, 4), real(3, 4)) for k in (3, 1, 8)]
    compare(run, *args[0], shapes=({0: n}, None), more=[*args[1:], (-torch.ones(2, 4), real(3, 4))])
    compare(lambda x: torch.nonzero(x, as_tuple=True), torch.tensor([[[3, 0, 2]], [[0, 0, 7]]]))


def test_refused_operators_say_why() -> None:
    def run(x: Tensor) -> Any:
        return torch.rand(3, 4), torch.fft.rfft(x).tan().abs(), x.t().as_strided((2, 2), (2, 1))

    with pytest.raises(BuildError) as caught:
        imported(Call(run), (ROWS,))
    assert "it draws random numbers" in str(caught.value.where)
    assert "it is not supported for complex numbers" in str(caught.value.where)
    assert "the memory of a tensor that is a view" in str(caught.value.where)
    assert "draw them outside" in str(caught.value.hint)
    with pytest.raises(BuildError, match="complex64") as caught:
        imported(Call(lambda x: x + 1), (torch.zeros(2, dtype=torch.complex64),))
    assert "view_as_real" in str(caught.value.hint)


def test_memory_that_runs_out_is_an_error_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(node: Any, x: Any) -> Any:
        return np.zeros(1 << 46)

    monkeypatch.setitem(OPERATORS, "aten.neg.default", hungry)
    with pytest.raises(BuildError) as caught:
        imported(Call(lambda x: -x), (ROWS,))
    assert OUT_OF_MEMORY in str(caught.value.where)


def test_learning_is_refused() -> None:
    program = torch.export.export(nn.BatchNorm1d(3).train(), (real(4, 3),))
    with pytest.raises(BuildError) as caught:
        import_exported(program, "net")
    assert "learns from each batch" in str(caught.value.where)
    assert caught.value.hint == "export module.eval()"
