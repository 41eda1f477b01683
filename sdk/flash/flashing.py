"""Writing an image to a board: which runner can, what it is told, and what its words and its exit status mean."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import serial

from sdk.boards import Board, Memory, Runner, Setting, load_runners, suggest
from sdk.boards.runners import IMAGE, Meaning, placeholders
from sdk.errors import BusyError, FlashError, MissingToolError, NoDeviceError, SdkError, UsageError
from sdk.flash.drives import Drive, find_drives, read_drive, unmounted
from sdk.flash.image import Image, check_fits, write_as
from sdk.flash.tool import Outcome, run_tool

__all__ = ["Choice", "Flashed", "Plan", "flash_image", "plans"]

_LINES: Final = 12  # of a tool's output, in an error
_TOUCH_S: Final = 10.0  # for a board to come back with its loader
_SCRIPT: Final = f"{IMAGE}.script"
@dataclass(frozen=True)
class Choice:
    """What the user chose: a runner, a probe, the port of the board, settings by name, seconds for a command."""

    runner: str | None = None
    probe: str | None = None
    port: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None


@dataclass(frozen=True)
class Plan:
    """A runner for a board: its command lines, or why it cannot be used. ``hint`` says how it could."""

    name: str
    runner: Runner
    commands: tuple[tuple[str, ...], ...] = ()
    drive: Drive | None = None
    unusable: SdkError | None = None


@dataclass(frozen=True)
class Flashed:
    """What was done: by which runner, with which commands, and why those before it were passed over."""

    runner: str
    commands: tuple[tuple[str, ...], ...]
    passed: tuple[tuple[str, str], ...]


def plans(board: Board, choice: Choice, image: Image | None = None, *, external: bool = False) -> list[Plan]:
    """The runners of a board in their order, the one chosen alone, with what each would be told. ``external``: the
    image has a part in the board's external flash, where none is given that shows it.

    Raises:
        UsageError: there is no such runner, or the board's file names none.
    """
    runners = load_runners()
    names = list(board.flash)
    if choice.runner is not None:
        if choice.runner not in runners:
            near = suggest(choice.runner, runners) or f"there are {', '.join(runners)}"
            raise UsageError(f"unknown runner {choice.runner!r}", where="--runner", hint=near)
        names = [choice.runner]
    if not names:
        hint = f"--runner NAME with --set KEY=VALUE for what it needs; there are {', '.join(runners)}"
        raise UsageError(f"the file of {board.name} names no runner to flash it with", hint=hint)
    external = external or (image is not None and _reaches(image, board.external))
    return [_plan(name, runners[name], board, choice, image, external) for name in names]


def _reaches(image: Image, memory: Memory | None) -> bool:
    """Whether a part of the image is in a memory."""
    return memory is not None and any(memory.base <= part.address < memory.end for part in image.parts)


def _plan(
    name: str, runner: Runner, board: Board, choice: Choice, image: Image | None, external: bool
) -> Plan:
    values: dict[str, Setting] = {**runner.defaults, **board.flash.get(name, {}), **_settings(choice)}
    values |= {key: value for key, value in (("probe", choice.probe), ("port", choice.port)) if value}
    address = image.parts[0].address if image else 0
    values |= {"file": f"{IMAGE}.{runner.takes}", "path": f"{{folder}}/{IMAGE}.{runner.takes}"}
    values |= {"script": _SCRIPT, "address": f"{address:#x}"}
    try:
        missing = [key for key in runner.needs if key not in values]
        if missing:
            raise UsageError(
                f"{name} is not told its {missing[0]} for {board.name}", hint=f"--set {missing[0]}=VALUE"
            )
        if external:
            _check_external(name, runner, board, values)
        if runner.drive:
            return Plan(name, runner, drive=_drive(runner, board, values))
        program = _program(name, runner)
        values["beside"] = str(Path(program[0]).resolve().parent)
        return Plan(name, runner, tuple((*program, *_expand(line, runner, values)) for line in runner.commands))
    except SdkError as error:
        return Plan(name, runner, unusable=error)


def _check_external(name: str, runner: Runner, board: Board, values: Mapping[str, Setting]) -> None:
    """Refuse a runner that does not write external flash: it might leave out that part of an image and say that all
    is well.

    Raises:
        UsageError: it does not, or is not told how to.
    """
    if runner.external and runner.external in values:
        return
    runners = load_runners()
    able = [n for n, told in board.flash.items() if n in runners and runners[n].external in told]
    others = f"--runner {able[0]} does" if able else "leave out --weights external"
    told = f"--set {runner.external}=VALUE says how; " if runner.external else ""
    raise UsageError(
        f"{name} does not write the external flash of {board.name}",
        why="the weights of the image are there, and it would leave them out",
        hint=f"{told}{others}",
    )


def _settings(choice: Choice) -> dict[str, str]:
    """The user's settings; a file among them is named absolutely, as runners start in another folder."""
    return {
        key: str(Path(value).resolve()) if "/" in value and Path(value).exists() else value
        for key, value in choice.settings.items()
    }


def _program(name: str, runner: Runner) -> tuple[str, ...]:
    """How the program of a runner is started.

    Raises:
        MissingToolError: it is not installed.
    """
    for program in runner.program:
        path = shutil.which(program)
        if path is not None:
            return (path,)
    if runner.module is not None and find_spec(runner.module) is not None:
        return (sys.executable, "-m", runner.module)
    why = f"there is no {' or '.join(runner.program)} on the PATH"
    raise MissingToolError(f"{runner.title} is not installed", where=name, why=why, hint=runner.install)


def _expand(line: Sequence[str], runner: Runner, values: Mapping[str, Setting]) -> list[str]:
    """The arguments of a command, placeholders replaced."""
    out: list[str] = []
    for argument in line:
        names = placeholders(argument)
        alone = names[0] if len(names) == 1 and argument == f"{{{names[0]}}}" else None
        if alone is None:
            out.append(argument.format_map(values))
        elif alone in runner.options:
            for value in _several(values[alone]) if alone in values else ():
                out += [part.format_map({**values, alone: value}) for part in runner.options[alone]]
        else:
            out += [str(value) for value in _several(values[alone])] if alone in values else []
    return out


def _several(value: Setting) -> Sequence[int | str]:
    return value if isinstance(value, tuple) else (value,)


def _drive(runner: Runner, board: Board, values: Mapping[str, Setting]) -> Drive:
    """The drive of the board.

    Raises:
        NoDeviceError: there is none, or several.
        FlashError: those that are there are of other boards.
    """
    given = values.get("drive")
    if given is not None:
        drive = read_drive(Path(str(given)))
        if drive is None:
            raise NoDeviceError(f"{given} is no drive of a board", why="it has no INFO_UF2.TXT", hint=runner.prepare)
        found = [drive]
    else:
        found = find_drives()
    wanted = str(values.get("board_id", ""))
    fits = [drive for drive in found if wanted.lower() in drive.board_id.lower()]
    if found and not fits:
        there = ", ".join(f"{drive.board_id} at {drive.folder}" for drive in found)
        raise FlashError(
            f"the drive is not that of {board.name}", why=f"its board says {wanted}, and there is {there}",
            hint="name the board that is connected with --board; sdk boards lists them",
        )  # fmt: skip
    if not fits:
        names = unmounted()
        mount = f"mount the drive: udisksctl mount -b /dev/disk/by-label/{names[0]}" if names else None
        hint = mount or runner.prepare
        raise NoDeviceError(f"no drive of {board.name} is mounted", hint=hint)
    if len(fits) > 1:
        there = ", ".join(str(drive.folder) for drive in fits)
        raise NoDeviceError(f"{len(fits)} drives may be {board.name}", why=there, hint="--set drive=FOLDER")
    return fits[0]


def flash_image(
    image: Image, board: Board, choice: Choice, tell: Callable[[str], None] = lambda _: None
) -> Flashed:
    """Write an image with the first runner that can: one whose program is there, and that finds its probe. ``tell`` is
    called with what is done next.

    Raises:
        FlashError: the image does not fit, or a runner failed, ran out of time or did not say that it has compared.
        NoDeviceError, MissingToolError: no runner can; the error says why not, of each.
        BusyError, UsageError: the probe is in use; there is no such runner.
    """
    found = plans(board, choice, image)
    check_fits(image, board)
    passed: list[tuple[str, SdkError]] = []
    for plan in found:
        if plan.unusable is not None:
            passed.append((plan.name, plan.unusable))
            continue
        tell(f"flashing {board.name} with {plan.runner.title}")
        try:
            commands = _run(plan, image, board, choice)
        except NoDeviceError as error:
            passed.append((plan.name, error))
            continue
        return Flashed(plan.name, commands, tuple((name, error.message) for name, error in passed))
    raise _none(passed, board)


def _none(passed: Sequence[tuple[str, SdkError]], board: Board) -> SdkError:
    """The error where every runner was passed over: with the nearest to mend, a probe to plug in before a tool to
    install."""
    if len(passed) == 1:
        return passed[0][1]
    why = "\n".join(f"{name}: {error.message}" + (f" ({error.hint})" if error.hint else "") for name, error in passed)
    for _, error in passed:
        if not isinstance(error, MissingToolError | UsageError):
            hint = f"{error.hint or error.advice}; --runner chooses one"
            return NoDeviceError(f"no runner has reached {board.name}", why=why, hint=hint)
    missing = next((error for _, error in passed if isinstance(error, MissingToolError)), None)
    if missing is None:
        return UsageError(f"no runner can flash {board.name}", why=why, hint=passed[0][1].hint)
    return MissingToolError(f"no runner for {board.name} is installed", why=why, hint=f"install one: {missing.hint}")


def _run(plan: Plan, image: Image, board: Board, choice: Choice) -> tuple[tuple[str, ...], ...]:
    """Run what a plan says; return the commands that ran."""
    runner = plan.runner
    family = {**board.flash.get(plan.name, {}), **choice.settings}.get("family", 0)
    with tempfile.TemporaryDirectory(prefix="sdk-flash-") as name:
        folder = Path(name)
        path, _ = write_as(image, runner.takes, folder, IMAGE, _number(family))
        if plan.drive is not None:
            return _copy(plan.drive, path, board)
        if runner.script is not None:
            (folder / _SCRIPT).write_text(runner.script.lstrip("\n").format(file=path.name), encoding="utf-8")
        if runner.touch is not None and choice.port:
            _touch(choice.port, runner.touch)
        done = []
        for line in plan.commands:
            command = tuple(part.replace("{folder}", name) for part in line)
            done.append(command)
            timeout_s = choice.timeout_s or runner.timeout_s
            try:
                outcome = run_tool(command, folder, timeout_s)
            except OSError as error:
                raise MissingToolError(
                    f"{runner.title} cannot be started", why=f"{command[0]}: {error.strerror}", hint=runner.install
                ) from None
            _judge(plan, outcome, board, timeout_s, last=line is plan.commands[-1])
        return tuple(done)


def _number(value: object) -> int:
    try:
        return value if isinstance(value, int) else int(str(value), 0)
    except ValueError:
        raise UsageError(f"family is no number: {value!r}", where="--set", hint="--set family=0xe48bff56") from None


def _copy(drive: Drive, path: Path, board: Board) -> tuple[tuple[str, ...], ...]:
    """Copy a file to a drive, which goes away when the board has all of it."""
    place = drive.folder / path.name
    try:
        with place.open("wb") as file:
            file.write(path.read_bytes())
            with contextlib.suppress(OSError):  # the board may have restarted with the last block
                file.flush()
    except OSError as error:
        raise FlashError(
            f"the drive of {board.name} does not take the image", where=str(place), why=error.strerror,
            hint="start its loader again, and flash once more",
        ) from None  # fmt: skip
    return (("copy", path.name, str(drive.folder)),)


def _touch(port: str, baud: int) -> None:
    """Open a port at the rate that starts a board's loader, and wait for the port to come back."""
    with contextlib.suppress(serial.SerialException, OSError):
        serial.Serial(port, baud).close()
    deadline = time.monotonic() + _TOUCH_S
    time.sleep(0.5)  # it first goes away
    while not Path(port).exists() and time.monotonic() < deadline:
        time.sleep(0.1)


def _judge(plan: Plan, outcome: Outcome, board: Board, timeout_s: float, *, last: bool) -> None:
    """Raise what a command's words and status mean; its status 0 alone says nothing."""
    runner = plan.runner
    silent = last and runner.confirms is not None and re.search(runner.confirms, outcome.output) is None
    if outcome.status == 0 and not silent:
        return
    why = "\n".join(outcome.output.strip().splitlines()[-_LINES:]) or "it printed nothing"
    line = " ".join((Path(outcome.command[0]).name, *outcome.command[1:]))
    for says in runner.says:
        if re.search(says.match, outcome.output):
            raise _meant(says.means, runner, board, line, why)
    hand = "run its line by hand: --dry-run shows it; --runner chooses another"
    if outcome.status is None:
        hint = "unplug the board and plug it in again; --timeout SECONDS grants more"
        raise FlashError(f"{runner.title} did not end within {timeout_s:g} s", where=line, why=why, hint=hint)
    if outcome.status != 0:
        raise FlashError(f"{runner.title} failed with status {outcome.status}", where=line, why=why, hint=hand)
    message = f"{runner.title} ended well, and did not say that it has written and compared"
    raise FlashError(message, where=line, why=why, hint=hand)


def _meant(means: Meaning, runner: Runner, board: Board, where: str, why: str) -> SdkError:
    """The error for what a runner means."""
    match means:
        case "no-probe":
            hint = "plug the board's debug probe (or its USB) in; --probe names one"
            return NoDeviceError(f"{runner.title} found no probe", where=where, why=why, hint=hint)
        case "no-board":
            hint = "check the board's power and the cable of the probe; hold reset while it connects"
            message = f"{runner.title} has a probe, and no board answers it"
            return NoDeviceError(message, where=where, why=why, hint=hint)
        case "no-access":
            hint = "add yourself to the group of the device (dialout, plugdev), or install the runner's udev rules"
            return NoDeviceError(f"{runner.title} may not open the probe", where=where, why=why, hint=hint)
        case "busy":
            hint = "close the debugger or monitor that has it"
            return BusyError(f"{runner.title} finds its probe in use", where=where, why=why, hint=hint)
        case "wrong-chip":
            hint = "name the board that is connected with --board; sdk boards lists them"
            return FlashError(f"the chip is not that of {board.name}", where=where, why=why, hint=hint)
        case "protected":
            hint = "unlock it with the maker's tool, which erases the chip; sdk help flash says how"
            return FlashError(f"the flash of {board.name} is protected", where=where, why=why, hint=hint)
        case _:
            hint = "sdk memory MODEL --board B shows what takes flash; sdk boards lists larger boards"
            message = f"{runner.title} knows no flash of {board.name} for all of the image"
            return FlashError(message, where=where, why=why, hint=hint)
