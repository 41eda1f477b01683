"""``--watch``: work that is done again whenever a file that it reads has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sdk.cli import output
from sdk.errors import SdkError

INTERVAL_S = 0.3

_State = tuple[tuple[int, int] | None, ...]


def state_of(paths: Iterable[Path]) -> _State:
    """The time of the last change and the size of each file, None where it is not there: what tells a change."""
    found: list[tuple[int, int] | None] = []
    for path in paths:
        try:
            facts = path.stat()
            found.append((facts.st_mtime_ns, facts.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


def changes(paths: Iterable[Path], sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Yields once at the start, then after each change of a file, when all are there and have stayed as they are for an
    interval: who writes a model in pieces is done by then.

    Files are asked, not watched by the system: a few files cost nothing, and it works on network drives and in
    containers, which tell of no changes that others make.
    """
    watched = tuple(paths)
    last = state_of(watched)
    yield
    while True:
        sleep(INTERVAL_S)
        now = state_of(watched)
        if now == last:
            continue
        while True:
            sleep(INTERVAL_S)
            settled = state_of(watched)
            if settled == now and None not in settled:
                break
            now = settled
        last = now
        yield


def watch(paths: Iterable[Path], work: Callable[[], None], sleep: Callable[[float], None] = time.sleep) -> None:
    """Does ``work`` now and after each change of the files, until the user stops it; what is wrong is said, and mended
    by the next change."""
    watched = tuple(paths)
    for _ in changes(watched, sleep):
        try:
            work()
        except SdkError as error:
            output.report_error(error, as_json=False)
        output.say(f"watching {', '.join(map(str, watched))}; Ctrl-C ends", err=True)
