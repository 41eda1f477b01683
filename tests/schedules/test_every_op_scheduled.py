"""What the default rules make of every op on every kind of core is well formed, replays, and can be written as C."""

from __future__ import annotations

import pytest

from sdk.boards import load_board
from sdk.codegen_c.functions.stmt import emit_loops
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.nest import Nest
from sdk.compiler.memory.scratch import scratch_layout
from sdk.compiler.ops import OPS, infer
from sdk.compiler.ops.registry import OpDef
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.schedules.trace import replay
from sdk.compiler.verify.loops import verify_loops

SETS = {
    "avx512": frozenset({"sse2", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512vnni"}),
    "avx2": frozenset({"sse2", "avx2", "fma"}),
    "neon": frozenset({"neon"}),
    "cortex-m4": load_board("nucleo_l4r5zi").capabilities,
    "none": frozenset[str](),
}
SCHEDULED = [op for op in OPS.values() if op.loops and not op.view]


@pytest.mark.some(3 * len(SCHEDULED) // 2)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("op", SCHEDULED, ids=lambda op: op.name)
def test_scheduled_for_every_core(op: OpDef, name: str) -> None:
    for k, sample in enumerate(op.samples):
        outs = infer(op.name, sample.inputs, sample.attrs)
        plain = op.loops(f"{op.name}_{k}", sample.inputs, outs, dict(sample.attrs))
        done = schedule_nest(Nest(plain), machine_for(SETS[name]))
        found: list[str] = []
        verify_loops(done, lambda where, message, found=found: found.append(f"{where}: {message}"))
        assert found == [], done.trace
        emit_loops(Unit("m", SETS[name]), done, scratch_layout(done).offsets)
        if done is not plain:
            assert replay(plain, done.trace) == done, done.trace
