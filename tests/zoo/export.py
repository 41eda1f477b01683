"""Exports of the networks to ONNX, by both exporters of torch, cached."""

from __future__ import annotations

import hashlib
import inspect
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zoo import nets

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "zoo"
OPSET = 18


@dataclass(frozen=True)
class Net:
    """How a network is made and exported: example inputs by name, names of open sizes by input and axis."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], dict[str, torch.Tensor]]
    outputs: tuple[str, ...]
    dynamic: dict[str, dict[int, str]]
    dynamo: bool = False


def _image(height: int = 224) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {"x": torch.randn(1, 3, height, height, generator=torch.Generator().manual_seed(1))}


def _tokens() -> dict[str, torch.Tensor]:
    ids = torch.randint(0, 1000, (2, 12), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _one() -> dict[str, torch.Tensor]:
    return {name: value[:1] for name, value in _tokens().items()}


def _steps() -> dict[str, torch.Tensor]:
    return {"x": torch.randn(2, 10, 12, generator=torch.Generator().manual_seed(1))}


_SIZE = {"x": {2: "height", 3: "width"}}
_SEQ = {name: {1: "seq"} for name in ("input_ids", "attention_mask")}
_BOTH = {name: {0: "batch", 1: "seq"} for name in ("input_ids", "attention_mask")}
_HIDDEN = ("hidden",)
NETS = {
    "mobilenetv2": Net(nets.MobileNetV2, _image(), ("y",), {}),
    "mobilenetv2_dynamo": Net(nets.MobileNetV2, _image(), ("y",), {}, dynamo=True),
    "mobilenetv2_size": Net(nets.MobileNetV2, _image(), ("y",), _SIZE),
    "resnet50": Net(nets.ResNet50, _image(), ("y",), {}),
    "resnet50_size": Net(nets.ResNet50, _image(), ("y",), _SIZE),
    "unet": Net(nets.UNet, _image(64), ("y",), {}),
    "unet_size": Net(nets.UNet, _image(64), ("y",), _SIZE),
    "lstm": Net(lambda: nets.Recurrent(nn.LSTM), _steps, ("y",), {"x": {1: "steps"}}),
    "gru": Net(lambda: nets.Recurrent(nn.GRU), _steps, ("y",), {"x": {1: "steps"}}),
    "encoder": Net(nets.encoder, _one, _HIDDEN, _SEQ),
    "encoder_batch": Net(nets.encoder, _tokens, _HIDDEN, _BOTH),
    "encoder_dynamo": Net(nets.encoder, _one, _HIDDEN, _SEQ, dynamo=True),
    "encoder_batch_dynamo": Net(nets.encoder, _tokens, _HIDDEN, _BOTH, dynamo=True),
    "encoder_small": Net(lambda: nets.encoder(2, 32, 4, 64), _tokens, _HIDDEN, _BOTH),
}  # fmt: skip


class _Named(nn.Module):
    """The network with inputs in order and its (first) output alone."""

    def __init__(self, net: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.net, self.names = net, names

    def forward(self, *args: torch.Tensor) -> Any:
        found = self.net(**dict(zip(self.names, args, strict=True))) if len(args) > 1 else self.net(args[0])
        return found[0] if isinstance(found, (tuple, dict)) or hasattr(found, "last_hidden_state") else found


def path_of(name: str) -> Path:
    """The ONNX file of a network of ``NETS``, exported when it is not there yet."""
    net = NETS[name]
    facts = inspect.getsource(nets) + inspect.getsource(inspect.getmodule(path_of)) + torch.__version__
    path = CACHE / f"{name}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        _export(net, made)
        made.rename(path)
    return path


def _export(net: Net, path: Path) -> None:
    torch.manual_seed(0)
    model, example = nets.randomize(net.make()), net.inputs()
    names = tuple(example)
    given: dict[str, Any] = {"input_names": list(names), "output_names": list(net.outputs), "opset_version": OPSET}
    if net.dynamo:
        dims = {label: torch.export.Dim(label) for axes in net.dynamic.values() for label in axes.values()}
        shapes = tuple({axis: dims[label] for axis, label in net.dynamic.get(n, {}).items()} for n in names)
        given |= {"dynamo": True, "external_data": False}
        given |= {"dynamic_shapes": (shapes,)} if net.dynamic else {}
    else:
        given |= {"dynamo": False, "dynamic_axes": net.dynamic}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(_Named(model, names), tuple(example.values()), str(path), **given)
