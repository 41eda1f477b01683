"""PosenetDecoderOp against a plain account of it, one root after another, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tflite_files import ModelFile

from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite
from sdk.frontends.tflite.operators.custom.poses import EDGES, KEYPOINTS

Array = np.ndarray[Any, Any]
FLAGS = {"max_detections": 4, "score_threshold": 0.2, "stride": 16, "nms_radius": 10.0}


def model(maps: list[Array], flags: dict[str, Any], outputs: int, **quant: Any) -> bytes:
    m = ModelFile()
    kind = str(maps[0].dtype)
    ins = [m.input(f"x{k}", x.shape, kind, *quant.get("scales", [()] * 4)[k]) for k, x in enumerate(maps)]
    outs = [m.output(f"y{k}", (), "float32") for k in range(outputs)]
    m.op("CUSTOM", ins, outs, custom="PosenetDecoderOp", flags=flags)
    return m.build()


def run(data: bytes, maps: list[Array]) -> list[Array]:
    module = import_tflite(data, "m")
    found = run_graph(module, "main", {f"x{k}": x for k, x in enumerate(maps)})
    return [found[v.name] for v in module.graphs["main"].results]


def sampled(image: Array, at: Array, channels: list[int]) -> Array:
    """Between the four pixels around a place."""
    (y, x), (a, b) = at, np.floor(at)
    low, high = np.floor(at).astype(int), np.ceil(at).astype(int)
    v, u = y - a, x - b
    rows = [(1 - u) * image[r, low[1], channels] + u * image[r, high[1], channels] for r in (low[0], high[0])]
    return np.asarray((1 - v) * rows[0] + v * rows[1])


def decoded(maps: list[Array], flags: dict[str, Any]) -> list[Array]:
    """Persons as the kernel finds them: the best root that no person is near, and its keypoints along the tree."""
    heat, short, middle = (x[0].astype(np.float64) for x in maps[:3])
    stride, maximum = flags["stride"], flags["max_detections"]
    short, middle = short / stride, middle / stride
    h, w, _ = heat.shape
    last, near = np.array([h - 1, w - 1]), (flags["nms_radius"] / stride) ** 2
    logit = -math.log(1 / (flags["score_threshold"] + 1e-6) - 1)
    roots = []
    for y, x, k in np.ndindex(*heat.shape):
        around = heat[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2, k]
        if heat[y, x, k] >= logit and heat[y, x, k] >= around.max():
            place = np.clip([y, x] + short[y, x, [k, k + KEYPOINTS]], 0, last)
            roots.append((heat[y, x, k], k, place))
    roots.sort(key=lambda r: -r[0])
    persons: list[tuple[Array, Array, float]] = []
    for _, root, place in roots:
        if len(persons) == maximum or any(((p[root] - place) ** 2).sum() <= near for p, _, _ in persons):
            continue
        places = {root: place}
        while len(places) < KEYPOINTS:
            for number, (a, b) in enumerate(EDGES):
                for source, target, first in ((a, b, 0), (b, a, 32)):
                    if source in places and target not in places:
                        channels = [first + number, first + 16 + number]
                        at = np.clip(places[source] + sampled(middle, places[source], channels), 0, last)
                        for _ in range(5):
                            at = np.clip(at + sampled(short, at, [target, target + KEYPOINTS]), 0, last)
                        places[target] = at
        found = np.stack([places[k] for k in range(KEYPOINTS)])
        shares = np.array([1 / (1 + math.exp(-sampled(heat, found[k], [k])[0])) for k in range(KEYPOINTS)])
        if shares.mean() >= flags["score_threshold"]:
            persons.append((found, shares, float(shares.mean())))
    persons.sort(key=lambda p: -p[2])
    scores = []
    for k, (places_k, shares, _) in enumerate(persons):
        hidden = np.zeros(KEYPOINTS, bool)
        for better, _, _ in persons[:k]:
            hidden |= ((places_k - better) ** 2).sum(axis=1) <= near
        scores.append(float(np.where(hidden, 0, shares).sum() / KEYPOINTS))
    order = [k for k in np.argsort([-s for s in scores], kind="stable") if scores[k] >= flags["score_threshold"]]
    results = [np.zeros((1, maximum, KEYPOINTS, 2)), np.zeros((1, maximum, KEYPOINTS)), np.zeros((1, maximum))]
    for at, k in enumerate(order):
        results[0][0, at], results[1][0, at] = persons[k][0] * stride, persons[k][1]
        results[2][0, at] = scores[k]
    return [*results, np.array([len(order)], float)]


def owner(long: Array, pixel: tuple[int, int], stride: int, places: Array) -> int:
    """The person that a pixel's long offsets lead nearest to."""
    image, ends = long[0].astype(np.float64) / stride, []
    for k in range(KEYPOINTS):
        at = np.array(pixel, float)
        for _ in range(3):
            at = np.clip(at + sampled(image, at, [k, k + KEYPOINTS]), 0, np.array(image.shape[:2]) - 1)
        ends.append(at * stride)
    return int(np.argmin([((p - ends) ** 2).sum() for p in places]))


def drawn(rng: np.random.Generator, h: int, w: int, spread: float, level: float) -> list[Array]:
    """Maps of keypoints around a level, and offsets of so many pixels of the image."""
    sizes = (KEYPOINTS, 2 * KEYPOINTS, 4 * len(EDGES), 2 * KEYPOINTS)
    given = [rng.standard_normal((1, h, w, c)) * (2 if k == 0 else spread) for k, c in enumerate(sizes)]
    given[0] += level
    return [x.astype(np.float32) for x in given]


@pytest.mark.parametrize(
    ("h", "w", "change"),
    [
        (5, 4, {}),
        (4, 7, {"max_detections": 9, "nms_radius": 30.0, "stride": 8}),
        (6, 6, {"score_threshold": 0.55, "max_detections": 3}),
        (1, 3, {"nms_radius": 0.0, "max_detections": 1}),
        (5, 5, {"score_threshold": 0.999}),
    ],
)
def test_persons(h: int, w: int, change: dict[str, Any]) -> None:
    flags = {**FLAGS, **change}
    maps = drawn(np.random.default_rng(h * w), h, w, 0.6 * flags["stride"], 0.5)[:3]
    for got, want in zip(run(model(maps, flags, 4), maps), decoded(maps, flags), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_masks() -> None:
    maps = drawn(np.random.default_rng(3), 33, 33, 8.0, -1.0)
    *persons, found = run(model(maps, FLAGS, 5), maps)
    want = decoded(maps[:3], FLAGS)
    for got, one in zip(persons, want, strict=True):
        np.testing.assert_allclose(got, one, rtol=1e-4, atol=1e-2)
    count = int(want[3][0])
    assert count >= 2
    np.testing.assert_array_equal(found[0, :count].sum(axis=0), 1)
    assert not found[0, count:].any()
    pixels = np.random.default_rng(0).permutation(33 * 33)[:40]
    for pixel in zip(*np.unravel_index(pixels, (33, 33)), strict=True):
        assert found[0, owner(maps[3], pixel, 16, want[0][0, :count]), *pixel] == 1


def test_no_persons() -> None:
    maps = drawn(np.random.default_rng(3), 33, 33, 40.0, -30.0)
    assert not any(x.any() for x in run(model(maps, FLAGS, 5), maps))


def test_maps_of_bytes() -> None:
    rng = np.random.default_rng(5)
    real = drawn(rng, 4, 5, 12.0, 0.0)[:3]
    scales = [(0.09, 130), (0.7, 134), (1.4, 118)]
    maps = [np.clip(np.rint(x / s) + z, 0, 255).astype(np.uint8) for x, (s, z) in zip(real, scales, strict=True)]
    maps[0] = rng.permutation(np.linspace(40, 255, 20 * KEYPOINTS)).reshape(maps[0].shape).astype(np.uint8)
    exact = [
        ((x.astype(np.float64) - z) * np.float32(s)).astype(np.float32)
        for x, (s, z) in zip(maps, scales, strict=True)
    ]
    got = run(model(maps, FLAGS, 4, scales=[(float(np.float32(s)), z) for s, z in scales]), maps)
    for one, want in zip(got, decoded(exact, FLAGS), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "shape", "why"),
    [
        ({"max_detections": 0}, (1, 4, 4, 17), "the option max_detections is 0"),
        ({"stride": 0}, (1, 4, 4, 17), "the option stride is 0"),
        ({"score_threshold": 1.5}, (1, 4, 4, 17), "persons of scores from 1.5"),
        ({"nms_radius": -1.0}, (1, 4, 4, 17), "-1.0 pixels apart"),
        ({}, (1, 4, 4, 16), "has the shape"),
        ({}, (2, 4, 4, 17), "has the shape"),
        ({}, (1, 5, 4, 17), "input 1 (x1) has the shape"),
    ],
)
def test_what_is_refused(change: dict[str, Any], shape: tuple[int, ...], why: str) -> None:
    maps = [np.zeros(s, np.float32) for s in (shape, (1, 4, 4, 34), (1, 4, 4, 64))]
    with pytest.raises(BuildError) as error:
        import_tflite(model(maps, {**FLAGS, **change}, 4), "m")
    assert why in str(error.value)
