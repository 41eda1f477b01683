"""What the tests of flashing share: a desk with a board of every runner, tools that stand in, and images to flash."""

from __future__ import annotations

from pathlib import Path

import pytest
from flash_desk import Desk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk with a board on it."""
    return Desk(tmp_path, monkeypatch)
