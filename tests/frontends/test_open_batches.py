"""Layers around an open batch: shapes that the graph computes, of floats and of integers, and biases of any shape."""

from __future__ import annotations

import numpy as np
import pytest
import tflite
from reference import litert_outputs
from tflite_files import ModelFile

from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

ROWS, WIDE, UNITS = 4, 6, 5


def model(dtype: str, bias: tuple[int, ...], batch: int = 1) -> bytes:
    """A dense layer behind a reshape whose sizes the graph takes from its input; the file states 1 for each of them."""
    m, rng = ModelFile(), np.random.default_rng(5)
    plain = dtype == "float32"
    on = {} if plain else {"scale": 0.05, "zero": 3}
    x = m.input("x", (batch, ROWS, WIDE), dtype, signature=(-1, ROWS, WIDE), **on)
    wider = m.tensor("wider", (batch, 1, ROWS, WIDE), dtype, signature=(-1, 1, ROWS, WIDE), **on)
    again = m.tensor("again", (batch, ROWS, WIDE), dtype, signature=(-1, ROWS, WIDE), **on)
    sizes, count = m.tensor("sizes", (3,), "int32"), m.tensor("count", (), "int32")
    wanted = m.tensor("wanted", (2,), "int32")
    flat = m.tensor("flat", (1, 1), dtype, signature=(-1, -1), **on)
    m.op("EXPAND_DIMS", [x, m.const("axis", 1)], [wider])
    m.op("SQUEEZE", [wider], [again], "SqueezeOptions", SqueezeDims=(1,))
    m.op("SHAPE", [again], [sizes], "ShapeOptions", OutType=tflite.TensorType.INT32)
    first = [m.const("begin", [0]), m.const("end", [1]), m.const("step", [1])]
    m.op("STRIDED_SLICE", [sizes, *first], [count], "StridedSliceOptions", ShrinkAxisMask=1)
    m.op("PACK", [count, m.const("wide", ROWS * WIDE)], [wanted], "PackOptions", ValuesCount=2)
    m.op("RESHAPE", [again, wanted], [flat])
    size = int(np.prod(bias))
    if plain:
        w = m.const("w", rng.standard_normal((UNITS, ROWS * WIDE)), "float32")
        b = m.const("b", rng.standard_normal(size).reshape(bias), "float32")
    else:
        w = m.const("w", rng.integers(-127, 128, (UNITS, ROWS * WIDE)), "int8", scale=0.01)
        b = m.const("b", rng.integers(-4000, 4000, size).reshape(bias), "int32", scale=0.05 * 0.01)
    y = m.output("y", (batch, UNITS), dtype, signature=(-1, UNITS), **({} if plain else {"scale": 0.2, "zero": -7}))
    m.op("FULLY_CONNECTED", [flat, w, b], [y], "FullyConnectedOptions")
    return m.build()


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("bias", [(1, UNITS), (UNITS,)])
def test_an_open_batch_equals_a_file_of_that_batch(dtype: str, bias: tuple[int, ...]) -> None:
    rng = np.random.default_rng(6)
    module = import_tflite(model(dtype, bias), "m", dims={"x_0": (1, 4)})
    for batch in (1, 3):
        shape = (batch, ROWS, WIDE)
        x = rng.standard_normal(shape).astype("f4") if dtype == "float32" else rng.integers(-128, 128, shape, np.int8)
        ((want,),) = litert_outputs(model(dtype, bias, batch), [[x]])
        fixed = run_graph(import_tflite(model(dtype, bias, batch), "m"), "main", {"x": x})["y"]
        found = run_graph(module, "main", {"x": x})["y"]
        assert found.dtype == want.dtype
        assert want.std() > 0
        np.testing.assert_array_equal(found, fixed)
        # LiteRT rounds dense layers of integers at another place than tflite-micro, whose results ours are
        np.testing.assert_allclose(found.astype("f8"), want.astype("f8"), rtol=0, atol=1 if dtype == "int8" else 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_bias_with_other_than_one_number_a_channel_is_refused(dtype: str) -> None:
    with pytest.raises(BuildError, match=r"the bias has the shape \[2, 5\] for 5 channels"):
        import_tflite(model(dtype, (2, UNITS)), "m")
