"""The real models of the tests, by name: of integers, and of floats."""

from __future__ import annotations

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
# Not on every board each: qemu-cortex-m4 is the core of nucleo_l4r5zi, and person is of the operators of vww.
ON_M4_TWICE = ("kws", "micro_speech", "hello", "wake_vad")
LEFT_OUT = (
    *((name, "qemu-cortex-m4") for name in NAMES if name not in ON_M4_TWICE),
    ("person", "qemu-cortex-m7"), ("vww", "qemu-cortex-m33"), ("person", "aarch64-linux-neon"),
    ("person", "aarch64-linux-i8mm"),
)  # fmt: skip
OTHER_CORE = "qemu-riscv32"
ON_OTHER_CORE = ("kws", "ad", "micro_speech", "wake_vad")
SMALLEST_BOARD = "microbit"
FIT_SMALLEST = ("wake", "kws", "micro_speech", "hello", "okay_nabu", "wake_vad")
