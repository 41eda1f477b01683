"""``local:`` starts an agent built for this machine and talks to its standard input and output."""

from __future__ import annotations

import os

from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.process import open_piped


@register("local")
def open_local(request: OpenRequest) -> Transport:
    """Start ``request.artifact``, or the program that ``local:PATH`` names. Raises NoDeviceError."""
    program = request.rest or str(request.artifact)
    environment = {**os.environ, **request.variables} if request.variables else None
    return open_piped([program], f"the agent {program}", request.uri, env=environment)
