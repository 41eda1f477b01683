"""An error as people read it, in its parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "digits" / "digits_int8.tflite"


@dataclass(frozen=True)
class Told:
    """An error as people read it on stderr, in its parts."""

    code: int
    message: str
    where: str
    why: str
    hint: str

    @property
    def command(self) -> str:
        """The command line in the hint."""
        found = re.search(r"\b(sdk .*|mv .*|python -c .*)$", self.hint)
        assert found, f"no command in: {self.hint}"
        return found[1]


Mistake = Callable[[str], Told]


def read_error(code: int, out: str, err: str) -> Told:
    """The parts of what a failed command has printed: nothing on stdout, on stderr one error that can be read."""
    assert "Traceback" not in err
    assert "internal error" not in err
    assert out == ""
    assert err.startswith("error: "), err
    parts = dict.fromkeys(("where", "why", "hint"), "")
    message = err.removeprefix("error: ").split("\n  where:")[0].split("\n  why:")[0].split("\n  hint:")[0]
    for name in parts:
        if found := re.search(rf"^  {name}: (.*?)(?=^  (?:where|why|hint): |\Z)", err, re.DOTALL | re.MULTILINE):
            parts[name] = found[1].strip()
    assert parts["hint"], f"nothing says what to do next: {err}"
    return Told(code, message.strip(), **parts)
