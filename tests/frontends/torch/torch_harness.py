"""Modules of PyTorch: exported, imported, run by the interpreter, and compared with PyTorch's own results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.verify.module import check
from sdk.frontends.torch.archive import export
from sdk.frontends.torch.importer import import_exported

Array = np.ndarray


class Call(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def imported(
    module: nn.Module, args: Any, shapes: Any = None, dims: Mapping[str, Any] | None = None
) -> tuple[Module, Any]:
    """The module, verified, and the program that it was imported from."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program, names = export(module, args, shapes)
        made = import_exported(program, "net", dims=dims, names=names)
    check(made, ops)
    return made, program


def flat(found: Any) -> list[Array]:
    """The tensors of a result of PyTorch, in order."""
    leaves = [v for v in torch.utils._pytree.tree_leaves(found) if v is not None]
    return [v.detach().numpy() if isinstance(v, torch.Tensor) else np.asarray(v, np.int64) for v in leaves]


def agree(got: Array, want: Array, tolerance: float = 1e-4) -> None:
    """Integers equal, floats within the tolerance of the largest value; same type and shape."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[~finite], want[~finite])
    scale = max(1.0, float(np.abs(want[finite]).max(initial=0)))
    assert float(np.abs(got[finite].astype(np.float64) - want[finite]).max(initial=0)) <= tolerance * scale


def interpreted(made: Module, args: Sequence[Any]) -> list[Array]:
    """The results of the interpreter, in order, for the inputs in order."""
    main = made.graphs["main"]
    given = {p.name: a.detach().numpy() for p, a in zip(main.params, args, strict=True)}
    found = run_graph(made, "main", given)
    return [np.asarray(found[v.name]) for v in main.results]


def compare(
    module: Any, *args: Any, shapes: Any = None, dims: Any = None, more: Sequence[Sequence[Any]] = (),
    tolerance: float = 1e-4,
) -> Module:  # fmt: skip
    """Imports a module (or a function), runs it on the arguments and on ``more``, compares with PyTorch; the module."""
    net = module.eval() if isinstance(module, nn.Module) else Call(module).eval()
    if shapes is not None and not isinstance(module, nn.Module):
        shapes = (tuple(shapes),)
    made, _ = imported(net, args, shapes, dims)
    for given in (args, *more):
        tensors = [a for a in torch.utils._pytree.tree_leaves(given) if isinstance(a, torch.Tensor)]
        with torch.no_grad():
            want = flat(net(*(a.clone() if isinstance(a, torch.Tensor) else a for a in given)))
        got = interpreted(made, tensors)
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            agree(a, b, 2e-3 if b.dtype == np.float16 else tolerance)
    return made
