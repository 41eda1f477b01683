"""The C with which a GPU runs the model of an app: a second build of it, beside the one for processors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sdk.boards import load_board
from sdk.driver.artifact import build_sources
from sdk.driver.built import Built
from sdk.projects.making import Making
from sdk.text import GENERATED
from sdk.toolchains import Blob
from sdk.version import VERSION

__all__ = ["AppGpu", "gpu_build"]

_ACCESSOR: Final = re.compile(r"^\w+ \*(\w+)\(const \w+_t \*self(, const \w+_dims \*dims)?\);$", re.MULTILINE)


@dataclass(frozen=True)
class AppGpu:
    """The interface of GPUs, the name that the C begins with, the builds by instruction sets, and what is called for
    the place of each tensor: of all entries in order, inputs, then outputs."""

    interface: str
    m: str
    builds: Mapping[str, Built]
    places: tuple[str, ...]

    def files(self, folder: str) -> dict[str, str | Blob]:
        """Sources of an instruction set, with the runtime of GPUs."""
        mark = f"/* {GENERATED} {VERSION}. Do not edit. */\n"
        texts = self.builds[folder].sources.model
        return {name: f"{mark}{text}" if name.startswith("sdk_rt_") else text for name, text in texts.items()}


def gpu_build(making: Making) -> AppGpu | None:
    """What there is for the GPU that the user asked for; None without.

    Its names begin with ``gpu_``: none of the model's own does. It has the plain C of each step, which proves the
    kernels and does what has none. Its inputs and outputs lie in its arena, from where they are copied.

    Raises:
        BuildError: nothing of the model has a kernel, or its plan has no place on a GPU.
    """
    if not making.gpu:
        return None
    m = f"gpu_{making.built.sources.prefix}"
    options = replace(making.options, gpu=making.gpu, io=None, name=m)
    builds = {
        name: build_sources(making.file, load_board(board), options) for name, board in making.kind.sets.items()
    }
    header = str(next(iter(builds.values())).sources.model[f"{m}.h"])
    places = tuple(f"{name}(gpu{', &sizes' if dims else ''})" for name, dims in _ACCESSOR.findall(header))
    return AppGpu(making.gpu, m, builds, places)
