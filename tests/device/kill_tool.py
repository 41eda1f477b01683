"""A tool at work on a device, for tests that kill it: python kill_tool.py URI IMAGE BOARD."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from one_call import one_call

from sdk.boards import load_board
from sdk.cli.output import report_error
from sdk.devices import open_device
from sdk.driver.machines import emulator_of
from sdk.errors import SdkError


def main(uri: str, image: str, board: str) -> int:
    emulator = emulator_of(load_board(board), Path(image)) if uri.startswith("unicorn") else None
    try:
        with open_device(uri, artifact=Path(image), emulator=emulator, timeout_s=10) as session:
            print("up", flush=True)
            session.reset(0)
            for call in range(1_000_000):
                one_call(session, random.Random(call), call)
    except SdkError as error:
        return report_error(error, as_json=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
