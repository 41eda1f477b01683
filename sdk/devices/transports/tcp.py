"""``tcp://HOST:PORT`` sends the agent's program to an `sdk agent` and talks to it there."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qsl, unquote, urlsplit

from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.channel import PORT
from sdk.devices.keys import known_keys
from sdk.devices.machine import core_mask
from sdk.devices.remote import Address, open_program
from sdk.errors import UsageError

_FORM = "tcp://HOST, tcp://HOST:PORT, tcp://[IPV6]:PORT, or any with ?cores=0,2-3"


@register("tcp")
def open_tcp(request: OpenRequest) -> Transport:
    """Start ``request.artifact`` on the machine of an agent. Raises UsageError for an address that is none, and what
    ``open_program`` raises."""
    address = replace(parse_address(request.uri), lasting=not request.is_whole)
    return open_program(address, request.artifact, request.timeout_s, request.beside)


def parse_address(uri: str) -> Address:
    """The address that a URI names. Raises UsageError."""
    try:
        parts = urlsplit(uri)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        port = parts.port if parts.port is not None else PORT
        cores = core_mask(options.pop("cores")) if "cores" in options else 0
    except ValueError as error:
        raise UsageError(f"{uri!r} is not a device address", why=str(error), hint=_FORM) from None
    extra = parts.username or parts.path.strip("/") or parts.fragment or ", ".join(options)
    if not parts.hostname or extra:
        why = f"what is {extra!r}?" if extra else "it names no machine"
        raise UsageError(f"{uri!r} is not a device address", why=why, hint=_FORM)
    return Address(uri, unquote(parts.hostname), port, known_keys(), cores)
