"""The wheel: it carries its data folders, and works away from the source tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path


def test_the_wheel_stands_alone(root: Path, tmp_path: Path) -> None:
    # Two builds, so that a date or a path in one of them shows.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    wheels = []
    for folder in ("one", "two"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / folder)]
        subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True)
        wheels += (tmp_path / folder).glob("crosslevel-*.whl")
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(installed)
    data = installed / "sdk" / "_data"
    for file in (
        "boards/host.toml",
        "boards/soc/mps2.toml",
        "c_runtime/include/sdk_rt.h",
        "templates/linker.ld.j2",
    ):
        assert (data / file).is_file(), file
    assert not list(installed.glob("tests"))
    environment["PYTHONPATH"] = str(installed)
    command = [sys.executable, "-P", "-m", "sdk", "boards", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert len(json.loads(done.stdout)["boards"]) >= 8
    where = [sys.executable, "-P", "-c", "import sdk.resources as r; print(r.data_dir('boards'))"]
    done = subprocess.run(where, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert Path(done.stdout.strip()) == data / "boards"
