"""What the tests of PyTorch share: the same numbers drawn in each, in any order and on any worker."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(11)
