"""``--gpu auto``: a model on the processor, on each GPU of the machine that is to run it, and divided between both; and
which is fastest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from sdk import steps
from sdk.boards import Board
from sdk.driver.artifact import build_sources
from sdk.driver.conditions import runs_here
from sdk.driver.measuring import bench
from sdk.driver.options import GPUS, BuildOptions
from sdk.driver.profiling import profile
from sdk.driver.splitting import OpTimes, shares
from sdk.errors import SdkError, UsageError
from sdk.frontends.base import ModelFile

__all__ = ["Choice", "fastest"]

RUNS: Final = 10  # of each, of which the median counts
_PROCESSOR: Final = "the processor"
_SHARED: Final = " and the processor"
_FEWEST: Final = 2  # operations that can be divided


@dataclass(frozen=True)
class Choice:
    """The interface whose GPU was fastest (None: the processor was), with the operations that are faster
    ``on_processor`` all the same; the ms of each that runs, why others do not."""

    gpu: str | None
    ms: Mapping[str, float]
    troubles: Mapping[str, str]
    on_processor: frozenset[int] = field(default=frozenset())

    @property
    def told(self) -> str:
        """What was found, in a line."""
        each = [f"{name} {ms:.3g} ms" for name, ms in self.ms.items()]
        each += [f"{name} not: {why}" for name, why in self.troubles.items()]
        count = len(self.on_processor)
        shared = f" with {count} operation{'s' * (count > 1)} on the processor" if count else ""
        return f"{self.gpu or _PROCESSOR}{shared} is fastest: {', '.join(each)}"


def fastest(
    target: Path | ModelFile,
    board: Board | None,
    device: str | None,
    options: BuildOptions,
    at: Mapping[str, int] | None = None,
    entry: str | None = None,
) -> Choice:
    """Which of the processor, as ``options`` say, and the GPUs runs the entries of a model fastest, or ``entry`` alone,
    at the sizes ``at`` or the largest: whole runs with their copies, measured where they are to run. Operations that
    take less on the processor than on the GPU stay there, where whole runs are faster so.

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
    divided: dict[str, frozenset[int]] = {}

    def measured(chosen: BuildOptions) -> float:
        reports = [bench(target, board, device, chosen, at or {}, RUNS, chosen.threads, one) for one in names]
        return sum(float(report.to_json()["median_ms"]) for report in reports)

    def times(chosen: BuildOptions) -> dict[str, dict[int, float]]:
        """What each operation of each entry takes, in us."""
        found = {one: profile(target, board, device, chosen, at or {}, RUNS, one).ops for one in names}
        return {one: {op.index: op.median_us or 0.0 for op in ops} for one, ops in found.items()}

    for gpu in (None, *GPUS):
        chosen = options if gpu is None else replace(options, gpu=gpu, threads=1)
        name = gpu or _PROCESSOR
        steps.update(f"measuring {name}")
        try:
            ms[name] = measured(chosen)
        except SdkError as error:
            if gpu is None:
                raise
            troubles[name] = error.why or error.message
            continue
        if gpu is not None:
            steps.update(f"measuring {name} beside the processor")
            both = f"{name}{_SHARED}"
            try:
                if left := _left(chosen, times, ms[name] * 1e3):
                    ms[both] = measured(replace(chosen, on_processor=left))
                    divided[both] = left
            except SdkError as error:
                troubles[both] = error.why or error.message
    best = min(ms, key=lambda name: ms[name])
    chosen_gpu = None if best == _PROCESSOR else best.removesuffix(_SHARED)
    return Choice(chosen_gpu, ms, troubles, divided.get(best, frozenset()))


def _left(
    options: BuildOptions, times: Callable[[BuildOptions], Mapping[str, Mapping[int, float]]], whole_us: float
) -> frozenset[int]:
    """The operations that are best left to the processor, by what each takes there and on the device. Two builds tell
    what the processor takes, with every other operation each. A run takes ``whole_us``: what its operations do not take
    of that is one submission with its copies."""
    device = times(options)
    numbers = sorted(index for ops in device.values() for index in ops)
    if len(numbers) < _FEWEST:
        return frozenset()
    processor: dict[int, float] = {}
    for half in (frozenset(numbers[::2]), frozenset(numbers[1::2])):
        for ops in times(replace(options, on_processor=half)).values():
            processor |= {index: us for index, us in ops.items() if index in half}
    turn = max(0.0, whole_us - sum(us for ops in device.values() for us in ops.values())) / max(len(device), 1)
    left: frozenset[int] = frozenset()
    for ops in device.values():
        left |= shares([OpTimes(index, processor[index], us) for index, us in ops.items()], turn)
    return left if len(left) < len(numbers) else frozenset()
