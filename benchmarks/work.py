"""Counts what models multiply and keep for it, before and after channels are pruned.

    python benchmarks/work.py MODEL ... [--board nucleo_l4r5zi] [--json]

MACs are nominal: every tap of every channel that the graph holds, also those beyond an image or times zero. Weights,
biases and requantisation tables are bytes of constants in flash; what else is kept (tables of functions) is "other".
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from sdk.boards import Board, load_board
from sdk.compiler.ir.graph import Call, node_args
from sdk.compiler.ir.module import Module
from sdk.compiler.passes.pipeline import run_pipeline
from sdk.compiler.sym import max_value
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, import_model

CONVS: Final = ("conv2d", "conv3d", "depthwise_conv2d")
PRODUCTS: Final = ("dense", "matmul")


@dataclass
class Work:
    """Multiplications of one run, and bytes of constants."""

    conv_macs: int = 0
    other_macs: int = 0
    weights_bytes: int = 0
    bias_bytes: int = 0
    table_bytes: int = 0
    other_bytes: int = 0


def graphs(path: Path, board: Board) -> tuple[Module, Module]:
    """A model as graphs, with all of its channels and without those that can go."""
    options = BuildOptions()
    passes = list(default_passes(board, options))
    names = [p.name for p in passes]
    cut, end = names.index("prune-channels"), names.index("lower")
    module = replace(import_model(path, options, "m"), stage="typed")
    before = run_pipeline(module, passes[:cut])
    return before, run_pipeline(before, passes[cut:end])


def work_of(module: Module) -> Work:
    """What the graphs of a module take, open sizes at their largest; a constant used twice counts once."""
    found = Work()
    kinds: dict[str, str] = {}
    for node in (n for g in module.graphs.values() for n in g.body):
        use = ("other_bytes",) * len(node_args(node))
        if isinstance(node, Call) and node.callee in (*CONVS, *PRODUCTS):
            use = ("other_bytes", "weights_bytes", "bias_bytes")
            each = max_value(node.out.type.size) or 0
            field = "conv_macs" if node.callee in CONVS else "other_macs"
            setattr(found, field, getattr(found, field) + each * _terms(node))
        elif isinstance(node, Call) and node.callee == "requantize":
            use = ("other_bytes", "table_bytes", "table_bytes")
        for value, kind in zip(node_args(node), use, strict=False):
            if value.const:
                kinds.setdefault(value.name, kind)
    for name, kind in kinds.items():
        setattr(found, kind, getattr(found, kind) + module.consts[name].data.nbytes)
    return found


def _terms(node: Call) -> int:
    """Products in one element of the result."""
    weights = node.args[1].type
    size = max_value(weights.size) or 0
    if node.callee == "matmul":
        return max_value(node.args[0].type.shape[-1]) or 0
    channels = weights.shape[-1] if node.callee == "depthwise_conv2d" else weights.shape[0]
    return size // (max_value(channels) or 1)


def main() -> None:
    """Counts and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--board", default="nucleo_l4r5zi")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = {}
    for path in args.models:
        before, after = graphs(path, load_board(args.board))
        rows[path.name] = {"before": asdict(work_of(before)), "after": asdict(work_of(after))}
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("model", "", *(name.replace("_", " ") for name in asdict(Work())))
    for model, pair in rows.items():
        for when, counts in pair.items():
            table.add_row(model if when == "before" else "", when, *(f"{n:,}" for n in counts.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
