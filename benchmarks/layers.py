"""Counts layers of all sizes that nobody tuned for, and shows those that take far more than layers beside them.

    python benchmarks/layers.py [--board NAME]... [--only FAMILY] [--all] [--json | --markdown]

A family is a kind of layer with one or two of its sizes swept: widths, channels, kernels, strides, dilations,
multipliers. Each layer is a network of its own operator; many are compiled to one image, and what each executes is
counted on the emulated target of the board. A layer's number is its instructions for a multiply-accumulate (those in
the padding are counted), of a pool for an element of a window. Its neighbours are those that differ in one size, by one
place in the list of sizes; "cliff" is the largest ratio of such numbers to the best of them. "whole" compares all that
a layer executes to the larger ones among them: what takes more had better be padded to their size. Exit code 9 when a
limit is missed, that of "whole" too. The layers of a board take three minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from random_layers import Parts
from rich.console import Console
from rich.table import Table

from sdk.boards import Board, load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall, walk_plan
from sdk.compiler.memory.effects import Effects
from sdk.compiler.passes.memory_aware_scheduling import MemoryAwareScheduling
from sdk.compiler.passes.merge_functions import MergeFunctions
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.devices.client import Session
from sdk.driver import BuildOptions
from sdk.driver.agents import link_agent
from sdk.driver.counting import PHASE_OP, counted
from sdk.driver.pipeline import default_passes, lower_module
from sdk.driver.sources import Sources, as_files
from sdk.graph import ModuleBuilder

BOARDS = ("rpi_pico", "qemu-cortex-m4", "qemu-cortex-m7", "qemu-cortex-m55", "qemu-riscv32")
CHANNELS = (1, 2, 3, 4, 5, 6, 7, 8, 17, 20, 24, 40, 48, 65, 72, 96)
WIDTHS = (*range(5, 17), 20, 28, 40, 56, 112)
TALLEST = 12  # rows of a map: what is swept is their width
TOGETHER = 24  # layers in an image, of so many bytes in and out
TOGETHER_BYTES = 120_000
MAX_SENT_BYTES = 1024  # bytes of an input that are not 0: what is sent to a machine is slow to count
PREFIX = "net"
WHOLE = 1.5  # limit of what a layer executes, relative to the next larger one

Pair = tuple[int, int]


@dataclass(frozen=True)
class Layer:
    """A layer of one operator; a depthwise one has ``outputs`` for each channel, a pool none of its own."""

    family: str
    kind: str  # "depthwise", "conv", "average", "max"
    width: int = 12
    channels: int = 8
    outputs: int = 1
    kernel: Pair = (3, 3)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    rows: int = TALLEST

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of its input."""
        return 1, min(self.rows, self.width), self.width, self.channels

    @property
    def pad(self) -> Pair:
        """Above and to the left; as much is below and to the right."""
        down, across = ((k - 1) * d // 2 for k, d in zip(self.kernel, self.dilation, strict=True))
        return (0, 0) if self.pools else (down, across)

    @property
    def pools(self) -> bool:
        """Whether it has no weights."""
        return self.kind in ("average", "max")

    @property
    def made(self) -> int:
        """Elements of its output."""
        sizes = zip(self.shape[1:3], self.pad, self.kernel, self.dilation, self.stride, strict=True)
        down, across = ((n + 2 * p - (k - 1) * d - 1) // s + 1 for n, p, k, d, s in sizes)
        return down * across * (self.outputs if self.kind == "conv" else self.outputs * self.channels)

    @property
    def macs(self) -> int:
        """Multiply-accumulates; of a pool the elements of all windows."""
        return self.made * self.kernel[0] * self.kernel[1] * (self.channels if self.kind == "conv" else 1)

    @property
    def nbytes(self) -> int:
        """Of input and output."""
        return int(np.prod(self.shape)) + self.made

    def __str__(self) -> str:
        """Its sizes, those that are usual left out."""
        words = [self.kind, "x".join(map(str, self.kernel)), f"width {self.width}"]
        words.append(f"{self.channels} to {self.outputs}" if self.kind == "conv" else f"C={self.channels}")
        words += [f"m={self.outputs}"] if self.kind == "depthwise" and self.outputs > 1 else []
        words += [f"stride {self.stride[0]},{self.stride[1]}"] if self.stride != (1, 1) else []
        words += [f"dilation {self.dilation[0]},{self.dilation[1]}"] if self.dilation != (1, 1) else []
        return " ".join(words)


# Instructions for a multiply-accumulate: core (its CPU's name) -> family -> limit
LIMITS: dict[str, dict[str, float]] = {
    "cortex-m4": {
        "depthwise 3x3": 3.0,
        "depthwise, other kernels": 4.0,
        "depthwise, dilated": 4.0,
        "depthwise, multiplier": 4.0,
        "pointwise, K of 1 to 3": 6.0,
        "pointwise": 3.0,
        "convolution": 2.5,
        "convolution, 1-D": 2.5,
    }
}


def layers() -> Iterator[Layer]:
    """All that are swept."""
    yield from _depthwise()
    yield from _products()
    for kind in ("average", "max"):
        pool = Layer(f"{kind} pool", kind, kernel=(2, 2), stride=(2, 2))
        yield from _swept(pool, width=WIDTHS)
        yield from _swept(pool, channels=CHANNELS)
        yield from _swept(replace(pool, kernel=(3, 3), stride=(1, 1)), width=(5, 8, 14), channels=(3, 8, 17))
        yield from (Layer(f"{kind} pool", kind, n, 48, kernel=(n, n)) for n in (5, 7, 12))


def _depthwise() -> Iterator[Layer]:
    plain = Layer("depthwise 3x3", "depthwise")
    yield from _swept(plain, width=WIDTHS)
    yield from _swept(plain, channels=CHANNELS)
    yield from _swept(plain, width=WIDTHS, stride=((2, 2),))
    yield from _swept(plain, width=(7, 14, 28), stride=((3, 3), (1, 2), (2, 1)))
    other = replace(plain, family="depthwise, other kernels")
    kernels = ((5, 5), (7, 7), (1, 3), (3, 1), (1, 5), (5, 1), (1, 7), (7, 1), (1, 1))
    yield from _swept(other, kernel=kernels, width=(5, 8, 14, 20), stride=((1, 1), (2, 2)))
    dilated = replace(plain, family="depthwise, dilated")
    yield from _swept(dilated, dilation=((2, 2), (4, 4), (1, 2), (2, 1)), width=(5, 7, 9, 12, 14, 16, 20, 28))
    yield from _swept(dilated, dilation=((2, 2),), channels=(1, 3, 17))
    several = replace(plain, family="depthwise, multiplier")
    yield from _swept(several, outputs=(2, 3, 4), width=(5, 7, 9, 12, 14, 16, 20, 28))
    yield from _swept(several, outputs=(2, 3, 4), channels=(1, 2, 3, 4, 5, 17))
    yield from _swept(several, outputs=(8, 16), channels=(1,), width=(12, 20))
    yield from _swept(several, outputs=(2, 4), width=(7, 14), stride=((2, 2),))
    yield from _swept(several, outputs=(2,), width=(7, 14), kernel=((1, 3), (3, 1), (5, 5)))


def _products() -> Iterator[Layer]:
    point = Layer("pointwise", "conv", kernel=(1, 1), outputs=24)
    few = replace(point, family="pointwise, K of 1 to 3")
    yield from _swept(few, channels=(1, 2, 3), outputs=(1, 2, 3, 4, 7, 8, 17, 24, 96))
    yield from _swept(few, channels=(1, 2, 3), width=(5, 7, 11, 13, 14, 28))
    yield from _swept(few, channels=(1, 2, 3), width=(9, 14), stride=((2, 2),))
    yield from _swept(point, channels=CHANNELS[3:])
    yield from _swept(point, channels=(4, 5, 8, 16, 17, 65), outputs=CHANNELS)
    yield from _swept(point, channels=(4, 7, 17), width=WIDTHS)
    yield from _swept(point, channels=(4, 7, 24), width=(7, 14), stride=((2, 2),))
    conv = Layer("convolution", "conv", outputs=8)
    yield from _swept(conv, channels=CHANNELS[:12])
    yield from _swept(conv, channels=(1, 3, 4, 8), outputs=(1, 2, 3, 4, 5, 7, 8, 17))
    yield from _swept(conv, channels=(1, 3, 4), width=WIDTHS)
    yield from _swept(conv, channels=(1, 3, 5, 8), stride=((2, 2), (3, 3), (1, 2)), width=(7, 14))
    yield from _swept(conv, channels=(1, 3, 5, 8), dilation=((2, 2), (1, 2)), width=(7, 14))
    yield from _swept(conv, channels=(1, 3, 5, 8), kernel=((5, 5), (7, 7)), width=(7, 14))
    line = replace(conv, family="convolution, 1-D")
    yield from _swept(line, channels=(1, 2, 3, 4, 7, 8, 17), kernel=((1, 3), (3, 1), (1, 5), (1, 7)), width=(14,))
    yield from _swept(line, channels=(1, 2, 3, 5, 8), kernel=((5, 1), (7, 1)), width=(7, 14))
    yield from _swept(line, channels=(3, 8, 17), kernel=((1, 3), (3, 1)), outputs=(1, 2, 4), width=(7, 14))
    one = replace(line, rows=1, kernel=(1, 3))
    yield from _swept(one, channels=(1, 3, 4, 8, 17), width=(20, 56, 112))
    yield from _swept(one, channels=(1, 4, 8), width=(112,), stride=((1, 2),))
    yield from _swept(one, channels=(1, 4, 8), width=(112,), dilation=((1, 2), (1, 4)))


def _swept(layer: Layer, **sizes: Sequence[Any]) -> Iterator[Layer]:
    """The layer in all combinations of these sizes."""
    if not sizes:
        yield layer
        return
    (name, values), *rest = sizes.items()
    for value in values:
        yield from _swept(replace(layer, **{name: value}), **dict(rest))


def main() -> int:
    """Counts and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--board", action="append")
    parser.add_argument("--only", default="", help="families with this in their name")
    parser.add_argument("--all", action="store_true", help="show every layer")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true", help="the table of docs/speed.md")
    args = parser.parse_args()
    wanted = [layer for layer in dict.fromkeys(layers()) if args.only in layer.family]
    rows = []
    for name in args.board or BOARDS:
        board = load_board(name)
        rows += summary(board, measured(board, wanted), args.all)
    if args.json:
        print(json.dumps({"schema": 1, "rows": rows}))
    elif args.markdown:
        print("\n".join(markdown(rows)))
    else:
        show(rows)
    return 9 if any(row["missed"] for row in rows) else 0


def measured(board: Board, wanted: Sequence[Layer]) -> dict[Layer, float]:
    """Instructions of each layer, for a multiply-accumulate."""
    found: dict[Layer, float] = {}
    for part in _parts(wanted):
        for k, instructions in _counted(board, _net(part)).items():
            found[part[k]] = instructions / part[k].macs
    return found


def _parts(wanted: Sequence[Layer]) -> Iterator[list[Layer]]:
    """Layers that are compiled together."""
    part: list[Layer] = []
    for layer in wanted:
        if part and (len(part) == TOGETHER or sum(x.nbytes for x in part) + layer.nbytes > TOGETHER_BYTES):
            yield part
            part = []
        part.append(layer)
    if part:
        yield part


def _net(part: Sequence[Layer]) -> Module:
    """Layers beside each other, number k from an input ``x_k`` to an output ``y_k``."""
    builder = ModuleBuilder("net")
    entry = builder.entry("main")
    for k, layer in enumerate(part):
        parts = Parts(builder, entry, np.random.default_rng(k), f"_{k}")
        entry.output(f"y_{k}", _built(layer, parts))
    return builder.module()


def _built(layer: Layer, parts: Parts) -> Any:
    """The layer with random weights, its sums brought to int8."""
    x, entry = parts.input(*layer.shape), parts.entry
    if layer.pools:
        pool = entry.avg_pool2d if layer.kind == "average" else entry.max_pool2d
        return pool(x, kernel=layer.kernel, stride=layer.stride, pad=(0, 0, 0, 0))
    down, across = layer.pad
    window: dict[str, Any] = {"stride": layer.stride, "dilation": layer.dilation, "pad_value": -128, "x_offset": 128}
    window["pad"] = (down, across, down, across)
    outputs = layer.outputs if layer.kind == "conv" else layer.channels * layer.outputs
    bias = parts.const("b", parts.rng.integers(-999, 999, outputs), np.int32)
    if layer.kind == "conv":
        weights = parts.weights(outputs, *layer.kernel, layer.channels)
        return parts.requantized(entry.conv2d(x, weights, bias, groups=1, **window), outputs)
    weights = parts.weights(*layer.kernel, outputs)
    acc = entry.depthwise_conv2d(x, weights, bias, multiplier=layer.outputs, **window)
    return parts.requantized(acc, outputs)


def _counted(board: Board, module: Module) -> dict[int, int]:
    """What each layer of a net executes, by its number."""
    slow = MemoryAwareScheduling | MergeFunctions  # and layers that shared a kernel would not count as they do alone
    passes = [p for p in default_passes(board, BuildOptions()) if not isinstance(p, slow)]
    passes = [replace(p, share=False) if isinstance(p, ScheduleLoops) else p for p in passes]
    planned = lower_module(module, passes)
    choice = EmitOptions(source=PREFIX, board=board.name)
    emitted = get_backend("c99").emit(planned, PREFIX, isa=board.capabilities, options=choice)
    sources = Sources(PREFIX, "c99", as_files(emitted.files), as_files(emitted.agent))
    (plan,) = planned.plans.values()
    calls = [s for s in walk_plan(plan.body) if isinstance(s, PlanCall)]
    clocks = 1 + max(call.index for call in calls)
    counts = counted(board, link_agent(sources, board, BuildOptions(), clocks), clocks, _run)[1]
    effects = Effects(planned, plan)
    of: dict[str, int] = {}  # values by the layer that they belong to: a layer may take several calls
    total: dict[int, int] = {}
    for call in calls:
        names = [name for name, _ in effects.arguments(call)]
        inputs = (int(name[2:]) for name in names if name.startswith("x_"))
        number = next(inputs, None)
        if number is None:
            number = next(of[name] for name in names if name in of)
        of.update((name, number) for name, mode in effects.arguments(call) if mode != "read")
        total[number] = total.get(number, 0) + counts[PHASE_OP + call.index].instructions
    return total


def _run(session: Session) -> None:
    rng = np.random.default_rng(0)
    for k, tensor in enumerate(session.models()[0].inputs):
        session.write(0, k, rng.bytes(min(tensor.nbytes, MAX_SENT_BYTES)))
    session.run(0, dims=[])


def cliffs(found: dict[Layer, float]) -> dict[Layer, float]:
    """Each layer's number by that of the best of its neighbours in size; 1 where it has none."""
    beside = _neighbours(found)
    return {x: value / min((found[n] for n in beside[x]), default=value) for x, value in found.items()}


def wholes(found: dict[Layer, float]) -> dict[Layer, float]:
    """What each layer executes by what the least of its larger neighbours does; 0 where it has none."""
    executed = {layer: value * layer.macs for layer, value in found.items()}
    out = {}
    for layer, beside in _neighbours(found).items():
        larger = [executed[n] for n in beside if n.macs > layer.macs]
        out[layer] = executed[layer] / min(larger) if larger else 0.0
    return out


def _neighbours(found: dict[Layer, float]) -> dict[Layer, list[Layer]]:
    sizes = {name: sorted({getattr(layer, name) for layer in found}) for name in ("width", "channels", "outputs")}
    out: dict[Layer, list[Layer]] = {}
    for layer in found:
        out[layer] = []
        for name, values in sizes.items():
            same = [n for n in values if replace(layer, **{name: n}) in found]
            at = same.index(getattr(layer, name))
            out[layer] += [replace(layer, **{name: n}) for n in (*same[max(at - 1, 0) : at], *same[at + 1 : at + 2])]
    return out


def summary(board: Board, found: dict[Layer, float], all_layers: bool) -> list[dict[str, Any]]:
    """A row for each family; with ``all_layers`` one for each layer before it."""
    rows: list[dict[str, Any]] = []
    ratios, all_of = cliffs(found), wholes(found)
    for family in dict.fromkeys(layer.family for layer in found):
        mine = {layer: value for layer, value in found.items() if layer.family == family}
        limit = LIMITS.get(board.core.cpu, {}).get(family)
        above = sum((limit is not None and mine[x] > limit) or all_of[x] > WHOLE for x in mine)
        worst, steepest, longest = (max(mine, key=lambda x, of=of: of[x]) for of in (mine, ratios, all_of))
        if all_layers:
            each = sorted(mine, key=lambda x: -mine[x])
            rows += [_row(board, family, [mine[x]], x, (ratios[x], ""), (all_of[x], ""), None, 0) for x in each]
        cliff, whole = (ratios[steepest], str(steepest)), (all_of[longest], str(longest))
        rows.append(_row(board, family, list(mine.values()), worst, cliff, whole, limit, above))
    return rows


def _row(
    board: Board, family: str, values: Sequence[float], worst: Layer, cliff: tuple[float, str],
    whole: tuple[float, str], limit: float | None, missed: int,
) -> dict[str, Any]:  # fmt: skip
    return {
        "board": board.name, "family": family, "layers": len(values), "median": round(statistics.median(values), 2),
        "worst": round(max(values), 2), "worst layer": str(worst), "cliff": round(cliff[0], 2), "at": cliff[1],
        "whole": round(whole[0], 2), "whole at": whole[1], "limit": limit, "missed": missed,
    }  # fmt: skip


def markdown(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A line for each family, a column for each board: median, worst layer, largest ratios."""
    boards = list(dict.fromkeys(row["board"] for row in rows))
    yield " | ".join(["| family | layers", *(load_board(name).core.cpu for name in boards)]) + " |"
    yield "|---|---:|" + "---:|" * len(boards)
    for family in dict.fromkeys(row["family"] for row in rows):
        mine = [row for row in rows if row["family"] == family]
        cells = [f"{row['median']:.2f} / {row['worst']:.1f} / {row['cliff']:.1f} / {row['whole']:.1f}" for row in mine]
        yield " | ".join([f"| {family}", str(mine[0]["layers"]), *cells]) + " |"


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The tables for people, one a board."""
    for board in dict.fromkeys(row["board"] for row in rows):
        names = [name for name in rows[0] if name != "board"]
        table = Table(*names, title=board)
        for row in (row for row in rows if row["board"] == board):
            table.add_row(*("" if row[name] is None else str(row[name]) for name in names))
        Console(width=200).print(table)


if __name__ == "__main__":
    sys.exit(main())
