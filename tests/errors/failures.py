"""What a failed command must print: one JSON object on stdout, the same error in words on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Fails = Callable[..., dict[str, Any]]


def check_error(code: int, out: str, err: str, expected: int) -> dict[str, Any]:
    """Checks what a failed command with --json has printed; returns the error: it says what, and what to do."""
    assert "Traceback" not in err
    assert code == expected, err
    found = json.loads(out)  # fails unless stdout is exactly one object
    assert set(found) == {"schema", "error"}
    assert found["schema"] == 1
    error = found["error"]
    assert set(error) == {"kind", "message", "where", "why", "hint", "exit_code"}
    assert "internal error" not in error["message"]
    assert error["exit_code"] == expected
    assert err.startswith(f"error: {error['message']}\n")
    assert error["hint"], f"nothing says what to do next: {error}"
    return dict(error)
