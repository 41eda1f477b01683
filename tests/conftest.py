"""What all tests share: where real models are, their own build cache, loud failures for missing tools."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from sdk.toolchains import zig

if TYPE_CHECKING:
    from selenium import webdriver

ROOT = Path(__file__).resolve().parent.parent
MODELS = Path(os.environ.get("CROSSLEVEL_MODELS", ROOT.parent / "shared" / "models"))
GOLDEN = 0.618034  # multiples of it, less whole numbers, are spread evenly whatever their count
# The support libraries of the C compiler take long to make: all clones and all tests share the user's.
os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(zig.cache_folder()))
os.environ.setdefault("CROSSLEVEL_CACHE", str(ROOT / ".cache"))
# What is drawn is the same in every run: a change is judged by what it changes. Long tests are given other seeds.
os.environ.setdefault("CROSSLEVEL_SEED", "327000")
hypothesis.settings.register_profile("same", derandomize=True, deadline=None)  # no deadline: machines are busy
hypothesis.settings.load_profile("same")
# The many processes that tests start need not compile the package again, whatever the environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# The libraries of NumPy and torch: their threads would wait for each other, as other tests have the other processors.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

gc.set_threshold(100_000)  # as the command does: compilations make millions of objects that stay

# Shells ignore Ctrl-C in what they start in the background, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    """Say at the top of the report whether the real models are there, and which networks are generated."""
    seeds = f"generated networks: from seed {os.environ['CROSSLEVEL_SEED']} (CROSSLEVEL_SEED)"
    if MODELS.is_dir():
        return [f"real models: {MODELS}", seeds]
    none = f"real models: none at {MODELS}; tests marked 'models' are skipped (set CROSSLEVEL_MODELS)"
    return [none, seeds]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of tests with many cases that take long, ``some`` are in each run: the others are marked slow."""
    cases: dict[str, list[Any]] = {}
    for item in items:
        if item.get_closest_marker("some") and hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for alike in cases.values():
        for item in left_out(alike, alike[0].get_closest_marker("some").args[0]):
            item.add_marker("slow")


def left_out(cases: list[Any], count: int) -> list[Any]:
    """All cases but ``count``: one after the other, that whose values of parameters those before have least often; of
    several, far from those before."""
    values = {case: [(name, id(value)) for name, value in case.callspec.params.items()] for case in cases}
    first = zlib.crc32(cases[0].originalname.encode())  # other tests with these parameters take others
    places = {case: (first + k) * GOLDEN % 1 for k, case in enumerate(cases)}
    seen: Counter[tuple[str, int]] = Counter()
    for _ in range(min(count, len(cases))):
        taken = min(values, key=lambda case: (sum(seen[value] for value in values[case]), places[case]))
        seen.update(values.pop(taken))
    return list(values)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What collecting made stays: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the source tree."""
    return ROOT


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of real models; skips the test, with the reason, when it is not there."""
    if not MODELS.is_dir():
        pytest.skip(f"no real models at {MODELS}; set CROSSLEVEL_MODELS to their folder")
    return MODELS


@pytest.fixture
def need_tool():
    """A function that fails the test when a program is not installed: nothing goes untested in silence."""

    def need(program: str) -> str:
        path = shutil.which(program)
        assert path is not None, f"{program} is not installed; `make test` installs it or says how"
        return path

    return need


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own for the tests of a file: see browsers.py."""
    from browsers import started

    with started(tmp_path_factory.mktemp("browser")) as running:
        yield running
