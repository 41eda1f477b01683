"""How far two measurements of one build in turns are apart, of real builds on this machine: ``python
benchmarks/interleaved.py [--times N] [MODEL ...]``. Exit code 9 where the medians of 31 blocks differ by over 2 %."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sdk.boards import load_board
from sdk.driver.measuring import bench_pair
from sdk.driver.options import BuildOptions
from sdk.errors import RegressionError

MODEL = Path(__file__).resolve().parent.parent / "examples" / "digits" / "digits_int8.tflite"
LIMIT = 0.02


def main() -> int:
    """Measures each model several times, and prints how far its two sides are apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path, default=[MODEL])
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    worst = 0.0
    for model in arguments.models:
        for _ in range(arguments.times):
            found = bench_pair((model, model), load_board("host"), None, BuildOptions(), {})
            worst = max(worst, abs(found.change))
            low, high = found.interval or (0.0, 0.0)
            print(f"{model.name}: {100 * found.change:+.2f} % ({100 * low:+.2f} to {100 * high:+.2f} %)", flush=True)
    print(f"at most {100 * worst:.2f} %, the limit is {100 * LIMIT:g} %")
    return RegressionError.exit_code if worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
