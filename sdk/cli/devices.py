"""``sdk devices``: what is attached, announced or emulated, whether it is free, and what to do where it is not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from sdk.cli import options, output
from sdk.errors import UsageError

if TYPE_CHECKING:
    from sdk.driver.finding import Attached

INTERVAL_S = 1.0
_BOARDS = 3  # names in a line; --json has all
_COLUMNS = ("device", "state", "what", "board")


@click.command()
@click.option("--watch", is_flag=True, help="Go on, and tell what comes, goes and changes.")
@options.json_option
def devices(watch: bool, as_json: bool) -> None:
    """List what models can run on: serial ports, phones, machines, agents, emulators."""
    from sdk import driver

    if watch and as_json:
        raise UsageError("--watch goes on, and JSON is one object", hint="sdk devices --json, again and again")
    found = driver.attached()
    if as_json:
        output.print_json(found.to_json())
        return
    rows = [(one.address or "-", one.state, one.name, _boards(one.boards)) for one in found.devices]
    output.print_table("", _COLUMNS, rows)
    for line in notes(found):
        output.say(line)
    while watch:
        time.sleep(INTERVAL_S)
        before, found = found, driver.attached()
        for line in changes(before, found):
            output.say(line)


def notes(found: Attached) -> Iterator[str]:
    """Why what cannot be used now cannot, and what changes that."""
    for one in found.devices:
        if one.why or (one.fix and one.state != "not asked"):
            yield f"{one.address or one.name}: {one.state}{f': {one.why}' if one.why else ''}"
            if one.fix:
                yield f"  $ {one.fix}" if _is_command(one.fix) else f"  {one.fix}"
    for place in found.troubles:
        yield f"not looked into: {place.place}: {place.why}"
        if place.fix:
            yield f"  $ {place.fix}"


def changes(before: Attached, now: Attached) -> Iterator[str]:
    """What has come, gone and changed, in a line each."""
    old, new = ({(one.place, one.address, one.serial): one for one in found.devices} for found in (before, now))
    late = {place.place for place in now.troubles}  # who did not answer in time has not gone
    for key in old.keys() - new.keys():
        if key[0] not in late:
            yield f"- {old[key].address or old[key].name}"
    for key, one in new.items():
        if key not in old:
            yield f"+ {one.address or one.name} ({one.state}) {one.name}"
        elif (one.state, one.why) != (old[key].state, old[key].why):
            yield f"  {one.address or one.name}: {one.state}{f': {one.why}' if one.why else ''}"


def _is_command(text: str) -> bool:
    return text.startswith(("sudo ", "pip ", "python", "apt-get ", "adb ", "fastboot ", "/"))


def _boards(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _BOARDS} more" if len(names) > _BOARDS else ""
    return (", ".join(names[:_BOARDS]) + more) or "-"
