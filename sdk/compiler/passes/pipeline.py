"""Pipelines of passes as text, ``fold,fuse{max-ops=8},plan-memory{io=arena}``, and their running."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, Final

from sdk import steps
from sdk.compiler.ir.module import Module
from sdk.compiler.passes.base import Pass
from sdk.errors import UsageError

__all__ = ["Observer", "all_passes", "parse_pipeline", "print_pipeline", "run_pipeline"]

Observer = Callable[[Pass, Module], None]
_STEP: Final = re.compile(r"\s*([a-z][a-z0-9-]*)\s*(?:\{([^}]*)\})?\s*(,|$)")
_WORDS: Final[dict[str, object]] = {"true": True, "false": False, "none": None}


@cache
def all_passes() -> dict[str, type[Any]]:
    """Every pass of this folder by name: the dataclasses with a ``run`` whose name is that of their file."""
    package = importlib.import_module("sdk.compiler.passes")
    found: dict[str, type[Any]] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"sdk.compiler.passes.{info.name}")
        name = info.name.replace("_", "-")
        for _, item in inspect.getmembers(module, inspect.isclass):
            if is_dataclass(item) and getattr(item, "name", None) == name and hasattr(item, "run"):
                found[name] = item
    return found


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """The passes that ``text`` names, in order; "" is none.

    Raises:
        UsageError: an unknown pass or option, or a value that an option does not take.
    """
    steps: list[Pass] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            rest = text[at:]
            raise UsageError(f"a pipeline cannot be read at {rest!r}", hint="write name{option=value},name")
        steps.append(_make(match[1], match[2] or ""))
        at = match.end()
    return tuple(steps)


def _suggest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f"did you mean {near[0]}?" if near else f"one of {', '.join(known) or 'none'}"


def _make(name: str, options: str) -> Pass:
    known = all_passes()
    if name not in known:
        raise UsageError(f"unknown pass {name}", hint=_suggest(name, sorted(known)))
    kind = known[name]
    hints = typing.get_type_hints(kind)
    taken = {f.name.replace("_", "-"): f.name for f in _fields(kind)}
    given: dict[str, object] = {}
    for item in filter(None, (part.strip() for part in options.split(","))):
        key, _, value = (part.strip() for part in item.partition("="))
        if key not in taken:
            raise UsageError(f"pass {name} has no option {key}", hint=_suggest(key, sorted(taken)))
        given[taken[key]] = _value(value, hints[taken[key]], f"option {key} of pass {name}")
    made: Pass = kind(**given)
    return made


def _value(text: str, hint: Any, where: str) -> object:
    """The value that ``text`` spells for an option of type ``hint``."""
    allowed = typing.get_args(hint) or (hint,)
    words = [a for a in allowed if isinstance(a, str)]
    if _WORDS.get(text, text) is None and NoneType in allowed:
        return None
    if bool in allowed and text in ("true", "false"):
        return text == "true"
    if int in allowed and re.fullmatch(r"-?\d+", text):
        return int(text)
    if str in allowed or text in words:
        return text
    wanted = " or ".join(words or [getattr(a, "__name__", str(a)) for a in allowed])
    raise UsageError(f"{where} does not take {text!r}", hint=f"it takes {wanted}")


def print_pipeline(passes: Sequence[Pass]) -> str:
    """The text of a pipeline; options that have their usual value are left out."""
    return ",".join(map(_print, passes))


def _print(step: Pass) -> str:
    options = []
    for field in _fields(step):
        value = getattr(step, field.name)
        if field.default is MISSING or value != field.default:
            word = next((w for w, v in _WORDS.items() if v is value), str(value))
            options.append(f"{field.name.replace('_', '-')}={word}")
    return step.name + (f"{{{','.join(options)}}}" if options else "")


def _fields(step: Any) -> list[Field[Any]]:
    """The options of a pass; what is no part of its value, like a function to call, has no text."""
    return [field for field in fields(step) if field.compare]


def run_pipeline(module: Module, passes: Sequence[Pass], observe: Observer | None = None) -> Module:
    """Runs the passes in order; ``observe`` sees each pass with the module after it."""
    for step in passes:
        steps.update(f"compiling: {step.name}")
        module = step.run(module)
        if observe is not None:
            observe(step, module)
    return module
