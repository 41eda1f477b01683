"""A Swift toolchain: this machine's, or that in a tree of Debian 13's, which `make soak` makes where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

TREE = Path(__file__).resolve().parents[1] / ".venv" / "swift"
LACKING = "there is no Swift: install one, or let `make soak` put Debian's into .venv/swift, as root"


def swift(package: Path, *words: str, timeout: int = 600) -> str:
    """What a command of Swift says in the folder of a package, both streams. It has to succeed."""
    env = {**os.environ, "HOME": str(package.parent)}
    line = ["swift", *words]
    if shutil.which("swift") is None:
        tree = Path(os.environ.get("CROSSLEVEL_SWIFT", TREE))
        assert (tree / "usr" / "libexec" / "swift" / "bin" / "swift").exists(), LACKING
        inside = tree / "package"
        inside.mkdir(exist_ok=True)
        # in namespaces of its own: what is mounted goes with it
        script = f'mount --rbind "{package.parent}" "{inside}" && exec unshare --root="{tree}" '
        script += f'--wd=/package/{package.name} env HOME=/package PATH=/usr/bin:/bin TMPDIR=/tmp "$@"'
        line = ["unshare", "-m", "-p", "-f", f"--mount-proc={tree / 'proc'}", "sh", "-c", script, "sh", *line]
    done = subprocess.run(line, cwd=package, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    return done.stdout + done.stderr
