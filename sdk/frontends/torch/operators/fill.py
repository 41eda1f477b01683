"""ATen operators that make tensors of numbers and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, I64
from sdk.compiler.sym import Dim, Expr, ceildiv, dmax, prove_ge
from sdk.frontends.torch.context import Number, TorchNode, aten

__all__: list[str] = []


def _full(node: TorchNode, number: Number) -> Value:
    shape = node.out.shape
    if isinstance(number, (Value, Expr)):
        return node.call("broadcast_to", node.tensor(number, node.kind), shape=shape)
    value = float(number) if node.kind.is_float else int(number)
    return node.call("full", shape=shape, value=value, dtype=str(node.kind))


@aten("full.default", "full_like.default", "fill.Scalar", "fill.Tensor")
def full(node: TorchNode, _: Any, number: Number, **__: Any) -> Value:
    """One number everywhere."""
    return _full(node, number)


@aten("new_full.default")
def new_full(node: TorchNode, _: Value, __: Any, number: Number, **___: Any) -> Value:
    """One number everywhere, in a shape of its own."""
    return _full(node, number)


@aten(
    "zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format", "empty_like.default",
    "new_empty.default", "zero.default", "empty_strided.default", "new_empty_strided.default", "empty_permuted.default",
)  # fmt: skip
def zeros(node: TorchNode, *_: Any, **__: Any) -> Value:
    """0 everywhere; what PyTorch leaves as it is in memory is 0 too."""
    return _full(node, 0)


@aten("ones.default", "ones_like.default", "new_ones.default")
def ones(node: TorchNode, *_: Any, **__: Any) -> Value:
    """1 everywhere."""
    return _full(node, 1)


@aten("arange.default", "arange.start", "arange.start_step")
def arange(node: TorchNode, a: Number, b: Number | None = None, step: Number = 1, **_: Any) -> Value:
    """Numbers from a start by a step, up to a limit that does not belong to them."""
    start, end = (0, a) if b is None else (a, b)
    if all(isinstance(v, (int, float)) for v in (start, end, step)):
        data = np.arange(start, end, step).astype(node.kind.numpy)  # type: ignore[arg-type]
        if isinstance(node.out.shape[0], int) and len(data) != node.out.shape[0]:
            data = (start + np.arange(node.out.shape[0]) * step).astype(node.kind.numpy)  # type: ignore[operator]
        if not all(isinstance(v, int) for v in (start, end, step)):
            return node.const(data, "arange")
    first: Dim = start  # type: ignore[assignment]
    if isinstance(step, Expr) and isinstance(start, (int, Expr)) and prove_ge(step, 1):  # as many steps as there are
        steps = node.call("iota", extent=node.out.shape[0], start=0, step=1, dtype=str(I64))
        found = node.call("add", node.call("mul", steps, node.tensor(step, I64)), node.tensor(first, I64))
        return node.cast(found, node.kind)
    if not all(isinstance(v, (int, Expr)) for v in (start, end, step)) or not isinstance(step, int) or step == 0:
        node.fail("a range of open sizes wants whole numbers, and a step that is a number or a size above 0")
    length: Dim = end - start if step > 0 else start - end  # type: ignore[operator, assignment]
    extent = dmax(0, ceildiv(length, abs(step)))
    kind = node.kind if node.kind.kind == "i" else I64
    return node.cast(node.call("iota", extent=extent, start=first, step=step, dtype=str(kind)), node.kind)


@aten("linspace.default")
def linspace(node: TorchNode, start: float, end: float, steps: int, **_: Any) -> Value:
    """Evenly spaced numbers, both ends among them."""
    if not all(isinstance(v, (int, float)) for v in (start, end, steps)):
        node.fail("its ends and the number of steps must be known when the model is built")
    return node.const(np.linspace(start, end, steps).astype(node.kind.numpy), "linspace")


@aten("eye.default", "eye.m")
def eye(node: TorchNode, *_: Any, **__: Any) -> Value:
    """Ones on the diagonal of a matrix."""
    if node.kind == BOOL:
        return node.cast(node.call("eye", shape=node.out.shape, k=0, dtype=str(I64)), BOOL)
    return node.call("eye", shape=node.out.shape, k=0, dtype=str(node.kind))


@aten("triu_indices.default", "tril_indices.default")
def triangle_indices(node: TorchNode, rows: int, columns: int, offset: int = 0, **_: Any) -> Value:
    """The places of a triangle of a matrix."""
    if not all(isinstance(v, int) for v in (rows, columns, offset)):
        node.fail("its sizes must be known when the model is built")
    found = np.triu_indices(rows, offset, columns) if "triu" in node.target else np.tril_indices(rows, offset, columns)
    return node.const(np.stack(found).astype(node.kind.numpy), "places")
