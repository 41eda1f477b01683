"""Architectures as timm and transformers have them, small: what makes each, its inputs, its open sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F
from zoo import nets

BATCH, LENGTH = Dim("batch", min=1, max=4), Dim("length", min=2, max=16)


@dataclass(frozen=True)
class Net:
    """``make()`` gives the module, ``inputs(batch, length)`` its inputs; ``sizes`` those that it is run at after the
    first; ``shapes`` the open sizes. ``quick`` nets are tested always."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int, int], tuple[Tensor, ...]]
    shapes: tuple[Any, ...] = ({0: BATCH},)
    sizes: tuple[tuple[int, int], ...] = ((1, 9), (3, 16))
    quick: bool = False
    tolerance: float = field(default=1e-4)


def _image(side: int = 32, channels: int = 3) -> Callable[[int, int], tuple[Tensor, ...]]:
    return lambda batch, _: (torch.randn(batch, channels, side, side),)


def _steps(width: int) -> Callable[[int, int], tuple[Tensor, ...]]:
    return lambda batch, length: (torch.randn(batch, length, width),)


def _tokens(batch: int, length: int) -> tuple[Tensor, ...]:
    ids = torch.randint(0, 100, (batch, length))
    mask = torch.ones_like(ids)
    mask[0, length - 1 :] = 0
    return ids, mask


# --- in the style of timm --------------------------------------------------------------------------------------


def _act(cin: int, cout: int, k: int = 3, stride: int = 1, groups: int = 1, act: Any = nn.ReLU) -> nn.Sequential:
    conv = nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(cout), act())


class Residual(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Dense(nn.Module):
    """DenseNet: what a layer makes is joined to what it reads."""

    def __init__(self, cin: int, grow: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(cin + k * grow), nn.ReLU(), nn.Conv2d(cin + k * grow, grow, 3, padding=1))
            for k in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


class Squeeze(nn.Module):
    """Squeeze and excitation of MobileNetV3 and EfficientNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.hardsigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))


class Shuffle(nn.Module):
    """A unit of ShuffleNetV2."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.body = nn.Sequential(
            _act(half, half, 1), _act(half, half, 3, groups=half, act=nn.Identity), _act(half, half, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, 1)
        return F.channel_shuffle(torch.cat([left, self.body(right)], 1), 2)


class Branches(nn.Module):
    """Inception: several kernels side by side, one after a pool."""

    def __init__(self, cin: int, each: int) -> None:
        super().__init__()
        self.one, self.three = _act(cin, each, 1), nn.Sequential(_act(cin, each, 1), _act(each, each, 3))
        self.five, self.pool = nn.Sequential(_act(cin, each, 1), _act(each, each, 5)), _act(cin, each, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(F.max_pool2d(x, 3, 1, 1))], 1)


class Mixer(nn.Module):
    """MLP-Mixer: products along the patches, then along the channels."""

    def __init__(self, patches: int = 16, width: int = 24, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, 8, 8)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.along = nn.ModuleList(
            nn.Sequential(nn.Linear(patches, 32), nn.GELU(), nn.Linear(32, patches)) for _ in range(depth)
        )
        self.across = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 48), nn.GELU(), nn.Linear(48, width)) for _ in range(depth)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)
        for k, (along, across) in enumerate(zip(self.along, self.across, strict=True)):
            x = x + along(self.norms[2 * k](x).transpose(1, 2)).transpose(1, 2)
            x = x + across(self.norms[2 * k + 1](x))
        return self.head(x.mean(1))


class Pyramid(nn.Module):
    """DeepLab's pyramid of dilated convolutions, with an image-wide mean, and the way back to the size of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_act(3, 8, 3, 2), _act(8, 16, 3, 2))
        self.dilated = nn.ModuleList(nn.Conv2d(16, 8, 3, padding=d, dilation=d) for d in (1, 2, 3))
        self.whole, self.last = nn.Conv2d(16, 8, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        mean = F.interpolate(self.whole(F.adaptive_avg_pool2d(y, 1)), y.shape[-2:], mode="bilinear")
        y = self.last(torch.cat([*(d(y) for d in self.dilated), mean], 1))
        return F.interpolate(y, x.shape[-2:], mode="bilinear", align_corners=False)


class Causal(nn.Module):
    """A gated stack of dilated causal convolutions, as in WaveNet."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, width, 1)
        self.layers = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**k) for k in range(3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x.transpose(1, 2))
        for k, layer in enumerate(self.layers):
            a, b = layer(F.pad(y, (2**k, 0))).chunk(2, 1)
            y = y + torch.tanh(a) * torch.sigmoid(b)
        return y.transpose(1, 2)


class Recommender(nn.Module):
    """Embeddings of categories, products of pairs of them, and an MLP, as in DLRM."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20, 8) for _ in range(3))
        self.dense, self.top = nn.Linear(5, 8), nn.Sequential(nn.Linear(8 + 6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        x = F.relu(self.dense(dense))
        rows = torch.stack([x, *(t(ids[:, k]) for k, t in enumerate(self.tables))], 1)
        pairs = rows @ rows.mT
        below = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.top(torch.cat([x, pairs[:, below[0], below[1]]], 1)))


class Attention(nn.Module):
    """nn.MultiheadAttention with a mask of keys."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.attend(x, x, x, key_padding_mask=x[..., 0] > 2.5)


def _classifier(*layers: nn.Module, width: int) -> nn.Sequential:
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def _vgg() -> nn.Module:
    body = [_act(3, 8), nn.MaxPool2d(2), _act(8, 16), nn.MaxPool2d(2)]
    return nn.Sequential(
        *body, nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(16 * 49, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 10)
    )


def _resnet() -> nn.Module:
    block = [Residual(_act(8, 8), _act(8, 8, act=nn.Identity)), nn.ReLU()]
    return _classifier(_act(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1), *block, _act(8, 16, 3, 2), width=16)


def _mobilenetv3() -> nn.Module:
    block = Residual(
        _act(8, 24, 1, act=nn.Hardswish),
        _act(24, 24, 5, groups=24, act=nn.Hardswish),
        Squeeze(24),
        _act(24, 8, 1, act=nn.Identity),
    )
    return _classifier(_act(3, 8, 3, 2, act=nn.Hardswish), block, width=8)


def _gan() -> nn.Module:
    up = [
        nn.ConvTranspose2d(12, 16, 4),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 4, 2, 1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
    ]
    return nn.Sequential(nn.Unflatten(1, (12, 1, 1)), *up, nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu", norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


_BOTH = ({0: BATCH, 1: LENGTH},)
STYLED: Mapping[str, Net] = {
    "mlp": Net(
        lambda: nn.Sequential(nn.Linear(12, 32), nn.SiLU(), nn.LayerNorm(32), nn.Linear(32, 4)),
        _steps(12),
        _BOTH,
        quick=True,
    ),
    "vgg": Net(_vgg, _image()),
    "resnet": Net(_resnet, _image(), quick=True),
    "densenet": Net(lambda: _classifier(_act(3, 8), Dense(8, 4, 3), nn.AvgPool2d(2), width=20), _image()),
    "inception": Net(lambda: _classifier(_act(3, 8, 3, 2), Branches(8, 4), width=16), _image()),
    "squeezenet": Net(
        lambda: _classifier(_act(3, 8, 3, 2), nn.MaxPool2d(3, 2, ceil_mode=True), _act(8, 16, 1), width=16), _image()
    ),
    "shufflenet": Net(lambda: _classifier(_act(3, 16, 3, 2), Shuffle(16), Shuffle(16), width=16), _image()),
    "mobilenetv3": Net(_mobilenetv3, _image(), quick=True),
    "regnet grouped": Net(
        lambda: _classifier(_act(3, 16, 3, 2), Residual(_act(16, 16, 3, groups=4)), Squeeze(16), width=16), _image()
    ),
    "mixer": Net(Mixer, _image()),
    "unet": Net(lambda: nets.randomize(nets.UNet()), _image()),
    "deeplab": Net(Pyramid, _image(33)),
    "espcn": Net(
        lambda: nn.Sequential(
            nn.Conv2d(1, 8, 5, padding=2), nn.Tanh(), nn.Conv2d(8, 9, 3, padding=1), nn.PixelShuffle(3)
        ),
        _image(12, 1),
    ),
    "gan": Net(_gan, lambda batch, _: (torch.randn(batch, 12),)),
    "wavenet": Net(Causal, _steps(4), _BOTH, quick=True),
    "recommender": Net(
        Recommender,
        lambda batch, _: (torch.randn(batch, 5), torch.randint(0, 20, (batch, 3))),
        ({0: BATCH}, {0: BATCH}),
    ),
    "lstm": Net(lambda: nets.Recurrent(nn.LSTM), _steps(12), _BOTH),
    "gru": Net(lambda: nets.Recurrent(nn.GRU), _steps(12), _BOTH),
    "encoder": Net(_encoder, _steps(16), _BOTH),
    "attention": Net(Attention, _steps(16), _BOTH),
}


# --- transformers ----------------------------------------------------------------------------------------------


class Returns(nn.Module):
    """The first tensor of what a model of transformers returns."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], **flags: Any) -> None:
        super().__init__()
        self.model, self.names, self.flags = model, names, flags

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.model(**dict(zip(self.names, inputs, strict=True)), **self.flags)[0]


TEXT: Mapping[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 80,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
VISION: Mapping[str, Any] = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def _hf(kind: str, names: tuple[str, ...], flags: Mapping[str, Any], head: str, given: Mapping[str, Any]) -> nn.Module:
    torch.manual_seed(0)
    config = getattr(hf, f"{kind}Config")(**given)
    return Returns(getattr(hf, f"{kind}{head}")(config), names, **flags)


def _text(kind: str, head: str = "Model", quick: bool = False, cache: bool = False, **more: Any) -> Net:
    flags = {"use_cache": False} if cache else {}
    names = ("input_ids", "attention_mask")
    return Net(lambda: _hf(kind, names, flags, head, {**TEXT, **more}), _tokens, (_BOTH * 2,), quick=quick)


def _vision(kind: str, head: str = "Model", side: int = 32, **given: Any) -> Net:
    return Net(lambda: _hf(kind, ("pixel_values",), {}, head, given), _image(side), (({0: BATCH},),))


_TWO = {"depths": [1, 1], "num_channels": 3}
TRANSFORMERS: Mapping[str, Net] = {
    "bert": _text("Bert", quick=True),
    "distilbert": _text("DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=320),
    "roberta": _text("Roberta"),
    "albert": _text("Albert", embedding_size=16),
    "electra": _text("Electra", embedding_size=16),
    "mpnet": _text("MPNet"),
    "modernbert": _text("ModernBert"),
    "gpt2": _text("GPT2", "LMHeadModel", n_embd=32, n_layer=2, n_head=4, n_positions=64, cache=True),
    "gpt neox": _text("GPTNeoX", "ForCausalLM", cache=True),
    "llama": _text("Llama", "ForCausalLM", num_key_value_heads=2, cache=True),
    "mistral": _text("Mistral", "ForCausalLM", num_key_value_heads=2, sliding_window=4, cache=True),
    "qwen2": _text("Qwen2", "ForCausalLM", num_key_value_heads=2, cache=True),
    "gemma": _text("Gemma", "ForCausalLM", num_key_value_heads=2, head_dim=8, cache=True),
    "phi": _text("Phi", "ForCausalLM", cache=True),
    "opt": _text("OPT", "ForCausalLM", ffn_dim=64, cache=True),
    "bloom": _text("Bloom", "ForCausalLM", n_layer=2, n_head=4, cache=True),
    "t5": _text("T5", "EncoderModel", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
    "clip text": _text("CLIPText"),
    "vit": _vision("ViT", **VISION),
    "deit": _vision("DeiT", **VISION),
    "beit": _vision("Beit", **VISION),
    "dinov2": _vision("Dinov2", **VISION),
    "swin": _vision("Swin", image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "convnext": _vision("ConvNext", hidden_sizes=[8, 16], num_stages=2, **_TWO),
    "convnextv2": _vision("ConvNextV2", hidden_sizes=[8, 16], num_stages=2, **_TWO),
    "hf resnet": _vision("ResNet", embedding_size=8, hidden_sizes=[16, 32], **_TWO),
    "hf regnet": _vision("RegNet", embedding_size=8, hidden_sizes=[16, 32], groups_width=8, **_TWO),
    "efficientnet": _vision(
        "EfficientNet", width_coefficient=0.25, depth_coefficient=0.2, image_size=32, hidden_dim=320
    ),
    "mobilenetv1": _vision("MobileNetV1", depth_multiplier=0.25),
    "mobilenetv2": _vision("MobileNetV2", depth_multiplier=0.25),
    "mobilevit": _vision(
        "MobileViT", image_size=64, side=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 12, 16, 16, 24, 32]
    ),
    "poolformer": _vision("PoolFormer", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "segformer": _vision(
        "Segformer", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4]
    ),
    "levit": _vision(
        "Levit",
        image_size=64,
        side=64,
        hidden_sizes=[16, 24, 32],
        key_dim=[4, 4, 4],
        num_attention_heads=[2, 3, 4],
        depths=[1, 1, 1],
    ),
    "bit": _vision("Bit", hidden_sizes=[16, 32], depths=[1, 1], embedding_size=16, num_groups=4),
}
NETS: Mapping[str, Net] = {**STYLED, **TRANSFORMERS}
