"""The real models of the tests, by name: of integers, and of floats."""

from __future__ import annotations

from typing import Any

import pytest

NAMES = {
    "kws": "kws_ref_model.tflite",
    "vww": "vww_96_int8.tflite",
    "ic": "pretrainedResnet_quant.tflite",
    "ad": "ad01_int8.tflite",
    "wake": "str_ww_ref_model.tflite",
    "person": "person_detect.tflite",
    "micro_speech": "micro_speech_quantized.tflite",
    "hello": "hello_world_int8.tflite",
    "okay_nabu": "okay_nabu.tflite",
    "wake_vad": "wake_vad.tflite",
}
# The first has weights of 8 bits: it quantises what its layers read at each run.
FLOATS = {
    "kws": "kws_ref_model_float32.tflite",
    "vww": "vww_96_float.tflite",
    "ic": "pretrainedResnet.tflite",
    "ad": "ad01_fp32.tflite",
    "hello": "hello_world_float.tflite",
}
STATEFUL = ("okay_nabu", "wake_vad")
BOARDS = (
    "qemu-cortex-m3",
    "qemu-cortex-m4",
    "qemu-cortex-m7",
    "qemu-cortex-m33",
    "qemu-cortex-m55",
    "nucleo_l4r5zi",
    "microbit",
    "aarch64-linux-neon",
    "aarch64-linux",
    "aarch64-linux-i8mm",
)
# the large ones take as long to build and run as the other seven together
LARGE = ("vww", "ic", "person")
OTHER_CORE = "qemu-riscv32"
ON_OTHER_CORE = ("kws", "ad", "micro_speech", "wake_vad")
SMALLEST_BOARD = "microbit"
FIT_SMALLEST = ("wake", "kws", "micro_speech", "hello", "okay_nabu", "wake_vad")


def soaked(name: str, *more: Any, quick: bool | None = None) -> Any:
    """The parameters of a test of a model, marked slow where it is a large one, or where it is not ``quick``."""
    slow = name in LARGE if quick is None else not quick
    return pytest.param(name, *more, marks=[pytest.mark.slow] if slow else [])
