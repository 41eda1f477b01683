"""What a scheduled nest of rows must do: verify, and compute whole images and some of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.verify.loops import verify_loops

__all__ = ["computes"]


def computes(done: Loops, given: Mapping[str, NDArray[Any]], want: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Checks a nest with the output ``o`` on parameters as the operator has them; returns those as it takes them."""
    problems: list[str] = []
    verify_loops(done, lambda where, message: problems.append(f"{where}: {message}"))
    assert problems == []
    arrays = dict(given)
    for name, layout in done.layouts.items():
        arrays[name] = pack_array(arrays[name], layout)
    rows = want.shape[1]
    for lo, hi in {(0, rows), (rows // 3, max(rows - 1, 1))}:
        arrays["o"] = np.full(want.shape, 99, want.dtype)
        run_loops(done, arrays, rows=(lo, hi))
        np.testing.assert_array_equal(arrays["o"][:, lo:hi], want[:, lo:hi])
    return arrays
