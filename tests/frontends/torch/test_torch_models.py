"""Whole networks directly from torch.export, with open batches and lengths, against PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch_harness import agree, compare, flat, imported
from torch_zoo import NETS

import sdk

EXAMPLE = (2, 7)


def test_there_are_as_many_as_the_documentation_says() -> None:
    assert len(NETS) >= 40


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "name", [name if net.quick else pytest.param(name, marks=pytest.mark.slow) for name, net in NETS.items()]
)
def test_network(name: str) -> None:
    net = NETS[name]
    torch.manual_seed(1)
    module = net.make()
    more = [net.inputs(*sizes) for sizes in net.sizes]
    compare(module, *net.inputs(*EXAMPLE), shapes=net.shapes, more=more, tolerance=net.tolerance)


# A network of each kind; the others are compiled in the long runs.
COMPILED = ("wavenet", "gru")


@pytest.mark.parametrize(
    "name", [name if name in COMPILED else pytest.param(name, marks=pytest.mark.slow) for name in NETS]
)
def test_network_in_c(name: str) -> None:
    net = NETS[name]
    torch.manual_seed(1)
    module, example = net.make().eval(), net.inputs(*EXAMPLE)
    names = [p.name for p in imported(module, example, net.shapes)[0].graphs["main"].params]
    with sdk.compile(module, example, dynamic_shapes=net.shapes) as model:
        for sizes in (EXAMPLE, *net.sizes):
            given = net.inputs(*sizes)
            got = model(**dict(zip(names, given, strict=True)))
            with torch.no_grad():
                want = flat(module(*given))
            for a, b in zip(got.values(), want, strict=True):
                agree(a, b, net.tolerance)
