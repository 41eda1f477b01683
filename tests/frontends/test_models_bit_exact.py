"""The real int8 models: the imported graph, interpreted, equals tflite-micro bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from reference import assert_bit_exact

MODELS = [
    "kws_ref_model",
    "vww_96_int8",
    "pretrainedResnet_quant",
    "ad01_int8",
    "str_ww_ref_model",
    "person_detect",
    "micro_speech_quantized",
    "hello_world_int8",
]
STREAMING = ["okay_nabu", "wake_vad"]


@pytest.mark.models
@pytest.mark.parametrize("name", MODELS)
def test_model_is_bit_exact(models: Path, name: str) -> None:
    assert_bit_exact((models / f"{name}.tflite").read_bytes())


@pytest.mark.models
@pytest.mark.parametrize("name", STREAMING)
def test_streaming_model_is_bit_exact_with_its_state(models: Path, name: str) -> None:
    module = assert_bit_exact((models / f"{name}.tflite").read_bytes(), runs=20)
    assert module.states
    assert str(module.graphs["main"].results[0].type.dtype) == "u8"
