"""A tool at work on a device, for tests that kill it: python kill_tool.py URI IMAGE BOARD [AGENT [endless]]."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from one_call import one_call

from sdk.boards import load_board
from sdk.cli.output import report_error
from sdk.devices import open_device
from sdk.driver.machines import emulator_of
from sdk.driver.session import emulator_spec
from sdk.errors import SdkError

INTERRUPTED = 130


def main(uri: str, image: str, board: str, agent: str = "", what: str = "") -> int:
    place = load_board(board)
    emulator = emulator_of(place, Path(image)) if uri.startswith("unicorn") else None
    emulator = emulator_spec(place.as_emulated()) if uri.startswith("qemu") else emulator
    where = {"artifact": Path(image), "emulator": emulator, "agent_for": lambda _: Path(agent)}
    print("begun", flush=True)
    try:
        with open_device(uri, timeout_s=10, **where) as session:
            print("up", flush=True)
            if what == "endless":
                session.run(1, dims=[16])
            session.reset(0)
            for call in range(1_000_000):
                one_call(session, random.Random(call), call)
    except SdkError as error:
        return report_error(error, as_json=False)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
