"""``--gpu auto``: a model on the processor and on each GPU of the machine that is to run it, and which is fastest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sdk import steps
from sdk.boards import Board
from sdk.driver.artifact import build_sources
from sdk.driver.conditions import runs_here
from sdk.driver.measuring import bench
from sdk.driver.options import GPUS, BuildOptions
from sdk.errors import SdkError, UsageError
from sdk.frontends.base import ModelFile

__all__ = ["Choice", "fastest"]

RUNS: Final = 10  # of each, of which the median counts
_PROCESSOR: Final = "the processor"


@dataclass(frozen=True)
class Choice:
    """The interface whose GPU was fastest (None: the processor was); the ms of each that runs, why others do not."""

    gpu: str | None
    ms: Mapping[str, float]
    troubles: Mapping[str, str]

    @property
    def told(self) -> str:
        """What was found, in a line."""
        each = [f"{name} {ms:.3g} ms" for name, ms in self.ms.items()]
        each += [f"{name} not: {why}" for name, why in self.troubles.items()]
        return f"{self.gpu or _PROCESSOR} is fastest: {', '.join(each)}"


def fastest(
    target: Path | ModelFile,
    board: Board | None,
    device: str | None,
    options: BuildOptions,
    at: Mapping[str, int] | None = None,
    entry: str | None = None,
) -> Choice:
    """Which of the processor, as ``options`` say, and the GPUs runs the entries of a model fastest, or ``entry`` alone,
    at the sizes ``at`` or the largest: whole runs with their copies, measured where they are to run.

    Raises:
        UsageError: it cannot be measured: a folder that was built already, a board that does not run in its own time.
        SdkError: the processor does not run it.
    """
    if isinstance(target, Path) and target.is_dir():
        raise UsageError("--gpu auto builds what it measures", where=str(target), hint="give the model, not its build")
    if board is None or (device is None and not runs_here(None, board)):
        name = "the device" if board is None else board.name
        raise UsageError(
            "--gpu auto measures where the model is to run",
            why=f"{name} does not run here in its own time",
            hint="--board host, or the --device with its --board; else --gpu opencl or --gpu vulkan",
        )
    options = options.read()
    names = [entry] if entry is not None else list(build_sources(target, board, options).entries)
    ms: dict[str, float] = {}
    troubles: dict[str, str] = {}
    for gpu in (None, *GPUS):
        chosen = options if gpu is None else replace(options, gpu=gpu, threads=1)
        name = gpu or _PROCESSOR
        steps.update(f"measuring {name}")
        try:
            reports = [bench(target, board, device, chosen, at or {}, RUNS, chosen.threads, one) for one in names]
        except SdkError as error:
            if gpu is None:
                raise
            troubles[name] = error.why or error.message
            continue
        ms[name] = sum(float(report.to_json()["median_ms"]) for report in reports)
    best = min(ms, key=lambda name: ms[name])
    return Choice(None if best == _PROCESSOR else best, ms, troubles)
