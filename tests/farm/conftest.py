"""What starts a farm's processes for a test, and ends them with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from farm_processes import Process


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Process]]:
    """A function that starts an ``sdk farm`` command, which prints JSON; all end with the test."""
    running, folder = list[Process](), tmp_path_factory.mktemp("farm")

    def begin(*words: str, within: Sequence[str] = ()) -> Process:
        running.append(Process(*words, "--json", folder=folder, within=within))
        return running[-1]

    try:
        yield begin
    finally:
        for process in running:
            process.close()
