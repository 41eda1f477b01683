"""Resource variables of every type: what CALL_ONCE gives them, and what one run leaves for the next, as in LiteRT."""

from __future__ import annotations

import numpy as np
import pytest
from reference import litert_outputs
from tflite_files import ModelFile

from sdk.compiler import ops
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.verify.module import check
from sdk.frontends.tflite.importer import import_tflite

KINDS = ("float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")
RESOURCE = 13


def kept(kind: str, first: np.ndarray, scale: float | None) -> bytes:
    """Each run gives what the variable held, and puts its input there."""
    m, init = ModelFile(), ModelFile()
    meaning = (scale, 3) if scale is not None else ()
    x = m.input("x", first.shape, kind, *meaning)
    before = m.output("before", first.shape, kind, *meaning)
    handles = [file.tensor(f"handle{k}", (), type=RESOURCE) for k, file in enumerate((m, init))]
    m.op("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1)
    for file, handle in zip((m, init), handles, strict=True):
        file.op("VAR_HANDLE", [], [handle], "VarHandleOptions", Container="", SharedName="v")
    m.op("READ_VARIABLE", [handles[0]], [before], "ReadVariableOptions")
    m.op("ASSIGN_VARIABLE", [handles[0], x], [], "AssignVariableOptions")
    given = {} if scale is None else {"scale": scale, "zero": 3}
    start = init.const("first", first, kind, **given)
    init.op("ASSIGN_VARIABLE", [handles[1], start], [], "AssignVariableOptions")
    return m.build(init)


@pytest.mark.parametrize("kind", KINDS)
def test_every_type(kind: str) -> None:
    rng = np.random.default_rng(0)
    scales = (None, 0.5) if kind in ("int8", "uint8", "int16") else (None,)
    for scale in scales:
        for first in (np.ones((2, 3), kind), rng.integers(0, 2 if kind == "bool" else 90, (2, 3)).astype(kind)):
            data = kept(kind, first, scale)
            module = import_tflite(data, "model")
            check(module, ops)
            steps = [rng.integers(0, 2 if kind == "bool" else 90, (2, 3)).astype(kind) for _ in range(3)]
            states = initial_states(module)
            for x, want in zip(steps, litert_outputs(data, [[x] for x in steps]), strict=True):
                np.testing.assert_array_equal(run_graph(module, "main", {"x": x}, states)["before"], want[0])
