"""Lists of tensors: loops of recurrent layers as TensorFlow converts them without lowering, and each operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tflite
from tflite_files import ModelFile

from sdk.budget import TRIPS
from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
LIST = tflite.TensorType.VARIANT
MAKERS = ("Flex", "")


class Lists(ModelFile):
    """A file with operators on lists; ``maker`` is what their names begin with."""

    def __init__(self, maker: str = "Flex", **given: Any) -> None:
        super().__init__(**given)
        self.maker = maker

    def listed(self, name: str) -> int:
        return self.tensor(name, (), "int32", type=LIST)

    def on_list(self, name: str, inputs: list[int], *outputs: int) -> int:
        self.op("CUSTOM", inputs, list(outputs), custom=f"{self.maker}{name}", flags=b"")
        return outputs[0]

    def made(self, count: int, shape: tuple[int, ...] = (2, 3), name: str = "reserved") -> int:
        given = [self.const(f"{name}_shape", list(shape)), self.const(f"{name}_count", np.int32(count))]
        return self.on_list("TensorListReserve", given, self.listed(name))

    def stacked(self, given: int, shape: tuple[int, ...], **signature: Any) -> int:
        like = self.const(f"like_{given}", [-1, *shape[2:]] if signature else list(shape[1:]))
        return self.on_list("TensorListStack", [given, like], self.output("y", shape, "float32", **signature))


def run(m: ModelFile, **given: Array) -> list[Array]:
    module = import_tflite(m.build(), "m")
    found = run_graph(module, "main", given)
    return [found[value.name] for value in module.graphs["main"].results]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_recurrent_layer(maker: str, whole: bool) -> None:
    """The loop of a layer that keeps all of its results, or only the last; lists come from a tensor, and go to one."""
    steps, width = 5, 3
    x, w = RNG.standard_normal((steps, 2, width)), RNG.standard_normal((width, width))
    x, w = x.astype(np.float32), w.astype(np.float32)
    m = Lists(maker)
    source = m.input("x", x.shape, "float32")
    rows = m.on_list("TensorListFromTensor", [source, m.const("row_shape", [2, width])], m.listed("rows"))
    results = m.made(steps if whole else 1, (-1, width))
    state = m.const("zeros", np.zeros((2, width)), "float32")
    start = m.const("start", np.int32(0))
    out = [m.tensor("count", (), "int32"), m.listed("results")]
    out += [m.tensor("last", (2, width), "float32"), m.listed("rest")]
    m.op("WHILE", [start, results, state, rows], out, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    stacked = (steps if whole else 1, 2, width)
    m.stacked(out[1], stacked, signature=(-1, -1, width))
    test, body = Lists(maker), Lists(maker)
    for graph in (test, body):
        graph.inputs += [graph.tensor("k", (), "int32"), graph.listed("done")]
        graph.inputs += [graph.tensor("h", (2, width), "float32"), graph.listed("given")]
    test.op("LESS", [test.inputs[0], test.const("steps", np.int32(steps))], [test.output("more", (), "bool")])
    k, done, h, given = body.inputs
    row = body.tensor("row", (2, width), "float32")
    body.on_list("TensorListGetItem", [given, k, body.const("shape", [2, width])], row)
    kept, total, new = (body.tensor(name, (2, width), "float32") for name in ("kept", "total", "new"))
    body.op("FULLY_CONNECTED", [h, body.const("w", w, "float32"), -1], [kept], "FullyConnectedOptions")
    body.op("ADD", [kept, row], [total], "AddOptions")
    body.op("TANH", [total], [new])
    at = k if whole else body.const("first", np.int32(0))
    after = body.on_list("TensorListSetItem", [done, at, new], body.listed("after"))
    following = body.tensor("following", (), "int32")
    body.op("ADD", [k, body.const("one", np.int32(1))], [following], "AddOptions")
    body.outputs += [following, after, new, given]
    got = run_graph(import_tflite(m.build(test, body), "m"), "main", {"x": x})["y"]
    want, h_now = [], np.zeros((2, width), np.float32)
    for row_now in x:
        h_now = np.tanh(h_now @ w.T + row_now)
        want.append(h_now)
    np.testing.assert_allclose(got, np.stack(want if whole else want[-1:]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("maker", MAKERS)
def test_each_operator(maker: str) -> None:
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    m = Lists(maker)
    source = m.input("x", (2, 3), "float32")
    shape = m.const("shape", [2, 3])
    begun = m.on_list("EmptyTensorList", [shape, m.const("maximum", np.int32(9))], m.listed("begun"))
    one = m.on_list("TensorListPushBack", [begun, source], m.listed("one"))
    two = m.on_list("TensorListResize", [one, m.const("two", np.int32(3))], m.listed("two"))
    three = m.on_list("TensorListSetItem", [two, m.const("last", np.int32(2)), source], m.listed("three"))
    four, popped = m.listed("four"), m.output("popped", (2, 3), "float32")
    m.on_list("TensorListPopBack", [three, shape], four, popped)
    m.on_list("TensorListLength", [four], m.output("length", (), "int32"))
    unset = m.output("unset", (2, 3), "float32")
    m.on_list("TensorListGetItem", [four, m.const("middle", np.int32(1)), shape], unset)
    m.stacked(four, (2, 2, 3))
    for got, want in zip(run(m, x=x), [x, 2, np.zeros((2, 3)), np.stack([x, np.zeros((2, 3))])], strict=True):
        np.testing.assert_array_equal(got, want)


def test_no_elements() -> None:
    m = Lists()
    m.input("x", (2, 3), "float32")
    m.stacked(m.made(0), (0, 2, 3))
    (found,) = run(m, x=np.zeros((2, 3), np.float32))
    assert found.shape == (0, 2, 3)


def _outside(m: Lists, source: int) -> None:
    m.stacked(m.on_list("TensorListSetItem", [m.made(2), m.const("k", np.int32(2)), source], m.listed("a")), (2, 2, 3))


def _at_run_time(m: Lists, source: int) -> None:
    place = m.input("place", (), "int32")
    m.stacked(m.on_list("TensorListSetItem", [m.made(2), place, source], m.listed("a")), (2, 2, 3))


def _mixed(m: Lists, source: int) -> None:
    other = m.const("other", np.zeros((1, 3)), "float32")
    one = m.on_list("TensorListSetItem", [m.made(2), m.const("k", np.int32(0)), source], m.listed("a"))
    m.stacked(m.on_list("TensorListSetItem", [one, m.const("j", np.int32(1)), other], m.listed("b")), (2, 2, 3))


def _never_set(m: Lists, source: int) -> None:
    m.stacked(m.made(2), (2, 2, 3), signature=(-1, -1, 3))


def _huge(m: Lists, source: int) -> None:
    m.stacked(m.made(TRIPS.maximum + 1), (2, 2, 3))


def _no_list(m: Lists, source: int) -> None:
    m.stacked(source, (2, 2, 3))


def _empty(m: Lists, source: int) -> None:
    popped = m.output("popped", (2, 3), "float32")
    m.on_list("TensorListPopBack", [m.made(0), m.const("shape", [2, 3])], m.listed("rest"), popped)


def _no_variant(m: Lists, source: int) -> None:
    m.on_list("TensorListFromTensor", [source, m.const("shape", [3])], m.output("y", (2, 3), "float32"))


def _chosen(m: Lists, source: int) -> None:
    out = m.listed("chosen")
    given = [m.input("which", (), "bool"), m.made(2, name="a"), m.made(2, name="b")]
    m.op("IF", given, [out], "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    m.stacked(out, (2, 2, 3))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_outside, "the position 2 in a list of 2"),
        (_at_run_time, "must hold integers known when the model is built"),
        (_mixed, "elements of"),
        (_never_set, "the file does not say their shape"),
        (_huge, "passes of unrolled loops"),
        (_no_list, "is no list of tensors"),
        (_empty, "its list is empty"),
        (_no_variant, "is a list of tensors, the file says float32"),
        (_chosen, "chooses a list of tensors"),
    ],
)
def test_what_is_refused(make: Any, why: str) -> None:
    m = Lists()
    make(m, m.input("x", (2, 3), "float32"))
    graphs = [Lists(), Lists()]
    for k, graph in enumerate(graphs):
        graph.inputs += [graph.listed("a"), graph.listed("b")]
        graph.outputs.append(graph.inputs[k])
    with pytest.raises(BuildError) as error:
        import_tflite(m.build(*graphs), "m")
    assert why in str(error.value)
