"""The demonstration: the digits model on this machine and on an emulated board, run, verified, one table.

    make demo                    # or, after pip install '.[verify]':  python examples/demo.py

Without QEMU only this machine is shown; without TensorFlow Lite Micro the reference is the tool's own
interpreter.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import sdk
from sdk import driver
from sdk.boards import load_board
from sdk.errors import SdkError
from sdk.report import BenchReport, BuildReport, VerifyReport

MODEL = Path(__file__).resolve().parent / "digits" / "digits_int8.tflite"
EMULATED = "nucleo_l4r5zi"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Load:
    """How much a board is given to do: held-out images, random cases to verify, timed runs."""

    images: int
    cases: int
    repeat: int


LOADS = {"host": Load(images=360, cases=100, repeat=200), EMULATED: Load(images=100, cases=20, repeat=5)}


@dataclass(frozen=True)
class Row:
    """What was found out about one board."""

    build: BuildReport
    right: int
    images: int
    check: VerifyReport
    cost: BenchReport

    @property
    def exact(self) -> bool:
        """Whether every verified case equals the reference bit for bit."""
        return self.check.exact_cases == self.check.cases


def held_out() -> tuple[NDArray[np.int8], NDArray[np.uint8]]:
    """Images [360, 8, 8, 1] that the model was not trained on, and their labels [360]."""
    with np.load(MODEL.parent / "holdout.npz") as data:
        return data["images"], data["labels"]


def measure(board: str, load: Load, reference: str, say: Say) -> Row:
    """Builds the model for ``board``, runs it there on held-out images, verifies and times it."""
    place = load_board(board)
    say(f"{place.title}: building the model")
    images, labels = (part[: load.images] for part in held_out())
    with sdk.compile(MODEL, board=board) as model:
        say(f"{place.title}: linking (slow the first time), running {len(images)} held-out images")
        answers = [int(model(image=image[None])["digit"].argmax()) for image in images]
        say(f"{place.title}: comparing with {reference}, timing")
        check = driver.verify(MODEL, place, None, driver.BuildOptions(), reference, load.cases)
        right = int(np.sum(np.array(answers) == labels))
        return Row(model.report, right, len(images), check, model.bench(repeat=load.repeat))


def table(rows: Iterable[Row]) -> Table:
    """The rows as one table; 80 columns hold it."""
    made = Table(title="Handwritten digits, int8", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    made.add_column("board", no_wrap=True)
    for name in ("accuracy", "exact", "RAM\nbytes", "flash\nbytes", "one run"):
        made.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        flash = row.build.sections["text"] + row.build.sections["rodata"]
        made.add_row(
            row.build.board + ("\n(emulated)" if row.cost.emulated else ""),
            f"{row.right / row.images:.1%} of {row.images}",
            f"{row.check.exact_cases} of {row.check.cases}",
            f"{row.build.ram_bytes:,}",
            f"{flash:,}",
            cost(row.cost.to_json()),
        )
    return made


def cost(data: dict[str, Any]) -> str:
    """A run's cost in the unit the device counts: an emulator has instructions, but no time."""
    if data["median_ms"] is not None:
        return f"{data['median_ms'] * 1000:,.1f} us"
    unit = "instructions" if data["instructions"] is not None else "cycles"
    return f"{data[unit]:,}\n{unit}"


def boards(say: Say) -> list[str]:
    """This machine, and the emulated board where its emulator is installed."""
    emulator = load_board(EMULATED).emulator
    if emulator is None or shutil.which(emulator.argv[0]) is not None:
        return ["host", EMULATED]
    say(f"{emulator.argv[0]} is not installed: without the emulated board ({EMULATED})")
    say("  Debian, Ubuntu: apt-get install qemu-system-arm   macOS: brew install qemu")
    return ["host"]


def reference(say: Say) -> str:
    """TensorFlow Lite Micro where it is installed, else our own interpreter of the imported model."""
    if find_spec("tflite_micro") is not None:
        return "tflite-micro"
    say("tflite-micro is not installed: verifying against the interpreter (pip install 'crosslevel[verify]')")
    return "interp"


def next_steps() -> list[tuple[str, str]]:
    """What is worth trying next and its command, as it can be typed in the folder that the demo runs in."""
    command = "sdk" if shutil.which("sdk") else shorter(Path(sys.executable).with_name("sdk"))
    model = shorter(MODEL)
    return [
        ("plain C to read and to link", f"{command} build {model} --board {EMULATED} -o out/digits"),
        ("where every byte of RAM goes", f"{command} memory {model} --board {EMULATED}"),
        ("another board, bit for bit", f"{command} verify {model} --board qemu-cortex-m55"),
        ("all boards", f"{command} boards"),
    ]


def shorter(path: Path) -> str:
    """``path`` from the current folder where it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def main() -> int:
    """Show what there is to show; 0 when all is exact, else an exit code as of the command ``sdk``."""
    console = Console(highlight=False, soft_wrap=True)

    def say(text: str) -> None:
        console.print(text, style="dim", markup=False)

    try:
        against = reference(say)
        rows = [measure(board, LOADS[board], against, say) for board in boards(say)]
    except SdkError as err:
        console.print(f"error: {err}", markup=False)
        return err.exit_code
    console.print(table(rows))
    console.print(f"RAM and flash are the model's own; exact: equal to {against} bit for bit.")
    console.print("Next:")
    for purpose, command in next_steps():
        console.print(f"  # {purpose}\n  {command}", markup=False)
    console.print("  # to your own firmware: docs/first-hour.md")
    return 0 if all(row.exact for row in rows) else sdk.errors.MismatchError.exit_code


if __name__ == "__main__":
    sys.exit(main())
