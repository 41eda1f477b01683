"""What this machine can run boards on, as sdk devices lists it: each address once, what is not installed apart."""

from __future__ import annotations

import pytest

from sdk.boards import board_names, load_board
from sdk.driver import finding
from sdk.driver.machines import engine_of


@pytest.mark.parametrize("missing", ["", "qemu-system-riscv32", "qemu-system-arm qemu-system-riscv32"])
def test_each_emulator_once(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "engine_of", lambda board: None if board.hosted and not board.emulator else "qemu")
    monkeypatch.setattr(finding.shutil, "which", lambda name: None if name in missing.split() else f"/bin/{name}")
    found = finding._own()
    free = [one for one in found if one.state == "free"]
    assert len({one.address for one in free}) == len(free)
    assert [one.name for one in free if one.address == "local:"] == ["this machine"]
    offline = {one.name.removeprefix("emulated by "): one for one in found if one.state == "offline"}
    assert list(offline) == missing.split()
    assert all(one.fix and one.why for one in offline.values())
    listed = [name for one in found for name in one.boards]
    assert sorted(listed) == sorted(board_names())
    [emulated] = [one for one in free if one.address == "qemu://"] or [None]
    assert emulated is None or not set(missing.split()) & set(emulated.name.replace(",", "").split())


def test_the_boards_are_those_of_their_engines() -> None:
    for one in finding._own():
        for name in one.boards:
            engine = engine_of(load_board(name))
            assert one.address == ("local:" if engine is None else f"{engine}://")
