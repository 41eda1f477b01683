"""Files of safetensors: an eight-byte length, a header of JSON, and the elements of tensors after one another."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sdk.errors import UsageError
from sdk.files import read_regular
from sdk.frontends.tensors import KINDS, Tensor, Tensors

__all__ = ["load_safetensors", "read_safetensors"]

MAX_BYTES: Final = (1 << 31) - 1  # of a file: as much as generated code can index
MAX_HEADER: Final = 100 << 20  # the format's own limit
_HINT: Final = "write it with safetensors: save_file(model.state_dict(), path)"
_DAMAGE: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def load_safetensors(paths: Sequence[Path]) -> Tensors:
    """The tensors of files, such as the shards of a large model.

    Raises:
        UsageError: a file cannot be read or is damaged, or two have a tensor of one name.
    """
    found: dict[str, Tensor] = {}
    hasher = hashlib.sha256()
    for path in paths:
        try:
            data = read_regular(path, MAX_BYTES)
        except OSError as err:
            raise UsageError(f"cannot read {path}", why=err.strerror or str(err), hint="check --safetensors") from None
        tensors = read_safetensors(data, str(path))
        twice = sorted(set(found) & set(tensors))
        if twice:
            raise UsageError(f"two files have a tensor {twice[0]!r}", where=str(path), hint="leave one out")
        found |= tensors
        hasher.update(hashlib.sha256(data).digest())
    return Tensors(found, hasher.hexdigest(), ", ".join(p.name for p in paths))


def read_safetensors(data: bytes | memoryview, name: str) -> dict[str, Tensor]:
    """The tensors in the bytes of a file, which is called ``name`` in errors.

    Raises:
        UsageError: they are damaged, or of an element type that is not supported.
    """
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(MAX_HEADER, len(data) - 8):
        raise UsageError(f"{name} is no file of safetensors", why="its header does not fit into it", hint=_HINT)
    try:
        header = json.loads(bytes(data[8 : 8 + length]), object_pairs_hook=_once)
        header.pop("__metadata__", None)
        return _tensors(header, memoryview(data)[8 + length :])
    except UsageError as error:
        error.where = error.where or name
        raise
    except _DAMAGE as error:
        raise UsageError(f"{name} is no file of safetensors", why=f"its header: {error}"[:200], hint=_HINT) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _tensors(header: dict[str, Any], body: memoryview) -> dict[str, Tensor]:
    """Tensors as a header describes them: one after another, nothing between them and nothing after the last."""
    found: dict[str, Tensor] = {}
    end = 0
    for name, one in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        kind, shape, (begin, after) = one["dtype"], tuple(one["shape"]), one["data_offsets"]
        if kind not in KINDS:
            raise UsageError(
                f"the tensor {name[:80]!r} has elements of type {str(kind)[:20]}, which is not supported",
                hint="save it as F32: tensor.float()",
            )
        numbers = (begin, after, *shape)
        if not all(type(n) is int and n >= 0 for n in numbers) or begin != end or after > len(body):
            raise ValueError(f"the tensor {name[:80]!r} does not lie where the one before it ends")
        if math.prod(shape) * KINDS[kind] != after - begin:
            raise ValueError(f"the tensor {name[:80]!r} has {after - begin} bytes")
        found[name] = Tensor(kind, shape, body[begin:after])
        end = after
    if end != len(body):
        raise ValueError(f"{len(body) - end} bytes belong to no tensor")
    return found
