"""The same search in C, where something compiles it: it finds what the one in Python does, many times faster."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.memory.compiled_search import maker
from sdk.compiler.memory.planner.lower_bounds import Ints, Packing
from sdk.compiler.memory.planner.niche import MEMORY, Budget, search

__all__ = ["SOURCE", "search_packing"]

SOURCE: Final = Path(__file__).with_name("niche.c")
PATIENCE: Final = 4_000  # blocks to look at in Python before it is worth having a library
_SLOTS: Final = 2 * MEMORY
_GIVEN: Final = ("size", "first", "last", "align", "latest", "taken")
_SCRATCH: Final = ("level", "count", "held_sum", "lowest", "second", "owner")


class _Search(ctypes.Structure):
    """``Search`` of niche.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("capacity", "left", "memo_used", "memo_size")),
        *((name, ctypes.c_void_p) for name in (*_GIVEN, "walls", "wall_start", "out", *_SCRATCH, "items", "memo")),
    )


class _Library:
    """The library, once it is made."""

    made: ctypes.CDLL | None = None


def search_packing(packing: Packing, budget: Budget) -> Ints | None:
    """What ``search`` of the module ``niche`` gives, found in C where something compiles it and the search is long."""
    make = maker()
    if make is None:
        return search(packing, budget)
    if _Library.made is None:
        maximum = min(budget.left, PATIENCE)
        tried = Budget(maximum)
        found = search(packing, tried)
        if tried.left >= 0 or maximum == budget.left:
            budget.left -= maximum - tried.left
            return found
        _Library.made = make(SOURCE)
    return _run(_Library.made, packing, budget)


def _run(library: ctypes.CDLL, packing: Packing, budget: Budget) -> Ints | None:
    count, sections = len(packing.size), int(packing.last.max()) + 1
    out = np.zeros(count, dtype=np.int64)
    flat = [end for walls in packing.walls for wall in walls for end in wall]
    starts = np.cumsum([0, *(len(w) for w in packing.walls)])
    arrays: dict[str, NDArray[np.generic]] = {
        "walls": np.array(flat or [0], dtype=np.int64),
        "wall_start": starts.astype(np.int64),
        "out": out,
        # what each level of the search holds shrinks by a block: four lists of them at most, three words an item
        "items": np.empty(3 * (2 * count * (count + 4) + 64), dtype=np.int64),
        "memo": np.zeros(_SLOTS, dtype=np.uint64),
    }
    for name in _GIVEN:
        arrays[name] = np.ascontiguousarray(getattr(packing, name), dtype=np.int64)
    for name in _SCRATCH:
        arrays[name] = np.zeros(sections, dtype=np.int64)
    state = _Search(packing.capacity, budget.left, 0, _SLOTS, **{name: a.ctypes.data for name, a in arrays.items()})
    run = library.niche_search
    run.argtypes, run.restype = [ctypes.POINTER(_Search), ctypes.c_int32, ctypes.c_int32], ctypes.c_int32
    result = run(ctypes.byref(state), count, int(packing.plain))
    budget.left = state.left
    return out if result == 1 else None
