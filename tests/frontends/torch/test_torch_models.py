"""Whole networks directly from torch.export, with open batches and lengths, against PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch_harness import compare
from torch_zoo import NETS

EXAMPLE = (2, 7)


def test_there_are_as_many_as_the_documentation_says() -> None:
    assert len(NETS) >= 40


@pytest.mark.parametrize(
    "name", [name if net.quick else pytest.param(name, marks=pytest.mark.slow) for name, net in NETS.items()]
)
def test_network(name: str) -> None:
    net = NETS[name]
    torch.manual_seed(1)
    module = net.make()
    more = [net.inputs(*sizes) for sizes in net.sizes]
    compare(module, *net.inputs(*EXAMPLE), shapes=net.shapes, more=more, tolerance=net.tolerance)
