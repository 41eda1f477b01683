"""What a whole firmware puts where: the link's result read back."""

from __future__ import annotations

from pathlib import Path

from sdk.boards import Board
from sdk.driver.agents import link_agent
from sdk.driver.artifact import build_sources
from sdk.driver.machines import placed
from sdk.driver.options import BuildOptions
from sdk.errors import UsageError
from sdk.frontends.base import ModelFile
from sdk.toolchains.linker import Region
from sdk.toolchains.linkmap import LinkMap, link_map

__all__ = ["firmware_map"]


def firmware_map(model: Path | ModelFile, board: Board, options: BuildOptions) -> LinkMap:
    """The map of the image that ``sdk build --emit firmware`` makes of a model.

    Raises:
        UsageError: the board has no memory regions of its own.
        BuildError: the image does not compile, or does not fit.
    """
    if board.hosted:
        raise UsageError(
            f"{board.name} has no memory regions of its own",
            where="--firmware",
            hint="name a microcontroller with --board; sdk boards lists them",
        )
    sources = build_sources(model, board, options).sources
    image, place = link_agent(sources, board, options), placed(board, None)
    regions = [Region(m.name, m.kind, m.base, m.size, m.data_base) for m in place.memory]
    return link_map(image, regions, sources.prefix)
