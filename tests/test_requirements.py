"""What is installed: every dependency has an upper bound, and what `make` installs is pinned with hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {
    "demo": ("mcu",),
    "docker": ("verify", "unicorn"),
    "zig": ("zig",),
    "docs": ("docs",),
    "test": ("verify", "zig", "unicorn", "discover", "farm", "llm", "test", "docs"),
    "soak": ("verify", "zig", "unicorn", "discover", "farm", "llm", "test", "docs", "examples", "kotlin"),
}
# Their wheels differ from index to index, so that no hash of them can be stated: the Makefile says so.
APART = {"torch"}


def project() -> dict[str, list[str]]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    return {
        "": data["project"]["dependencies"],
        "build": data["build-system"]["requires"],
        **data["project"]["optional-dependencies"],
    }


def locked(name: str) -> dict[str, set[Version]]:
    """Versions by distribution; a lock has several where Pythons differ."""
    found: dict[str, set[Version]] = {}
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.startswith("#"):
            continue
        given, *hashes = line.split("--hash=")
        assert hashes, line
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", h.strip()) for h in hashes), line
        requirement = Requirement(given)
        (pin,) = requirement.specifier
        assert pin.operator == "==", line
        found.setdefault(canonicalize_name(requirement.name), set()).add(Version(pin.version))
    return found


@pytest.mark.parametrize("group", project())
def test_every_dependency_has_an_upper_bound(group: str) -> None:
    for text in project()[group]:
        assert {"<", "=="} & {pin.operator for pin in Requirement(text).specifier}, text


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_what_is_asked_for(lock: str) -> None:
    versions = locked(lock)
    build = () if lock == "zig" else ("build",)  # which adds a compiler to the demo
    for text in [t for group in ("", *build, *LOCKS[lock]) for t in project()[group]]:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if name in APART:
            assert name not in versions
            continue
        assert name in versions, f"{text}: make lock"
        allowed = SpecifierSet(str(requirement.specifier), prereleases=True)
        assert all(v in allowed for v in versions[name]), f"{text}: make lock"


def test_locks_agree() -> None:
    """What is tested is what people try."""
    test = locked("test")
    for lock in LOCKS:
        assert {n: v for n, v in locked(lock).items() if n in test and v != test[n]} == {}


def test_make_installs_nothing_else() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if re.search(r"\$\(PIP\)|^\t.*\bpip\b", line)]
    lines = [line.removeprefix("ZIG := ") for line in lines]
    lines = [line for line in lines if not line.startswith("OURSELVES := $(PIP) --no-deps ")]
    allowed = [r"\$\(PIP\) --require-hashes -r requirements/(demo|zig|docs|test|soak)\.txt", r"\$\(PIP\) \$\(TORCH\)"]
    allowed.append(r"\$\(PIP\) 'uv>=[0-9.]+,<1'")  # what writes the locks
    assert lines
    assert [line for line in lines if not any(re.fullmatch(a, line) for a in allowed)] == []
