"""An agent in this process, for each test."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_lab import Lab, TwinServer, build_twin

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


@pytest.fixture(params=["python", "c"])
def twin(request: pytest.FixtureRequest) -> str:
    """Which of the two agents a test is about: each passes the same tests, but for those that look into one."""
    return str(request.param)


@pytest.fixture
def lab(twin: str, tmp_path: Path, key_folder: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """An agent; with a key that the tool knows, unless the test's parameter says "open"."""
    key = None
    if getattr(request, "param", "keyed") == "keyed":
        key, code = keys.own_key(keys.agent_key_file(), create=True)
        keys.add_code(keys.known_keys_file(), code)
    if twin == "c":
        options = ("--memory", "200M", "--disk", "4M", *(["--key", "keys/agent.key"] if key else []))
        server = TwinServer(request.getfixturevalue("twin_agent"), tmp_path, key, options)
        yield Lab(server, tmp_path)
        server.close()
        return
    limits = Limits(memory=200 << 20, disk=4 << 20)
    python = Server("127.0.0.1", 0, tmp_path / "store", key, limits)
    thread = threading.Thread(target=python.serve)
    thread.start()
    try:
        yield Lab(python, tmp_path)
    finally:
        python.close()
        thread.join(5)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def twin_agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent written in C, for this machine."""
    return build_twin(tmp_path_factory.mktemp("twin") / "agent")


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
