"""ATen operators over shapes and options: many in one exported program, each result compared with PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_harness import agree, flat, imported, interpreted

GENERATOR = torch.Generator().manual_seed(1)


def real(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=GENERATOR) * 2


def whole(*shape: int, low: int = -9, high: int = 9, kind: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(low, high, shape, generator=GENERATOR).to(kind)


X, Y = real(2, 3, 4), real(2, 3, 4)
P = X.abs() + 0.1
K, J = whole(2, 3, 4), whole(2, 3, 4, low=1)
J32 = whole(2, 3, 4, kind=torch.int32)
SPECIAL = torch.tensor([0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.0, float("inf"), float("-inf"), float("nan")])
IMAGE, ODD = real(2, 6, 8, 8), real(2, 6, 7, 9)
Cases = Mapping[str, Callable[[], Any]]


def of_one(names: Sequence[str], space: Any, x: Callable[[], Tensor]) -> Cases:
    """A case for each function of one tensor."""

    def case(function: Callable[[Tensor], Any]) -> Callable[[], Any]:
        return lambda: function(x())

    return {f"{name} of {k}": case(getattr(space, name)) for k, name in enumerate(names)}


UNARY: Cases = {
    **of_one(
        [
            "abs",
            "atan",
            "asinh",
            "ceil",
            "cos",
            "cosh",
            "erf",
            "exp",
            "expm1",
            "floor",
            "neg",
            "reciprocal",
            "relu",
            "round",
            "sigmoid",
            "sign",
            "sin",
            "sinh",
            "tan",
            "tanh",
            "trunc",
            "square",
            "exp2",
            "sgn",
            "isfinite",
            "isinf",
            "isnan",
            "erfc",
            "sinc",
            "frac",
        ],
        torch,
        lambda: X,
    ),
    **of_one(["sqrt", "rsqrt", "log", "log2", "log10", "log1p"], torch, lambda: P),
    **of_one(["acos", "asin", "atanh"], torch, lambda: torch.tanh(X) * 0.9),
    "acosh": lambda: torch.acosh(P + 1),
    "special round": lambda: torch.round(SPECIAL),
    "special": lambda: (torch.floor(SPECIAL), torch.isnan(SPECIAL), torch.isinf(SPECIAL), torch.relu(SPECIAL[:-1])),
    "integers": lambda: (K.abs(), -K, torch.sign(K), torch.sin(K), torch.floor(K), ~K, torch.sqrt(J), K.float()),
    "casts": lambda: (
        X.long(),
        X.int(),
        K.bool(),
        X.bool(),
        (X > 0).float(),
        K.double(),
        X.half().float(),
        K.to(torch.int8),
    ),
    "logical": lambda: (torch.logical_and(K, X), torch.logical_or(K, X), torch.logical_xor(K, X), torch.logical_not(K)),
}
BINARY = {
    "add": lambda: (X + Y, X + 2, 2 + X, X + K, K + 2, K + 2.5, torch.add(X, Y, alpha=3), torch.add(K, J, alpha=2)),
    "sub": lambda: (X - Y, 2 - X, X - K, 1.5 - K, torch.sub(X, Y, alpha=0.5), torch.rsub(X, 3, alpha=2)),
    "mul": lambda: (X * Y, X * 3, K * J, K * 0.5, X * K, (X > 0) * (Y > 0), (X > 0) * Y),
    "div": lambda: (X / P, X / 3, K / J, K / 4, 1 / P, K / 2.5),
    "floor divide": lambda: (X // P, K // J, K // -3, torch.div(X, -P, rounding_mode="floor"), -X // 0.7),
    "trunc divide": lambda: tuple(
        torch.div(a, b, rounding_mode="trunc") for a, b in ((X, P), (K, J), (K, -J), (X, -2))
    ),
    "remainder": lambda: (X % P, X % -0.7, K % J, K % -4, torch.fmod(X, P), torch.fmod(K, J), torch.fmod(X, -0.7)),
    "pow": lambda: (P**0.5, P**-0.5, X**2, X**3, P**1.7, P**Y, 2**X, 2.5**X, J**2, X**-1, X**1, K**3, P**K),
    "extremes": lambda: (torch.maximum(X, Y), torch.minimum(K, J), torch.fmax(X, Y), torch.maximum(X, K)),
    "atan2": lambda: (torch.atan2(X, Y), torch.atan2(X * 0, Y), torch.atan2(X / 0, -Y / 0), torch.atan2(K, J)),
    "bits": lambda: (K & J, K | J, K ^ J, (X > 0) & (Y > 0), (X > 0) | (Y > 0), (X > 0) ^ (Y > 0), J & 3),
    "compare": lambda: (
        X > Y,
        X < 0,
        X >= K,
        K == J,
        K != 3,
        X <= 0.5,
        (X > 0) == (Y > 0),
        (X > 0) > (Y > 0),
        K < 2.5,
        K == 2.0,
        J32 > K,
    ),
    "promotion": lambda: (
        J32 + K,
        J32 * 2,
        J32 * 2.0,
        J32 / J32.abs().clamp(min=1),
        J32.to(torch.uint8) + J32.to(torch.int8),
        torch.tensor(2.0) * K,
        torch.tensor(2) * J32,
        torch.tensor(3, dtype=torch.int64) * X,
    ),
    "lerp": lambda: (torch.lerp(X, Y, 0.3), torch.addcmul(X, Y, P, value=0.5), torch.addcdiv(X, Y, P, value=2)),
    "other names": lambda: (X.reshape_as(Y.mT), X.ravel(), X.swapaxes(0, -1)),
    "lerp of 1": lambda: (torch.addcmul(X, Y[:1], P), torch.addcdiv(P, X, P), torch.addcmul(X.int(), Y.int(), P.int())),
    "broadcast": lambda: (X + Y[:1, :, :1], X * Y[0, 0], torch.where(X > 0, Y[:, :1], 0.0), X[:, :, :1] + Y[:, :1]),
}
ACTIVATIONS: Cases = {
    **of_one(
        [
            "relu",
            "relu6",
            "elu",
            "selu",
            "celu",
            "gelu",
            "silu",
            "mish",
            "softplus",
            "hardswish",
            "hardsigmoid",
            "hardtanh",
            "leaky_relu",
            "logsigmoid",
            "softsign",
            "tanhshrink",
            "hardshrink",
            "softshrink",
        ],
        F,
        lambda: X,
    ),
    "options": lambda: (
        F.elu(X, 0.5),
        F.celu(X, 0.7),
        F.gelu(X, approximate="tanh"),
        F.softplus(X, 2, 3),
        F.hardtanh(X, -0.5, 2),
        F.leaky_relu(X, 0.3),
        F.threshold(X, 0.2, -1),
        F.hardshrink(X, 0.8),
        F.softshrink(X, 0.3),
        F.glu(X, -1),
        F.glu(X[:, :2], 1),
        F.softmax(X, 1),
        F.softmax(X, 0),
        F.log_softmax(X, 1),
        F.softmin(X, -1),
        F.prelu(X, torch.tensor([0.1, 0.2, 0.3])),
        F.prelu(X, torch.tensor([0.25])),
        F.softmax(K, -1, dtype=torch.float32),
        F.normalize(X, dim=1),
        F.dropout(X, 0.5, False),
    ),
    "limits": lambda: (
        X.clamp(-1, 1),
        X.clamp(min=0),
        X.clamp(max=0.5),
        X.clamp(Y, Y + 1),
        K.clamp(-2, 3),
        X.clamp(2, -2),
        X.clamp_min(0.1),
        K.clamp(min=2),
        torch.clamp(SPECIAL, -1, 1),
        torch.clamp(SPECIAL, min=0),
    ),
}
MOVES = {
    "views": lambda: (
        X.view(6, 4),
        X.reshape(-1),
        X.view(2, -1, 2),
        X.flatten(1),
        X.unflatten(2, (2, 2)),
        X.unsqueeze(1),
        X[:, :1].squeeze(1),
        X[:1].squeeze(),
        X.permute(2, 0, 1),
        X.transpose(0, 2),
        X[0].t(),
        X.mT,
        X.movedim(0, 2),
        X.swapaxes(0, 1),
        X.ravel(),
        X.expand(3, 2, 3, 4),
        X[:, :1].expand(-1, 5, -1),
    ),
    "slices": lambda: (
        X[:, 1:],
        X[:, :-1],
        X[..., ::2],
        X[:, -2],
        X[1],
        X[:, 5:],
        X[..., 1:100:2],
        X[:, None, 0],
        X.select(1, -1),
        X.narrow(2, 1, 2),
        X[:, -2:, 1:3],
        X.narrow(2, -3, 2),
    ),
    "joins": lambda: (
        torch.cat([X, Y], 1),
        torch.cat([X, K], 0),
        torch.stack([X, Y], 1),
        torch.stack([X, Y], -1),
        torch.hstack([X, Y]),
        torch.cat([X, Y[:, :1], X], -2),
        torch.cat([torch.zeros(0), X[0, 0]]),
    ),
    "splits": lambda: (
        *X.split(2, 1),
        *X.split([1, 3], 2),
        *X.chunk(2, 2),
        *X.unbind(1),
        *torch.tensor_split(X, 3, 2),
        *X.chunk(3, 2),
    ),
    "repeats": lambda: (
        X.repeat(1, 2, 1),
        X.repeat(2, 1, 1, 3),
        X.tile((2,)),
        X.repeat_interleave(2, 1),
        torch.atleast_2d(X[0, 0]),
    ),
    "turns": lambda: (
        X.flip(0),
        X.flip((1, 2)),
        X.roll(1, 1),
        X.roll((-1, 2), (0, 2)),
        X.roll(3),
        X.rot90(1, (1, 2)),
        X.roll(-7, 2),
    ),
    "triangles": lambda: (
        X.tril(),
        X.triu(1),
        X.tril(-1),
        torch.ones(3, 3).triu(),
        X.diagonal(0, 1, 2),
        torch.diag(X[0, 0]),
    ),
    "pads": lambda: (
        F.pad(X, (1, 2)),
        F.pad(X, (1, 0, 0, 2), value=3.5),
        F.pad(X, (-1, 1)),
        F.pad(K, (0, 1), value=7),
        F.pad(IMAGE, (1, 2, 3, 1), mode="reflect"),
        F.pad(IMAGE, (1, 2, 0, 1), mode="replicate"),
        F.pad(X, (2, 1), mode="reflect"),
        F.pad(IMAGE, (1, 1, 2, 2), mode="circular"),
        F.pad(X, (1, 1, -1, -1)),
        F.pad(IMAGE, (-3, 2, 1, -1), mode="replicate"),
        F.pad(X, (-X.shape[-1], 2), mode="replicate"),
        F.pad(X, (-2, 3), mode="reflect"),
        F.pad(IMAGE, (-2, 1, 1, -1), mode="circular"),
    ),
    "pixels": lambda: (F.pixel_shuffle(real(1, 8, 3, 2), 2), F.pixel_unshuffle(IMAGE, 2), F.channel_shuffle(IMAGE, 3)),
    "windows": lambda: (X.unfold(2, 2, 1), F.unfold(IMAGE, 3, padding=1, stride=2), F.fold(real(2, 12, 9), (4, 4), 2)),
    "scatters": lambda: (torch.slice_scatter(X, Y[:, :2], 1, 1), torch.select_scatter(X, Y[:, 0], 1, -1)),
    "fills": lambda: (
        torch.zeros(2, 3),
        torch.ones_like(X),
        torch.full((2,), 3.5),
        torch.full_like(K, 2),
        torch.arange(5),
        torch.arange(2, 9, 3),
        torch.arange(0, 1, 0.25),
        torch.arange(5, 0, -2),
        torch.eye(3),
        torch.eye(2, 3),
        torch.linspace(0, 1, 5),
        X.new_zeros(2),
        torch.zeros_like(X, dtype=torch.int64),
        torch.arange(3.0),
        torch.scalar_tensor(2.5),
        torch.tensor([1, 2]) + K[0, 0, 0],
        torch.empty(0),
    ),
}
REDUCE = {
    "sums": lambda: (
        X.sum(),
        X.sum(1),
        X.sum((0, 2), keepdim=True),
        K.sum(1),
        (X > 0).sum(),
        J32.sum(0),
        K.sum(dtype=torch.float32),
    ),
    "means": lambda: (X.mean(), X.mean(-1), X.mean((0, 1), True), K.float().mean(), torch.mean(J.double(), 1)),
    "extremes": lambda: (
        X.max(),
        X.min(),
        X.amax(1),
        X.amin((0, 2), True),
        *X.max(1),
        *X.min(2, True),
        K.max(),
        *K.max(0),
    ),
    "search": lambda: (X.argmax(), X.argmin(1), X.argmax(-1, True), K.argmax(2), torch.tensor([3.0, 5, 5, 1]).argmax()),
    "moments": lambda: (
        X.var(),
        X.std(1),
        X.var((0, 2), correction=0, keepdim=True),
        *torch.var_mean(X, 2),
        *torch.std_mean(X),
        X.std(1, correction=0.5),
        X.var(1, correction=99),
        *torch.var_mean(X[:, :0], 1),
    ),
    "norms": lambda: (
        X.norm(),
        X.norm(dim=1),
        torch.linalg.vector_norm(X, 1, 2),
        torch.linalg.vector_norm(X, float("inf")),
        torch.linalg.vector_norm(X, 3, (0, 1), True),
    ),
    "logic": lambda: ((X > 1).any(), (X > 1).any(1), (X > -9).all(), (X > 0).all(2, True), K.any(0), K.all(1)),
    "products": lambda: (
        P.prod(),
        P.prod(1),
        J.prod(2, True),
        P.cumprod(1),
        X.cumsum(1),
        K.cumsum(-1),
        (X > 0).cumsum(0),
    ),
    "logsumexp": lambda: (
        X.logsumexp(1),
        X.logsumexp((0, 2), True),
        torch.logsumexp(torch.tensor([-torch.inf, -torch.inf]), 0),
    ),
    "orders": lambda: (
        *X.topk(2),
        *X.topk(2, 1, largest=False),
        *X.sort(1),
        *X.sort(2, descending=True),
        X.argsort(0),
        *K.sort(dim=1, stable=True),
    ),
    "of nothing": lambda: (
        torch.tensor(3.0).sum(),
        torch.tensor(3.0).softmax(0),
        torch.tensor([2.0]).mean(),
        torch.tensor(True).any(),
    ),
    "products of matrices": lambda: (
        X @ Y.mT,
        X[0] @ Y[0].T,
        torch.einsum("bij,bkj->bik", X, Y),
        X[0, 0] @ Y[0, 0],
        X @ Y[0, 0],
        Y[0, 0] @ X[0].T,
        torch.outer(X[0, 0], Y[0, 0]),
        torch.addmm(X[0, :, :3], X[0], Y[0].T, beta=0.5, alpha=2),
        torch.baddbmm(X[..., :3], X, Y.mT),
        torch.tensordot(X, Y, ([2], [2])),
        torch.einsum("ij,kl->ijkl", X[0], Y[0]),
        torch.einsum("bij->bji", X),
        torch.einsum("ii->i", X[0, :, :3]),
        X.diagonal(-1, 2, 0),
        torch.trace(X[0]),
        torch.kron(X[0], Y[0]),
        F.linear(X, Y[0]),
        F.linear(X, Y[0], Y[0, :, 0]),
        F.linear(X[0, 0], Y[0]),
    ),
}
IDS = torch.tensor([[0, 2], [1, 1]])
INDEX = {
    "gathers": lambda: (
        X[:, [0, 2]],
        X[IDS % 2],
        X[IDS % 2, :, IDS],
        X[:, IDS, 1],
        X[IDS % 2, IDS],
        X[:, [0, -1], [1, 2]],
        X[..., IDS],
        X.index_select(1, torch.tensor([2, 0])),
        X.gather(2, torch.tensor([[[0, 3], [1, 2], [2, 2]]] * 2)),
        F.embedding(IDS, real(5, 3)),
        X.take_along_dim(X.argsort(1), 1),
        torch.take(X, IDS),
        X[[1], [2], [3]],
    ),
    "writes": lambda: (
        X.index_fill(1, torch.tensor([0, 2]), 5.0),
        X.masked_fill(X > 0, -1),
        X.masked_fill(Y > 0, torch.tensor(2.0)),
        X.scatter(1, torch.tensor([[[0, 1, 2, 0]]] * 2), 9.0),
        X.scatter(1, torch.tensor([[[0, 1, 2, 0]]] * 2), Y),
        X.scatter_add(2, torch.tensor([[[0, 0], [1, 1], [2, 3]]] * 2), Y),
        X.index_add(1, torch.tensor([0, 0]), Y[:, :2]),
        X.index_copy(2, torch.tensor([3, 1]), Y[..., :2]),
        X.index_put((torch.tensor([0, 1]), torch.tensor([2, 0])), Y[0, :2]),
        X.index_put((torch.tensor([0, 0]),), Y, accumulate=True),
        F.one_hot(IDS, 4),
    ),
    "in place": lambda: (_written(X.clone()), _masked(X.clone())),
}


def _written(x: Tensor) -> Tensor:
    x[:, 1] = 7.0
    x[0, :, 2:] += 1
    x[..., 0] = Y[..., 1]
    x[torch.tensor([0, 1]), torch.tensor([2, 0])] = 3.0
    x[:, :, [0, 2]] = Y[:, :, [1, 3]]
    return x


def _masked(x: Tensor) -> Tensor:
    x[x > 1] = 0.5
    return x.relu_().mul_(2)


IMAGES = {
    "conv2d": lambda: (
        F.conv2d(IMAGE, real(4, 6, 3, 3)),
        F.conv2d(IMAGE, real(4, 6, 3, 3), real(4), 2, 1),
        F.conv2d(ODD, real(4, 3, 2, 3), None, (2, 1), (1, 0), 2, 2),
        F.conv2d(IMAGE, real(12, 1, 3, 3), None, 1, 1, 1, 6),
        F.conv2d(IMAGE, real(6, 6, 2, 2), padding="same"),
        F.conv2d(IMAGE, real(4, 6, 4, 3), padding="same", dilation=2),
        F.conv2d(IMAGE, real(4, 6, 3, 3), padding="valid"),
        F.conv2d(IMAGE[0], real(4, 6, 1, 1)),
    ),
    "conv1d 3d": lambda: (
        F.conv1d(X, real(5, 3, 2), real(5), 1, 1),
        F.conv1d(X[0], real(5, 3, 2), dilation=2),
        F.conv1d(X, real(3, 1, 3), groups=3, padding="same"),
        F.conv3d(real(1, 2, 4, 5, 4), real(3, 2, 2, 3, 1), real(3), (1, 2, 1), (1, 0, 1)),
    ),
    "transposed": lambda: (
        F.conv_transpose2d(IMAGE, real(6, 4, 2, 2), None, 2),
        F.conv_transpose2d(ODD, real(6, 2, 3, 3), real(4), 2, 1, 1, 2),
        F.conv_transpose1d(X, real(3, 5, 3), None, 2, 1),
        F.conv_transpose2d(IMAGE, real(6, 4, 3, 3), None, (2, 1), (0, 1), (1, 0), 1, (1, 2)),
        F.conv_transpose3d(real(1, 2, 3, 2, 3), real(2, 3, 2, 2, 2), None, 2),
    ),
    "max pool": lambda: (
        F.max_pool2d(IMAGE, 2),
        F.max_pool2d(ODD, 3, 2, 1),
        F.max_pool2d(ODD, (2, 3), ceil_mode=True),
        F.max_pool2d(ODD, 2, 1, dilation=2),
        F.max_pool1d(X, 2),
        F.max_pool3d(real(1, 2, 4, 4, 4), 2),
        F.max_pool2d(IMAGE[0], 2),
        F.max_pool2d(ODD, 3, 2, 1, ceil_mode=True),
        F.max_pool1d(X, 2, 1, 1),
    ),
    "average pool": lambda: (
        F.avg_pool2d(IMAGE, 2),
        F.avg_pool2d(ODD, 3, 2, 1),
        F.avg_pool2d(ODD, 3, 2, 1, count_include_pad=False),
        F.avg_pool2d(ODD, (2, 3), ceil_mode=True),
        F.avg_pool1d(X, 3, 1, 1),
        F.avg_pool2d(ODD, 3, 2, 1, ceil_mode=True),
        F.avg_pool2d(ODD, 2, divisor_override=3),
        F.avg_pool3d(real(1, 2, 4, 4, 4), 2),
        F.avg_pool2d(ODD, 3, 2, 1, True, False),
        F.avg_pool2d(ODD, 3, (2, 1), (1, 0)),
        F.lp_pool2d(IMAGE, 2, 2),
    ),
    "adaptive pool": lambda: (
        F.adaptive_avg_pool2d(IMAGE, 1),
        F.adaptive_avg_pool2d(ODD, (3, 4)),
        F.adaptive_avg_pool2d(IMAGE, (None, 2)),
        F.adaptive_avg_pool1d(X, 3),
        F.adaptive_max_pool2d(IMAGE, 1),
        F.adaptive_max_pool2d(ODD, (3, 4)),
        F.adaptive_avg_pool3d(real(1, 2, 4, 3, 4), 2),
        F.adaptive_max_pool1d(X, 2),
        F.adaptive_avg_pool2d(IMAGE[0], 2),
    ),
    "norms": lambda: (
        F.layer_norm(X, (4,)),
        F.layer_norm(X, (3, 4), real(3, 4), real(3, 4), 1e-3),
        F.layer_norm(X, (4,), real(4)),
        F.group_norm(IMAGE, 3, real(6), real(6)),
        F.group_norm(IMAGE, 2),
        F.group_norm(X[:, :2], 2, None, real(2)),
        F.instance_norm(IMAGE),
        F.instance_norm(IMAGE, None, None, real(6), real(6)),
        F.batch_norm(IMAGE, real(6), real(6).abs(), real(6), real(6)),
        F.batch_norm(X[..., 0], real(3), real(3).abs()),
        F.rms_norm(X, (4,), real(4)),
        F.rms_norm(X, (3, 4)),
        F.local_response_norm(IMAGE, 3),
        F.batch_norm(X, real(3), real(3).abs(), None, real(3)),
        F.layer_norm(X, (4,), None, real(4)),
    ),
    "resize": lambda: (
        F.interpolate(IMAGE, scale_factor=2),
        F.interpolate(ODD, (11, 5)),
        F.interpolate(ODD, scale_factor=1.7),
        F.interpolate(ODD, (11, 5), mode="bilinear"),
        F.interpolate(ODD, scale_factor=1.7, mode="bilinear"),
        F.interpolate(ODD, (11, 5), mode="bilinear", align_corners=True),
        F.interpolate(ODD, (3, 13), mode="bilinear", antialias=True, align_corners=True),
        F.interpolate(ODD, (11, 2), mode="bicubic", antialias=True, align_corners=True),
        F.interpolate((ODD * 40 + 99).to(torch.uint8), (4, 9), mode="bilinear", antialias=True),
        F.interpolate((ODD * 40 + 99).to(torch.uint8), (3, 13), mode="bicubic", antialias=True),
        F.interpolate(ODD, (5, 13), mode="bicubic"),
        F.interpolate(ODD, scale_factor=(0.6, 1.4), mode="bicubic"),
        F.interpolate(ODD, (11, 5), mode="nearest-exact"),
        F.interpolate(X, 7, mode="linear"),
        F.interpolate(X, 7),
        F.interpolate(real(1, 2, 3, 4, 3), (5, 3, 6), mode="trilinear"),
        F.interpolate(ODD, (3, 4), mode="bilinear", antialias=True),
        F.interpolate(ODD, (1, 1), mode="bilinear"),
        F.interpolate(IMAGE, scale_factor=0.5, mode="bilinear", recompute_scale_factor=True),
        F.interpolate(IMAGE, (4, 4), mode="area"),
        F.interpolate(ODD, (12, 4), mode="bicubic", antialias=True),
        F.interpolate(ODD, scale_factor=0.4, mode="nearest-exact"),
        F.upsample(IMAGE, scale_factor=2),
        F.interpolate(ODD, (9, 20), mode="bicubic", align_corners=True),
        F.interpolate(ODD, scale_factor=(1.3, 0.7)),
    ),
    "attention": lambda: attentions(),
}


def attentions() -> tuple[Tensor, ...]:
    q, k, v = real(2, 4, 5, 8), real(2, 4, 6, 8), real(2, 4, 6, 3)
    mask = torch.cat([real(2, 1, 4, 6) > -0.5, torch.zeros(2, 1, 1, 6, dtype=torch.bool)], 2)
    bias = torch.where(mask, 0.0, -torch.inf) + real(2, 1, 5, 6)
    attend = F.scaled_dot_product_attention
    return (
        attend(q, k, v),
        attend(q, k, v, mask),
        attend(q, k, v, bias),
        attend(q, k, v, is_causal=True),
        attend(q, k[:, :2], v[:, :2], enable_gqa=True),
        attend(q, k, v, scale=0.3),
        attend(q[0], k[0], v[0]),
        attend(q, k, v, mask[0, 0]),
    )


INPUTS = ("X", "Y", "P", "K", "J", "J32", "SPECIAL", "IMAGE", "ODD", "IDS")


class Bundle(nn.Module):
    """The results of many cases in one program. The tensors that cases name, and those that they make, are its inputs:
    nothing is computed at import."""

    def __init__(self, cases: Cases) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *inputs: Tensor) -> Any:
        own = globals()
        before = {name: own[name] for name in (*INPUTS, "real")}
        rest = iter(inputs[len(INPUTS) :])
        own.update(zip(INPUTS, inputs, strict=False), real=lambda *shape: next(rest))
        try:
            return [case() for case in self.cases.values()]
        finally:
            own.update(before)


def _inputs(cases: Cases) -> list[Tensor]:
    """What a bundle of cases runs on."""
    made: list[Tensor] = []
    own = globals()
    before = own["real"]
    own["real"] = lambda *shape: made.append(before(*shape)) or made[-1]
    try:
        for case in cases.values():
            case()
    finally:
        own["real"] = before
    return [*(own[name] for name in INPUTS), *made]


def check(cases: Cases) -> None:
    """Every result of every case, by the interpreter and by PyTorch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check(cases)


def _check(cases: Cases) -> None:
    inputs = _inputs(cases)
    made, program = imported(Bundle(cases), tuple(inputs))
    names = [v.name for v in made.graphs["main"].params]
    holders = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    assert names == holders
    got = iter(interpreted(made, inputs))
    with torch.no_grad():
        want = Bundle(cases)(*inputs)
    for name, results in zip(cases, want, strict=True):
        for k, expected in enumerate(flat(results)):
            try:
                agree(next(got), expected, 2e-3 if expected.dtype == np.float16 else 1e-4)
            except AssertionError as error:
                raise AssertionError(f"{name}, result {k}: {error}") from None


GROUPS: Mapping[str, Cases] = {
    "unary": UNARY,
    "binary": BINARY,
    "activations": ACTIVATIONS,
    "moves": MOVES,
    "reduce": REDUCE,
    "index": INDEX,
    "images": IMAGES,
}


@pytest.mark.parametrize("group", GROUPS)
def test_operators(group: str) -> None:
    check(GROUPS[group])
