"""``python -m tests.generate --seed 7 --kind int8 --out model.tflite``: writes a network and prints its layers."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import KINDS, generate


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.generate", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, default="int8")
    parser.add_argument("--out", type=Path, help="the file; by default nothing is written")
    given = parser.parse_args()
    network = generate(given.seed, given.kind)
    print(network.text())
    if given.out is not None:
        if given.out.suffix != network.suffix:
            parser.error(f"a network of kind {given.kind} is a {network.suffix} file")
        given.out.write_bytes(network.data())


if __name__ == "__main__":
    main()
