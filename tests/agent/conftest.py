"""An agent in this process, for each test."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_lab import Lab

from sdk.agent import Limits, Server
from sdk.boards import load_board
from sdk.devices import keys
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "device"))  # what a session with the hand-written models does


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


@pytest.fixture(scope="session")
def wire_agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The device agent with the hand-written models, for this machine."""
    root, folder = data_dir("c_runtime"), tmp_path_factory.mktemp("wire")
    port = root / "port" / "posix"
    models = ROOT / "tests" / "device" / "fake_models.c"
    sources = [*sorted((root / "src").glob("*.c")), port / "main.c", port / "pool.c", models]
    target, tools = target_for(load_board("host")), get_toolchain("gcc")
    how = {"include_dirs": (root / "include",), "flags": ("-DSDK_RT_FRAME_MAX=65536u",)}
    objects = tools.compile_all([CompileJob(SourceText.read(path), target, **how) for path in sources])
    return tools.link(LinkJob("executable", tuple(objects), target, libs=("pthread",)), folder / "agent")
