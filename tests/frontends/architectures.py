"""Networks that people run, of small widths: each gives its file of floats, before it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from nets import LINEAR, RELU, RELU6, VALID, Net

__all__ = ["ARCHITECTURES", "CLASSES", "WORDS"]

CLASSES: Final = 5
WORDS: Final = 20  # that a text is made of


def _classified(net: Net, x: int, axes: tuple[int, ...] = (1, 2)) -> Net:
    x = net.dense(net.reduced("MEAN", x, axes), CLASSES)
    return net.ended(net.alike("SOFTMAX", x))


def mobilenet_v1() -> Net:
    net = Net()
    x = net.conv(net.image(1, 16, 16, 3), 8, stride=2, act=RELU6)
    for channels, stride in ((12, 1), (16, 2), (16, 1)):
        x = net.conv(net.depthwise(x, stride=stride), channels, 1, act=RELU6)
    x = net.conv(net.pool("AVERAGE_POOL_2D", x, 4, 4, VALID), CLASSES, 1, act=LINEAR)
    return net.ended(net.alike("SOFTMAX", net.reshaped(x, 1, CLASSES)))


def _inverted(net: Net, x: int, channels: int, stride: int, size: int = 3) -> int:
    """Made wider, filtered channel by channel, made narrower, and added to what it was."""
    before = net.shape(x)
    y = net.depthwise(net.conv(x, 3 * before[3], 1, act=RELU6), size, stride)
    y = net.conv(y, channels, 1, act=LINEAR)
    return net.pair("ADD", x, y) if net.shape(y) == before else y


def mobilenet_v2() -> Net:
    net = Net()
    x = net.conv(net.image(1, 16, 16, 3), 6, stride=2, act=RELU6)
    for channels, stride in ((6, 1), (8, 2), (8, 1), (12, 2)):
        x = _inverted(net, x, channels, stride)
    return _classified(net, net.conv(x, 24, 1, act=RELU6))


def efficientnet_lite() -> Net:
    net = Net()
    x = net.conv(net.image(1, 18, 18, 3), 8, stride=2, act=RELU6)
    for channels, stride, size in ((8, 1, 3), (10, 2, 5), (10, 1, 5)):
        x = _inverted(net, x, channels, stride, size)
    return _classified(net, net.conv(x, 20, 1, act=RELU6))


def mobilenet_v3() -> Net:
    """With hard swish, and channels weighed by a hard sigmoid of their means."""
    net = Net()
    x = net.alike("HARD_SWISH", net.conv(net.image(1, 14, 14, 3), 8, stride=2, act=LINEAR))
    for stride in (1, 2):
        y = net.alike("HARD_SWISH", net.conv(x, 16, 1, act=LINEAR))
        y = net.alike("HARD_SWISH", net.depthwise(y, 5, stride, LINEAR))
        s = net.conv(net.reduced("MEAN", y, (1, 2), keep=True), 4, 1)
        s = net.pair("ADD", net.conv(s, 16, 1, act=LINEAR), 3.0, RELU6)
        y = net.conv(net.pair("MUL", y, net.pair("MUL", s, 1 / 6)), 8, 1, act=LINEAR)
        x = net.pair("ADD", x, y) if stride == 1 else y
    return _classified(net, net.alike("HARD_SWISH", net.conv(x, 24, 1, act=LINEAR)))


def _heads(net: Net, levels: list[int], numbers: int) -> int:
    """``numbers`` of each of two boxes at each place of images of several sizes, a row a box."""
    rows = []
    for x in levels:
        _, h, w, _ = net.shape(x)
        rows.append(net.reshaped(net.conv(x, 2 * numbers, act=LINEAR), 1, 2 * h * w, numbers))
    return net.joined(*rows, axis=1)


def ssd() -> Net:
    """Boxes and scores at two sizes, and what is left of them after the boxes that overlap are dropped."""
    net = Net()
    x = _inverted(net, net.conv(net.image(1, 16, 16, 3), 8, stride=2, act=RELU6), 10, 2)
    levels = [x, net.conv(x, 12, stride=2, act=RELU6)]
    boxes, scores = _heads(net, levels, 4), net.alike("LOGISTIC", _heads(net, levels, 4))
    count = net.shape(boxes)[1]
    at = np.concatenate([net.rng.uniform(0.2, 0.8, (count, 2)), net.rng.uniform(0.2, 0.6, (count, 2))], axis=1)
    flags = {
        "max_detections": 4, "max_classes_per_detection": 1, "num_classes": 3, "nms_score_threshold": 0.3,
        "nms_iou_threshold": 0.5, "x_scale": 10.0, "y_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
    }  # fmt: skip
    found = [net.tensor(f"d{k}", shape, "float32") for k, shape in enumerate([(1, 4, 4), (1, 4), (1, 4), (1,)])]
    anchors = net.const("anchors", at, "float32")
    net.op("CUSTOM", [boxes, scores, anchors], found, custom="TFLite_Detection_PostProcess", flags=flags)
    return net.ended(*found)


def blazeface() -> Net:
    """Blocks whose channels are padded with zeros where they grow, and pooled where the image shrinks."""
    net = Net()
    x = net.conv(net.image(1, 16, 16, 3), 8, 5, 2)
    for channels, stride in ((8, 1), (12, 2), (12, 1)):
        grown = channels - net.shape(x)[3]
        y = net.conv(net.depthwise(x, 5, stride, LINEAR), channels, 1, act=LINEAR)
        x = net.pool("MAX_POOL_2D", x) if stride == 2 else x
        x = net.padded(x, (0, 0), (0, 0), (0, 0), (0, grown)) if grown else x
        x = net.alike("RELU", net.pair("ADD", x, y))
    levels = [x, net.conv(x, 12, stride=2)]
    return net.ended(_heads(net, levels, 16), _heads(net, levels, 1))


def deeplab() -> Net:
    """Windows of several reaches over one image, with its mean, resized to a class for each place."""
    net = Net()
    x = net.conv(net.image(1, 17, 17, 3), 8, stride=2, act=RELU6)
    x = net.conv(net.depthwise(x, dilation=2), 8, 1, act=RELU6)
    mean = net.conv(net.pool("AVERAGE_POOL_2D", x, 9, 9, VALID), 6, 1)
    branches = [net.resized("RESIZE_BILINEAR", mean, 9, 9, AlignCorners=True), net.conv(x, 6, 1)]
    branches += [net.conv(x, 6, dilation=reach) for reach in (2, 4)]
    x = net.conv(net.conv(net.joined(*branches), 8, 1), 4, 1, act=LINEAR)
    return net.ended(net.best(net.resized("RESIZE_BILINEAR", x, 17, 17, AlignCorners=True)))


def u_net() -> Net:
    net = Net()
    x = net.conv(net.image(1, 16, 16, 3), 6)
    y = net.conv(net.pool("MAX_POOL_2D", x), 8)
    z = net.conv(net.pool("MAX_POOL_2D", y), 10)
    y = net.conv(net.joined(y, net.up(z, 8)), 8)
    x = net.conv(net.joined(x, net.up(y, 6)), 6)
    return net.ended(net.alike("LOGISTIC", net.conv(x, 1, 1, act=LINEAR)))


def pose() -> Net:
    """An hourglass to heat maps of joints and what places are off by, and the place of each joint."""
    net = Net()
    x = net.conv(net.image(1, 16, 12, 3), 8, stride=2)
    y = net.conv(net.pool("MAX_POOL_2D", x), 8)
    z = net.resized("RESIZE_NEAREST_NEIGHBOR", net.conv(net.pool("MAX_POOL_2D", y), 8), 4, 3)
    y = net.resized("RESIZE_NEAREST_NEIGHBOR", net.pair("ADD", y, z), 8, 6)
    x = net.depthwise(net.pair("ADD", x, y))
    maps = net.alike("LOGISTIC", net.conv(x, 4, 1, act=LINEAR))
    joints = net.transposed(net.reshaped(maps, 1, 48, 4), 0, 2, 1)
    return net.ended(maps, net.conv(x, 8, 1, act=LINEAR), net.best(joints))


def yamnet() -> Net:
    """A spectrum in time as an image; several sounds may be heard at once."""
    net = Net()
    x = net.reshaped(net.input("x", (1, 24, 16), "float32", signature=(-1, 24, 16)), 1, 24, 16, 1)
    x = net.conv(x, 8, stride=2)
    for channels, stride in ((12, 1), (16, 2)):
        x = net.conv(net.depthwise(x, stride=stride, act=RELU), channels, 1)
    x = net.reduced("MEAN", x, (1, 2))
    return net.ended(net.alike("LOGISTIC", net.dense(x, 9)), x)


def speech_lstm() -> Net:
    """Steps of an LSTM, each a layer, cells and outputs as tensors between."""
    net, width = Net(), 8
    x = net.input("x", (1, 20), "float32", signature=(-1, 20))
    frames = net.split(x, 4)
    h = net.dense(frames[0], width)
    c = net.alike("TANH", net.dense(frames[0], width))
    for frame in frames:
        i, f, g, o = net.split(net.dense(net.joined(frame, h, axis=1), 4 * width), 4)
        kept = net.pair("MUL", net.alike("LOGISTIC", f), c)
        c = net.pair("ADD", kept, net.pair("MUL", net.alike("LOGISTIC", i), net.alike("TANH", g)))
        h = net.pair("MUL", net.alike("LOGISTIC", o), net.alike("TANH", c))
    return net.ended(net.alike("SOFTMAX", net.dense(h, CLASSES)))


def style_transfer() -> Net:
    """Mirrored edges, and every channel of an image normalised by its own mean and spread."""
    net = Net()

    def normal(x: int) -> int:
        mean = net.reduced("MEAN", x, (1, 2), keep=True)
        spread = net.reduced("MEAN", net.pair("SQUARED_DIFFERENCE", x, mean), (1, 2), keep=True)
        scale = net.alike("RSQRT", net.pair("ADD", spread, 0.5))
        return net.pair("MUL", net.pair("SUB", x, mean), scale)

    edges = ((0, 0), (1, 1), (1, 1), (0, 0))
    x = net.conv(net.padded(net.image(1, 12, 12, 3), *edges, mirror=True), 6, stride=2, padding=VALID)
    y = net.conv(net.padded(x, *edges, mirror=True), 6, padding=VALID, act=LINEAR)
    x = net.pair("ADD", x, net.alike("RELU", normal(y)))
    x = net.resized("RESIZE_NEAREST_NEIGHBOR", x, 12, 12)
    return net.ended(net.alike("LOGISTIC", normal(net.conv(x, 3, act=LINEAR))))


def text_cnn() -> Net:
    """Words as rows of a table, windows of several lengths over them, the largest of each."""
    net = Net()
    words = net.input("x", (1, 12), "int32", signature=(-1, 12))
    x = net.reshaped(net.embedded(words, WORDS, 8), 1, 12, 1, 8)
    parts = [net.conv(x, 6, (length, 1), padding=VALID) for length in (2, 3, 4)]
    x = net.joined(*(net.reduced("REDUCE_MAX", part, (1, 2)) for part in parts), axis=1)
    return net.ended(net.alike("SOFTMAX", net.dense(x, 3)))


def transformer() -> Net:
    """One layer of two heads over words."""
    net = Net()

    def normal(x: int) -> int:
        mean = net.reduced("MEAN", x, (2,), keep=True)
        spread = net.reduced("MEAN", net.pair("SQUARED_DIFFERENCE", x, mean), (2,), keep=True)
        return net.pair("MUL", net.pair("SUB", x, mean), net.alike("RSQRT", net.pair("ADD", spread, 0.5)))

    words = net.input("x", (1, 6), "int32", signature=(-1, 6))
    places = net.weights(6, 8)
    x = net.pair("ADD", net.embedded(words, WORDS, 8), places)
    heads = [
        net.transposed(net.reshaped(net.dense(x, 8, keep=True), 1, 6, 2, 4), 0, 2, 1, 3) for _ in range(3)
    ]
    share = net.alike("SOFTMAX", net.pair("MUL", net.product(heads[0], heads[1], second=True), 0.5))
    y = net.reshaped(net.transposed(net.product(share, heads[2]), 0, 2, 1, 3), 1, 6, 8)
    x = normal(net.pair("ADD", x, net.dense(y, 8, keep=True)))
    x = normal(net.pair("ADD", x, net.dense(net.dense(x, 16, RELU, keep=True), 8, keep=True)))
    return net.ended(net.dense(net.reduced("MEAN", x, (1,)), 3))


def super_resolution() -> Net:
    net = Net()
    image = net.image(1, 9, 7, 3)
    x = net.conv(image, 8)
    for _ in range(2):
        x = net.pair("ADD", x, net.conv(net.conv(x, 8), 8, act=LINEAR))
    x = net.conv(x, 12, act=LINEAR)
    x = net.made("DEPTH_TO_SPACE", [x], (1, 18, 14, 3), "DepthToSpaceOptions", BlockSize=2)
    return net.ended(net.pair("ADD", x, net.resized("RESIZE_BILINEAR", image, 18, 14, HalfPixelCenters=True)))


def yolo() -> Net:
    """Boxes from two sizes, the coarse one made larger for the fine one: centres, sizes and scores, side by side."""
    net = Net()

    def swish(x: int) -> int:
        return net.pair("MUL", x, net.alike("LOGISTIC", x))

    x = swish(net.conv(net.image(1, 16, 16, 3), 8, stride=2, act=LINEAR))
    fine = net.alike("LEAKY_RELU", net.conv(x, 10, stride=2, act=LINEAR))
    coarse = swish(net.conv(fine, 12, stride=2, act=LINEAR))
    coarse = net.joined(coarse, net.pool("MAX_POOL_2D", coarse, 5, 1))
    fine = net.conv(net.joined(fine, net.resized("RESIZE_NEAREST_NEIGHBOR", coarse, 4, 4)), 8)
    places, scores = net.split(net.alike("LOGISTIC", _heads(net, [fine, coarse], 8)), 2)
    sizes = net.pair("MUL", places, net.weights(1, net.shape(places)[1], 4))
    return net.ended(net.joined(net.pair("ADD", sizes, 0.25), scores, axis=2))


def residual() -> Net:
    """ResNet with a projection where the image shrinks."""
    net = Net()
    x = net.conv(net.image(1, 12, 12, 3), 8)
    for channels, stride in ((8, 1), (12, 2)):
        y = net.conv(net.conv(x, channels, stride=stride), channels, act=LINEAR)
        x = x if stride == 1 else net.conv(x, channels, 1, stride, LINEAR)
        x = net.pair("ADD", x, y, RELU)
    return _classified(net, x)


def shuffle_net() -> Net:
    """Half of the channels pass a block by, and both halves are dealt out anew."""
    net = Net()
    x = net.conv(net.image(1, 12, 12, 3), 8, stride=2)
    for _ in range(2):
        one, two = net.split(x, 2)
        two = net.conv(net.depthwise(net.conv(two, 4, 1), act=LINEAR), 4, 1)
        x = net.reshaped(net.joined(one, two), 1, 36, 2, 4)
        x = net.reshaped(net.transposed(x, 0, 1, 3, 2), 1, 6, 6, 8)
    return _classified(net, x)


def anomaly() -> Net:
    """An autoencoder of layers that see everything."""
    net = Net()
    x = net.input("x", (1, 40), "float32", signature=(-1, 40))
    for width in (16, 16, 4, 16):
        x = net.dense(x, width, RELU)
    return net.ended(net.dense(x, 40))


def face_embedding() -> Net:
    """A face as a direction, with slopes that are learnt."""
    net = Net()
    x = net.prelu(net.conv(net.image(1, 14, 14, 3), 8, stride=2, act=LINEAR))
    y = net.conv(net.prelu(net.depthwise(net.prelu(net.conv(x, 16, 1, act=LINEAR)), act=LINEAR)), 8, 1, act=LINEAR)
    x = net.conv(net.pair("ADD", x, y), 12, 7, 7, LINEAR, padding=VALID)
    return net.ended(net.alike("L2_NORMALIZATION", net.reshaped(x, 1, 12)))


def keywords() -> Net:
    """Dilated windows in time, each after its past: a sound as a row of frames."""
    net = Net()
    x = net.image(1, 16, 1, 10)
    x = net.conv(x, 8, 1)
    for reach in (1, 2, 4):
        y = net.padded(x, (0, 0), (2 * reach, 0), (0, 0), (0, 0))
        y = net.conv(y, 8, (3, 1), dilation=reach, padding=VALID)
        x = net.pair("ADD", x, net.conv(y, 8, 1, act=LINEAR), RELU)
    return _classified(net, x)


ARCHITECTURES: Final[dict[str, Callable[[], Net]]] = {
    make.__name__.replace("_", " "): make
    for make in (
        mobilenet_v1, mobilenet_v2, mobilenet_v3, efficientnet_lite, ssd, blazeface, deeplab, u_net, pose, yamnet,
        speech_lstm, style_transfer, text_cnn, transformer, super_resolution, yolo, residual, shuffle_net, anomaly,
        face_embedding, keywords,
    )
}  # fmt: skip
