"""Prints how far the estimated cycles of `sdk fit` are from published results of MLPerf Tiny, as it is.

    python benchmarks/fit_error.py [--models FOLDER] [--json]

No board was measured for this, and the published engines run kernels of their own, so an estimate cannot simply be
divided by a published time. Two questions are answered instead:

1. Where do our estimates lie among published results for the same network, core and clock?
2. Do the tables of cycles get the ratio between two cores right? One engine runs nearly the same kernels on a
   Cortex-M4, a Cortex-M33 and a Cortex-M7; what it took there by what it took on the Cortex-M4 is compared with the
   same ratio of our estimates (the table of Cortex-M7 is scaled to their median). Between two chips of one core the
   estimate is the same; what published results differ by there is what the memory does, which no table of
   instructions knows.

The second gives the error that `boards/cpu` states and `sdk fit` prints; exit code 9 when it is larger now.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sdk.boards import load_board
from sdk.cores import timing_for
from sdk.driver import BuildOptions
from sdk.driver.measuring import count

MODELS = {
    "KWS": "kws_ref_model.tflite",
    "VWW": "vww_96_int8.tflite",
    "IC": "pretrainedResnet_quant.tflite",
    "AD": "ad01_int8.tflite",
}
CALIBRATED = "nucleo_l4r5zi"  # every ratio is to this board's
TWINS = ("nucleo_u575zi_q", "nrf5340_dk")  # with nearly the same table: from there the calibrated board is seen too
TOLERANCE = 0.05  # by which a ratio may leave the stated error: kernels change


@dataclass(frozen=True)
class Published:
    """Latencies of one submission in ms, by model, of MLPerf Tiny's closed division."""

    system: str
    round: str
    chip: str
    mhz: float
    ms: tuple[float, float, float, float]  # KWS, VWW, IC, AD
    engine: str = ""  # the same engine elsewhere has the same name; "" compares with none

    def cycles(self, model: str) -> float:
        """Million cycles of a run."""
        return self.ms[list(MODELS).index(model)] * self.mhz / 1e3


REFERENCE = "TFLM, reference kernels"
PUBLISHED = (
    Published(REFERENCE, "v0.5", "STM32L4R5", 120, (181.9, 600.6, 704.2, 10.05)),
    Published("microTVM, native", "v1.0", "STM32L4R5", 120, (144.0, 336.6, 389.3, 11.72)),
    Published("microTVM, CMSIS-NN", "v1.0", "STM32L4R5", 120, (99.8, 301.2, 389.6, 8.60), "microTVM"),
    Published("ONNC, CMSIS-NN", "v1.1", "STM32L4R5", 120, (82.0, 172.2, 298.7, 8.07)),
    Published("X-CUBE-AI 9.0", "v1.2", "STM32L4R5", 120, (43.2, 88.9, 165.1, 5.26), "X-CUBE-AI"),
    Published("Plumerai", "v1.1", "STM32L4R5", 120, (47.8, 98.8, 167.8, 4.05), "Plumerai"),
    Published("HALE", "v1.2", "STM32L4R5", 120, (60.2, 180.5, 180.5, 5.84), "HALE"),
    Published("Plumerai", "v1.1", "PSoC 62", 150, (54.1, 108, 189, 4.46), "Plumerai"),
    Published("HALE", "v1.2", "PSoC 62", 150, (54.2, 155, 162, 4.93), "HALE"),
    Published("X-CUBE-AI 9.0", "v1.2", "STM32U575", 160, (29.1, 59.3, 111.1, 3.43), "X-CUBE-AI"),
    Published("Plumerai", "v1.1", "STM32U575", 160, (30.0, 59.5, 104.3, 3.67), "Plumerai"),
    Published("HALE", "v1.2", "STM32U575", 160, (38.6, 120, 121, 3.09), "HALE"),
    Published("microTVM, CMSIS-NN", "v1.0", "nRF5340", 128, (76.1, 232, 316, 6.27), "microTVM"),
    Published("X-CUBE-AI 9.0", "v1.2", "STM32H7A3", 280, (11.3, 23.8, 40.8, 1.23), "X-CUBE-AI"),
    Published("Plumerai", "v1.1", "STM32H7A3", 280, (13.9, 26.8, 50.9, 1.35), "Plumerai"),
    Published("HALE", "v1.2", "STM32H7A3", 280, (14.7, 43.8, 45.9, 1.08), "HALE"),
    Published("Plumerai", "v1.1", "STM32F746", 216, (17.8, 34.1, 62.9, 1.71), "Plumerai"),
    Published("HALE", "v1.1", "STM32F746", 216, (18.4, 57.2, 61.6, 1.42), "HALE"),
    Published("HALE", "v1.2", "STM32G0B1", 64, (475, 1414, 1522, 40.9)),
)
# Which of our boards has a chip's core; a board of that very chip is not needed, for cycles are those of the core.
SAME_CORE = {
    "STM32L4R5": CALIBRATED,
    "PSoC 62": CALIBRATED,
    "STM32U575": "nucleo_u575zi_q",
    "nRF5340": "nrf5340_dk",
    "STM32H7A3": "nucleo_h743zi",
    "STM32F746": "nucleo_f746zg",
    "STM32G0B1": "rpi_pico",
}


@dataclass(frozen=True)
class Place:
    """A published result beside our estimate: ``best`` and ``reference`` are published million cycles."""

    cpu: str
    model: str
    estimate: float
    best: float
    best_system: str
    reference: float | None


@dataclass(frozen=True)
class Ratio:
    """What an engine's cycles on a chip, by those on the calibrated board, are by the same ratio of our estimates."""

    cpu: str
    chip: str
    engine: str
    model: str
    value: float


def estimates(models: Path) -> dict[tuple[str, str], float]:
    """Estimated million cycles by board and model."""
    found = {}
    for name in sorted(set(SAME_CORE.values())):
        for model, file in MODELS.items():
            cycles = count(models / file, load_board(name), BuildOptions()).est_cycles
            if cycles is None:
                raise SystemExit(f"no table of cycles for the core of {name}")
            found[name, model] = cycles / 1e6
    return found


def places(found: dict[tuple[str, str], float]) -> Iterator[Place]:
    """Each estimate beside the best and the reference published for its core."""
    for cpu, chips in by_core().items():
        for model in MODELS:
            rows = [p for p in PUBLISHED if p.chip in chips]
            best = min(rows, key=lambda p: p.cycles(model))
            plain = next((p.cycles(model) for p in rows if p.system == REFERENCE), None)
            own = found[SAME_CORE[chips[0]], model]
            yield Place(cpu, model, own, best.cycles(model), best.system, plain)


def by_core() -> dict[str, list[str]]:
    """The chips of each core."""
    out: dict[str, list[str]] = {}
    for chip, board in SAME_CORE.items():
        out.setdefault(load_board(board).core.cpu, []).append(chip)
    return out


def ratios(found: dict[tuple[str, str], float]) -> Iterator[Ratio]:
    """One engine on two chips, against our estimates for their cores."""
    reference = {p.engine: p for p in PUBLISHED if p.engine and SAME_CORE[p.chip] == CALIBRATED and p.mhz == 120}
    for row in (p for p in PUBLISHED if p.engine and p is not reference[p.engine]):
        board = SAME_CORE[row.chip]
        for model in MODELS:
            theirs = row.cycles(model) / reference[row.engine].cycles(model)
            ours = found[board, model] / found[CALIBRATED, model]
            value = theirs / ours
            yield Ratio(load_board(board).core.cpu, row.chip, row.system, model, value)
            if board in TWINS:
                yield Ratio(load_board(CALIBRATED).core.cpu, f"seen from {row.chip}", row.system, model, 1 / value)


def errors(rows: list[Ratio]) -> dict[str, tuple[float, float, float]]:
    """(smallest, median, largest) of the ratios by core."""
    out = {}
    for cpu in dict.fromkeys(r.cpu for r in rows):
        values = sorted(r.value for r in rows if r.cpu == cpu)
        out[cpu] = (values[0], statistics.median(values), values[-1])
    return out


def outside(found: dict[str, tuple[float, float, float]]) -> list[str]:
    """Cores whose ratios leave the error that their table states."""
    out = []
    for cpu, (smallest, _, largest) in found.items():
        timing = timing_for(cpu)
        stated = timing.error if timing else None
        if stated is None or smallest < 1 + stated[0] - TOLERANCE or largest > 1 + stated[1] + TOLERANCE:
            out.append(f"{cpu}: {smallest - 1:+.0%}..{largest - 1:+.0%}, its table states {stated}")
    return out


def show(beside: list[Place], between: list[Ratio], wrong: list[str]) -> None:
    """The tables of docs/fit.md."""
    print(table(["core", "million cycles", *MODELS, "median", "worst"], list(beside_rows(beside))))
    rows = []
    for key in dict.fromkeys((r.cpu, r.chip, r.engine) for r in between):
        rows.append([*key, *(f"{r.value:.2f}" for r in between if (r.cpu, r.chip, r.engine) == key)])
    print(table(["core", "chip", "engine", *MODELS], rows))
    for cpu, (smallest, median, largest) in errors(between).items():
        print(f"{cpu}: {smallest - 1:+.0%}..{largest - 1:+.0%}, median {median - 1:+.0%}")
    for line in wrong:
        print(f"missed: {line}")


def beside_rows(beside: list[Place]) -> Iterator[list[str]]:
    """Per core: our estimates, the best published, and what the first are by the second and by the reference."""
    for cpu in dict.fromkeys(p.cpu for p in beside):
        own = [p for p in beside if p.cpu == cpu]
        yield [cpu, "estimated", *(f"{p.estimate:.2f}" for p in own), "", ""]
        yield ["", "best published", *(f"{p.best:.2f} {p.best_system}" for p in own), "", ""]
        yield ["", "estimated / best", *summed([p.estimate / p.best for p in own])]
        plain = [p.estimate / p.reference for p in own if p.reference is not None]
        if plain:
            yield ["", "estimated / reference kernels", *summed(plain)]


def summed(values: list[float]) -> list[str]:
    """The values, their median, and the one furthest from 1."""
    worst = max(values, key=lambda v: max(v, 1 / v))
    return [f"{v:.2f}" for v in (*values, statistics.median(values), worst)]


def table(columns: list[str], rows: list[list[str]]) -> str:
    """Rows as Markdown, numbers on the right."""
    marks = ["---:" if c in (*MODELS, "median", "worst") else "---" for c in columns]
    return "\n".join(f"| {' | '.join(row)} |" for row in [columns, marks, *rows]) + "\n"


def main() -> int:
    """Counts, compares, prints Markdown; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    default = Path(__file__).resolve().parents[2] / "shared" / "models"
    parser.add_argument("--models", type=Path, default=default)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = estimates(args.models)
    beside, between = list(places(found)), list(ratios(found))
    wrong = outside(errors(between))
    if args.json:
        data = {"schema": 1, "places": [vars(p) for p in beside], "ratios": [vars(r) for r in between]}
        print(json.dumps({**data, "errors": errors(between), "missed": wrong}))
    else:
        show(beside, between, wrong)
    return 9 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
