"""The one tree of errors: what went wrong, where, why, what to do next, and the exit code that says so."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sdk.text import printable


class SdkError(Exception):
    """A failure a user can act on.

    ``message`` says what; ``where`` names the node, argument, file or line; ``why`` gives the cause;
    ``hint`` is the next command or edit; where a place knows of none, the class has an ``advice``. ``exit_code`` is the
    process status (see docs/errors.md).
    """

    exit_code = 1
    advice = "report it with the model and the command: it is a fault of the tool"

    def __init__(
        self, message: str, *, where: str | None = None, why: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.why = why
        self.hint = hint

    def lines(self, hint: str | None) -> list[str]:
        """What went wrong, in one line, then each part that there is: with nothing that a terminal acts on, since names
        of a model or a device may have any characters. No line of a part looks like another part."""
        parts = (("where", self.where), ("why", self.why), ("hint", hint))
        shown = [(name, printable(text, "\n\t")) for name, text in parts if text]
        return [printable(self.message), *(f"  {name}: " + text.replace("\n", "\n    ") for name, text in shown)]

    def __str__(self) -> str:
        return "\n".join(self.lines(self.hint))


class MiscompileWarning(UserWarning):
    """The compiler found code that it had made wrong, and used plainer code in its place: results are right, and
    slower. ``details`` has all that is needed to look into it."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message, details)
        self.message = message
        self.details = details

    @classmethod
    def of(cls, function: str, what: str, details: str) -> MiscompileWarning:
        """The warning that after a run of the faster code of a function something is other than it must be."""
        why = f"the faster code of @{function} is wrong ({what})"
        return cls(f"{why}: plainer code is used; report it with the _faults.txt of sdk build", details)

    def tell(self) -> None:
        """Gives the warning to whoever collects them, else warns."""
        found = _collected.get()
        if found is None:
            warnings.warn(self, stacklevel=3)
        else:
            found.append(self)

    @staticmethod
    @contextmanager
    def collected() -> Iterator[list[MiscompileWarning]]:
        """What this thread would warn of until the block ends: filters of warnings are all threads' at once."""
        found: list[MiscompileWarning] = []
        before = _collected.set(found)
        try:
            yield found
        finally:
            _collected.reset(before)

    def __str__(self) -> str:
        return self.message


_collected: ContextVar[list[MiscompileWarning] | None] = ContextVar("collected", default=None)


class BuildError(SdkError):
    """The model or module cannot be compiled, or an internal check failed."""

    advice = "sdk inspect MODEL --stage PASS shows the program after each step; report it with the model"


class UsageError(SdkError):
    """The command line, a name or an argument is wrong."""

    exit_code = 2
    advice = "sdk VERB --help has the forms and examples, sdk help python those of the API"


class NoDeviceError(SdkError):
    """No device answers at the given address."""

    exit_code = 3
    advice = "sdk boards show NAME says how a board is reached; --device URI names another"


class BusyError(SdkError):
    """Somebody else uses the device."""

    exit_code = 4
    advice = "wait until it is free, or ask who uses it"


class FlashError(SdkError):
    """An image was not written to the board, or the board runs another one than was written."""

    exit_code = 5
    advice = "run it again with --runner for another tool; sdk help flash says what each needs"


class LinkError(SdkError):
    """The link to a device broke, timed out or carried garbage."""

    exit_code = 6
    advice = "run it again; when it repeats, rebuild and flash the firmware with this version of the tool"


class DeviceFault(SdkError):
    """The device crashed or reported a fault while running."""

    exit_code = 7
    advice = "run it with --board host too: that tells a fault of the model from one of the device"


class MismatchError(SdkError):
    """Results differ from the reference."""

    exit_code = 8
    advice = "sdk verify MODEL --board B --against interp tells a fault of the importer from one of the code"


class RegressionError(SdkError):
    """A measurement is worse than its baseline by more than was allowed."""

    exit_code = 9
    advice = "measure both builds in turns: sdk bench OLD NEW --board B tells noise from a difference"


class MissingToolError(SdkError):
    """A compiler, emulator or package that the command needs is not installed."""

    exit_code = 10
    advice = "sdk doctor says what is missing and how to get it"
