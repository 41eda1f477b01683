"""A farm's scheduler, and the workers of a host: one for each device, in a process of its own, one job at a time."""

from __future__ import annotations

import asyncio
import fnmatch
import platform
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

from sdk.boards import load_board
from sdk.devices.sources import Found
from sdk.driver.finding import Attached, attached
from sdk.errors import NoDeviceError, UsageError
from sdk.farm.place import SETTINGS, Place, dask
from sdk.farm.work import DEVICE_VARIABLE, board_resource, this_version

__all__ = ["Device", "devices_of", "serve_devices", "serve_scheduler"]

_AGAIN_S: Final = 2.0  # between two looks for a scheduler that has gone
_LOOPBACK: Final = "127.0.0.1:0"  # of Dask's HTTP servers, which have no pages
Told = Callable[[str], None]


@dataclass(frozen=True)
class Device:
    """A device of this host: its address ("": the usual one of its board), and the boards that it is."""

    address: str
    boards: tuple[str, ...]

    @property
    def name(self) -> str:
        """For people."""
        return self.address or ", ".join(self.boards)

    @property
    def resources(self) -> dict[str, float]:
        """As Dask's worker announces them."""
        return {**{board_resource(board): 1.0 for board in self.boards}, this_version(): 1.0}


def devices_of(
    addresses: Sequence[str], boards: Sequence[str], look: Callable[[], Attached] = attached
) -> list[Device]:
    """The devices that a host announces: ``addresses`` with their boards in the same order, or one board for all, or
    those that ``sdk devices`` knows for them; boards alone, each where it is emulated, or this machine; without either
    what ``sdk devices`` finds free and knows for certain.

    Raises:
        UsageError: it is not clear which board a device is.
        NoDeviceError: there is none.
    """
    names = [load_board(board).name for board in boards]
    if not addresses:
        return [Device("", (name,)) for name in names] or _found(look())
    if len(set(addresses)) < len(addresses):
        raise UsageError("a device is given twice", hint="a device has one worker, which does one job at a time")
    if not names:
        return [_known(address, look()) for address in addresses]
    if len(addresses) == 1:
        return [Device(addresses[0], tuple(names))]
    if len(names) not in (1, len(addresses)):
        raise UsageError(
            f"{len(addresses)} devices and {len(names)} boards", hint="give --device URI --board B for each device"
        )
    return [Device(address, (name,)) for address, name in zip(addresses, names * len(addresses), strict=False)]


def _known(address: str, found: Attached) -> Device:
    """The device at an address, with the boards that sdk devices knows for it."""
    boards = _by_address(found.devices).get(address, ())
    if not boards or not _is_certain(address, boards):
        maybe = f": it may be {', '.join(boards)}" if boards else ""
        raise UsageError(f"which board is {address}{maybe}?", hint=f"--device {address} --board B")
    return Device(address, boards)


def _found(found: Attached) -> list[Device]:
    free = _by_address([one for one in found.devices if one.state == "free" and one.address and one.boards])
    devices = [Device(address, boards) for address, boards in free.items() if _is_certain(address, boards)]
    if not devices:
        raise NoDeviceError("no device of this host is free and known", hint="give --device URI --board B")
    return devices


def _by_address(found: Iterable[Found]) -> dict[str, tuple[str, ...]]:
    """The boards by addresses, of which emulators of several programs have one."""
    boards: dict[str, tuple[str, ...]] = {}
    for one in found:
        boards[one.address] = tuple(dict.fromkeys((*boards.get(one.address, ()), *one.boards)))
    return boards


def _is_certain(address: str, boards: Sequence[str]) -> bool:
    """Whether a device is all of these boards, and not one of them: an emulator, or this machine."""
    return len(boards) == 1 or fnmatch.fnmatch(address, "*://") or address == "local:"


async def _scheduler(place: Place, ready: Told) -> None:
    distributed = dask()
    try:
        scheduler = distributed.Scheduler(
            host=place.bracketed, port=place.port, protocol="tcp" if place.tls is None else "tls",
            security=place.security(), dashboard=False, dashboard_address=_LOOPBACK,
        )  # fmt: skip
        await scheduler
    except (OSError, RuntimeError) as error:
        hint = "--listen HOST:PORT names another"
        raise UsageError(f"cannot listen at {place.bracketed}:{place.port}", why=_why(error), hint=hint) from None
    async with scheduler:
        ready(str(scheduler.address))
        await scheduler.finished()


def serve_scheduler(place: Place, ready: Told) -> None:
    """Run a scheduler until it is interrupted; ``ready`` is called with the address that workers take."""
    asyncio.run(_scheduler(place, ready))


def serve_devices(place: Place, devices: Sequence[Device], ready: Callable[[], None], told: Told) -> None:
    """Announce devices to a scheduler and measure on them until it is interrupted; ``ready`` is called once, when all
    are announced. A scheduler that goes away is looked for again, which ``told`` is told."""
    asyncio.run(_devices(place, devices, ready, told))


async def _devices(place: Place, devices: Sequence[Device], ready: Callable[[], None], told: Told) -> None:
    first = True
    while True:
        try:
            async with AsyncExitStack() as stack:
                begun = [stack.enter_async_context(_nanny(place, one)) for one in devices]
                # all at once: each takes seconds
                nannies: list[Any] = await asyncio.gather(*begun, return_exceptions=True)
                for nanny in nannies:
                    if isinstance(nanny, BaseException):
                        raise nanny
                if first:
                    ready()
                else:
                    told(f"announced again to {place.address}")
                first = False
                ended = [asyncio.ensure_future(nanny.finished()) for nanny in nannies]
                await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
            told(f"the scheduler at {place.address} has gone; looking for it")
        except (OSError, TimeoutError, RuntimeError) as error:
            if first:
                hint = "sdk farm scheduler starts one; with --tls it needs the same authority"
                raise NoDeviceError(f"no scheduler answers at {place.address}", why=_why(error), hint=hint) from None
        await asyncio.sleep(_AGAIN_S)


def _why(error: BaseException) -> str:
    """What Dask's error comes from, in a line."""
    error = error.__cause__ or error
    return str(error).splitlines()[-1] if str(error) else type(error).__name__


def _nanny(place: Place, device: Device) -> Any:
    """Dask's keeper of one worker, whose process it starts anew when that ends."""
    return dask().Nanny(
        place.address,
        nthreads=1,
        name=f"{device.name[:60]} at {platform.node()} #{secrets.token_hex(4)}",
        resources=device.resources,
        env={DEVICE_VARIABLE: device.address},
        host=place.listening_host,
        security=place.security(),
        memory_limit=0,
        config=SETTINGS,
        dashboard=False,
        dashboard_address=_LOOPBACK,
        death_timeout=30,
        silence_logs=50,
    )
