"""Recurrent layers, whose length may stay open."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch_harness import compare

B, T = Dim("b", max=4), Dim("t", max=9)


class Layer(nn.Module):
    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.layer = kind(3, 4, **options)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options",
    [{"batch_first": True, "bidirectional": True, "num_layers": 2}, {"bias": False, "num_layers": 2, "dropout": 0.5}],
    ids=["both", "without bias"],
)
def test_an_open_length(kind: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(3)
    shapes = ({0: B, 1: T} if options.get("batch_first") else {0: T, 1: B},)
    made = compare(
        Layer(kind, **options), torch.randn(2, 3, 3), shapes=shapes,
        more=[[torch.randn(a, b, 3)] for a, b in ((1, 1), (4, 4), (2, 1))],
    )  # fmt: skip
    scans = [n for n in made.graphs["main"].body if getattr(n, "callee", "").endswith("_scan")]
    assert len(scans) == (4 if options.get("bidirectional") else 2)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_given_states_and_other_kinds() -> None:
    compare(nn.LSTM(3, 4), torch.randn(5, 2, 3), (torch.randn(1, 2, 4), torch.randn(1, 2, 4)))
    compare(nn.RNN(3, 4, nonlinearity="relu"), torch.randn(5, 3), torch.randn(1, 4))
    compare(nn.GRU(3, 4).half(), torch.randn(5, 2, 3).half())
    compare(nn.LSTM(3, 4, proj_size=2), torch.randn(2, 1, 3))  # unrolled by PyTorch
