"""``adb://SERIAL`` sends an agent to a phone with Android, and runs programs under it.

The adb server of this machine does it, over USB or the network as it has the phone. What starts the agent is in
sdk/devices/pushed.py; a stream of adb's own carries all, so that nothing is forwarded, and nothing listens on a phone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable

from sdk.devices.adb_server import open_service
from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.pushed import Line, Options, Shell, agent_chooser, open_pushed, parse_options, script
from sdk.devices.sources.base import Found
from sdk.devices.sources.phones import find_phones
from sdk.errors import LinkError, MissingToolError, NoDeviceError, UsageError

_FORM = "adb://, adb://SERIAL or adb://SERIAL?cores=4-7; sdk devices lists the phones"
_SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
_FOLDER = "/data/local/tmp/crosslevel"  # where adb's user may write and run programs
_QUOTA = "512M"


@register("adb")
def open_adb(request: OpenRequest) -> Transport:
    """Start ``request.artifact`` on a phone: the one of that serial number, or the only one.

    Raises:
        UsageError: it is no address, there are several phones, or the program is for another machine.
        MissingToolError: adb is not installed, or its server does not run.
        NoDeviceError: there is no such phone, it does not let us in, or cannot take the agent.
        BusyError: somebody else uses the phone.
        LinkError, DeviceFault: it broke off, or the program died at once.
    """
    address, options = parse_options(request.uri, _FORM)
    serial = address.removeprefix("adb:").removeprefix("//").rstrip("/")
    if serial and not _SERIAL.fullmatch(serial):
        raise UsageError(f"{request.uri!r} is not a device address", why=f"what is {serial!r}?", hint=_FORM)
    connect, hint = _connector(serial, options), "adb devices; adb shell"
    shell = Shell(request.uri, options.cores, connect, agent_chooser(request, options), hint)
    return open_pushed(request, shell, emulated=bool(options.via))


def _connector(serial: str, options: Options) -> Callable[[float], Line]:
    service = f"exec:exec 2>/dev/null; {script(_FOLDER, _QUOTA, options)}"

    def connect(_: float) -> Line:
        phone = _phone(serial)
        try:
            return Line(open_service(phone, service))
        except OSError as error:
            raise LinkError("the adb server is gone", why=error.strerror, hint="adb start-server") from None

    return connect


def _phone(serial: str) -> str:
    """The serial number of the phone that is meant, which can be used."""
    try:
        found = list(find_phones())
    except OSError as error:
        raise LinkError("the adb server does not answer", why=str(error), hint="adb kill-server; adb devices") from None
    meant = [phone for phone in found if not serial or phone.serial == serial]
    if len(meant) > 1:
        states = ("" if phone.state == "free" else f", {phone.state}" for phone in meant)
        why = "; ".join(f"{phone.serial} ({phone.name}{state})" for phone, state in zip(meant, states, strict=True))
        one = next((phone for phone in meant if phone.state == "free"), meant[0])
        raise UsageError("there are several phones", why=why, hint=f"name one: --device adb://{one.serial}")
    if not meant:
        raise _none(serial, found)
    [phone] = meant
    if phone.state != "free":
        raise NoDeviceError(f"the phone {phone.serial} cannot be used", why=phone.why or phone.state, hint=phone.fix)
    assert phone.serial is not None
    return phone.serial


def _none(serial: str, found: list[Found]) -> NoDeviceError | MissingToolError:
    if not found and shutil.which("adb") is None:
        return MissingToolError("adb is not installed", hint="apt-get install adb")
    why = "those that are: " + ", ".join(str(phone.serial) for phone in found) if found else "none is attached"
    hint = "allow debugging by USB on the phone, plug it in, and look: adb devices"
    return NoDeviceError(f"there is no phone {serial}" if serial else "there is no phone", why=why, hint=hint)
