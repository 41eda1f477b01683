"""What starts a farm's processes for a test, and ends them with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from farm_processes import Process


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """A function that starts an ``sdk farm`` command, which prints JSON; all end with the test."""
    running: list[Process] = []

    def begin(*words: str) -> Process:
        running.append(Process(*words, "--json"))
        return running[-1]

    try:
        yield begin
    finally:
        for process in running:
            process.close()
