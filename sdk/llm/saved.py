"""Conversations in files: what a build has computed of a text, so that nothing of it is computed again.

Little endian: ``_HEAD``, the tokens (u32), what else is kept, the bytes of the caches, and a CRC-32 of all of it. The C
of ``sdk llm embed`` reads and writes the same.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from sdk.errors import UsageError
from sdk.files import replacing
from sdk.llm.conversation import Conversation
from sdk.llm.model import Snapshot
from sdk.llm.text.template import Message

__all__ = ["restore_conversation", "save_conversation"]

# magic, hash of the model, kind of what else is kept, its bytes, tokens, length, written, who spoke last, state bytes
_HEAD: Final = struct.Struct("<8s64sIIIiiIQ")
_MAGIC: Final = b"SDKCHAT2"
_OF_DEVICE, _OF_HOST = 0, 1  # kinds: text that is not tokens yet; messages as JSON
_ROLES: Final = {"system": 1, "user": 2, "assistant": 3}
_BLOCK: Final = 1 << 20
_MAX_WORDS: Final = 64 << 20  # bytes of messages


def save_conversation(path: Path, talk: Conversation, messages: Sequence[Message]) -> None:
    """Writes a conversation to a file, whole or not at all: its caches, their tokens and its ``messages``. Pages of
    the caches that nothing was written to take no room where the file system has files with holes.

    Raises:
        UsageError: the file cannot be written, or the build is too old.
    """
    kept = talk.model.save()
    words = json.dumps(list(messages)).encode()
    said = _ROLES.get(str(messages[-1].get("role")), 0) if messages else 0
    head = _HEAD.pack(
        _MAGIC, _hash(talk), _OF_HOST, len(words), len(talk.tokens), kept.length, kept.written, said, len(kept.state)
    )
    check = 0
    try:
        with replacing(path) as stream:
            for part in (head, np.asarray(talk.tokens, "<u4").tobytes(), words, *_blocks(kept.state)):
                check = zlib.crc32(part, check)
                if len(part) == _BLOCK and not any(part):
                    stream.seek(_BLOCK, os.SEEK_CUR)
                else:
                    stream.write(part)
            stream.write(check.to_bytes(4, "little"))
    except OSError as error:
        raise UsageError(f"cannot write {path}", why=error.strerror, hint="name another file") from None


def restore_conversation(path: Path, talk: Conversation) -> list[dict[str, Any]]:
    """Takes up the conversation in a file that ``save_conversation`` wrote; its messages. After an error the
    conversation is as it was.

    Raises:
        UsageError: the file cannot be read, is damaged, or is of another build or of a device.
    """
    try:
        with path.open("rb") as stream:
            return _read(path, stream, talk)
    except OSError as error:
        raise UsageError(f"cannot read {path}", why=error.strerror) from None


def _read(path: Path, stream: BinaryIO, talk: Conversation) -> list[dict[str, Any]]:
    found = stream.read(_HEAD.size)
    if found.startswith(_MAGIC[:-1]) and not found.startswith(_MAGIC):
        raise UsageError(f"{path} was saved by another version of the SDK", hint="name another file")
    if len(found) != _HEAD.size or not found.startswith(_MAGIC):
        raise UsageError(f"{path} is no saved conversation", hint="sdk llm chat --session FILE writes one")
    _, model, kind, more, count, length, written, _, state = _HEAD.unpack(found)
    if model != _hash(talk) or state != talk.model.sizes["caches"]:
        raise UsageError(f"{path} is a conversation with another build", hint="name another file")
    if kind != _OF_HOST:
        raise UsageError(f"{path} was saved by a device", why="it has no messages", hint="go on with it there")
    size = _HEAD.size + 4 * count + more + state + 4
    sane = count == length <= written <= talk.model.context and more <= _MAX_WORDS
    if not sane or os.fstat(stream.fileno()).st_size != size:
        raise _damaged(path)
    rest = stream.read(size - _HEAD.size)
    right = zlib.crc32(rest[:-4], zlib.crc32(found))
    if len(rest) != size - _HEAD.size or right != int.from_bytes(rest[-4:], "little"):
        raise _damaged(path)
    tokens = np.frombuffer(rest, "<u4", count)
    if (tokens >= talk.model.vocabulary_size).any():
        raise _damaged(path)
    try:
        messages = json.loads(rest[4 * count : 4 * count + more])
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    if not isinstance(messages, list) or not all(isinstance(one, dict) and "role" in one for one in messages):
        raise _damaged(path)
    talk.model.restore(Snapshot(length, written, rest[4 * count + more : -4]))
    talk.tokens = tokens.tolist()
    return messages


def _damaged(path: Path) -> UsageError:
    return UsageError(f"{path} is damaged", hint="delete it, and the conversation begins anew")


def _hash(talk: Conversation) -> bytes:
    found = str(talk.model.info.get("model_hash", ""))
    if len(found) != 64 or not found.isascii():
        raise UsageError("the build is too old to save conversations", hint="build it again: sdk llm build MODEL")
    return found.encode()


def _blocks(state: bytes) -> Iterator[bytes]:
    return (state[at : at + _BLOCK] for at in range(0, len(state), _BLOCK))
