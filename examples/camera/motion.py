"""Makes motion.ir: a model that sees where in a picture something moves.

    python examples/camera/motion.py out/motion.ir

It keeps the last frame as a state, and averages how much the brightness has changed over blocks of 8 by 8 pixels.
Nothing is trained.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sdk.compiler.ir.module import Module
from sdk.driver.program import save_program
from sdk.graph import ModuleBuilder, f32, u8

ROWS, COLUMNS, BLOCK = 48, 64, 8


def model() -> Module:
    """A frame u8[48, 64] to ``motion`` f32[6, 8]: the mean change of each block since the last frame, 0 to 255."""
    g = ModuleBuilder("motion")
    last = g.state("last", f32, (ROWS, COLUMNS))
    with g.entry("main") as e:
        now = e.cast(e.input("frame", u8, (ROWS, COLUMNS)), to=f32)
        change = e.abs(now - e.read(last))
        e.write(last, now)
        blocks = e.reshape(change, shape=(ROWS // BLOCK, BLOCK, COLUMNS // BLOCK, BLOCK))
        means = e.reduce_sum(blocks, axes=(1, 3)) * (1 / BLOCK**2)
        e.output("motion", e.reshape(means, shape=(ROWS // BLOCK, COLUMNS // BLOCK)))
    return g.module()


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.parent.mkdir(parents=True, exist_ok=True)
    save_program(model(), out)
