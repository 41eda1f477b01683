"""Writes the lock files anew: `make lock`. Each pins what the Makefile installs for one target, with hashes, for every
Python and platform that the project supports. torch is in none: the same version has other wheels on other indexes."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TORCH = "torch=="  # how its line in pyproject.toml begins
TESTED = ("verify", "zig", "unicorn", "discover", "farm", "llm", "test", "docs")
# lock file -> (extras, further inputs, the lock file whose versions it takes over)
LOCKS = {
    "test": (TESTED, ("build", "torch"), None),
    "demo": (("mcu",), ("build",), "test"),
    "docker": (("verify", "unicorn"), ("build",), "test"),
    "zig": (("zig",), (), "test"),
    "docs": (("docs",), ("build",), "test"),
    "soak": ((*TESTED, "examples", "kotlin"), ("build", "torch"), "test"),
}
HEAD = "# Written by `make lock`: what the Makefile installs for {name}. Change pyproject.toml instead.\n"


def main() -> None:
    """Writes all of them."""
    text = (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
    kept = [line for line in text.splitlines(keepends=True) if not line.strip().startswith(f'"{TORCH}')]
    with tempfile.TemporaryDirectory() as name:
        project = Path(name) / "pyproject.toml"
        project.write_text("".join(kept), encoding="utf-8")
        for lock in LOCKS:
            compile_lock(lock, project)


def compile_lock(lock: str, project: Path) -> None:
    """Resolves the requirements of one target and writes its lock file."""
    extras, inputs, like = LOCKS[lock]
    out = project.parent / f"{lock}.txt"
    command = ["uv", "pip", "compile", "--universal", "--python-version", "3.11", "--generate-hashes", "--upgrade"]
    command += ["--no-config", "--quiet", "--no-header", "--no-annotate", "--default-index", "https://pypi.org/simple"]
    command += [word for extra in extras for word in ("--extra", extra)]
    command += [] if like is None else ["--constraint", str(HERE / f"{like}.txt")]
    command += [str(project), *(str(HERE / f"{name}.in") for name in inputs), "--output-file", str(out)]
    subprocess.run(command, check=True)
    (HERE / f"{lock}.txt").write_text(HEAD.format(name=lock) + out.read_text(encoding="utf-8"), encoding="utf-8")
    print(f"wrote requirements/{lock}.txt")


if __name__ == "__main__":
    main()
