"""Branches and loops of PyTorch that are part of a program."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops import scan, while_loop
from torch.export import Dim
from torch.nn import functional
from torch_harness import Call, compare, imported

from sdk.errors import BuildError
from sdk.frontends.base import OpenSizesError, UnknownDimsError
from sdk.frontends.torch.lowering import lowered

X = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.0, -4.0]])


def test_a_branch_that_the_run_decides() -> None:
    def run(x: Tensor, flag: Tensor) -> Any:
        inner = torch.cond(flag, lambda v: v * 2 + 1, lambda v: v - 1, (x,))
        return inner, torch.cond(inner.sum() > 3, lambda v: (v.sin(), v + 0), lambda v: (v.cos(), v + 1), (x,))

    args = [(X * scale, torch.tensor(flag)) for scale in (1.0, -1.0) for flag in (True, False)]
    compare(run, *args[0], more=args[1:])


def test_loops_that_are_unrolled() -> None:
    def run(x: Tensor) -> Any:
        counted = while_loop(lambda k, v: k < 4, lambda k, v: (k + 1, v * 2 + k), (torch.tensor(0), x))
        total, steps = scan(lambda c, row: (c + row, c * row), torch.zeros(3), x)
        return counted[0], counted[1], total, steps, map_over(lambda row, y: row * y[0], x, x + 1)

    compare(run, X, more=[[-X]])


def test_a_loop_that_the_data_end() -> None:
    def run(x: Tensor) -> Any:
        return while_loop(lambda k, v: (v.sum() < 9) & (k < 20), lambda k, v: (k + 1, v + k), (torch.tensor(0), x))

    compare(run, X, more=[[X + 5], [X + 1]], dims={"while_loop_passes": (0, 9)})
    with pytest.raises(OpenSizesError, match="while_loop_passes"):
        imported(Call(run), (X,))
    with pytest.raises(UnknownDimsError, match="no dim other"):
        imported(Call(run), (X,), dims={"while_loop_passes": (0, 9), "other": 3})


def test_a_scan_of_an_open_size() -> None:
    def run(x: Tensor) -> Any:
        return scan(lambda c, row: (c + row, c * row), torch.zeros(3), x)

    compare(run, X, shapes=({0: Dim("n", min=1, max=6)},), more=[[torch.randn(5, 3)], [torch.randn(1, 3)]])


@pytest.mark.slow
def test_a_loop_without_end() -> None:
    net = Call(lambda x: while_loop(lambda k, v: k < 1_000_000, lambda k, v: (k + 1, v * 1), (torch.tensor(0), x + 1)))
    with pytest.raises(BuildError) as caught:
        imported(net, (X,))
    assert "16385 passes of unrolled loops" in str(caught.value.where)


def test_what_is_missing_in_a_branch() -> None:
    net = Call(lambda x, p: torch.cond(p, lambda v: torch.special.bessel_j0(v), lambda v: v + 1, (x,)))
    with pytest.raises(BuildError) as caught:
        imported(net, (X, torch.tensor(True)))
    assert "unsupported operator aten.special_bessel_j0.default" in str(caught.value.where)


class Regions(nn.Module):
    """Gradients and types are switched around parts of it, as attention layers do."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            y = functional.hardswish(x.float() * 2, inplace=True)
        with torch.no_grad():
            z = y.sin()
        return y + z


def test_parts_with_gradients_or_types_switched_are_imported_as_they_are() -> None:
    """PyTorch takes a second an operator to decompose some of them."""
    shapes = ({0: Dim("batch", min=1, max=4)},)
    program = torch.export.export(Regions().eval(), (X,), dynamic_shapes=shapes)
    assert any("wrap_with" in str(node.target) for node in program.graph.nodes)
    assert lowered(program) is program
    compare(Regions(), X, shapes=shapes, more=[[X[:1] * 3]])
