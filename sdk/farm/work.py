"""What travels to a worker and back, and what the worker does: one model, one board, one measurement."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from sdk import driver
from sdk.boards import load_board
from sdk.driver.entries import JoinedFile, join_files
from sdk.driver.options import BuildOptions
from sdk.errors import MiscompileWarning, SdkError
from sdk.farm.place import dask
from sdk.frontends import frontends
from sdk.frontends.base import Beside, ModelFile
from sdk.report import BenchReport
from sdk.version import VERSION

__all__ = [
    "DEVICE_VARIABLE", "REST_S", "STRIKES", "Cargo", "Failure", "Job", "Outcome", "arrived", "board_resource",
    "boards_in", "measure", "resting_of", "this_version",
]  # fmt: skip

DEVICE_VARIABLE: Final = "CROSSLEVEL_FARM_DEVICE"  # of a worker: its device's address, "" for the board's usual one
# Errors that another device, or another host, may not have.
_ELSEWHERE: Final = ("NoDeviceError", "BusyError", "FlashError", "LinkError", "DeviceFault", "MissingToolError")
# Those that are the device's or its host's, whatever the model is; LinkError where it comes soon: a run may take longer
# than any link waits.
_OWN: Final = ("NoDeviceError", "BusyError", "FlashError", "LinkError", "MissingToolError")
_SOON_S: Final = 10.0
STRIKES: Final = 3  # such failures in a row, after which a device is given no jobs
REST_S: Final = 300.0  # for so long: it may have been plugged in again by then
_AGAIN_S: Final = 2.0
_BOARD: Final = "board:"
_RESTING: Final = "resting:"
_MAX_WHY: Final = 200


def board_resource(board: str) -> str:
    """What a worker that has the board announces as a resource."""
    return _BOARD + board


def boards_in(resources: Mapping[str, float]) -> frozenset[str]:
    """The boards that a worker announces; none while its device rests."""
    return frozenset(name.removeprefix(_BOARD) for name, has in resources.items() if name.startswith(_BOARD) and has)


def resting_of(resources: Mapping[str, float]) -> tuple[frozenset[str], str] | None:
    """The boards of a worker whose device rests, and why it does; None of one that works."""
    reasons = [name for name, has in resources.items() if name.startswith(_RESTING) and has]
    if not reasons:
        return None
    boards = frozenset(name.removeprefix(_BOARD) for name in resources if name.startswith(_BOARD))
    return boards, reasons[0].removeprefix(_RESTING)


def this_version() -> str:
    """A resource too: a measurement is made by the version that asks for it."""
    return f"sdk:{VERSION}"


@dataclass(frozen=True)
class _Part:
    """A model's file, and what lies beside it."""

    name: str
    data: bytes = field(repr=False)
    frontend: str
    beside: Beside | None = field(repr=False)

    @classmethod
    def of(cls, file: ModelFile) -> _Part:
        return cls(file.name, file.data, file.frontend.name, file.beside)

    def file(self) -> ModelFile:
        frontend = next(one for one in frontends() if one.name == self.frontend)
        return ModelFile(Path(self.name), self.data, frontend, self.beside)


@dataclass(frozen=True)
class Cargo:
    """A model by its contents: one file, or several that are entries of one model, by their names."""

    parts: Mapping[str, _Part]
    digest: str
    name: str

    @classmethod
    def of(cls, file: ModelFile) -> Cargo:
        """What is in a file."""
        files = file.parts if isinstance(file, JoinedFile) else {"": file}
        return cls({name: _Part.of(one) for name, one in files.items()}, file.digest, file.name)

    @property
    def key(self) -> str:
        """Dask's key of it: what has the same contents and names travels once."""
        parts = [(name, part.name, part.frontend) for name, part in self.parts.items()]
        return f"sdk-model-{hashlib.sha256(json.dumps([self.digest, parts]).encode()).hexdigest()}"

    def file(self) -> ModelFile:
        """The model on the other side."""
        files = {name: part.file() for name, part in self.parts.items()}
        return files[""] if "" in files else join_files(files)


@dataclass(frozen=True)
class Job:
    """A measurement: of the model with ``digest`` on a board, with the arguments of ``sdk bench``."""

    digest: str
    model: str
    board: str
    options: BuildOptions
    at: Mapping[str, int]
    entry: str | None
    repeat: int
    warmup: int
    min_time_s: float

    @cached_property
    def key(self) -> str:
        """Hex digest of all that a result depends on, the version of the tool included."""
        told = json.dumps([VERSION, asdict(self)], sort_keys=True, default=str)
        return hashlib.sha256(told.encode()).hexdigest()


@dataclass(frozen=True)
class Failure:
    """An error on a worker; ``elsewhere``: whether another device may not have it."""

    kind: str
    message: str
    where: str | None = None
    why: str | None = None
    hint: str | None = None
    exit_code: int = 1
    elsewhere: bool = True

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """What an error says."""
        if not isinstance(error, SdkError):
            return cls(type(error).__name__, f"internal error: {type(error).__name__}: {error}")
        kind = next(one.__name__ for one in type(error).__mro__ if one.__module__ == SdkError.__module__)
        return cls(kind, error.message, error.where, error.why, error.hint or error.advice, error.exit_code,
                   kind in _ELSEWHERE)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What came of a job: a report or a failure; ``worker`` is Dask's name of who did it, for the device at a host."""

    worker: str
    host: str
    device: str
    report: BenchReport | None = None
    failure: Failure | None = None


def arrived(cargo: Cargo) -> Cargo:
    """The task that is a model's contents: others depend on it, and workers hand it on to each other."""
    return cargo


def measure(cargo: Cargo, job: Job, worker: str | None = None) -> Outcome:
    """The task of a job, on a worker that has its board."""
    address = os.environ.get(DEVICE_VARIABLE, "")
    place: dict[str, Any] = {"worker": worker or _own_name(), "host": platform.node(), "device": address or job.board}
    options, began = job.options, time.monotonic()
    try:
        with MiscompileWarning.collected() as warned:
            report = driver.bench(
                *(cargo.file(), load_board(job.board), address or None, options, job.at),
                *(job.repeat, options.threads, job.entry),
                warmup=job.warmup,
                min_time_s=job.min_time_s,
            )
    except Exception as error:
        failure = Failure.of(error)
        if worker is None:
            _HEALTH.failed(failure, time.monotonic() - began)
        return Outcome(**place, failure=failure)
    _HEALTH.strikes = 0
    return Outcome(**place, report=replace(report, notes=(*report.notes, *map(str, warned))))


@dataclass
class _Health:
    """How often in a row this worker's device has failed by itself."""

    strikes: int = 0

    def failed(self, failure: Failure, took_s: float) -> None:
        """Count it; a device that fails again and again would else be the fastest of all, and get every job."""
        if failure.kind not in _OWN or (failure.kind == "LinkError" and took_s > _SOON_S):
            return
        self.strikes += 1
        if self.strikes >= STRIKES:
            worker = dask().get_worker()
            worker.loop.add_callback(_rest, worker, failure.message[:_MAX_WHY])


_HEALTH: Final = _Health()


async def _rest(worker: Any, why: str) -> None:
    """Announce no boards for a while, then the same ones as before: one more failure, and it rests again."""
    boards = [name for name, has in worker.state.total_resources.items() if name.startswith(_BOARD) and has]
    if not boards:
        return
    await _announce(worker, {**dict.fromkeys(boards, 0.0), _RESTING + why: 1.0})
    await asyncio.sleep(REST_S)
    await _announce(worker, {**dict.fromkeys(boards, 1.0), _RESTING + why: 0.0})


async def _announce(worker: Any, resources: Mapping[str, float]) -> None:
    """Have the scheduler know what the worker has now; the next one, where this one has gone, is told by Dask."""
    while True:
        try:
            await worker.set_resources(**resources)
            return
        except OSError:
            if worker.status.name != "running":
                return
        await asyncio.sleep(_AGAIN_S)


def _own_name() -> str:
    """Dask's name of the worker that runs this."""
    return str(dask().get_worker().name)
