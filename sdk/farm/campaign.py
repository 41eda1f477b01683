"""Each model on each board that a pattern names, once: queued at a farm, tried elsewhere where a device fails."""

from __future__ import annotations

import contextlib
import fnmatch
import queue
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sdk.boards import load_board
from sdk.driver.files import read_model_file
from sdk.driver.options import BuildOptions
from sdk.errors import LinkError, NoDeviceError, UsageError
from sdk.farm.kept import Kept, Result, opened
from sdk.farm.link import Link, LostError, Worker
from sdk.farm.place import Place
from sdk.farm.work import REST_S, STRIKES, Cargo, Failure, Job, Outcome
from sdk.frontends.base import ModelFile
from sdk.report import BenchReport
from sdk.steps import step, update
from sdk.version import VERSION

__all__ = ["ATTEMPTS", "Attempt", "FarmReport", "Measured", "Unmeasured", "bench_farm"]

ATTEMPTS: Final = 4  # of a job
WAIT_S: Final = 60.0  # for a scheduler that went away, and for a worker where a board has none
_LOOK_S: Final = 1.0


@dataclass(frozen=True)
class Attempt:
    """A job that came to nothing: where, and why. The host is "" where only Dask knows it."""

    host: str
    device: str
    failure: Failure

    def to_json(self) -> dict[str, Any]:
        """As in ``sdk bench --farm --json``."""
        failure = self.failure
        return {"host": self.host or None, "device": self.device or None, "kind": failure.kind,
                "message": failure.message, "why": failure.why, "hint": failure.hint}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """A result, and what was tried before it; ``kept``: it was in the file of an earlier command."""

    result: Result
    attempts: tuple[Attempt, ...] = ()
    kept: bool = False

    def to_json(self) -> dict[str, Any]:
        """As in ``sdk bench --farm --json``."""
        tried = [one.to_json() for one in self.attempts]
        place = {"host": self.result.host, "address": self.result.device}
        return {**self.result.report.to_json(), **place, "kept": self.kept, "attempts": tried}


@dataclass(frozen=True)
class Unmeasured:
    """A job that came to nothing in the end."""

    model: str
    board: str
    failure: Failure
    attempts: tuple[Attempt, ...]

    def to_json(self) -> dict[str, Any]:
        """As in ``sdk bench --farm --json``."""
        tried = [one.to_json() for one in self.attempts]
        last = self.failure
        return {"model": self.model, "board": self.board, "kind": last.kind, "message": last.message,
                "why": last.why, "hint": last.hint, "attempts": tried}  # fmt: skip


@dataclass(frozen=True)
class FarmReport:
    """What was measured, and what was not, in the order of models and boards."""

    measured: tuple[Measured, ...]
    failed: tuple[Unmeasured, ...]

    def to_json(self) -> dict[str, Any]:
        """The object of ``sdk bench --farm --json``."""
        return {"results": [one.to_json() for one in self.measured], "failed": [one.to_json() for one in self.failed]}


def bench_farm(
    place: Place,
    pattern: str,
    models: Sequence[Path | ModelFile],
    options: BuildOptions,
    at: Mapping[str, int],
    repeat: int,
    entry: str | None = None,
    *,
    warmup: int,
    min_time_s: float = 0.0,
    resume: Path | None = None,
    on_result: Callable[[Result], None] = lambda result: None,
    wait_s: float = WAIT_S,
) -> FarmReport:
    """``sdk bench --farm``: each of the models on each board of the farm whose name matches ``pattern``, as
    ``sdk bench`` measures it, on a device that is that board. ``resume`` is a file for results: those that are in it
    are taken from there. ``on_result`` is called with each new one, once. A scheduler that has gone, and a board that
    no worker has any more, are waited for ``wait_s`` seconds.

    Raises:
        UsageError: a model cannot be sent, or the file is of something else.
        NoDeviceError: nothing answers at the place, or the farm has no such board.
        BusyError: another command writes into the file.
        MissingToolError: Dask is not installed.
    """
    cargos = [_cargo(model, options) for model in models]
    sent = BuildOptions(**{**vars(options.read()), "safetensors": ()})
    with contextlib.ExitStack() as stack:
        kept = None if resume is None else stack.enter_context(opened(resume))
        link = Link(place)
        stack.callback(link.close)
        link.open()
        boards = _boards(_full(pattern), link.workers(), place, kept)
        jobs: dict[str, _Task] = {}
        for cargo in cargos:
            for board in boards:
                job = Job(cargo.digest, cargo.name, board, sent, dict(at), entry, repeat, warmup, min_time_s)
                jobs.setdefault(job.key, _Task(cargo, job))
        campaign = _Campaign(link, jobs, kept, on_result, wait_s)
        with step(f"measuring at {place.address}"):
            return campaign.run()


def _cargo(model: Path | ModelFile, options: BuildOptions) -> Cargo:
    if isinstance(model, Path) and model.is_dir():
        raise UsageError(f"{model} is a folder", why="a farm builds each model for each board", hint="give model files")
    if options.custom:
        raise UsageError("--custom is Python of yours, which does not travel", where="--farm",
                         hint="sdk bench MODEL --custom FILE.py --device URI measures on one device")  # fmt: skip
    return Cargo.of(read_model_file(model, tensors=options.tensors))


def _resting(board: str, workers: Sequence[Worker]) -> Failure:
    """What is said of a job when all devices of its board rest."""
    why = "; ".join(f"{one.name.split(' #')[0]}: {one.why}" for one in workers)
    message = f"each device of {board} failed {STRIKES} times in a row, and rests for {REST_S / 60:.0f} minutes"
    hint = "mend what it says, then start sdk farm worker on its host again"
    return Failure("NoDeviceError", message, None, why, hint, NoDeviceError.exit_code)


def _full(pattern: str) -> str:
    """A short name of a board in full; what this machine does not know as it is, since others may."""
    with contextlib.suppress(UsageError):
        return load_board(pattern).name
    return pattern


def _boards(pattern: str, workers: Sequence[Worker], place: Place, kept: Kept | None) -> list[str]:
    """The boards that a pattern names, of those that there are or that it named when the command was run before."""
    there = {board for worker in workers if worker.version == VERSION for board in worker.boards}
    found = set(fnmatch.filter(there, pattern))
    if kept is not None:
        found = kept.planned(pattern, found)
    if found:
        return sorted(found)
    other = sorted({str(worker.version) for worker in workers if worker.boards} - {VERSION})
    why = f"it has {', '.join(sorted(there))}" if there else "it has no device"
    if other:
        why += f"; devices of version {', '.join(other)} are not used by {VERSION}"
    hint = f"sdk farm worker {place.host}:{place.port} --device URI --board B, on a host that has one"
    raise NoDeviceError(f"the farm at {place.address} has no board {pattern}", why=why, hint=hint)


@dataclass
class _Task:
    """A job on its way."""

    cargo: Cargo
    job: Job
    attempts: list[Attempt] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)  # names of workers
    among: frozenset[str] | None = None  # addresses of workers that it was given to; None: any
    future: Any = None
    alone_since: float | None = None  # without a worker that could do it


class _Campaign:
    """The jobs of one command. Dask queues, places and repeats them; here is decided where a job goes that has failed,
    and when there is nobody left to do it."""

    def __init__(
        self, link: Link, jobs: dict[str, _Task], kept: Kept | None, on_result: Callable[[Result], None], wait_s: float
    ) -> None:
        self._link, self._jobs, self._kept, self._on_result, self._wait_s = link, jobs, kept, on_result, wait_s
        self._done: dict[str, Measured | Unmeasured] = {}
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._resting: frozenset[str] = frozenset()  # names of workers
        old = {} if kept is None else kept.results
        for key in jobs:
            if key in old:
                self._done[key] = Measured(old[key], kept=True)

    @property
    def _open(self) -> list[_Task]:
        return [task for key, task in self._jobs.items() if key not in self._done]

    def run(self) -> FarmReport:
        """All of them."""
        while self._open:
            again = sum(len(task.attempts) for task in self._jobs.values())
            tried = f", {again} tried in vain" if again else ""
            update(f"{len(self._done)} of {len(self._jobs)} measured{tried}")
            try:
                workers = self._link.workers()
                self._move(workers)
                for task in self._open:
                    self._place(task, workers)
                self._gather()
            except LostError:
                self._reconnect()
        found = [self._done[key] for key in self._jobs]
        return FarmReport(
            tuple(one for one in found if isinstance(one, Measured)),
            tuple(one for one in found if isinstance(one, Unmeasured)),
        )

    def _reconnect(self) -> None:
        """The scheduler has gone: it, or the next at its place, is asked for all that is not there yet."""
        for task in self._open:
            task.future = task.among = task.alone_since = None
        self._ended = queue.SimpleQueue()
        update("the scheduler has gone; looking for it")
        try:
            self._link.open(self._wait_s)
        except NoDeviceError as error:
            done = f"{len(self._done)} of {len(self._jobs)} were measured"
            again = "--resume FILE keeps what is measured" if self._kept is None else "the same command goes on with it"
            raise NoDeviceError(error.message, why=f"{error.why}; {done}", hint=f"start it again; {again}") from None

    def _move(self, workers: Sequence[Worker]) -> None:
        """Jobs that wait for a device that rests now, or for any since it did, are queued anew."""
        resting = frozenset(one.name for one in workers if one.rests)
        if resting == self._resting:
            return
        self._resting = resting
        tasks = [task for task in self._open if task.future is not None]
        futures = [task.future for task in tasks]
        stranded = self._link.stranded(futures, [one.address for one in workers if not one.rests])
        for task in tasks:
            if any(task.future is one for one in stranded):
                self._withdraw(task)

    def _place(self, task: _Task, workers: Sequence[Worker]) -> None:
        """Have a job queued where it can be done; see when it cannot be any more."""
        having = [one for one in workers if task.job.board in one.boards and one.version == VERSION]
        fresh = [one for one in having if one.name not in task.tried]
        if task.future is not None and (task.among is None or any(one.address in task.among for one in fresh)):
            if fresh:
                task.alone_since = None
                return
        elif task.future is not None and fresh:  # those that it was left to have gone, others have come
            self._withdraw(task)
            self._failed(task, Attempt("", "", Failure("LinkError", "the worker ended", exit_code=LinkError.exit_code)))
            if task.job.key in self._done:
                return
        if fresh:
            self._submit(task, [one.address for one in fresh])
        elif having and task.future is None:  # each has been tried
            self._give_up(task, task.attempts[-1].failure)
        elif not having and (bad := [one for one in workers if task.job.board in one.rests]):
            self._give_up(task, _resting(task.job.board, bad))
        elif task.alone_since is None:
            task.alone_since = time.monotonic()
        elif time.monotonic() - task.alone_since > self._wait_s:
            why = f"none came within {self._wait_s:g} s"
            gone = f"no worker has {task.job.board} any more"
            hint = "start sdk farm worker on its host again"
            self._give_up(task, Failure("NoDeviceError", gone, None, why, hint, NoDeviceError.exit_code))

    def _submit(self, task: _Task, addresses: Sequence[str]) -> None:
        task.among = frozenset(addresses) if task.tried else None
        task.alone_since = None
        key = f"sdk-bench-{task.job.key[:16]}-{secrets.token_hex(8)}"
        among = sorted(addresses) if task.tried else None
        task.future = self._link.submit(task.cargo, task.job, key, among, self._ended.put)

    @staticmethod
    def _withdraw(task: _Task) -> None:
        future, task.future = task.future, None
        if future is not None:
            future.cancel()

    def _gather(self) -> None:
        """Wait a moment for jobs to end, and take what came of them."""
        if not self._open:
            return
        with contextlib.suppress(queue.Empty):
            future = self._ended.get(timeout=_LOOK_S)
            while True:
                task = next((one for one in self._open if one.future is future), None)
                if task is not None:  # else one that was withdrawn
                    self._take(task, self._link.outcome(future))
                future = self._ended.get_nowait()

    def _take(self, task: _Task, outcome: Outcome | Exception) -> None:
        task.future = None
        if isinstance(outcome, Exception):
            why = str(outcome).split(". ")[0]
            failure = Failure("LinkError", "the workers that did it ended", why=why, exit_code=LinkError.exit_code)
            self._failed(task, Attempt("", "", failure))
        elif outcome.failure is not None:
            task.tried.add(outcome.worker)
            self._failed(task, Attempt(outcome.host, outcome.device, outcome.failure))
        elif isinstance(outcome.report, BenchReport):
            result = Result(task.job.key, outcome.host, outcome.device, outcome.report)
            if self._kept is not None:
                self._kept.add(result)
            self._done[task.job.key] = Measured(result, tuple(task.attempts))
            self._on_result(result)

    def _failed(self, task: _Task, attempt: Attempt) -> None:
        """Another device may do it, a bounded number of times; where it is the model that is wrong, none."""
        task.attempts.append(attempt)
        if not attempt.failure.elsewhere or len(task.attempts) >= ATTEMPTS:
            self._give_up(task, attempt.failure)

    def _give_up(self, task: _Task, failure: Failure) -> None:
        self._withdraw(task)
        self._done[task.job.key] = Unmeasured(task.job.model, task.job.board, failure, tuple(task.attempts))
