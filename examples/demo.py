"""The demonstration: the digits models on this machine and on an emulated board, run, verified, one table.

    make demo                    # or, after pip install '.[mcu]':  python examples/demo.py

Without the package unicorn, and without QEMU, only this machine is shown; without TensorFlow Lite Micro the reference
is the tool's own interpreter.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
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
from sdk.driver.machines import engine_of
from sdk.errors import SdkError
from sdk.installs import pip_command
from sdk.report import BenchReport, BuildReport, VerifyReport

DIGITS = Path(__file__).resolve().parent / "digits"
EMULATED = "nucleo_l4r5zi"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Network:
    """A model file of the digits: ``channels_first`` says how its images lie."""

    kind: str
    path: Path
    reference: str
    channels_first: bool
    batch: tuple[str, ...] = ()  # open dimensions, 1 here

    def images(self, ints: NDArray[np.int8]) -> NDArray[Any]:
        """Images [n, 8, 8, 1] in int8 as the network takes them."""
        if not self.channels_first:
            return ints
        return ((ints.astype(np.float32) + 128) / 255).transpose(0, 3, 1, 2)


INT8 = Network("int8", DIGITS / "digits_int8.tflite", "tflite-micro", channels_first=False)
FLOAT = Network("float", DIGITS / "digits.onnx", "onnxruntime", channels_first=True, batch=("batch",))
PACKAGES = {"tflite-micro": "tflite_micro", "onnxruntime": "onnxruntime"}


@dataclass(frozen=True)
class Load:
    """How much a board is given to do: held-out images, random cases to verify, timed runs."""

    images: int
    cases: int
    repeat: int


LOADS = {"host": Load(images=360, cases=100, repeat=200), EMULATED: Load(images=100, cases=10, repeat=1)}


@dataclass(frozen=True)
class Row:
    """What was found out about a network on one board."""

    kind: str
    build: BuildReport
    right: int
    images: int
    check: VerifyReport
    cost: BenchReport
    clock_hz: int | None


def held_out() -> tuple[NDArray[np.int8], NDArray[np.uint8]]:
    """Images [360, 8, 8, 1] that the models were not trained on, and their labels [360]."""
    with np.load(DIGITS / "holdout.npz") as data:
        return data["images"], data["labels"]


def measure(network: Network, board: str, load: Load, reference: str, say: Say) -> Row:
    """Builds a network for ``board``, runs it there on held-out images, verifies and times it."""
    place = load_board(board)
    title = f"{place.title}, {network.kind}"
    say(f"{title}: building the model")
    ints, labels = (part[: load.images] for part in held_out())
    with sdk.compile(network.path, board=board, dims=dict.fromkeys(network.batch, 1)) as model:
        say(f"{title}: linking (slow the first time), running {len(ints)} held-out images")
        answers = [int(model(image=image[None])["digit"].argmax()) for image in network.images(ints)]
        say(f"{title}: comparing with {reference}, measuring")
        check = driver.verify(network.path, place, None, model.options, reference, load.cases)
        right = int(np.sum(np.array(answers) == labels))
        cost = model.bench(repeat=load.repeat)
        return Row(network.kind, model.report, right, len(ints), check, cost, place.core.clock_hz)


def table(rows: Iterable[Row]) -> Table:
    """The rows as one table; 80 columns hold it."""
    made = Table(title="Handwritten digits", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    made.pad_edge = False
    made.add_column("board", no_wrap=True)
    made.add_column("model", no_wrap=True)
    for name in ("accuracy", "verified", "RAM", "flash", "instr.", "one run"):
        made.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        data = row.cost.to_json()
        made.add_row(
            row.build.board,
            row.kind,
            f"{row.right / row.images:.1%}",
            verified(row.check),
            f"{row.build.ram_bytes:,}",
            f"{row.build.flash_bytes:,}",
            f"{data['instructions']:,}" if data["instructions"] is not None else "-",
            time_of(data, row.clock_hz),
        )
    return made


def verified(check: VerifyReport) -> str:
    """How the results compare with the reference's."""
    if check.exact_cases == check.cases:
        return "exact"
    return f"to {check.max_rel_err:.0e}" if check.passed else "WRONG"


def time_of(data: dict[str, Any], clock_hz: int | None) -> str:
    """A run's time where a clock can be trusted, else estimated from what an emulator counted."""
    if data["median_ms"] is not None:
        return f"{data['median_ms'] * 1000:,.1f} us"
    if data["est_cycles"] is None or clock_hz is None:
        return "-"
    return f"~{data['est_cycles'] / clock_hz * 1e6:,.0f} us"


def boards(say: Say) -> list[str]:
    """This machine, and the emulated board where its emulator is installed."""
    board = load_board(EMULATED)
    engine = engine_of(board)
    program = None if board.emulator is None else shutil.which(board.emulator.program)
    if find_spec("unicorn") is not None if engine == "unicorn" else program is not None:
        return ["host", EMULATED]
    say(f"no emulator is installed: without the emulated board ({EMULATED}); {pip_command('unicorn')}")
    return ["host"]


def reference(network: Network, say: Say) -> str:
    """The network's reference engine where it is installed, else our own interpreter of the imported model."""
    name = network.reference
    if find_spec(PACKAGES[name]) is not None:
        return name
    say(f"{name} is not installed: verifying against the interpreter ({pip_command(name)})")
    return "interp"


def next_steps() -> list[tuple[str, str]]:
    """What is worth trying next and its command, as it can be typed in the folder that the demo runs in."""
    command = "sdk" if shutil.which("sdk") else shorter(Path(sys.executable).with_name("sdk"))
    model = shorter(INT8.path)
    return [
        ("plain C to read and to link", f"{command} build {model} --board {EMULATED} -o out/digits"),
        ("where every byte of RAM goes", f"{command} memory {model} --board {EMULATED}"),
        ("another board, bit for bit", f"{command} verify {model} --board microbit"),
        ("which boards it fits, and how fast it is there", f"{command} fit {model}"),
        ("what else this machine could have", f"{command} doctor"),
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
        places = boards(say)
        against = {network: reference(network, say) for network in (INT8, FLOAT)}
        rows = [measure(n, board, LOADS[board], against[n], say) for board in places for n in (INT8, FLOAT)]
    except SdkError as err:
        console.print(f"error: {err}", markup=False)
        return err.exit_code
    console.print(table(rows))
    for line in legend(rows, against.values()):
        console.print(line, markup=False)
    console.print("Next:")
    for purpose, command in next_steps():
        console.print(f"  # {purpose}\n  {command}", markup=False)
    console.print("  # to your own firmware: sdk help first-hour")
    return 0 if all(row.check.passed for row in rows) else sdk.errors.MismatchError.exit_code


def legend(rows: Iterable[Row], references: Iterable[str]) -> Iterator[str]:
    """What the columns mean, where that is not plain."""
    images = {row.build.board: row.images for row in rows}
    shares = ", ".join(f"{count} on {board}" for board, count in images.items())
    yield f"accuracy: of held-out images, {shares}; verified against {' and '.join(dict.fromkeys(references))}"
    yield "RAM and flash: bytes, the model's own; inputs and outputs are inside on boards, the caller's on host"
    if len(images) > 1:
        yield "~ is estimated: instructions counted under emulation, cycles by the core's public table (sdk help fit)"


if __name__ == "__main__":
    sys.exit(main())
