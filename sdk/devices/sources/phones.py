"""Phones, as a running adb server tells of them. None is started: that would go on after us."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

from sdk.devices.adb_server import ask
from sdk.devices.sources.base import Found, State, register_source
from sdk.errors import MissingToolError

__all__ = ["find_phones"]

_PLACE = "adb"
_STATES: dict[str, tuple[State, str | None]] = {
    "device": ("free", None),
    "unauthorized": ("unauthorised", "unlock the phone and allow debugging from this computer"),
    "authorizing": ("unauthorised", "unlock the phone and allow debugging from this computer"),
    "offline": ("offline", "adb reconnect offline, or plug it in anew"),
    "no permissions": ("no permission", "sudo apt-get install android-sdk-platform-tools-common, and plug it in anew"),
    "bootloader": ("in bootloader", "fastboot reboot"),
    "recovery": ("in bootloader", "adb reboot"),
    "sideload": ("in bootloader", "adb reboot"),
}


@register_source(_PLACE)
def find_phones() -> Iterator[Found]:
    """The devices of the adb server of this machine, or of the one that ADB_SERVER_SOCKET names."""
    try:
        answer = ask("host:devices-l")
    except ConnectionRefusedError:
        if shutil.which("adb"):
            raise MissingToolError("no adb server runs", hint="adb start-server") from None
        return  # nobody here uses phones
    for line in answer.splitlines():
        found = re.match(r"(?P<serial>\S+)\s+(?P<state>no permissions|\S+)(?P<rest>.*)", line)
        if found is None:
            continue
        serial, rest = found["serial"], found["rest"]
        facts = dict(part.partition(":")[::2] for part in rest.split() if ":" in part)
        state, fix = _STATES.get(found["state"], ("offline", "adb reconnect"))
        name = (facts.get("model") or facts.get("product") or "phone").replace("_", " ")
        why = None if found["state"] in ("device", state) else found["state"]
        yield Found(_PLACE, f"adb://{serial}", name, state, (), why, fix, serial)
