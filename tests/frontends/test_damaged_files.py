"""Truncated and damaged files: an error that says what and where, or a well-formed module; never a crash."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from mutate import mutations
from streaming import streaming_file
from test_operators import CASES

from sdk.compiler.ir.module import Module
from sdk.compiler.ops import registry
from sdk.compiler.verify.module import verify
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

SECONDS = 2.0
OWN = {
    "convolution": CASES["conv same strided relu"],
    "slices": CASES["strided slice shrink"],
    "variables": streaming_file(),
}


def imported(data: bytes) -> Module | None:
    """The module, or None where the file is refused; any other exception fails the test."""
    try:
        return import_tflite(data, "model")
    except BuildError:
        return None


def survives(data: bytes, count: int, seed: int, verified: int) -> tuple[int, int]:
    """Imports damaged copies, verifies one module in ``verified``; how many were refused and accepted."""
    refused, accepted = 0, 0
    for what, damaged in mutations(data, count, seed):
        start = time.monotonic()
        module = imported(damaged)
        if module is None:
            refused += 1
        else:
            accepted += 1
            if accepted % verified == 0:
                assert verify(module, registry) == [], what
        assert time.monotonic() - start < SECONDS, what
    return refused, accepted


@pytest.mark.parametrize("name", OWN)
def test_damaged_copies_of_small_files(name: str) -> None:
    refused, accepted = survives(OWN[name], 500, seed=5, verified=1)
    assert refused > 100
    assert accepted > 10


@pytest.mark.models
@pytest.mark.parametrize("name", ["hello_world_int8", "kws_ref_model", "okay_nabu"])
def test_damaged_copies_of_real_models(models: Path, name: str) -> None:
    survives((models / f"{name}.tflite").read_bytes(), 170, seed=6, verified=20)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "0 bytes"),
        (b"\x08\x00\x00\x00ONNX" + bytes(64), "identifier"),
        (b"\xff\xff\xff\x7fTFL3" + bytes(64), "outside the file"),
        (OWN["convolution"][:200], "outside|beyond|cut off|impossible"),
    ],
)
def test_reason_says_what_is_wrong(data: bytes, words: str) -> None:
    with pytest.raises(BuildError, match="not a valid TensorFlow Lite model") as error:
        import_tflite(data, "model")
    assert error.value.why is not None
    assert any(word in error.value.why for word in words.split("|"))


def bomb(count: int) -> bytes:
    """``count`` references to one subgraph, which holds ``count`` references to one empty tensor."""

    def u16(*values: int) -> bytes:
        return b"".join(v.to_bytes(2, "little") for v in values)

    def u32(*values: int) -> bytes:
        return b"".join(v.to_bytes(4, "little") for v in values)

    def references(at: int, target: int) -> bytes:
        """A vector at ``at`` whose every element leads to ``target``."""
        return u32(count, *(target - (at + 4 + 4 * k) for k in range(count)))

    model_layout = 8  # field 2 (subgraphs) at byte 4 of 8
    subgraph_layout = model_layout + 10  # field 0 (tensors) at byte 4 of 8
    tensor_layout = subgraph_layout + 6  # no field in 4 bytes
    model = tensor_layout + 4
    subgraphs = model + 8
    subgraph = subgraphs + 4 + 4 * count
    tensors = subgraph + 8
    tensor = tensors + 4 + 4 * count
    return b"".join(
        (
            u32(model), b"TFL3",
            u16(10, 8, 0, 0, 4), u16(6, 8, 4), u16(4, 4),
            u32(model - model_layout, 4), references(subgraphs, subgraph),
            u32(subgraph - subgraph_layout, 4), references(tensors, tensor),
            u32(tensor - tensor_layout),
        )
    )  # fmt: skip


def test_tables_referred_to_over_and_over_are_refused() -> None:
    """A few kilobytes that unfold to millions of tables must not take long."""
    start = time.monotonic()
    with pytest.raises(BuildError) as error:
        import_tflite(bomb(2000), "model")
    assert time.monotonic() - start < SECONDS
    assert error.value.why == "the same tables are referred to over and over"
