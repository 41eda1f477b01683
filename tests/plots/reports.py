"""Reports made by hand, for the pages that show them."""

from __future__ import annotations

from sdk.profile import OpProfile, Peak, ProfileReport

OPS = ("CONV_2D net/conv1/Relu", "DEPTHWISE_CONV_2D net/conv2/Relu", "CONV_2D net/conv3/Relu", "SOFTMAX net/answer")
CYCLES = (30_000, 9_000, 60_000, 400)


def profile_report(unit: str = "est_cycles", peak: float = 2.0) -> ProfileReport:
    """A profile with a cost in ``unit``."""
    total = sum(CYCLES) * 1.01
    ops = tuple(
        OpProfile(
            k, k + 1, f"k{k}", "conv2d", name, 8 if k == 1 else 1, cycles // 2 if k < 3 else 0, 4_000 + k,
            900 - 200 * k, cycles / total, **({"instructions": 2 * cycles} | {unit: cycles}),
            peak_compute=0.25 if k < 3 else None, peak_bandwidth=0.1,
        )
        for k, (name, cycles) in enumerate(zip(OPS, CYCLES, strict=True))
    )  # fmt: skip
    return ProfileReport(
        "net.tflite", "some_board", "qemu://", True, {"n": 3}, 1, 1, "instructions", ops, {unit: round(total)},
        0.02, 0.99, Peak(unit, peak, 4.0, "two products an instruction"), ("a note <about> this",),
    )  # fmt: skip
