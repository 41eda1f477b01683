"""Prints how much longer than the roofline of `sdk fit --phones` published runs take, as they are.

    python benchmarks/phone_error.py [--json]

No phone was measured for this. The runs are of ncnn's benchmark in one thread, which its users have sent in over years
(github.com/Tencent/ncnn, benchmark/README.md, July 2026): another engine, with Winograd's transform for 3x3
convolutions, which makes fewer products than the roofline counts, and on cores that have them with floats of 16 bits,
whose peak is twice that of 32. What is compared is how much of a core's peak is reached, by network and chip. It ends
with the least, the median and the most; exit code 9 when those that `sdk fit --phones` prints are others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass

from sdk.boards import Fastest
from sdk.driver.roofline import PUBLISHED, macs_per_second

# million multiply-accumulates at 224x224
FLOATS = {"mobilenet": 569, "mobilenet_v2": 301, "resnet18": 1814, "resnet50": 3858, "googlenet": 1582,
          "efficientnet_b0": 390}  # fmt: skip
INT8 = {"mobilenet": 569, "resnet50": 3858}
DIGITS = 0.01  # to which the figures are stated


@dataclass(frozen=True)
class Published:
    """Least ms of one thread on the fastest core: of the networks of FLOATS and of INT8, in that order."""

    chip: str
    cpu: str
    ghz: float
    pipelines: int
    armv8_2: bool  # it has floats of 16 bits and dot products
    floats: tuple[float, ...]
    int8: tuple[float, ...]

    def ratios(self, kind: str) -> list[float]:
        """Each run by the roofline."""
        core = Fastest(cpu=self.cpu, clock_hz=round(self.ghz * 1e9), pipelines=self.pipelines, memory_bytes_s=1)
        able = frozenset({"dotprod"}) if self.armv8_2 else frozenset[str]()
        rate = macs_per_second(core, able, kind == "float")
        if kind == "float" and self.armv8_2:
            rate *= 2
        networks, runs = (FLOATS, self.floats) if kind == "float" else (INT8, self.int8)
        return [ms / (macs * 1e6 / rate * 1e3) for ms, macs in zip(runs, networks.values(), strict=True)]


RUNS = (
    Published("Raspberry Pi 3 B+", "cortex-a53", 1.4, 1, False, (204.62, 158.69, 379.21, 977.51, 450.64, 240.94),
              (181.34, 890.77)),
    Published("Raspberry Pi Zero 2 W", "cortex-a53", 1.0, 1, False, (393.79, 273.97, 653.62, 1800.97, 780.05, 518.42),
              (286.58, 1311.68)),
    Published("Raspberry Pi 4", "cortex-a72", 1.8, 1, False, (123.76, 92.98, 190.8, 533.15, 235.38, 129.45),
              (84.66, 423.72)),
    Published("Khadas VIM3", "cortex-a73", 2.2, 1, False, (112.69, 81.36, 191.54, 530.38, 229.35, 138.68),
              (66.43, 332.88)),
    Published("RK3568", "cortex-a55", 2.0, 1, True, (79.02, 60.15, 135.33, 358.08, 219.19, 128.56), (130.06, 667.92)),
    Published("Raspberry Pi 5", "cortex-a76", 2.4, 2, True, (20.24, 16.21, 29.54, 89.04, 48.62, 24.12), (14.38, 80.0)),
    Published("Jetson Orin Nano", "cortex-a78ae", 1.5, 2, True, (28.77, 19.32, 48.49, 138.19, 66.85, 36.73),
              (23.29, 112.53)),
    Published("Snapdragon 855+", "cortex-a76", 2.96, 2, True, (14.38, 9.82, 22.02, 65.85, 32.1, 17.67), (11.12, 56.33)),
    Published("Radxa Orion O6", "cortex-a720", 2.6, 2, True, (15.56, 9.67, 21.68, 68.07, 35.36, 18.67), (8.68, 39.99)),
    Published("Snapdragon 8 Gen 2", "cortex-x3", 3.2, 4, True, (15.45, 9.52, 21.88, 53.59, 32.07, 18.84),
              (8.76, 44.39)),
    Published("Dimensity 9300", "cortex-x4", 3.25, 4, True, (9.59, 5.14, 18.1, 39.73, 19.68, 11.53), (4.29, 20.76)),
    Published("Apple M1", "apple-m1", 3.2, 4, True, (9.09, 5.64, 17.16, 43.47, 25.71, 9.13), (4.65, 30.37)),
    Published("Apple M3", "apple-m3", 4.05, 4, True, (6.67, 4.08, 12.6, 34.79, 15.94, 6.67), (3.61, 20.56)),
)  # fmt: skip


def main() -> int:
    """Prints the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    found, off = {}, False
    for kind, networks in (("float", FLOATS), ("int8", INT8)):
        ratios = {run.chip: run.ratios(kind) for run in RUNS}
        every = sorted(ratio for row in ratios.values() for ratio in row)
        spread = every[0], statistics.median(every), every[-1]
        stated = PUBLISHED[kind]
        told = (stated.minimum, stated.median, stated.maximum)
        off |= any(abs(a - b) > DIGITS for a, b in zip(spread, told, strict=True))
        found[kind] = {"runs": ratios, "minimum": spread[0], "median": spread[1], "maximum": spread[2]}
        if not as_json:
            print(f"| {kind} | {' | '.join(networks)} |\n|---|{'---:|' * len(networks)}")
            for chip, row in ratios.items():
                print(f"| {chip} | {' | '.join(f'{ratio:.2f}' for ratio in row)} |")
            print(f"\n{spread[0]:.2f} to {spread[2]:.2f}, the median {spread[1]:.2f}\n")
    if as_json:
        print(json.dumps(found, indent=1))
    return 9 if off else 0


if __name__ == "__main__":
    sys.exit(main())
