"""Times the planning of memory: what it takes to place the buffers of a lowered model, and to verify the plan.

    python benchmarks/planning_time.py [NAME ...] [--json]

Image networks come from tests/zoo (exported with torch, kept in .cache), the decoder from examples/llama with 32 layers
and open sizes. Each is lowered once for this machine, as a build does; then the passes that order the calls and plan,
in `time` mode, and the verifier run on it, the first time in this process. Exit code 9: planning exceeds its budget.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sdk.boards import load_board
from sdk.compiler.ir.module import Module
from sdk.compiler.passes.pipeline import run_pipeline
from sdk.compiler.sym import max_value
from sdk.compiler.verify.plan import check_plan
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes

ROOT = Path(__file__).resolve().parents[1]
BUDGET_S = 2.0  # seconds to plan, of processor time: what else the machine does changes nothing
LAYERS = 32
PLANNING = ("memory-aware-scheduling", "plan-memory")  # the last passes
NETS = {"MobileNetV2": "mobilenetv2", "ResNet-50": "resnet50", f"decoder, {LAYERS} layers": ""}


@dataclass(frozen=True)
class Row:
    """Seconds of processor time to plan and to verify; statements of all entries, and bytes of the largest arena."""

    name: str
    statements: int
    plan: float
    verify: float
    arena: int
    bound: int


def imported(net: str) -> Module:
    """A network of the zoo, or the decoder."""
    if net:
        from zoo.export import path_of

        from sdk.frontends.onnx.importer import import_onnx

        return import_onnx(path_of(net), net, dims={})
    path = ROOT / "examples" / "llama" / "decoder.py"
    spec = importlib.util.spec_from_file_location("llama_decoder", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script  # dataclasses look their module up
    spec.loader.exec_module(script)
    module: Module = script.build(script.Config(layers=LAYERS))
    return module


def measure(name: str, net: str) -> Row:
    """Lowers a model, then times what follows."""
    passes = default_passes(load_board("host"), BuildOptions())
    first = next(k for k, p in enumerate(passes) if p.name in PLANNING)
    lowered = run_pipeline(imported(net), passes[:first])
    start = time.process_time()
    module = run_pipeline(lowered, passes[first:])
    planned = time.process_time()
    for plan in module.plans.values():
        check_plan(module, plan)
    verified = time.process_time()
    arenas = [r.bytes for plan in module.plans.values() for r in plan.regions if r.kind == "arena"]
    statements = sum(len(plan.body) for plan in module.plans.values())
    bound = max(plan.lower_bound for plan in module.plans.values())
    largest = max(max_value(size) or 0 for size in arenas)
    return Row(name, statements, planned - start, verified - planned, largest, bound)


def show(rows: list[Row]) -> None:
    """The table for a person."""
    table = Table(title=f"seconds of processor time; planning at most {BUDGET_S:g}")
    for column in ("model", "statements", "plan", "verify", "arena", "lower bound"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for r in rows:
        table.add_row(r.name, f"{r.statements:,}", f"{r.plan:.2f}", f"{r.verify:.2f}", f"{r.arena:,}", f"{r.bound:,}")
    Console().print(table)


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", choices=[[], *NETS], metavar="NAME", help=", ".join(NETS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    rows = [measure(name, NETS[name]) for name in args.names or NETS]
    missed = [f"{r.name}: planning took {r.plan:.2f} s, budget {BUDGET_S:g}" for r in rows if r.plan > BUDGET_S]
    if args.json:
        print(json.dumps({"schema": 1, "rows": [asdict(r) for r in rows], "missed": missed}))
    else:
        show(rows)
        for line in missed:
            print(f"missed: {line}")
    return 9 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
