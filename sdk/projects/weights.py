"""Weights of apps: constants of their library, or files beside it, which systems map."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from sdk.driver.built import Built
from sdk.driver.options import BuildOptions
from sdk.projects.kinds import Kind
from sdk.toolchains import Blob

__all__ = ["HASH_DIGITS", "LARGE", "place_weights", "weights_bytes", "weights_files"]

LARGE: Final = 150_000_000  # bytes; Google Play takes 200 MB of an app for one phone, all of its parts together
HASH_DIGITS: Final = 16  # of what a file is called by


def weights_bytes(built: Built) -> int:
    """How many bytes of constants a model has."""
    found = re.search(r"_WEIGHTS_BYTES (\d+)u", _header(built))
    assert found is not None
    return int(found[1])


def place_weights(kind: Kind, options: BuildOptions, built: Built, copies: int = 1) -> BuildOptions:
    """The options of a build, with a file of weights where they are more than LARGE bytes, of which a library has so
    many ``copies``, and the kind has a place for one.
    """
    many = bool(kind.weights) and options.weights == "flash" and copies * weights_bytes(built) > LARGE
    return replace(options, weights="file") if many else options


def weights_files(kind: Kind, builds: Iterable[Built]) -> dict[str, Blob]:
    """The files of weights of all instruction sets, by their paths. Sets whose weights lie alike share one: it is
    called by its hash, which the C knows. An app has those of all sets, so they are in its pack where they are more
    than LARGE bytes together."""
    found: dict[str, Blob] = {}
    for built in builds:
        m = built.sources.prefix
        sha = re.search(r'_WEIGHTS_SHA256 "(\w+)"', _header(built))
        data = built.sources.model[f"{m}_weights.bin"]
        assert sha is not None
        assert isinstance(data, Blob)
        found[f"{m}-{sha[1][:HASH_DIGITS]}.weights"] = data
    many = kind.pack and sum(len(data.data) for data in found.values()) > LARGE
    return {f"{kind.pack if many else kind.weights}/{name}": data for name, data in found.items()}


def _header(built: Built) -> str:
    return str(built.sources.model[f"{built.sources.prefix}.h"])
