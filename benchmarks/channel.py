"""Prints how fast programs go to an agent on this machine, checked twice over, and how long a message to one takes
there and back: for the agent in Python and the one in C, with a key and without.

    python benchmarks/channel.py [--megabytes 64] [--repeat 5] [--folder DIR] [--json]

An upload counts from the request until the agent says that the whole has the right hash; each piece has a tag too.
Beside the median stands the best of several, since other work on the machine only makes it slower, and the processor
time that each side took for a hundred megabytes, which it changes less. Uploads are written below DIR: the system's
folder for temporary files, where a slow disk counts; a folder in memory (/dev/shm) leaves it out. A round trip is 64
bytes to a program that sends them back, through the channel and the agent. Exit code 9 where the best upload is below
MB_PER_S or the median round trip above TRIP_MS.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sdk.devices import keys, remote
from sdk.devices.keys import Key
from sdk.devices.remote import Address
from sdk.driver.agent_programs import agent_program

MB_PER_S = 120.0
TRIP_MS = 0.3
TRIPS = 2000
TIMEOUT_S = 30.0


@contextmanager
def serving(kind: str, folder: Path, code: str | None) -> Iterator[tuple[Address, int]]:
    """An agent: its address, and its process."""
    python = [sys.executable, "-m", "sdk", "agent"]
    argv = python if kind == "python" else [str(agent_program(os.uname().machine))]
    argv += ["--folder", str(folder / f"{kind}-{code is not None}"), "--listen", "127.0.0.1:0"]
    if code is not None:
        key_file = folder / "key"
        key_file.write_text(code)
        key_file.chmod(0o600)
        argv += ["--key", str(key_file)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"tcp://(.*):(\d+);", process.stdout.readline())
            assert found is not None
            yield Address(found[0], found[1], int(found[2]), [Key(code)] if code else []), process.pid
        finally:
            process.terminate()


def upload_s(address: Address, program: Path, agent: int) -> tuple[float, float, float]:
    """Seconds that the upload of a program takes that the agent has not seen; of the processor on each side."""
    with program.open("r+b") as file:
        file.write(os.urandom(16))
    began, mine, its = time.perf_counter(), time.process_time(), spent_s(agent)
    channel, _ = remote._send_program(address, program, TIMEOUT_S)
    took = (time.perf_counter() - began, time.process_time() - mine, spent_s(agent) - its)
    channel.close()
    return took


def spent_s(pid: int) -> float:
    """Seconds of processor time of a process, by its and the system's work, in Linux's steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def trips_s(address: Address, folder: Path) -> list[float]:
    """Seconds of each round trip."""
    cat = folder / "cat"
    cat.write_text("#!/bin/sh\nexec cat\n")
    program = remote.open_program(address, cat, TIMEOUT_S)
    found = []
    for _ in range(TRIPS):
        began = time.perf_counter()
        program.write(bytes(64), TIMEOUT_S)
        got = 0
        while got < 64:
            got += len(program.read(TIMEOUT_S))
        found.append(time.perf_counter() - began)
    program.close()
    return found


def main() -> int:
    """Measure, print, and say by the exit code whether it is fast enough."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows, code = [], keys.new_code()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        program = folder / "program"
        program.write_bytes(bytes(options.megabytes * 1_000_000))
        for kind in ("python", "c"):
            for keyed in (True, False):
                with serving(kind, folder, code if keyed else None) as (address, agent):
                    uploads = [upload_s(address, program, agent) for _ in range(options.repeat)]
                    trips = trips_s(address, folder)
                rates = [options.megabytes / took for took, _, _ in uploads]
                scale = 100 / (options.megabytes * options.repeat)
                rows.append(
                    {
                        "agent": kind,
                        "keyed": keyed,
                        "best_mb_per_s": round(max(rates), 1),
                        "median_mb_per_s": round(statistics.median(rates), 1),
                        "tool_cpu_s": round(sum(mine for _, mine, _ in uploads) * scale, 3),
                        "agent_cpu_s": round(sum(its for _, _, its in uploads) * scale, 3),
                        "median_trip_ms": round(statistics.median(trips) * 1e3, 4),
                    }
                )
    if options.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
    slow = any(row["best_mb_per_s"] < MB_PER_S or row["median_trip_ms"] > TRIP_MS for row in rows)
    return 9 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
