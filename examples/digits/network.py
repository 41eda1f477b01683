"""A small convolutional network in plain numpy: its layers, their gradients, and how it is trained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["CONV_LAYERS", "KERNEL", "Params", "Window", "activations", "initial", "train"]

Array = NDArray[np.float64]
Params = dict[str, Array]

KERNEL = 3
CLASSES = 10
RATE, DECAY, EPOCHS, BATCH = 3e-3, 1e-4, 30, 32


@dataclass(frozen=True)
class Window:
    """A 3x3 convolution with relu over an image ``size`` pixels square, padded as TFLite's SAME."""

    name: str
    size: int
    stride: int
    inputs: int
    outputs: int

    @property
    def out_size(self) -> int:
        """Rows and columns of the result."""
        return -(-self.size // self.stride)

    @property
    def padding(self) -> tuple[int, int]:
        """Pixels of zero before and after each axis; the odd one goes behind."""
        total = max((self.out_size - 1) * self.stride + KERNEL - self.size, 0)
        return total // 2, total - total // 2


CONV_LAYERS = (Window("conv1", 8, 1, 1, 8), Window("conv2", 8, 2, 8, 16))
FLAT = CONV_LAYERS[-1].out_size ** 2 * CONV_LAYERS[-1].outputs


def initial(rng: np.random.Generator) -> Params:
    """He-initialised: ``NAME.w`` is [outputs, 3, 3, inputs] or [outputs, inputs], ``NAME.b`` [outputs]."""
    shapes = {c.name: (c.outputs, KERNEL, KERNEL, c.inputs) for c in CONV_LAYERS} | {"dense": (CLASSES, FLAT)}
    params: Params = {}
    for name, shape in shapes.items():
        params[f"{name}.w"] = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        params[f"{name}.b"] = np.zeros(shape[0])
    return params


def patches(x: Array, layer: Window) -> Array:
    """[n, size, size, inputs] to [n, out, out, 3 * 3 * inputs]: what each output pixel sees."""
    pad = layer.padding
    padded = np.pad(x, ((0, 0), pad, pad, (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (KERNEL, KERNEL), axis=(1, 2))
    view = view[:, :: layer.stride, :: layer.stride].transpose(0, 1, 2, 4, 5, 3)
    return np.ascontiguousarray(view).reshape(*view.shape[:3], -1)


def patches_gradient(dcols: Array, layer: Window) -> Array:
    """The transpose of ``patches``: adds each patch's gradient to the pixels it came from."""
    n, out = len(dcols), layer.out_size
    pad = layer.padding
    dcols = dcols.reshape(n, out, out, KERNEL, KERNEL, layer.inputs)
    dx = np.zeros((n, layer.size + sum(pad), layer.size + sum(pad), layer.inputs))
    reach = layer.stride * (out - 1) + 1
    for r in range(KERNEL):
        for c in range(KERNEL):
            dx[:, r : r + reach : layer.stride, c : c + reach : layer.stride] += dcols[:, :, :, r, c]
    return dx[:, pad[0] : pad[0] + layer.size, pad[0] : pad[0] + layer.size]


def activations(params: Params, x: Array) -> dict[str, Array]:
    """Every layer's result by name for images [n, 8, 8, 1]; ``dense`` are the logits [n, 10]."""
    found: dict[str, Array] = {"input": x}
    for layer in CONV_LAYERS:
        cols = patches(x, layer)
        flat = params[f"{layer.name}.w"].reshape(layer.outputs, -1)
        x = np.maximum(cols @ flat.T + params[f"{layer.name}.b"], 0)
        found[f"{layer.name}.cols"], found[layer.name] = cols, x
    found["dense"] = x.reshape(len(x), -1) @ params["dense.w"].T + params["dense.b"]
    return found


def gradients(params: Params, x: Array, labels: NDArray[np.int64]) -> Params:
    """Gradients of the mean cross-entropy of one batch."""
    found = activations(params, x)
    logits = found["dense"] - found["dense"].max(axis=1, keepdims=True)
    delta = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    delta[np.arange(len(x)), labels] -= 1
    delta /= len(x)
    last = found[CONV_LAYERS[-1].name]
    grads = {"dense.w": delta.T @ last.reshape(len(x), -1), "dense.b": delta.sum(axis=0)}
    delta = (delta @ params["dense.w"]).reshape(last.shape)
    for layer in reversed(CONV_LAYERS):
        delta = delta * (found[layer.name] > 0)
        rows = delta.reshape(-1, layer.outputs)
        weights = params[f"{layer.name}.w"]
        cols = found[f"{layer.name}.cols"]
        grads[f"{layer.name}.w"] = (rows.T @ cols.reshape(len(rows), -1)).reshape(weights.shape)
        grads[f"{layer.name}.b"] = rows.sum(axis=0)
        delta = patches_gradient(delta @ weights.reshape(layer.outputs, -1), layer)
    return grads


def train(x: Array, labels: NDArray[np.int64], rng: np.random.Generator) -> Params:
    """Weights after ``EPOCHS`` of Adam with weight decay and a rate that falls to zero."""
    params = initial(rng)
    mean = {k: np.zeros_like(v) for k, v in params.items()}
    power = {k: np.zeros_like(v) for k, v in params.items()}
    batches = len(x) // BATCH
    for step in range(EPOCHS * batches):
        if step % batches == 0:
            order = rng.permutation(len(x))
        chosen = order[step % batches * BATCH :][:BATCH]
        rate = RATE * (1 - step / (EPOCHS * batches))
        for name, grad in gradients(params, x[chosen], labels[chosen]).items():
            mean[name] = 0.9 * mean[name] + 0.1 * grad
            power[name] = 0.999 * power[name] + 0.001 * grad**2
            average = mean[name] / (1 - 0.9 ** (step + 1))
            spread = np.sqrt(power[name] / (1 - 0.999 ** (step + 1))) + 1e-8
            params[name] = params[name] - rate * (average / spread + DECAY * params[name])
    return params
