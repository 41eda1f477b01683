"""Networks that once were wrong, in their smallest form: what a compiler made of our C, or we of the network."""

from __future__ import annotations

import pytest
from generate import Network, Spec
from generate.network import layer

from differential.compare import Choice, check
from differential.subjects import subjects

PLAIN = {"act": 0, "bias": None, "dilation": (1, 1), "scales": (-5, 1013465090), "spread": 0, "wide_bias": True}
LAYERS = {
    # gcc 12 took the mask of the first lanes, which it knows, for all lanes
    "sum of 33": Network(
        "int8", 1, (("x", Spec((1, 1, 33), "int8", 1.0, 127)),),
        (layer("MEAN", ["x"], ["y"], axes=(0, 2), keep=False, scale=1.0, zero=0),), ("y",),
    ),
    # gcc 12 joined masks of floats to one whose lanes are all those of the first
    "relu": Network("onnx-float", 1, (("x", Spec((1, 3, 15), "float32")),), (layer("Relu", ["x"], ["y"]),), ("y",)),
    # LLVM 22 made a gather of strided loads, and a loop without an end of those around it
    "strided int16": Network(
        "int16", 1, (("x", Spec((1, 9, 8, 16), "int16", 0.0004)),),
        (layer("CONV_2D", ["x"], ["y"], channels=3, fill=("random", 7), kernel=(2, 3), padding=1, stride=(2, 2),
               ratio=("natural", 1.4), zero=0, **PLAIN),), ("y",),
    ),
}  # fmt: skip


@pytest.mark.emulator
@pytest.mark.parametrize("compiler", ["zig", "arm-none-eabi-gcc"])
def test_vectors_of_cortex_m55(compiler: str) -> None:
    ready = subjects(list(LAYERS.values()))
    for opt in ("time", "size"):
        tally = check(ready, "m55", [Choice(compiler, opt)] * len(ready))
        assert [(f.network.layers[0].op, f.what) for f in tally.wrong] == []
        assert sum(tally.right.values()) == len(ready), tally.refused
