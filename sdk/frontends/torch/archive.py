"""Programs of PyTorch that are held in Python: exported, and as the bytes of a ``.pt2`` file."""

from __future__ import annotations

import inspect
import io
import json
import sys
from collections.abc import Mapping
from typing import Any

from sdk.errors import BuildError, UsageError
from sdk.frontends.torch.layers import kept_whole
from sdk.frontends.torch.library import quiet, torch_package, trees
from sdk.frontends.torch.names import NAMES

__all__ = ["export", "pack", "trace"]


def pack(model: object) -> tuple[str, bytes] | None:
    """The name and the file of an ``ExportedProgram``; None for other objects.

    Raises:
        UsageError: it is a module without example inputs.
    """
    if "torch" not in sys.modules:
        return None
    torch = torch_package()
    if isinstance(model, torch.nn.Module):
        raise UsageError(
            f"the module {type(model).__name__} wants example inputs",
            hint="sdk.compile(module, example): a tensor, a tuple of arguments, or a dict of them by name",
        )
    return ("", _saved(model, {})) if isinstance(model, torch.export.ExportedProgram) else None


def trace(model: object, example: Any, dynamic_shapes: Any = None) -> tuple[str, bytes] | None:
    """The name and the file of a module, exported with example inputs; None for other objects."""
    if "torch" not in sys.modules or not isinstance(model, torch_package().nn.Module):
        return None
    program, names = export(model, example, dynamic_shapes)
    return type(model).__name__, _saved(program, names)


def export(module: Any, example: Any, dynamic_shapes: Any = None) -> tuple[Any, dict[str, str]]:
    """A module exported for inference, and the names of its open sizes by "input:axis".

    Args:
        module: a ``torch.nn.Module``; it is in ``eval()`` meanwhile.
        example: a tensor, a tuple of the arguments, or a dict of them by name.
        dynamic_shapes: as ``torch.export.export`` takes them.

    Raises:
        BuildError: PyTorch cannot export it; says why.
    """
    torch = torch_package()
    args, kwargs = ((), dict(example)) if isinstance(example, Mapping) else (_arguments(example), {})
    training = [m for m in module.modules() if m.training]
    try:
        module.eval()
        with quiet(), torch.no_grad(), kept_whole():
            program = torch.export.export(module, args, kwargs or None, dynamic_shapes=dynamic_shapes)
    except Exception as err:  # its errors share no base
        why = " ".join(line.strip() for line in str(err).splitlines() if line.strip())[:600]
        raise BuildError(
            f"PyTorch cannot export {type(module).__name__}", why=why or type(err).__name__,
            hint="torch.export.export(module, args, kwargs) shows where; sdk.compile takes what it gives",
        ) from err  # fmt: skip
    finally:
        for one in training:
            one.training = True
    return program, _names(module, args, kwargs, dynamic_shapes, program)


def _arguments(example: Any) -> tuple[Any, ...]:
    return tuple(example) if isinstance(example, (tuple, list)) else (example,)


def _saved(program: Any, names: Mapping[str, str]) -> bytes:
    file = io.BytesIO()
    with quiet():
        torch_package().export.save(program, file, extra_files={NAMES: json.dumps(names)})
    return file.getvalue()


def _names(
    module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], shapes: Any, program: Any
) -> dict[str, str]:
    """The names of ``torch.export.Dim``s, by the input and the axis that they are given for."""
    if shapes is None:
        return {}
    parameters = list(inspect.signature(module.forward).parameters.values())
    order = [p.name for p in parameters]
    star = next((k for k, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL), len(order))
    inputs = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    leaves = trees().tree_flatten_with_path((args, kwargs))[0]
    found: dict[str, str] = {}
    for (path, _), name in zip(leaves, inputs, strict=False):
        (side, first, *rest) = path
        if side.idx == 1:
            spec = _at(shapes, first.key, None)
        elif first.idx < star:
            spec = _at(shapes, order[first.idx], first.idx)
        else:  # *args of the module
            spec = _at(_at(shapes, order[star], star), None, first.idx - star)
        for step in rest:
            spec = _at(spec, getattr(step, "key", None), getattr(step, "idx", None))
        axes = spec.items() if isinstance(spec, Mapping) else enumerate(spec if isinstance(spec, (tuple, list)) else ())
        for axis, dim in axes:
            title = getattr(getattr(dim, "root", dim), "__name__", None)
            if isinstance(title, str) and isinstance(axis, int):
                found[f"{name}:{axis}"] = title
    return found


def _at(shapes: Any, key: Any, place: int | None) -> Any:
    """What is below a key or a place of a tree of shapes."""
    if isinstance(shapes, Mapping):
        return shapes.get(key)
    if isinstance(shapes, (tuple, list)) and place is not None and place < len(shapes):
        return shapes[place]
    return None
