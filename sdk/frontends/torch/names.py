"""Names that a program has beside its graph: of its outputs, and of its open sizes, which are stored with a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sdk.frontends.names import identifier
from sdk.frontends.torch.library import trees

__all__ = ["NAMES", "is_computed", "output_names", "read_names"]

NAMES: Final = "crosslevel.json"  # the file in an archive: the name of a size by "input:axis"


def read_names(text: str | bytes) -> Mapping[str, Any]:
    """The names in that file; none where there is no such file, or another one."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def is_computed(argument: Any) -> bool:
    """Whether an argument of a signature is a tensor or a size; None, numbers and text are built into the program."""
    return type(argument).__name__ in ("TensorArgument", "SymIntArgument")


def output_names(program: Any) -> list[str]:
    """A name for each tensor that a program returns: the keys on the way to it where it stands in dicts and classes,
    its place in tuples; ``output`` for the only one."""
    spec = program.call_spec.out_spec
    given = [s.arg for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    tree = trees().tree_unflatten(list(range(len(given))), spec)
    found: list[str] = []
    for path, place in trees().tree_flatten_with_path(tree)[0]:
        if not is_computed(given[place]):
            continue
        words = [_word(key) for key in path]
        if not any(word and not word.isdigit() for word in words):
            words.insert(0, "output")
        name = identifier("_".join(words))
        found.append(_free(name, found))
    return found


def _word(key: Any) -> str:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return ""


def _free(name: str, taken: list[str]) -> str:
    number = 2
    wanted = name
    while wanted in taken:
        wanted, number = f"{name}_{number}", number + 1
    return wanted
