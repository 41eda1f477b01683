"""Counts the layers of whole networks, and shows what sharing kernels costs each.

    python benchmarks/networks.py [--models FOLDER] [--generated 4] [--board NAME] [--layers] [--json]

Each network is compiled as `sdk build` does, where layers that are alike share a kernel, and once more with a kernel
for each layer, which is what the layer takes as a network of its own. The instructions of every layer are counted on
the emulated target of the board. The networks are the models of the folder and generated ones: random chains of
depthwise and pointwise layers with strides, and layers of any sizes beside each other (`random_layers.py`). A line has
what the network executes with shared kernels by what it does without, the same for the layer that loses most, and the
bytes of kernels. Exit code 9 when a layer takes more than LIMIT times what it takes alone; of layers below
MIN_INSTRUCTIONS the call itself is too much.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from budgets import MODELS
from random_layers import Parts
from random_layers import net as layers_beside
from rich.console import Console
from rich.table import Table

from sdk.boards import Board, load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall, walk_plan
from sdk.compiler.passes.merge_functions import MergeFunctions
from sdk.devices.client import Session
from sdk.driver import BuildOptions
from sdk.driver.agents import link_agent
from sdk.driver.counting import PHASE_OP, counted
from sdk.driver.job import job_of
from sdk.driver.pipeline import default_passes, imported, lower_module
from sdk.driver.sources import Sources, as_files
from sdk.graph import ModuleBuilder
from sdk.toolchains.elf import ElfFile

LIMIT = 1.15
MIN_INSTRUCTIONS = 1_000
NAMES = ("KWS", "VWW", "IC", "AD", "person_detect")
PREFIX = "net"
BESIDE = 12  # random layers of a network


@dataclass(frozen=True)
class Layer:
    """A call of a plan: the function that it would have alone, what it executes with shared kernels and without, and
    how many layers its kernel is shared by."""

    name: str
    shared: int
    alone: int
    sharers: int

    @property
    def ratio(self) -> float:
        """Instructions by those of the layer alone."""
        return self.shared / self.alone


@dataclass(frozen=True)
class Network:
    """A network's layers, its kernels, and the bytes of code of each of the two."""

    name: str
    layers: tuple[Layer, ...]
    kernels: tuple[int, int]
    code: tuple[int, int]

    @property
    def worst(self) -> Layer:
        """The layer that loses most by sharing."""
        return max((la for la in self.layers if la.alone >= MIN_INSTRUCTIONS), key=lambda la: la.ratio)

    @property
    def ratio(self) -> float:
        """Instructions of all layers by those without shared kernels."""
        return sum(la.shared for la in self.layers) / sum(la.alone for la in self.layers)


def main() -> int:
    """Counts and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--generated", type=int, default=4, help="networks of each generated kind")
    parser.add_argument("--board", default="nucleo_l4r5zi")
    parser.add_argument("--layers", action="store_true", help="every layer, not only the worst")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    board = load_board(args.board)
    networks = [measured(name, module, board) for name, module in modules(args.models, args.generated, board)]
    missed = [net for net in networks if net.worst.ratio > LIMIT]
    if args.json:
        print(json.dumps({"schema": 1, "networks": [row(net) for net in networks]}))
    else:
        show(networks, args.layers)
    for net in missed:
        print(f"missed: {net.name}: {net.worst.name} takes {net.worst.ratio:.3f} times itself alone", file=sys.stderr)
    return 9 if missed else 0


def modules(models: Path | None, generated: int, board: Board) -> Iterator[tuple[str, Module]]:
    """The networks with their names."""
    for name in NAMES if models else ():
        assert models is not None
        yield name, imported(job_of(models / MODELS[name], board, BuildOptions()))
    for seed in range(generated):
        yield f"depthwise separable {seed}", replace(separable(seed), stage="typed")
    for seed in range(generated):
        layers = range(100 + BESIDE * seed, 100 + BESIDE * (seed + 1))
        yield f"random layers {seed}", replace(layers_beside(layers), stage="typed")


def separable(seed: int) -> Module:
    """A chain of depthwise 3x3 and pointwise layers as in MobileNet: sides and channels drawn, every third block or so
    of stride 2 and of twice the channels."""
    rng = np.random.default_rng(seed)
    builder = ModuleBuilder("net")
    entry = builder.entry("main")
    side, channels = int(rng.integers(12, 25)), int(rng.choice([8, 12, 16, 20, 24]))
    parts = Parts(builder, entry, rng, "")
    x: Any = parts.input(1, side, side, channels)
    for k in range(int(rng.integers(5, 9))):
        stride = 2 if side > 3 and rng.random() < 0.4 else 1
        wider = min(channels * stride, 160)
        part = Parts(builder, entry, rng, f"_d{k}")
        acc = entry.depthwise_conv2d(
            x, part.weights(3, 3, channels), bias(part, channels), multiplier=1, **window(stride, 1)
        )
        x, part = part.requantized(acc, channels), Parts(builder, entry, rng, f"_p{k}")
        acc = entry.conv2d(x, part.weights(wider, 1, 1, channels), bias(part, wider), groups=1, **window(1, 0))
        x, side, channels = part.requantized(acc, wider), -(-side // stride), wider
    entry.output("y", x)
    return builder.module()


def bias(part: Parts, channels: int) -> Any:
    """A random bias."""
    return part.const("b", part.rng.integers(-999, 999, channels), np.int32)


def window(stride: int, pad: int) -> dict[str, Any]:
    """The attributes of a convolution."""
    return {"stride": (stride,) * 2, "dilation": (1, 1), "pad": (pad,) * 4, "pad_value": -128, "x_offset": 128}


def measured(name: str, module: Module, board: Board) -> Network:
    """A network with shared kernels and without."""
    passes = default_passes(board, BuildOptions())
    shared = lower_module(module, passes)
    alone = lower_module(module, [p for p in passes if not isinstance(p, MergeFunctions)])
    (with_shared, less), (without, more) = executed(shared, board), executed(alone, board)
    calls = list(zip(calls_of(shared), calls_of(alone), strict=True))
    sharers = [len({b.callee for a, b in calls if a.callee == one.callee}) for one, _ in calls]
    layers = tuple(
        Layer(own.callee, with_shared[one.index], without[own.index], count)
        for (one, own), count in zip(calls, sharers, strict=True)
    )
    return Network(name, layers, (len(shared.loops), len(alone.loops)), (less, more))


def calls_of(planned: Module) -> list[PlanCall]:
    """The calls of the only plan."""
    (plan,) = planned.plans.values()
    return [s for s in walk_plan(plan.body) if isinstance(s, PlanCall)]


def executed(planned: Module, board: Board) -> tuple[dict[int, int], int]:
    """Instructions of each call by its number, and the bytes of the kernels."""
    choice = EmitOptions(source=PREFIX, board=board.name, small=not board.hosted)
    emitted = get_backend("c99").emit(planned, PREFIX, isa=board.capabilities, options=choice)
    sources = Sources(PREFIX, "c99", as_files(emitted.files), as_files(emitted.agent))
    clocks = 1 + max(call.index for call in calls_of(planned))
    agent = link_agent(sources, board, BuildOptions(), clocks)
    found = counted(board, agent, clocks, run)[1]
    code = sum({s.value: s.size for s in ElfFile(agent).symbols if s.name.startswith(f"{PREFIX}_op_")}.values())
    return {call.index: found[PHASE_OP + call.index].instructions for call in calls_of(planned)}, code


def run(session: Session) -> None:
    """One run on random bytes."""
    rng = np.random.default_rng(0)
    for k, tensor in enumerate(session.models()[0].inputs):
        session.write(0, k, rng.bytes(tensor.nbytes))
    session.run(0, dims=[])


def row(net: Network) -> dict[str, Any]:
    """A network as JSON."""
    layers = [{"layer": la.name, "shared": la.shared, "alone": la.alone, "sharers": la.sharers} for la in net.layers]
    return {"name": net.name, "ratio": net.ratio, "kernels": net.kernels, "code": net.code, "layers": layers}


def show(networks: list[Network], every: bool) -> None:
    """The tables for people."""
    console, table = Console(), Table("network", "layers", "kernels", "bytes", "all", "worst", "which")
    for net in networks:
        shared, alone = net.kernels
        numbers = (f"{shared} of {alone}", f"{net.code[0]:,} of {net.code[1]:,}")
        worst = net.worst
        which = f"{worst.name}, {worst.alone:,}" if worst.ratio > 1.005 else ""
        table.add_row(net.name, str(len(net.layers)), *numbers, f"{net.ratio:.3f}", f"{worst.ratio:.2f}", which)
    console.print(table)
    for net in networks if every else ():
        table = Table("layer", "shared by", "instructions", "alone", "ratio", title=net.name)
        for la in net.layers:
            table.add_row(la.name, str(la.sharers), f"{la.shared:,}", f"{la.alone:,}", f"{la.ratio:.3f}")
        console.print(table)


if __name__ == "__main__":
    sys.exit(main())
