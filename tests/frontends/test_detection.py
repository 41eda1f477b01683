"""TFLite_Detection_PostProcess against LiteRT and tflite-micro, bit for bit; its options as untrusted bytes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite_files import ModelFile as Writer
from tflite_micro.python.tflite_micro import runtime

from sdk.boards import load_board
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.module import Module
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.errors import BuildError
from sdk.frontends.base import ModelFile
from sdk.frontends.tflite import FRONTEND
from sdk.frontends.tflite.engine import LiteRt
from sdk.frontends.tflite.flexbuffers import read_flags
from sdk.frontends.tflite.importer import import_tflite

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "passes"))
from as_c import Library

Array = np.ndarray[Any, Any]
RUNS = 6
FLAGS: dict[str, Any] = {
    "max_detections": 5, "max_classes_per_detection": 1, "num_classes": 3, "nms_score_threshold": 0.2,
    "nms_iou_threshold": 0.4, "x_scale": 10.0, "y_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip
# What differs from the flags above, boxes, background classes, numbers of a box, and the type of inputs.
CASES: dict[str, tuple[dict[str, Any], int, int, int, str]] = {
    "fast": ({}, 40, 1, 4, "float32"),
    "fast, no background, landmarks": ({"x_scale": 9.5, "w_scale": 3}, 40, 0, 10, "float32"),
    "fast, two classes each": ({"max_classes_per_detection": 2}, 30, 1, 4, "float32"),
    "fast, more classes than there are": ({"max_classes_per_detection": 4, "max_detections": 3}, 30, 1, 4, "float32"),
    "fast, more detections than boxes": ({"max_detections": 9}, 4, 0, 4, "float32"),
    "fast, u8": ({}, 60, 1, 4, "uint8"),
    "fast, all scores": ({"nms_score_threshold": -1e30}, 20, 0, 4, "float32"),
    "regular": ({"use_regular_nms": True}, 40, 1, 4, "float32"),
    "regular, few of a class": ({"use_regular_nms": True, "detections_per_class": 1}, 40, 1, 4, "float32"),
    "regular, u8": ({"use_regular_nms": True, "detections_per_class": 2}, 60, 1, 4, "uint8"),
    "regular, room for more": ({"use_regular_nms": True, "max_detections": 30}, 8, 0, 4, "float32"),
    "regular, one class": ({"use_regular_nms": True, "num_classes": 1, "nms_iou_threshold": 1.0}, 9, 1, 4, "float32"),
}  # fmt: skip


def _anchors(boxes: int, rng: np.random.Generator) -> Array:
    sizes = rng.uniform(0.2, 0.6, (boxes, 2))
    return np.concatenate([rng.uniform(0.2, 0.8, (boxes, 2)), sizes], axis=1).astype(np.float32)


def _file(name: str, constant: bool = True) -> bytes:
    more, boxes, background, width, kind = CASES[name]
    flags = FLAGS | more
    m = Writer()
    scales: dict[str, tuple[Any, ...]] = {"x": (), "s": (), "a": ()}
    anchors = _anchors(boxes, np.random.default_rng(1))
    if kind == "uint8":
        scales = {"x": (0.07, 130), "s": (1 / 256, 0), "a": (1 / 250, 3)}
        anchors = (anchors * 250 + 3).round()
    x = m.input("x", (1, boxes, width), kind, *scales["x"])
    s = m.input("s", (1, boxes, flags["num_classes"] + background), kind, *scales["s"])
    if constant:
        a = m.tensor("a", (boxes, 4), kind, *scales["a"], data=anchors)
    else:
        a = m.input("a", (boxes, 4), kind, *scales["a"])
    total = flags["max_detections"] * flags["max_classes_per_detection"]
    shapes = {"boxes": (1, total, 4), "classes": (1, total), "scores": (1, total), "count": (1,)}
    m.op("CUSTOM", [x, s, a], [m.output(k, shape, "float32") for k, shape in shapes.items()],
         custom="TFLite_Detection_PostProcess", flags=flags)  # fmt: skip
    return m.build()


def _inputs(name: str, constant: bool) -> list[list[Array]]:
    """Boxes that overlap and do not, scores of which some are equal (never the best of one box)."""
    more, boxes, background, width, kind = CASES[name]
    classes, rng = (FLAGS | more)["num_classes"] + background, np.random.default_rng(2)
    found = []
    for _ in range(RUNS):
        if kind == "uint8":
            x, s = rng.integers(0, 256, (1, boxes, width)), rng.integers(0, 256, (1, boxes, classes))
            found.append([x.astype(np.uint8), s.astype(np.uint8)])
            continue
        places = rng.permuted(np.tile(np.arange(classes), (1, boxes, 1)), axis=2)
        scores = (places + rng.integers(0, 8, (1, boxes, classes)) / 8) / classes
        found.append([rng.normal(0, 2, (1, boxes, width)).astype(np.float32), scores.astype(np.float32)])
    return found if constant else [[*f, _anchors(boxes, rng)] for f in found]


def _wanted(name: str, module: Module, constant: bool = True) -> list[tuple[dict[str, Array], list[Array]]]:
    """Inputs by name, and what LiteRT makes of them, zeros where it leaves what memory held."""
    graph, data = module.graphs["main"], _file(name, constant)
    engine = LiteRt(ModelFile(Path("m.tflite"), data, FRONTEND), graph)
    given = [{p.name: a for p, a in zip(graph.params, f, strict=True)} for f in _inputs(name, constant)]
    return [(inputs, list(engine.step(inputs, {}).values())) for inputs in given]


@pytest.mark.parametrize(("name", "constant"), [*((n, True) for n in CASES), ("fast", False), ("regular", False)])
def test_as_litert(name: str, constant: bool) -> None:
    module = import_tflite(_file(name, constant), "m")
    counts = set()
    for given, want in _wanted(name, module, constant):
        got = run_graph(module, "main", given)
        for (result, found), expected in zip(got.items(), want, strict=True):
            np.testing.assert_array_equal(np.asarray(found), expected, err_msg=f"{name}: {result}")
        counts.add(int(want[3][0]))
    assert max(counts) > 0


def test_as_tflite_micro() -> None:
    data = _file("regular")
    module = import_tflite(data, "m")
    graph, engine = module.graphs["main"], runtime.Interpreter.from_bytes(data, arena_size=1 << 20)
    for arrays in _inputs("regular", True):
        for k, array in enumerate(arrays):
            engine.set_input(array, k)
        engine.invoke()
        got = run_graph(module, "main", {p.name: a for p, a in zip(graph.params, arrays, strict=True)})
        for k, r in enumerate(graph.results):
            np.testing.assert_array_equal(np.asarray(got[r.name]), engine.get_output(k))


def test_as_c(tmp_path: Path) -> None:
    board, options = load_board("host"), BuildOptions()
    names = ["fast, u8", "regular"]
    imported = {f"m{k}": import_tflite(_file(n), "m") for k, n in enumerate(names)}
    modules = {k: lower_module(m, default_passes(board, options)) for k, m in imported.items()}
    library = Library(modules, tmp_path)
    for (prefix, module), name in zip(modules.items(), names, strict=True):
        for given, want in _wanted(name, imported[prefix]):
            got = library.run(prefix, module, given, {})
            for a, b in zip(got.values(), want, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"max_detections": None}, "max_detections is missing"),
        ({"max_detections": 0}, "max_detections is 0"),
        ({"max_detections": 1 << 40}, "max_detections is"),
        ({"max_detections": "many"}, "not a number"),
        ({"max_detections": 2.5}, "must be an integer"),
        ({"max_detections": 4000, "max_classes_per_detection": 4000}, "too many"),
        ({"num_classes": 7}, "4 scores a box for 7 classes"),
        ({"nms_iou_threshold": 0.0}, "a share is 0 to 1"),
        ({"h_scale": 0.0}, "the scales of boxes"),
        ({"y_scale": float("nan")}, "the scales of boxes"),
    ],
)
def test_what_is_refused(flags: dict[str, Any], why: str) -> None:
    with pytest.raises(BuildError, match=why):
        import_tflite(_detector(np.ones((8, 4)), {k: v for k, v in (FLAGS | flags).items() if v is not None}), "m")


def test_boxes_turned_inside_out_are_refused() -> None:
    with pytest.raises(BuildError, match="below 0"):
        import_tflite(_detector(np.array([[0, 0, 1, 1], [0, 0, 1, -1]]), FLAGS), "m")


def test_shapes_that_do_not_fit_are_refused() -> None:
    bad = {(1, 8): "of one image are wanted", (2, 8, 4): "boxes, ", (1, 8, 3): "boxes are encoded by 3 numbers"}
    for shape, why in bad.items():
        with pytest.raises(BuildError, match=why):
            import_tflite(_detector(np.ones((8, 4)), FLAGS, shape), "m")


def _detector(anchors: Array, flags: dict[str, Any], shape: tuple[int, ...] | None = None) -> bytes:
    m, boxes = Writer(), len(anchors)
    x, s = m.input("x", shape or (1, boxes, 4), "float32"), m.input("s", (1, boxes, 4), "float32")
    outs = [m.output(k, shape, "float32") for k, shape in {"b": (1, 5, 4), "c": (1, 5), "d": (1, 5), "e": (1,)}.items()]
    m.op("CUSTOM", [x, s, m.const("a", anchors, "float32")], outs, custom="TFLite_Detection_PostProcess", flags=flags)
    return m.build()


# --- the options as bytes -----------------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "a": 1, "b": -300, "c": 1 << 40, "d": 0.5, "e": 0.1, "f": True, "h": "text", "i": [1, 2], "j": {"k": 3},
}  # fmt: skip


def test_every_scalar_is_read() -> None:
    found = read_flags(bytes(flexbuffers.Dumps(VALUES))).values
    assert found == VALUES | {"i": None, "j": None}
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.IndirectInt("x", -5)
        builder.IndirectFloat("y", 2.25)
    assert read_flags(bytes(builder.Finish())).values == {"x": -5, "y": 2.25}
    assert read_flags(b"").values == {}


def test_damaged_options_end_in_an_error_or_in_other_options() -> None:
    whole = bytes(flexbuffers.Dumps(VALUES))
    rng = np.random.default_rng(3)
    kinds = set()
    for cut in range(1, len(whole)):
        for data in (whole[:cut], whole[cut:]):
            kinds.add(_read(data))
    for _ in range(3000):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), int(rng.integers(1, 4))):
            data[at] = int(rng.integers(256))
        kinds.add(_read(bytes(data)))
    assert kinds == {True, False}


def _read(data: bytes) -> bool:
    try:
        return bool(read_flags(data).values)
    except BuildError:
        return False
