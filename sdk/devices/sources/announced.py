"""Agents that announce themselves on the local network (DNS-SD over multicast), where the package zeroconf is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sdk.boards import board_names, load_board
from sdk.devices.keys import known_keys
from sdk.devices.sources.base import Found, register_source
from sdk.errors import MissingToolError, SdkError
from sdk.installs import pip_command

__all__ = ["SERVICE", "find_agents", "listen"]

SERVICE = "_crosslevel._tcp.local."
_PLACE = "network"
_LISTEN_S = 1.5
_ASK_MS = 1000
_MAX_AGENTS = 64


@register_source(_PLACE)
def find_agents() -> Iterator[Found]:
    """The agents that answer within moments. Raises MissingToolError without the package."""
    return listen(None)


def listen(interfaces: Sequence[str] | None) -> Iterator[Found]:
    """The agents at the networks of these addresses of ours (all by default)."""
    if find_spec("zeroconf") is None:
        raise MissingToolError("the package zeroconf is not installed", hint=pip_command("zeroconf"))
    zeroconf = import_module("zeroconf")
    names: dict[str, None] = {}

    def heard(zeroconf: Any, service_type: str, name: str, state_change: Any) -> None:
        if len(names) < _MAX_AGENTS:
            names[name] = None

    line = zeroconf.Zeroconf(**({} if interfaces is None else {"interfaces": list(interfaces)}))
    try:
        zeroconf.ServiceBrowser(line, SERVICE, handlers=[heard])
        time.sleep(_LISTEN_S)
        infos = [line.get_service_info(SERVICE, name, _ASK_MS) for name in sorted(names)]
        return iter([_found(info) for info in infos if info is not None and info.parsed_addresses()])
    finally:
        line.close()


def _found(info: Any) -> Found:
    """What an agent says of itself; it is believed as far as it harms nobody."""
    said = {key.decode("ascii", "replace"): (value or b"") for key, value in info.properties.items()}
    machine = said.get("machine", b"").decode("ascii", "replace")[:32]
    host = info.parsed_addresses()[0]
    known = said.get("key", b"").decode("ascii", "replace") in {key.id.hex() for key in known_keys()}
    return Found(
        _PLACE,
        f"tcp://{f'[{host}]' if ':' in host else host}:{info.port}",
        f"{info.name.removesuffix('.' + SERVICE)[:64]} ({machine})",
        "not asked" if known else "unauthorised",
        tuple(_boards_of(machine)),
        None if known else "its key is not known here",
        None if known else "sdk agent --pair there prints a code; sdk agent --trust CODE here makes it known",
    )


def _boards_of(machine: str) -> Iterator[str]:
    """Boards without memory regions of their own that such a machine may be."""
    for name in board_names():
        try:
            board = load_board(name)
        except SdkError:
            continue  # a file of the user's own: sdk boards tells
        if board.hosted and board.emulator is not None and board.core.arch == machine:
            yield name
