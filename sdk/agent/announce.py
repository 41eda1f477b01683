"""Announcing an agent on the local network (DNS-SD over multicast), so that `sdk devices` finds it."""

from __future__ import annotations

import contextlib
import ipaddress
import platform
import re
import socket
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec

from sdk.devices.keys import Key
from sdk.devices.machine import machine_name
from sdk.devices.sources.announced import SERVICE

__all__ = ["announced"]


@contextlib.contextmanager
def announced(address: tuple[str, int], key: Key | None, interfaces: Sequence[str] | None = None) -> Iterator[bool]:
    """Tell the local network where an agent is, and which key it has by the key's number, until the block ends; whether
    that is done: not without the package zeroconf, nor for an agent that this machine alone reaches."""
    host, port = address
    addresses = [host] if not ipaddress.ip_address(host).is_unspecified else _own_addresses()
    addresses = [one for one in addresses if interfaces is not None or not ipaddress.ip_address(one).is_loopback]
    if find_spec("zeroconf") is None or not addresses:
        yield False
        return
    zeroconf = import_module("zeroconf")
    label = re.sub(r"[^A-Za-z0-9-]", "-", platform.node())[:40] or "agent"
    facts = {"machine": machine_name(platform.machine()), "key": key.id.hex() if key else ""}
    packed = [ipaddress.ip_address(one).packed for one in addresses]
    info = zeroconf.ServiceInfo(
        SERVICE, f"{label}-{port}.{SERVICE}", addresses=packed, port=port, properties=facts, server=f"{label}.local."
    )
    try:
        line = zeroconf.Zeroconf(**({} if interfaces is None else {"interfaces": list(interfaces)}))
    except OSError:  # no network that carries it
        yield False
        return
    try:
        line.register_service(info, allow_name_change=True)
        yield True
    finally:
        line.close()


def _own_addresses() -> list[str]:
    """The IPv4 addresses by which others may reach this machine."""
    ifaddr = import_module("ifaddr")  # zeroconf needs it too
    found = [ip.ip for adapter in ifaddr.get_adapters() for ip in adapter.ips if isinstance(ip.ip, str)]
    return [one for one in found if socket.inet_aton(one)[0] != 127]
