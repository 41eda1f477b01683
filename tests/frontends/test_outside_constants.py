"""Constants and options that stand behind the tables of a file, as converters write models of many gigabytes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from reference import litert_outputs
from tflite_files import ModelFile

from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError
from sdk.frontends.tflite.flexbuffers import read_flags
from sdk.frontends.tflite.importer import import_tflite
from sdk.frontends.tflite.reader import read_model

RNG = np.random.default_rng(4)
ROWS, BIAS = RNG.standard_normal((3, 5)), RNG.standard_normal(3)


def _dense() -> ModelFile:
    m = ModelFile()
    x = m.input("x", (2, 5), "float32")
    constants = [m.const("w", ROWS, "float32"), m.const("b", BIAS, "float32")]
    m.op("FULLY_CONNECTED", [x, *constants], [m.output("y", (2, 3), "float32")], "FullyConnectedOptions")
    return m


def test_constants_behind_the_tables() -> None:
    data = _dense().build(behind=True)
    assert data.endswith(BIAS.astype(np.float32).tobytes())
    x = RNG.standard_normal((2, 5)).astype(np.float32)
    ((want,),) = litert_outputs(data, [[x]])
    found = run_graph(import_tflite(data, "net"), "main", {"x": x})["y"]
    np.testing.assert_allclose(found, want, rtol=1e-6)
    inside = run_graph(import_tflite(_dense().build(), "net"), "main", {"x": x})["y"]
    assert found.tobytes() == inside.tobytes()


def test_options_behind_the_tables() -> None:
    m = ModelFile()
    flags = {"one": 3, "two": 0.5}
    m.op("CUSTOM", [m.input("x", (2,), "float32")], [m.output("y", (2,), "float32")], custom="Own", flags=flags)
    found = [read_model(m.build(behind=behind), {})[0].operators[0].custom_options for behind in (False, True)]
    assert read_flags(found[0]).values == read_flags(found[1]).values == flags


@pytest.mark.parametrize(("place", "size"), [(1 << 40, None), (None, 1 << 40), ((1 << 64) - 8, None), (None, 61)])
def test_bytes_outside_the_file_are_refused(place: int | None, size: int | None) -> None:
    data = _dense().build(behind=True)
    start = len(data) - 12
    at = data.index(struct.pack("<Q", start))
    known = data.index(struct.pack("<Q", 12))
    for where, number in ((at, place), (known, size)):
        if number is not None:
            data = data[:where] + struct.pack("<Q", number) + data[where + 8 :]
    with pytest.raises(BuildError) as caught:
        import_tflite(data, "net")
    assert "the constant b" in str(caught.value.why)
