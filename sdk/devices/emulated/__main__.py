"""``python -m sdk.devices.emulated SPEC IMAGE [PORT]``: a machine whose UART is our standard input and output.

PORT is the number of a descriptor of the terminal that the host has at the other end of the line: its rate counts then.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec

from sdk.devices.emulated.bus import Halt
from sdk.devices.emulated.machine import Machine
from sdk.devices.emulated.spec import MachineSpec
from sdk.devices.process import STOPPED


def main(argv: list[str]) -> int:
    """Runs a machine; 0 when the host hung up, STOPPED with a text when the guest could not go on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host ends us, once it has called off what runs
    try:
        spec = msgspec.json.decode(argv[1], type=MachineSpec)
        port = int(argv[3]) if len(argv) > 3 else None
        Machine(spec, Path(argv[2]), sys.stdin.fileno(), sys.stdout.fileno(), port).run()
    except Halt as halt:
        os.write(sys.stderr.fileno(), f"{halt}\n".encode())
        return STOPPED
    return 0


sys.exit(main(sys.argv))
