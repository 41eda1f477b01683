"""An agent in this process, for each test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_lab import Lab

from sdk.agent import Limits, Server
from sdk.devices import keys


@pytest.fixture(autouse=True)
def key_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSLEVEL_KEYS", str(tmp_path / "keys"))
    return tmp_path / "keys"


@pytest.fixture
def lab(tmp_path: Path, key_folder: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """An agent; with a key that the tool knows, unless the test's parameter says "open"."""
    key = None
    if getattr(request, "param", "keyed") == "keyed":
        key, code = keys.own_key(keys.agent_key_file(), create=True)
        keys.add_code(keys.known_keys_file(), code)
    server = Server("127.0.0.1", 0, tmp_path / "store", key, Limits(memory=200 << 20, disk=4 << 20))
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield Lab(server, tmp_path, thread)
    finally:
        server.close()
        thread.join(5)
        assert not thread.is_alive()
