"""Offset problems shaped like those of real nets, each made from its seed: chains, residuals, branches, U-nets, scales.

Seeds are passed over so that half of the problems are ones where first fit by size, what many tools do, needs more than
1.1 times the largest live set.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sdk.compiler.memory.problem import Block

ALIGN = 16
HARD = 1.1  # times the largest live set that first fit by size needs for a problem to count as hard


@dataclass
class Net:
    """A net under construction: tensors by the step that makes them and the last step that reads them."""

    rng: random.Random
    step: int = 0
    tensors: list[list[int]] = field(default_factory=list)  # size, first, last

    def op(self, inputs: list[int], size: int) -> int:
        """One more op that reads ``inputs`` and makes a tensor of ``size`` bytes; some have scratch of their own."""
        self.step += 1
        for k in inputs:
            self.tensors[k][2] = self.step
        if self.rng.random() < 0.15:
            self.tensors.append([max(1, size // self.rng.choice([2, 3, 4, 8, 16])), self.step, self.step])
        self.tensors.append([max(1, size), self.step, self.step])
        return len(self.tensors) - 1

    def blocks(self) -> list[Block]:
        """What to place; results are read once more at the end."""
        return [Block(f"t{k}", size, first, last, ALIGN) for k, (size, first, last) in enumerate(self.tensors)]


@dataclass(frozen=True)
class Map:
    """A feature map: its tensor, its side and its channels."""

    tensor: int
    side: int
    channels: int


def _conv(net: Net, x: Map, channels: int, stride: int = 1) -> Map:
    side = max(1, -(-x.side // stride))
    return Map(net.op([x.tensor], side * side * channels), side, channels)


def _join(net: Net, parts: list[Map], channels: int) -> Map:
    side = parts[0].side
    return Map(net.op([p.tensor for p in parts], side * side * channels), side, channels)


def _image(net: Net) -> Map:
    side, channels = net.rng.choice([24, 32, 48, 49, 64, 96, 112, 128]), net.rng.choice([1, 3, 4])
    return Map(net.op([], side * side * channels), side, channels)


def _wider(net: Net, x: Map) -> tuple[int, int]:
    """Channels and stride of the next layer: coarser maps have more channels."""
    if x.side > 4 and net.rng.random() < 0.4:
        return min(512, int(x.channels * net.rng.choice([1, 1.5, 2, 2, 4])) + net.rng.choice([0, 0, 4, 8])), 2
    return max(4, int(x.channels * net.rng.choice([0.5, 1, 1, 1.5, 2]))), 1


def _chain(net: Net, x: Map, layers: int) -> Map:
    for _ in range(layers):
        channels, stride = _wider(net, x)
        x = _conv(net, x, channels, stride)
    return x


def chain(net: Net) -> None:
    """Layer after layer."""
    _chain(net, _conv(net, _image(net), net.rng.choice([8, 16, 24]), 2), net.rng.randrange(12, 40))


def residual(net: Net) -> None:
    """Blocks with a shortcut, plain, with a bottleneck or with an inverted one; shortcuts may be projected."""
    x = _conv(net, _image(net), net.rng.choice([8, 16, 24]), net.rng.choice([1, 2]))
    for _ in range(net.rng.randrange(4, 14)):
        channels, stride = _wider(net, x)
        inner = max(1, int(channels * net.rng.choice([0.25, 0.5, 1, 1, 3, 4, 6])))
        y = _conv(net, _conv(net, x, inner), inner, stride)
        y = _conv(net, y, channels)
        short = x if stride == 1 and channels == x.channels else _conv(net, x, channels, stride)
        x = _join(net, [short, y], channels)


def branches(net: Net) -> None:
    """Several paths from one map, joined by a concat; dense blocks, where every map is read to the end of its block."""
    x = _conv(net, _image(net), net.rng.choice([8, 16, 24]), 2)
    for _ in range(net.rng.randrange(2, 7)):
        if net.rng.random() < 0.3:
            grown = [x]
            for _ in range(net.rng.randrange(3, 8)):
                grown.append(_conv(net, _join(net, grown, sum(g.channels for g in grown)), net.rng.choice([8, 12, 16])))
            x = _join(net, grown, sum(g.channels for g in grown))
        parts = []
        for _ in range(net.rng.randrange(2, 5)):
            part = x
            for _ in range(net.rng.randrange(1, 4)):
                part = _conv(net, part, max(4, int(x.channels * net.rng.choice([0.25, 0.5, 0.75, 1, 1.5]))))
            parts.append(part)
        net.rng.shuffle(parts)
        x = _join(net, parts, sum(p.channels for p in parts))
        x = _conv(net, x, max(8, x.channels // net.rng.choice([1, 2, 3])), net.rng.choice([1, 2]))


def unet(net: Net) -> None:
    """Down, then up again, every level joined with what it was on the way down."""
    x = _conv(net, _image(net), net.rng.choice([4, 8, 12, 16]))
    skips = []
    for _ in range(net.rng.randrange(3, 6)):
        x = _chain_same(net, x, net.rng.randrange(1, 3))
        skips.append(x)
        x = _conv(net, x, min(256, int(x.channels * net.rng.choice([1, 1.5, 2, 2]))), 2)
    x = _chain_same(net, x, net.rng.randrange(1, 4))
    for skip in reversed(skips):
        up = Map(net.op([x.tensor], skip.side * skip.side * x.channels), skip.side, x.channels)
        if net.rng.random() < 0.5:
            up = _conv(net, up, skip.channels)
        x = _join(net, [up, skip], up.channels + skip.channels)
        x = _chain_same(net, _conv(net, x, skip.channels), net.rng.randrange(0, 3))


def _chain_same(net: Net, x: Map, layers: int) -> Map:
    for _ in range(layers):
        x = _conv(net, x, max(4, int(x.channels * net.rng.choice([0.5, 1, 1, 1.25, 2]))))
    return x


def scales(net: Net) -> None:
    """Maps of several sides at once, those of every scale joined with their neighbours; heads read them at the end."""
    x = _conv(net, _image(net), net.rng.choice([8, 16, 24]), 2)
    levels = [x]
    for _ in range(net.rng.randrange(2, 4)):
        levels.append(_conv(net, levels[-1], int(levels[-1].channels * net.rng.choice([1, 1.5, 2])), 2))
    for _ in range(net.rng.randrange(1, 5)):
        levels = [_chain_same(net, v, net.rng.randrange(1, 3)) for v in levels]
        fused = []
        for k, level in enumerate(levels):
            parts = [level]
            for other in levels[max(0, k - 1) : k] + levels[k + 1 : k + 2]:
                parts.append(Map(net.op([other.tensor], level.side**2 * level.channels), level.side, level.channels))
            fused.append(_join(net, parts, level.channels))
        levels = fused
    necks = [_conv(net, level, net.rng.choice([4, 8, 24, 64])) for level in levels]
    heads = [_conv(net, neck, net.rng.choice([2, 6, 12])) for neck in necks]
    net.op([h.tensor for h in heads], 64)


FAMILIES: tuple[Callable[[Net], None], ...] = (chain, residual, branches, unet, scales)


def problem(seed: int) -> list[Block]:
    """The problem of a seed; families take turns."""
    net = Net(random.Random(seed))
    FAMILIES[seed % len(FAMILIES)](net)
    return net.blocks()


def live_set(blocks: list[Block]) -> int:
    """The bytes of the largest live set, each block rounded up to where the next can start."""
    steps = range(max(b.last for b in blocks) + 1)
    return max(sum(-(-b.size // ALIGN) * ALIGN for b in blocks if b.first <= step <= b.last) for step in steps)


def by_size(blocks: list[Block]) -> int:
    """The bytes that first fit needs, largest block first."""
    placed: list[tuple[int, Block]] = []
    for block in sorted(blocks, key=lambda b: (-b.size, b.first)):
        at = 0
        for start, other in sorted(((s, o) for s, o in placed), key=lambda item: item[0]):
            if other.first <= block.last and block.first <= other.last:
                if start - at >= block.size:
                    break
                at = max(at, -(-(start + other.size) // ALIGN) * ALIGN)
        placed.append((at, block))
    return max(at + b.size for at, b in placed)


def problems(count: int, hard: float = 0.5) -> Iterator[tuple[int, bool, list[Block]]]:
    """``count`` problems with their seeds and whether they are hard, at least a share ``hard`` of them; seeds that
    would make the easy ones too many are passed over."""
    easy_left, seed = int(count * (1 - hard)), -1
    while count:
        seed += 1
        blocks = problem(seed)
        is_hard = by_size(blocks) > HARD * live_set(blocks)
        if is_hard or easy_left:
            count -= 1
            easy_left -= not is_hard
            yield seed, is_hard, blocks
