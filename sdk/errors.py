"""The one tree of errors: what went wrong, where, why, what to do next, and the exit code that says so."""

from __future__ import annotations


class SdkError(Exception):
    """A failure a user can act on.

    ``message`` says what; ``where`` names the node, argument, file or line; ``why`` gives the cause;
    ``hint`` is the next command or edit. ``exit_code`` is the process status (see docs/errors.md).
    """

    exit_code = 1

    def __init__(
        self, message: str, *, where: str | None = None, why: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        parts = [self.message]
        if self.where:
            parts.append(f"  where: {self.where}")
        if self.why:
            parts.append(f"  why: {self.why}")
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class BuildError(SdkError):
    """The model or module cannot be compiled, or an internal check failed."""


class UsageError(SdkError):
    """The command line, a name or an argument is wrong."""

    exit_code = 2


class NoDeviceError(SdkError):
    """No device answers at the given address."""

    exit_code = 3


class BusyError(SdkError):
    """The device is held by someone else."""

    exit_code = 4


class FlashError(SdkError):
    """Writing or verifying firmware failed."""

    exit_code = 5


class LinkError(SdkError):
    """The link to a device broke, timed out or carried garbage."""

    exit_code = 6


class DeviceFault(SdkError):
    """The device crashed or reported a fault while running."""

    exit_code = 7


class MismatchError(SdkError):
    """Results differ from the reference."""

    exit_code = 8


class RegressionError(SdkError):
    """A benchmark is slower than its stated limit."""

    exit_code = 9


class MissingToolError(SdkError):
    """A compiler, emulator or package that the command needs is not installed."""

    exit_code = 10
