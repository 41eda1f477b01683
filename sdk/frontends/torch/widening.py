"""Programs of bfloat16 as programs of f32, which holds each of its values: so they are computed, and compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from sdk.errors import BuildError

__all__ = ["widen", "widen_tensors"]

_NARROW, _WIDE = 13, 7  # PyTorch's numbers of the two types in files
_KEYS: Final = ("dtype", "as_scalar_type")
_BITS: Final = "torch.ops.aten.view.dtype"


def widen(found: Any) -> None:
    """Makes every tensor of a program's description f32 where it was bfloat16.

    Raises:
        BuildError: an operator reads the bits of such a tensor.
    """
    for graph in _dicts(found, "nodes"):
        for node in graph["nodes"]:
            given = [one["arg"] for one in node["inputs"]] if node["target"] == _BITS else []
            kinds = [one["as_scalar_type"] for one in given if "as_scalar_type" in one]
            kinds += [graph["tensor_values"][one["as_tensor"]["name"]]["dtype"] for one in given if "as_tensor" in one]
            if _NARROW in kinds:
                raise BuildError("an operator reads the bits of bfloat16, which is computed as f32", hint="use to()")
    for key in _KEYS:
        for one in _dicts(found, key):
            if one[key] == _NARROW and not isinstance(one[key], bool):
                one[key] = _WIDE


def _dicts(found: Any, key: str) -> Iterator[dict[str, Any]]:
    """The dicts inside that have a key."""
    if isinstance(found, dict):
        if key in found:
            yield found
        for value in found.values():
            yield from _dicts(value, key)
    elif isinstance(found, list):
        for value in found:
            yield from _dicts(value, key)


def widen_tensors(described: Any, files: dict[str, bytes], folder: str) -> None:
    """The same for the tensors of a folder, whose bytes are in ``files``."""
    kinds: dict[str, set[int]] = {}
    for one in described["config"].values():
        kinds.setdefault(one["path_name"], set()).add(one["tensor_meta"]["dtype"])
    for path, found in kinds.items():
        if found == {_NARROW}:
            bits = np.frombuffer(files[folder + path], "<u2").astype(np.uint32) << np.uint32(16)
            files[folder + path] = bits.astype("<u4").tobytes()
    for one in described["config"].values():
        if kinds[one["path_name"]] == {_NARROW}:
            one["tensor_meta"]["dtype"] = _WIDE
