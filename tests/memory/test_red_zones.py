"""Generated C touches no byte outside the buffers of the operation that runs, at any dims."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import numpy as np
import pytest
import red_zones
from plan_bytes import llama, points, stacked

from sdk.boards import load_board
from sdk.compiler.ir.module import Module
from sdk.compiler.sym import Var
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.frontends.onnx.importer import import_onnx

sys.path.insert(0, str(Path(__file__).parents[1]))

THREADS = 2
INSTANCE = 16  # runs of one instance of a model with states, at the most
SOME, MANY = 300, 5000  # runs of each model
WRONG = 10  # tables with a byte less


def lowered(name: str) -> Module:
    if name == "decoder":
        module = llama().build()
    else:
        pytest.importorskip("torch")
        from zoo.export import path_of

        module = import_onnx(path_of("encoder_small"), name, dims={"batch": (1, 4), "seq": (1, 64)})
    return lower_module(module, default_passes(load_board("host"), BuildOptions(threads=THREADS, isa=red_zones.ISA)))


VALUES = {"encoder": {"main": (1000, 2)}, "decoder": {"prefill": (96,), "decode": (96,)}}


def schedule(module: Module, rng: Random, count: int) -> Iterator[tuple[str, bool, dict[Var, int]]]:
    """Entries with dims, in the order of runs: each instance of a decoder is prefilled, then decodes."""
    done = 0
    while done < count:
        held: dict[Var, int] = {}
        entries = ["prefill"] + ["decode"] * rng.randrange(INSTANCE) if "decode" in module.plans else list(module.plans)
        for k, name in enumerate(entries):
            plan = module.plans[name]
            env = red_zones.dims_of(plan, rng, held)
            held |= {v: n for v, n in env.items() if v.name == "cap"}
            yield name, k == 0, {v: env[v] for v in plan.dims}
            done += 1


def stream_of(module: Module, entries: Mapping[str, red_zones.Entry], count: int) -> list[np.ndarray]:
    runs = list(schedule(module, Random(11), count))
    stream: list[np.ndarray] = [np.zeros(0, np.int32)] * len(runs)
    for number, (key, entry) in enumerate(entries.items()):
        own = [k for k, (n, _, _) in enumerate(runs) if n == key]
        envs = [runs[k][2] for k in own]
        align = entry.plan.region("arena").align
        tables = red_zones.cases(entry, envs, stacked(entry.plan, points(envs), align))
        init = [v for v in entry.plan.dims if v.name == "cap"]
        order = [*init, *(v for v in entry.plan.dims if v not in init)]
        for k, env, table in zip(own, envs, tables, strict=True):
            dims = [env[v] for v in order]
            head = [number, runs[k][1], len(dims), *dims, 2 * entry.first, len(table) - 1]
            stream[k] = np.concatenate([np.array(head, np.int32), table])
    return stream


def without_a_byte(entry: red_zones.Entry, run: np.ndarray, rng: Random) -> np.ndarray:
    """A run whose table lacks the last byte of a result of an operation."""
    out = run.copy()
    out[3 + run[2] + 2 + rng.choice(entry.written())] -= 1
    return out


def finished(found: subprocess.CompletedProcess[str], count: int) -> bool:
    assert found.returncode == 0, found.stdout[-500:] + found.stderr[:4000]
    return int(found.stdout.split()[0]) >= count


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_a_few_runs(tmp_path: Path, name: str) -> None:
    module = lowered(name)
    entries = red_zones.build(module, "net", tmp_path, VALUES[name])
    stream = stream_of(module, entries, SOME)
    assert finished(red_zones.run(tmp_path, stream), SOME)
    rng = Random(5)
    for _ in range(WRONG):
        found = red_zones.run(tmp_path, [without_a_byte(next(iter(entries.values())), stream[0], rng)])
        assert "ERROR: AddressSanitizer" in found.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_ten_thousand_runs(tmp_path: Path, name: str) -> None:
    module = lowered(name)
    entries = red_zones.build(module, "net", tmp_path, VALUES[name])
    assert finished(red_zones.run(tmp_path, stream_of(module, entries, MANY)), MANY)
