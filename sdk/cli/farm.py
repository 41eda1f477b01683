"""``sdk farm``: devices of several hosts behind one queue, for ``sdk bench --farm``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from sdk.cli import complete, options, output, rack
from sdk.cli.group import Listed


@click.group(cls=Listed)
def farm() -> None:
    """Put devices of several hosts behind one queue, for sdk bench --farm ADDRESS.

    Who reaches a farm can run programs as those who run it: it is for people who trust each other, and TLS keeps the
    others out.
    """


@farm.command()
@click.option("--listen", metavar="HOST[:PORT]", default="127.0.0.1", show_default=True, help="Where to be reached.")
@rack.tls_option
@options.json_option
def scheduler(listen: str, tls: tuple[Path, Path, Path] | None, as_json: bool) -> None:
    """Run the queue, until it is interrupted."""
    from sdk.farm import Place, serve_scheduler

    def ready(address: str) -> None:
        told = address.partition("://")[2]
        _say(as_json, {"address": address, "tls": tls is not None}, f"listening at {address}; Ctrl-C ends it",
             f"on a host with devices: sdk farm worker {told}{' --tls CA CERT KEY' if tls else ''}")  # fmt: skip

    serve_scheduler(Place.read(listen, tls), ready)


@farm.command()
@click.argument("address")
@click.option("--device", "devices", multiple=True, metavar="URI", help="A device of this host; repeat for others.")
@click.option(
    "--board", "boards", multiple=True, metavar="B", help="The board that it is, in the same order.",
    shell_complete=complete.board_names,
)  # fmt: skip
@rack.tls_option
@options.json_option
def worker(
    address: str, devices: tuple[str, ...], boards: tuple[str, ...], tls: tuple[Path, Path, Path] | None, as_json: bool
) -> None:
    """Announce this host's devices to a farm, and measure on them until it is interrupted; those that sdk devices finds
    where none is given."""
    from sdk.farm import Place, devices_of, serve_devices

    place = Place.read(address, tls)
    found = devices_of(devices, boards)

    def ready() -> None:
        rows = [{"address": one.address, "boards": list(one.boards)} for one in found]
        lines = [f"{one.name}: {', '.join(one.boards)}" for one in found]
        _say(as_json, {"scheduler": place.address, "devices": rows}, *lines,
             f"announced to {place.address}; Ctrl-C ends it")  # fmt: skip

    def told(line: str) -> None:
        output.say(line, err=True)
        sys.stderr.flush()

    serve_devices(place, found, ready, told)


def _say(as_json: bool, data: dict[str, Any], *lines: str) -> None:
    if as_json:
        output.print_json(data)
    else:
        for line in lines:
            output.say(line)
    sys.stdout.flush()  # whoever started it in the background waits for it
