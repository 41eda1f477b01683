"""Trains a network on scikit-learn's handwritten digits; writes it in floats (``digits.onnx``, for batches of any size)
and in int8 (``digits_int8.tflite``).

    pip install '.[verify,examples]'          # in the root of the source tree
    python examples/digits/train.py [FOLDER]     # takes seconds; the same seed gives the same files

Quantisation is post-training, by TFLite's conventions: asymmetric int8 activations, symmetric weights (per
output channel for convolutions, one scale for the fully connected layer), int32 biases, softmax in 1/256.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from network import CONV_LAYERS, FLAT, KERNEL, Array, Params, activations, train
from numpy.typing import NDArray
from onnx_file import onnx_model
from onnxruntime import InferenceSession
from sklearn.datasets import load_digits
from tflite_file import Op, Quant, Tensor, conv2d, fully_connected, reshape, softmax, write
from tflite_micro import runtime

HERE = Path(__file__).resolve().parent
SEED = 1
HELD_OUT = 360  # of 1797 images
PIXEL_MAX = 16  # an image is 8x8 counts of ink, 0 to 16
MIN_ACCURACY = 0.95
INPUT = Quant((1 / 255,), -128)  # a pixel is ink / 16, from 0 to 1
OUTPUT = Quant((1 / 256,), -128)
WEIGHT_LIMIT = 127  # -128 stays unused, so that weights are symmetric


def activation_quant(values: Array) -> Quant:
    """A range that holds ``values`` and zero, zero exactly, in 255 steps."""
    lo, hi = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    scale = float(np.float32((hi - lo) / 255))
    return Quant((scale,), round(-128 - lo / scale))


def quantized(values: Array, quant: Quant) -> NDArray[np.int8]:
    """``values`` as int8, saturated."""
    return np.clip(np.rint(values / quant.scale[0]) + quant.zero_point, -128, 127).astype(np.int8)


def dequantized(values: NDArray[np.int8], quant: Quant) -> NDArray[np.float32]:
    """What int8 values stand for."""
    return ((values.astype(np.float64) - quant.zero_point) * quant.scale[0]).astype(np.float32)


def layer_tensors(params: Params, name: str, source: Quant, per_channel: bool) -> list[Tensor]:
    """A layer's weights in int8 and its bias in int32, whose scale is the input's times the weights'."""
    weights, bias = params[f"{name}.w"], params[f"{name}.b"]
    peak = np.abs(weights).max(axis=tuple(range(1, weights.ndim)) if per_channel else None)
    scales = np.atleast_1d(peak / WEIGHT_LIMIT).astype(np.float32).astype(np.float64)
    by_row = scales.reshape(-1, *[1] * (weights.ndim - 1))
    ints = np.clip(np.rint(weights / by_row), -WEIGHT_LIMIT, WEIGHT_LIMIT).astype(np.int8)
    bias_scales = (scales * source.scale[0]).astype(np.float32)
    bias_ints = np.rint(bias / bias_scales).astype(np.int32)
    return [
        Tensor(f"{name}_weights", weights.shape, Quant(tuple(scales.tolist())), ints),
        Tensor(f"{name}_bias", bias.shape, Quant(tuple(bias_scales.tolist())), bias_ints),
    ]


def model_bytes(params: Params, calibration: Array) -> bytes:
    """The model file; ranges of activations are those of the ``calibration`` images."""
    ranges = activations(params, calibration)
    tensors, ops, quant, source = [Tensor("image", (1, 8, 8, 1), INPUT)], [], INPUT, "image"
    for layer in CONV_LAYERS:
        tensors += layer_tensors(params, layer.name, quant, per_channel=True)
        quant = activation_quant(ranges[layer.name])
        tensors.append(Tensor(layer.name, (1, layer.out_size, layer.out_size, layer.outputs), quant))
        ops.append(conv2d(layer.stride, (source, f"{layer.name}_weights", f"{layer.name}_bias"), layer.name))
        source = layer.name
    shape = (1, FLAT)
    tensors += [Tensor("flat_shape", (2,), data=np.array(shape, np.int32)), Tensor("flat", shape, quant)]
    tensors += layer_tensors(params, "dense", quant, per_channel=False)
    tensors += [
        Tensor("logits", (1, 10), activation_quant(ranges["dense"])),
        Tensor("digit", (1, 10), OUTPUT),
    ]
    tail: list[Op] = [
        reshape(shape, (source, "flat_shape"), "flat"),
        fully_connected(("flat", "dense_weights", "dense_bias"), "logits"),
        softmax("logits", "digit"),
    ]
    about = f"handwritten digits, {KERNEL}x{KERNEL} convolutions, int8"
    return write(tensors, [*ops, *tail], ["image"], ["digit"], about)


def float_accuracy(model: bytes, images: NDArray[np.int8], labels: NDArray[np.int64]) -> float:
    """The share of images that onnxruntime, running ``model`` on all of them at once, tells right."""
    ink = dequantized(images, INPUT).transpose(0, 3, 1, 2)
    (answers,) = InferenceSession(model).run(None, {"image": ink})
    return float(np.mean(answers.argmax(axis=1) == labels))


def accuracy(model: bytes, images: NDArray[np.int8], labels: NDArray[np.int64]) -> float:
    """The share of images that TensorFlow Lite Micro, running ``model``, tells right."""
    engine: Any = runtime.Interpreter.from_bytes(model)
    right = 0
    for image, label in zip(images, labels, strict=True):
        engine.set_input(image[None], 0)
        engine.invoke()
        right += int(engine.get_output(0).argmax()) == label
    return right / len(labels)


def main(folder: Path) -> None:
    """Train, quantise, check, write to ``folder``."""
    rng = np.random.default_rng(SEED)
    digits = load_digits()
    order = rng.permutation(len(digits.images))
    images, labels = digits.images[order][..., None] / PIXEL_MAX, digits.target[order]
    held, rest = slice(HELD_OUT), slice(HELD_OUT, None)
    params = train(images[rest], labels[rest], rng)
    model, floats = model_bytes(params, images[rest]), onnx_model(params).SerializeToString()
    ints = quantized(images[held], INPUT)
    floats_right = float_accuracy(floats, ints, labels[held])
    ints_right = accuracy(model, ints, labels[held])
    print(f"held out: {HELD_OUT} images, float {floats_right:.2%} right, int8 {ints_right:.2%}")
    if min(floats_right, ints_right) < MIN_ACCURACY:
        raise SystemExit(f"a model is below {MIN_ACCURACY:.0%}; nothing written")
    (folder / "digits.onnx").write_bytes(floats)
    (folder / "digits_int8.tflite").write_bytes(model)
    np.savez(folder / "holdout.npz", images=ints, labels=labels[held].astype(np.uint8))
    sizes = f"digits.onnx ({len(floats):,} bytes), digits_int8.tflite ({len(model):,} bytes)"
    print(f"wrote {sizes} and holdout.npz")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
