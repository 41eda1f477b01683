"""Keys of agents: codes that a person can type, the files that hold them, and what is derived from them (SPEC.md)."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

import platformdirs

from sdk.errors import UsageError
from sdk.files import read_regular, replacing

__all__ = ["Key", "add_code", "agent_key_file", "known_keys", "known_keys_file", "new_code", "own_key"]

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # without I, L, O, U, which are mistaken for others
_MISTAKEN = str.maketrans("OIL", "011", "- \t\r\n")
_SIGNS = 19  # of 5 bits each: 95 random bits, so that nobody can try them all; one more sign tells a typing error
_GROUP = 5
_MAX_FILE = 65536
_FILES = {"agent": "agent.key", "known": "agents.keys"}
_DIRECTORY_VARIABLE = "CROSSLEVEL_KEYS"


class Key:
    """What tool and agent share: HMAC-SHA256 keys for each purpose are derived from it."""

    def __init__(self, code: str) -> None:
        self._secret = hmac.digest(b"crosslevel agent key 1", _checked(code).encode(), "sha256")
        self.id = self.derive(b"id")[:8]

    def derive(self, purpose: bytes, transcript: bytes = b"") -> bytes:
        """Return 32 bytes for a purpose and what both sides have said."""
        return hmac.digest(self._secret, len(purpose).to_bytes(1, "little") + purpose + transcript, "sha256")


def new_code() -> str:
    """Return a new random code, in groups."""
    signs = "".join(secrets.choice(_ALPHABET) for _ in range(_SIGNS))
    return _grouped(signs + _check(signs))


def agent_key_file() -> Path:
    """Where an agent's own key is, unless it is told otherwise."""
    return _folder() / _FILES["agent"]


def known_keys_file() -> Path:
    """Where the keys of the agents that the tool may use are."""
    return _folder() / _FILES["known"]


def own_key(path: Path, *, create: bool = False) -> tuple[Key, str]:
    """The key of an agent and its code, from its file; with ``create`` the file is made where there is none.

    Raises:
        UsageError: there is no file, it holds no code, or others may read it.
    """
    if create and not path.exists():
        add_code(path, new_code())
    codes = _codes(path)
    if not codes:
        hint = "sdk agent --pair makes one and prints its code"
        raise UsageError("there is no key for the agent", where=str(path), hint=hint)
    return Key(codes[0]), _grouped(_checked(codes[0]))


def known_keys(path: Path | None = None) -> list[Key]:
    """The keys of the agents that this user may use, if any. Raises UsageError for a file that is not safe."""
    return [Key(code) for code in _codes(path or known_keys_file())]


def add_code(path: Path, code: str) -> bool:
    """Add a code to a file of keys, for this user alone, and return whether it is new.

    Raises:
        UsageError: it is no code, or the file is not safe or cannot be written.
    """
    added = _grouped(_checked(code))
    codes = _codes(path)
    if added in [_grouped(_checked(known)) for known in codes]:
        return False
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():  # private before anything is in it
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with replacing(path) as file:
            file.write("".join(f"{line}\n" for line in [*codes, added]).encode())
    except OSError as error:
        raise UsageError(f"cannot write {path}", why=error.strerror, hint=_elsewhere()) from None
    return True


def _folder() -> Path:
    named = os.environ.get(_DIRECTORY_VARIABLE, "")
    return Path(named) if named else platformdirs.user_config_path("crosslevel")


def _elsewhere() -> str:
    return f"{_DIRECTORY_VARIABLE}=FOLDER names another place for keys"


def _codes(path: Path) -> list[str]:
    """The codes in a file, one a line; what stands behind # is for people."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return []
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or mode & 0o077:
        raise UsageError(
            f"the file of keys {path} is not safe",
            why=f"it must be a regular file of yours that nobody else may read; its mode is {mode:o}",
            hint=f"chmod 600 {path}, if nobody has read it; else delete it and pair again",
        )
    try:
        text = read_regular(path, _MAX_FILE).decode("ascii", "replace")
    except OSError as error:
        raise UsageError(f"cannot read {path}", why=error.strerror, hint=_elsewhere()) from None
    lines = [line.split("#", 1)[0].strip() for line in text.splitlines()]
    return [line for line in lines if line]


def _checked(code: str) -> str:
    """The signs of a code as it was typed: in any case, with any dashes, O for 0, I and L for 1."""
    signs = code.upper().translate(_MISTAKEN)
    if len(signs) != _SIGNS + 1 or set(signs) - set(_ALPHABET) or signs[-1] != _check(signs[:-1]):
        raise UsageError(
            "that is no code of an agent",
            why=f"a code has {_SIGNS + 1} signs, the last of which tells typing errors; this one has {len(signs)}",
            hint="sdk agent --pair on the agent's machine prints it",
        )
    return signs


def _check(signs: str) -> str:
    """The sign that follows: of 32 wrong codes it tells 31."""
    return _ALPHABET[hashlib.sha256(signs.encode()).digest()[0] >> 3]


def _grouped(signs: str) -> str:
    return "-".join(signs[at : at + _GROUP] for at in range(0, len(signs), _GROUP))
