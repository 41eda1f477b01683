"""libFuzzer, with the address and undefined-behaviour sanitizers; what it has learnt is kept for its next run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

__all__ = ["fuzz"]

SECONDS = int(os.environ.get("CROSSLEVEL_FUZZ_S", "600"))


def fuzz(clang: str, target: str, sources: Sequence[Path], include: Path, folder: Path, *flags: str) -> None:
    """Build a target in ``folder`` and let it run for SECONDS, from the inputs that led somewhere new in runs before,
    which are kept below the cache; those of this run are added. What it finds fails; the input is in ``folder``."""
    program = folder / "fuzz"
    corpus = Path(os.environ["CROSSLEVEL_CACHE"]) / "fuzz" / target
    corpus.mkdir(parents=True, exist_ok=True)
    options = ["-std=c99", "-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all", *flags]
    subprocess.run([clang, *options, "-I", str(include), *map(str, sources), "-o", program], check=True)
    limits = [f"-max_total_time={SECONDS}", "-max_len=8192", "-print_final_stats=1"]
    done = subprocess.run([program, *limits, corpus], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert list(corpus.iterdir())
