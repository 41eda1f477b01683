"""Random numbers: what the generator makes, how it is distributed, that it goes on from run to run; runs of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from harness import Array, compare, one_node, run

import sdk
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.errors import SdkError
from sdk.frontends.onnx.importer import import_onnx

EMPTY: dict[str, Array] = {}


def by_hand(seed: float, places: Array, stream: int = 0) -> Array:
    """The generator as docs/onnx.md defines it."""
    mask = np.uint64(0xFFFFFFFF)

    def mix(z: Array) -> Array:
        z = (z ^ z >> np.uint64(16)) * np.uint64(0x7FEB352D) & mask
        z = (z ^ z >> np.uint64(15)) * np.uint64(0x846CA68B) & mask
        return np.asarray(z ^ z >> np.uint64(16))

    start = mix(np.asarray(np.uint64(np.float32(seed).view(np.uint32)) + np.uint64(stream)))
    bits = mix(places.astype(np.uint64) * np.uint64(0x9E3779B9) + start & mask)
    return (bits >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def test_the_generator_is_the_one_that_is_documented() -> None:
    model = one_node("RandomUniform", EMPTY, shape=[3, 5], seed=7.5)
    module, got = run(model, EMPTY)
    np.testing.assert_array_equal(got["y"], by_hand(7.5, np.arange(15)).reshape(3, 5))
    states = initial_states(module)
    runs = [run_graph(module, "main", {}, states)["y"] for _ in range(2)]
    np.testing.assert_array_equal(runs[1].reshape(-1), by_hand(7.5, np.arange(15, 30)))


@pytest.mark.parametrize(("op", "given", "mean", "deviation"), [
    ("RandomUniform", {"low": -1.0, "high": 3.0}, 1.0, 4 / 12**0.5),
    ("RandomNormal", {"mean": 2.0, "scale": 0.5}, 2.0, 0.5),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [1, 10, 11])
def test_distributions(op: str, given: dict[str, Any], mean: float, deviation: float, dtype: int) -> None:
    model = one_node(op, EMPTY, shape=[100, 200], seed=1.0, dtype=dtype, **given)
    found = run(model, EMPTY)[1]["y"]
    assert found.dtype == onnx.helper.tensor_dtype_to_np_dtype(dtype)
    wide = found.astype(np.float64).reshape(-1)
    assert abs(wide.mean() - mean) < 4 * deviation / wide.size**0.5
    assert abs(wide.std() - deviation) < 0.02 * deviation
    assert abs(np.corrcoef(wide[:-1], wide[1:])[0, 1]) < 0.03
    if op == "RandomNormal":
        assert 0.0015 < (np.abs(wide - mean) > 3 * deviation).mean() < 0.0045
    else:
        assert -1 <= wide.min() < -0.99
        assert 2.99 < wide.max() <= 3


def test_like_and_seeds() -> None:
    x = np.zeros((4, 50), np.float32)
    model = one_node("RandomNormalLike", {"x": x}, shapes={"x": ["n", 50]}, seed=3.0)
    first = run(model, {"x": x}, {"n": (1, 8)})[1]["y"]
    assert first.shape == x.shape
    other = run(one_node("RandomNormalLike", {"x": x}, seed=4.0), {"x": x})[1]["y"]
    assert abs(np.corrcoef(first.reshape(-1), other.reshape(-1))[0, 1]) < 0.3
    assert not np.array_equal(first, other)


def test_bernoulli_and_multinomial() -> None:
    p = np.tile(np.array([0.1, 0.5, 0.9], np.float32), (5000, 1))
    found = run(one_node("Bernoulli", {"x": p}, seed=2.0, opset=22), {"x": p})[1]["y"]
    assert set(np.unique(found)) == {0.0, 1.0}
    np.testing.assert_allclose(found.mean(axis=0), p[0], atol=0.03)
    logits = np.log(np.array([[0.2, 0.5, 0.3], [0.05, 0.05, 0.9]], np.float32))
    for dtype, kind in ((6, np.int32), (7, np.int64)):
        model = one_node("Multinomial", {"x": logits}, sample_size=5000, seed=5.0, dtype=dtype)
        drawn = run(model, {"x": logits})[1]["y"]
        assert drawn.dtype == kind
        assert drawn.shape == (2, 5000)
        for row, want in zip(drawn, np.exp(logits), strict=True):
            np.testing.assert_allclose(np.bincount(row, minlength=3) / row.size, want, atol=0.03)


def test_as_compiled_c() -> None:
    model = one_node("RandomUniform", EMPTY, shape=[7], seed=9.0)
    with sdk.compile(model) as compiled:
        got = [compiled()["y"] for _ in range(3)]
        np.testing.assert_array_equal(np.concatenate(got), by_hand(9.0, np.arange(21)))
        compiled.reset()
        np.testing.assert_array_equal(compiled()["y"], got[0])


def test_refused() -> None:
    with pytest.raises(SdkError, match="random numbers of type i32"):
        import_onnx(one_node("RandomUniform", EMPTY, shape=[3], dtype=6), "m")
    with pytest.raises(SdkError, match="0 samples"):
        import_onnx(one_node("Multinomial", {"x": np.zeros((1, 3), np.float32)}, sample_size=0), "m")


# --- runs of numbers ------------------------------------------------------------------------------------------------

POOL: dict[str, Any] = {
    "ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6], "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
    "weights": [0.5, 1.0, 2.0, 3.0, 1.5, 2.5, 0.25],
}  # fmt: skip
WORDS = np.array([[1, 1, 3, 3, 3, 7, 8, 6, 7, 5], [8, 6, 7, 5, 6, 8, 6, 7, 2, 2]])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("minimum", "maximum", "skips"), [(1, 1, 0), (2, 2, 0), (2, 2, 5), (1, 2, 3)])
def test_runs_of_numbers(mode: str, minimum: int, maximum: int, skips: int) -> None:
    how: dict[str, Any] = {
        "mode": mode,
        "min_gram_length": minimum,
        "max_gram_length": maximum,
        "max_skip_count": skips,
        **POOL,
    }
    for words in (WORDS, WORDS[0], WORDS.astype(np.int32)):
        compare("TfIdfVectorizer", {"x": words}, **how)


def test_runs_that_are_refused() -> None:
    how: dict[str, Any] = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0}
    with pytest.raises(SdkError, match="runs of text"):
        import_onnx(
            one_node("TfIdfVectorizer", {"x": WORDS}, pool_strings=["a"], ngram_counts=[0], ngram_indexes=[0], **how),
            "m",
        )
    with pytest.raises(SdkError, match="runs of 2 from 4 to 9"):
        import_onnx(
            one_node("TfIdfVectorizer", {"x": WORDS}, **{**how, **POOL, "pool_int64s": POOL["pool_int64s"][:9]}), "m"
        )
