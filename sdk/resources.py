"""Where the package's data folders are: beside it in a source tree, inside it once installed."""

from __future__ import annotations

from pathlib import Path

from sdk.errors import SdkError

_PACKAGE = Path(__file__).resolve().parent
DATA_FOLDERS = ("boards", "c_runtime", "docs", "templates")


def data_dir(name: str) -> Path:
    """Return the folder ``name`` (one of DATA_FOLDERS); raise SdkError when the installation lacks it."""
    for folder in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if name in DATA_FOLDERS and folder.is_dir():
            return folder
    raise SdkError(
        f"the installation has no data folder {name!r}",
        where=str(_PACKAGE),
        why="neither the package nor the source tree around it holds that folder",
        hint="install it again, from the same wheel or folder: pip install --force-reinstall PATH",
    )
