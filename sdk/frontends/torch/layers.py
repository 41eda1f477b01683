"""Recurrent layers kept whole: exports of PyTorch unroll them, which fixes their length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Final

from sdk.frontends.torch.library import torch_package

__all__ = ["NAMESPACE", "declared", "kept_whole"]

NAMESPACE: Final = "crosslevel"
_LAYERS: Final[Mapping[str, int]] = {"lstm": 2, "gru": 1, "rnn_tanh": 1, "rnn_relu": 1}  # and how many states
_ARGUMENTS: Final = "Tensor x, Tensor[] states, Tensor[] learnt, bool biases, int layers, bool both, bool batch_first"


@cache
def declared() -> Any:
    """The layers as operators of PyTorch, which a program keeps, and which compute what its own functions do."""
    torch = torch_package()
    library = torch.library.Library(NAMESPACE, "DEF")
    for name, states in _LAYERS.items():
        library.define(f"{name}({_ARGUMENTS}) -> ({', '.join(['Tensor'] * (1 + states))})")
        library.impl(name, _computed(torch, name, states), "CompositeExplicitAutograd")
        torch.library.register_fake(f"{NAMESPACE}::{name}", _shaped, lib=library)
    return library


def _computed(torch: Any, name: str, states: int) -> Callable[..., Any]:
    function = getattr(torch, name)

    def run(x: Any, first: Any, learnt: Any, biases: bool, layers: int, both: bool, batch_first: bool) -> Any:
        given = first if states > 1 else first[0]
        return function(x, given, learnt, biases, layers, 0.0, False, both, batch_first)

    return run


def _shaped(x: Any, first: Any, learnt: Any, biases: bool, layers: int, both: bool, batch_first: bool) -> Any:
    units = first[0].shape[-1] * (2 if both else 1)
    return x.new_empty(*x.shape[:-1], units), *(state.new_empty(state.shape) for state in first)


@contextmanager
def kept_whole() -> Iterator[None]:
    """Within it, an export has recurrent layers as single operators, whatever their length. Those that it has no
    operator for (packed sequences, projections, dropout in training) are left to PyTorch."""
    torch = torch_package()
    declared()
    functions = {getattr(torch, name): name for name in _LAYERS}

    class Whole(import_module("torch.overrides").TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = functions.get(func) if callable(func) else None
            if name is not None and len(args) == 9 and not kwargs:
                x, first, learnt, biases, layers, dropout, training, both, batch_first = args
                states = list(first) if isinstance(first, (tuple, list)) else [first]
                packed = not isinstance(biases, bool)
                drops = not packed and dropout > 0 and training
                if not packed and not drops and all(s.shape[-1] == states[0].shape[-1] for s in states):
                    function = getattr(getattr(torch.ops, NAMESPACE), name)
                    return function(x, states, list(learnt), biases, layers, both, batch_first)
            return func(*args, **(kwargs or {}))

    with Whole():
        yield
