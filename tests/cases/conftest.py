"""The option that rewrites expected text: `pytest tests/cases --update`."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite what the cases expect")
