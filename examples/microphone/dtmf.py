"""Makes dtmf.ir: a model that hears which key of a telephone is pressed, in 50 ms of sound.

    python examples/microphone/dtmf.py out/dtmf.ir

A key sounds as two tones. The model measures the power at the eight frequencies they are made of: a windowed product
with a cosine and a sine of each, as the Goertzel algorithm does one by one. Nothing is trained.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sdk.compiler.ir.module import Module
from sdk.driver.program import save_program
from sdk.graph import ModuleBuilder, f32, i16

RATE_HZ = 8000
SAMPLES = 400
TONES_HZ = (697, 770, 852, 941, 1209, 1336, 1477, 1633)  # ITU-T Q.23: of the rows, then of the columns


def model() -> Module:
    """Samples i16[1, 400] to ``power`` f32[1, 8]: of each tone, as a share of the power of a tone as loud as can be."""
    at = np.arange(SAMPLES) / RATE_HZ
    angle = 2 * np.pi * np.outer(at, TONES_HZ)
    window = np.hanning(SAMPLES)[:, None] / (np.hanning(SAMPLES).sum() / 2 * 32768)
    g = ModuleBuilder("dtmf")
    cosines = g.const("cosines", (np.cos(angle) * window).astype(np.float32))
    sines = g.const("sines", (np.sin(angle) * window).astype(np.float32))
    with g.entry("main") as e:
        sound = e.cast(e.input("samples", i16, (1, SAMPLES)), to=f32)
        real, imaginary = sound @ cosines, sound @ sines
        e.output("power", real * real + imaginary * imaginary)
    return g.module()


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.parent.mkdir(parents=True, exist_ok=True)
    save_program(model(), out)
