"""Board files of one's own that are wrong: the error names file and key, and where the keys are described."""

from __future__ import annotations

from pathlib import Path

import pytest
from failures import Fails

GOOD = 'schema = 1\nextends = "microbit"\n[board]\ntitle = "mine"\n'
MEMORY = '[[memory]]\nname = "{name}"\nbase = {base}\nsize = {size}\nkind = "ram"\nattrs = ["r", "w"]\n'


@pytest.mark.parametrize(
    ("text", "says", "hints"),
    [
        ("[board", ("not a TOML file", "Expected ']'"), ("sdk help adding",)),
        ("extends = 3\n", ("'extends' must be a string",), ("sdk help adding",)),
        ('extends = "microbti"\n', ("no board file 'microbti' to extend",), ("did you mean microbit?",)),
        ('extends = "mine"\n', ("extend each other in a circle", "mine -> mine"), ("sdk help adding",)),
        (f"{GOOD}color = 1\n", ("unknown key 'color'", "board"), ("known keys: ",)),
        (f"{GOOD}vendor = 1\n", ("key 'vendor' has the wrong type", "its value is 1"), ("sdk help adding",)),
        (
            GOOD + MEMORY.format(name="m", base=0, size=64).replace("ram", "tape"),
            ("has an unknown value 'tape'",),
            ("one of",),
        ),
        (
            f"{GOOD}aliases = [1]\n",
            ("key 'aliases[0]' has the wrong type", "Expected `str`, got `int`"),
            ("sdk help adding",),
        ),
        (f'{GOOD}title_append = ["x"]\n', ("'board.title_append' appends to no array",), ("sdk help adding",)),
        (
            'schema = 1\nextends = "microbit"\nmemory = [3]\n',
            ("key 'memory[0]' has the wrong type", "Expected `table`"),
            ("sdk help adding",),
        ),
        ("schema = 1\n", ("missing key 'board'",), ("sdk help adding",)),
        (f'{GOOD}[[memory]]\nname = "ram"\n', ("missing key 'base'",), ("sdk help adding",)),
        (GOOD + MEMORY.format(name="ram", base=0, size='"lots"'), ("not a size: 'lots'", "size"), ('"640K"',)),
        (
            GOOD + MEMORY.format(name="a", base=0, size=64) + MEMORY.format(name="b", base=32, size=64),
            ("board 'mine' is inconsistent",),
            ("sdk help adding",),
        ),
        (None, ("cannot read the board file", "directory"), ("sdk help adding",)),
    ],
)
def test_a_board_file(
    fails: Fails,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    says: tuple[str, ...],
    hints: tuple[str, ...],
) -> None:
    monkeypatch.setenv("CROSSLEVEL_BOARDS", str(tmp_path))
    file = tmp_path / "mine.toml"
    if text is None:
        file.mkdir()
    else:
        file.write_text(text, encoding="utf-8")
    fails(2, "boards", "show", "mine", says=says, hints=hints)
