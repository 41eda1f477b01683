"""A command's connection to a scheduler, made anew when that was away."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sdk.errors import NoDeviceError
from sdk.farm.place import Place, dask
from sdk.farm.work import Cargo, Job, Outcome, arrived, board_resource, boards_in, measure, resting_of, this_version

__all__ = ["Link", "LostError", "Worker"]

CONNECT_S: Final = 10.0
_GATHER_S: Final = 60.0
_PAUSE_S: Final = 0.5


class LostError(Exception):
    """The scheduler has gone, and with it all that it knew."""


@dataclass(frozen=True)
class Worker:
    """A device of the farm: where Dask reaches its worker, what that is called, and the boards that it has; of one that
    has failed too often in a row, the boards that it ``rests`` from, and why."""

    address: str
    name: str
    boards: frozenset[str]
    version: str | None
    rests: frozenset[str] = frozenset()
    why: str = ""


class Link:
    """A client of the scheduler at a place."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._client: Any = None
        self._security = place.security()
        self._dask = dask()
        self._models: dict[str, Any] = {}

    def open(self, wait_s: float = 0.0) -> None:
        """Connect, trying for so many seconds.

        Raises:
            NoDeviceError: no scheduler answers.
        """
        self.close()
        until = time.monotonic() + wait_s
        while True:
            try:
                self._client = self._dask.Client(
                    self._place.address, timeout=CONNECT_S, security=self._security, set_as_default=False,
                    direct_to_workers=False, name="sdk-bench",
                )  # fmt: skip
                return
            except (OSError, TimeoutError) as error:
                if time.monotonic() < until:
                    time.sleep(_PAUSE_S)
                    continue
                why = str(error).splitlines()[-1] if str(error) else type(error).__name__
                hint = "sdk farm scheduler starts one; with --tls it needs the same authority"
                raise NoDeviceError(f"no farm answers at {self._place.address}", why=why, hint=hint) from None

    def close(self) -> None:
        """Leave; jobs that were queued are forgotten by the scheduler."""
        client, self._client, self._models = self._client, None, {}
        if client is not None:
            with contextlib.suppress(OSError, TimeoutError):
                client.close(timeout=5)

    def workers(self) -> list[Worker]:
        """Those that are there.

        Raises:
            LostError: the scheduler has gone.
        """
        if self._client.status != "running":
            raise LostError
        try:
            found = self._client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, TimeoutError, ValueError) as error:
            raise LostError from error
        return [self._worker(address, facts) for address, facts in found.items()]

    @staticmethod
    def _worker(address: str, facts: dict[str, Any]) -> Worker:
        resources = facts["resources"]
        version = next((name.removeprefix("sdk:") for name in resources if name.startswith("sdk:")), None)
        return Worker(address, str(facts["name"]), boards_in(resources), version, *(resting_of(resources) or ()))

    def submit(self, cargo: Cargo, job: Job, key: str, among: Sequence[str] | None, done: Callable[[Any], None]) -> Any:
        """Queue a job for a worker that has its board, one at one of the addresses ``among`` where these are given;
        ``done`` is called with Dask's future when it has ended somehow."""
        model = self._models.get(cargo.key)
        if model is None or model.status in ("cancelled", "lost", "error"):
            model = self._models[cargo.key] = self._client.submit(arrived, cargo, key=cargo.key, priority=1)
        future = self._client.submit(
            measure, model, job, key=key, pure=False, workers=None if among is None else list(among),
            resources={board_resource(job.board): 1, this_version(): 1},
        )  # fmt: skip
        future.add_done_callback(done)
        return future

    def stranded(self, futures: Sequence[Any], addresses: Sequence[str]) -> list[Any]:
        """Those of the futures that wait, and not for one of the workers at these addresses.

        Raises:
            LostError: the scheduler has gone.
        """
        try:
            found = self._client.processing(workers=list(addresses)) if addresses else {}
        except (OSError, TimeoutError, ValueError) as error:
            raise LostError from error
        there = {key for keys in found.values() for key in keys}
        return [future for future in futures if future.status == "pending" and future.key not in there]

    def outcome(self, future: Any) -> Outcome | Exception:
        """What came of a future that has ended, or why nothing did: on all workers that it was given to it ended them,
        or it could not even be called.

        Raises:
            LostError: the scheduler has gone.
        """
        if self._client.status != "running" or future.status in ("cancelled", "lost"):
            raise LostError
        try:
            found = future.result(timeout=_GATHER_S)
        except (TimeoutError, self._dask.CancelledError) as error:
            raise LostError from error
        except Exception as error:
            return error
        return found if isinstance(found, Outcome) else TypeError(f"a worker sent {type(found).__name__}")
