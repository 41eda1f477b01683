"""Open sizes that broadcast where only the run knows which of them is 1, against onnxruntime; what the run refuses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from harness import Array, agree, one_node, reference, run

import sdk
from sdk.driver.reference import entry_graph, random_dims
from sdk.errors import SdkError
from sdk.frontends.onnx.importer import import_onnx

RNG = np.random.default_rng(5)
DIMS = {"n": (1, 40), "m": (1, 9)}


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def pair(op: str, sizes: Sequence[Sequence[int | str]], constants: Sequence[str] = ()) -> onnx.ModelProto:
    """A model of one node on two tensors of these sizes."""
    inputs = {
        name: reals(*(d if isinstance(d, int) else 1 for d in size)) for name, size in zip("ab", sizes, strict=True)
    }
    shapes = {name: size for name, size in zip("ab", sizes, strict=True)}
    return one_node(op, inputs, shapes=shapes, constants=constants)


def both(model: onnx.ModelProto, *shapes: tuple[int, ...]) -> None:
    """Compares one run of a model with onnxruntime."""
    names = [p.name for p in model.graph.input]
    inputs = {name: reals(*shape) for name, shape in zip(names, shapes, strict=True)}
    used = {d.dim_param for p in model.graph.input for d in p.type.tensor_type.shape.dim}
    _, got = run(model, inputs, {k: v for k, v in DIMS.items() if k in used})
    for name, want in reference(model, inputs).items():
        agree(got[name], want)


@pytest.mark.parametrize("op", ["Add", "Pow", "PRelu"])
def test_an_open_size_against_a_number(op: str) -> None:
    model = pair(op, [["n", 3], [16, 3]] if op != "PRelu" else [[16, 3], ["n", 3]])
    for n in (1, 16):
        both(model, *([(n, 3), (16, 3)] if op != "PRelu" else [(16, 3), (n, 3)]))


def test_two_open_sizes() -> None:
    model = pair("Mul", [["n", 1, 4], ["m", 3, 1]])
    for n, m in ((1, 5), (5, 1), (5, 5), (1, 1)):
        both(model, (n, 1, 4), (m, 3, 1))


def test_batches_of_matrices() -> None:
    model = pair("MatMul", [["n", 2, 5], ["m", 5, 3]])
    for n, m in ((1, 6), (6, 1), (6, 6)):
        both(model, (n, 2, 5), (m, 5, 3))


def test_expand_to_the_shape_of_another() -> None:
    nodes = [onnx.helper.make_node("Shape", ["b"], ["s"]), onnx.helper.make_node("Expand", ["a", "s"], ["y"])]
    model = pair("Add", [["n", 3], ["m", 3]])
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for n, m in ((1, 4), (4, 1), (4, 4)):
        both(model, (n, 3), (m, 3))
    with pytest.raises(SdkError, match="match_cast does not hold"):
        run(model, {"a": reals(6, 3), "b": reals(2, 3)}, DIMS)


def test_three_open_sizes() -> None:
    inputs = {"a": reals(1, 2), "b": reals(1, 2), "c": reals(7, 2)}
    shapes = {"a": ["n", 2], "b": ["m", 2], "c": ["k", 2]}
    model = one_node("Max", inputs, shapes=shapes)
    _, got = run(model, inputs, {**DIMS, "k": (1, 7)})
    agree(got["y"], reference(model, inputs)["y"])


def test_what_no_run_could_meet_is_refused() -> None:
    for sizes in ([["n", 3], [2, 4]], [["n", 3], ["n", 2]]):
        with pytest.raises(SdkError, match="not known to be equal"):
            import_onnx(pair("Add", sizes), "t", dims={"n": (1, 40)})
    with pytest.raises(SdkError, match="not known to be equal"):  # an empty tensor broadcasts to nothing but itself
        import_onnx(pair("Add", [["n"], [16]]), "t", dims={"n": (0, 40)})


def test_sizes_that_cannot_be_1_must_agree() -> None:
    model = pair("Add", [["n"], ["m"]])
    dims = {"n": (2, 40), "m": (2, 9)}
    inputs = {"a": reals(6), "b": reals(6)}
    agree(run(model, inputs, dims)[1]["y"], inputs["a"] + inputs["b"])
    with pytest.raises(SdkError, match="match_cast does not hold"):
        run(model, {"a": reals(6), "b": reals(5)}, dims)


def test_as_compiled_c() -> None:
    model = pair("Add", [["n", 3], ["m", 3]])
    with sdk.compile(model, board="host", dims=DIMS) as compiled:
        for n, m in ((1, 4), (4, 1), (9, 9), (1, 1), (40, 1)):
            a, b = reals(n, 3), reals(m, 3)
            np.testing.assert_array_equal(compiled(a=a, b=b)["y"], a + b)
        with pytest.raises(SdkError, match="E_DIM") as caught:
            compiled(a=reals(6, 3), b=reals(5, 3))
    assert caught.value.why == "it ran with n = 6, m = 5"


def test_verify_draws_sizes_that_agree() -> None:
    graph = entry_graph(import_onnx(pair("Add", [["n", 3], ["m", 3]]), "t", dims=DIMS))
    rng = np.random.default_rng(0)
    drawn = [random_dims(graph, rng, case, {}) for case in range(12)]
    assert all(d["n"] == d["m"] or 1 in d.values() for d in drawn)
    assert len({tuple(d.values()) for d in drawn}) > 4
    fixed = random_dims(graph, rng, 0, {"n": 7})
    assert fixed["n"] == 7
    assert fixed["m"] in (1, 7)
