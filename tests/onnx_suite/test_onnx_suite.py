"""ONNX's backend tests through compiled C on this machine: 200 cases, drawn once, and in the long tests all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from suite_batch import outcomes
from suite_cases import COUNT, drawn, everything, read

PARTS = 4
WHOLE_PARTS = 14
MIN_PASSING = 0.97
NOT_COUNTED = ("Text", "Images", "Training")  # what models on such devices do not do
TABLE = Path(__file__).with_name("expected_failures.txt")


def table() -> Iterator[tuple[str, str]]:
    """The lines of the table: a reason ends with a colon, the cases it covers follow indented."""
    reason = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            yield line.strip(), reason
        elif line and not line.startswith("#"):
            reason = line.removesuffix(":")


EXPECTED = dict(table())


@pytest.mark.some(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_drawn_cases(part: int, tmp_path: Path) -> None:
    _check(drawn()[part::PARTS], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(WHOLE_PARTS))
def test_all_cases(part: int, tmp_path: Path) -> None:
    """Optimised as users get it."""
    _check(sorted(everything())[part::WHOLE_PARTS], tmp_path, "3")


def _check(names: list[str], tmp_path: Path, opt: str = "0") -> None:
    """Every case passes but for those of the table, and those do not."""
    found = outcomes(names, read, tmp_path, opt)
    failed = {name: why for name, why in found.items() if why}
    assert not {name: why for name, why in failed.items() if why.startswith("crash")}
    assert {name: why for name, why in failed.items() if name not in EXPECTED} == {}
    assert [name for name in names if name in EXPECTED and name not in failed] == [], "take these out of the table"


def test_enough_of_them_pass() -> None:
    names = sorted(everything())
    assert len(set(drawn())) == COUNT
    assert set(EXPECTED) <= set(names)
    counted = [name for name in names if EXPECTED.get(name) not in NOT_COUNTED]
    assert len([name for name in counted if name not in EXPECTED]) >= MIN_PASSING * len(counted)
