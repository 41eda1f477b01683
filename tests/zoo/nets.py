"""Torch definitions of common networks, with random weights that keep values in a usual range."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def randomize(model: nn.Module, seed: int = 0) -> nn.Module:
    """Gives batch normalisation statistics as after training, so that folding it matters; inference mode."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            size = module.num_features
            module.running_mean = torch.randn(size, generator=generator) * 0.1
            module.running_var = torch.rand(size, generator=generator) * 0.5 + 0.75
            module.weight.data = torch.rand(size, generator=generator) * 0.5 + 0.75
            module.bias.data = torch.randn(size, generator=generator) * 0.1
    return model.eval()


def _conv_bn(cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1, act: bool = True) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(cout),
    ]
    return nn.Sequential(*layers, nn.ReLU6()) if act else nn.Sequential(*layers)


class _Inverted(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = cin * expand
        self.keep = stride == 1 and cin == cout
        first = [_conv_bn(cin, hidden, 1)] if expand != 1 else []
        self.body = nn.Sequential(
            *first, _conv_bn(hidden, hidden, 3, stride, groups=hidden), _conv_bn(hidden, cout, 1, act=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.keep else self.body(x)


class MobileNetV2(nn.Module):
    """arXiv 1801.04381, width 1."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2)]
        rows.append((6, 320, 1, 1))
        layers: list[nn.Module] = [_conv_bn(3, 32, 3, 2)]
        size = 32
        for expand, channels, count, stride in rows:
            for k in range(count):
                layers.append(_Inverted(size, channels, stride if k == 0 else 1, expand))
                size = channels
        layers.append(_conv_bn(size, 1280, 1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))


class _Bottleneck(nn.Module):
    def __init__(self, cin: int, width: int, stride: int) -> None:
        super().__init__()
        cout = width * 4
        self.conv1, self.bn1 = nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, cout, 1, bias=False), nn.BatchNorm2d(cout)
        self.down = None
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x: Tensor) -> Tensor:
        skip = x if self.down is None else self.down(x)
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + skip)


class ResNet50(nn.Module):
    """arXiv 1512.03385, the stride in the 3x3 convolution."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks: list[nn.Module] = []
        size = 64
        for stage, count in enumerate((3, 4, 6, 3)):
            width = 64 << stage
            for k in range(count):
                blocks.append(_Bottleneck(size, width, 2 if k == 0 and stage else 1))
                size = width * 4
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(size, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.pool(torch.relu(self.bn(self.conv(x)))))
        return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(x, (1, 1)), 1))


class UNet(nn.Module):
    """A small U-Net (arXiv 1505.04597): two levels, up by transposed convolution and by resizing."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = self._two(3, 8), self._two(8, 16)
        self.middle = self._two(16, 32)
        self.up2, self.join2 = nn.ConvTranspose2d(32, 16, 2, 2), self._two(32, 16)
        self.up1, self.join1 = nn.Upsample(scale_factor=2, mode="bilinear"), self._two(24, 8)
        self.last = nn.Conv2d(8, 2, 1)

    def _two(self, cin: int, cout: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(),
            nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        a = self.down1(x)
        b = self.down2(nn.functional.max_pool2d(a, 2))
        y = self.middle(nn.functional.max_pool2d(b, 2))
        y = self.join2(torch.cat([self.up2(y), b], 1))
        y = self.join1(torch.cat([self.up1(y), a], 1))
        return torch.sigmoid(self.last(y))


class Recurrent(nn.Module):
    """Two recurrent layers, the first in both directions, and a classifier on the last step."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.first = kind(12, 16, batch_first=True, bidirectional=True)
        self.second = kind(32, 24, batch_first=True)
        self.last = nn.Linear(24, 5)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.first(x)
        z, _ = self.second(y)
        return torch.softmax(self.last(z[:, -1]), -1)


def encoder(layers: int = 6, hidden: int = 384, heads: int = 12, inner: int = 1536) -> nn.Module:
    """The encoder of transformers' BertModel; its parameters only are random."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=1000, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=inner, max_position_embeddings=512, attn_implementation="eager",
    )  # fmt: skip
    return BertModel(config, add_pooling_layer=False)
