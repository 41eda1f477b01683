"""A small streaming model: a window over the last rows, kept in a variable that an init subgraph fills."""

from __future__ import annotations

import numpy as np
from tflite_files import ModelFile


def streaming_file(first: list[int] | None = None) -> bytes:
    """x[1,1,4] is appended to a window of 2 rows; the sum of the window and of the new row comes out."""
    m = ModelFile()
    x = m.input("serving/x:0", (1, 1, 4), "int8", 0.1, 4)
    handle = m.tensor("window_handle", (), type=13)
    before = m.tensor("before", (1, 2, 4), "int8", 0.1, 4)
    longer = m.tensor("longer", (1, 3, 4), "int8", 0.1, 4)
    after = m.tensor("after", (1, 2, 4), "int8", 0.1, 4)
    y = m.output("serving/y:0", (1, 3, 4), "int8", 0.2, 1)
    m.op("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1)
    m.op("VAR_HANDLE", [], [handle], "VarHandleOptions", Container="", SharedName="window")
    m.op("READ_VARIABLE", [handle], [before], "ReadVariableOptions")
    m.op("CONCATENATION", [before, x], [longer], "ConcatenationOptions", Axis=1)
    cut = [m.const(f"c{k}", v) for k, v in enumerate(([0, 1, 0], [1, 3, 4], [1, 1, 1]))]
    m.op("STRIDED_SLICE", [longer, *cut], [after], "StridedSliceOptions")
    m.op("ASSIGN_VARIABLE", [handle, after], [], "AssignVariableOptions")
    m.op("ADD", [longer, x], [y], "AddOptions")
    init = ModelFile()
    handle2 = init.tensor("window_handle2", (), type=13)
    values = np.reshape(first if first is not None else [4] * 8, (1, 2, 4))
    start = init.const("start", values, "int8", scale=0.1, zero=4)
    init.op("VAR_HANDLE", [], [handle2], "VarHandleOptions", Container="", SharedName="window")
    init.op("ASSIGN_VARIABLE", [handle2, start], [], "AssignVariableOptions")
    return m.build(init)
