"""One batch of networks on one core: compiled into an image, run, compared; and one network again, to shrink it."""

from __future__ import annotations

import random
import re
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from generate import Network

from differential.cores import CORES
from differential.image import Compiled, compiled, link
from differential.machines import execute
from differential.subjects import Subject, subjects
from sdk.driver.options import BuildOptions
from sdk.errors import BuildError, SdkError
from sdk.toolchains import BuildCache

__all__ = ["Choice", "Finding", "Tally", "check", "choices", "compare", "fails"]

_OURS = " is wrong"  # how the verifiers tell of a fault of the compiler, which is no refusal
Opt = Literal["time", "size"]


@dataclass(frozen=True)
class Choice:
    """How a network is built for a core."""

    compiler: str
    opt: Opt = "time"
    memory: str = "time"
    isa: str | None = None

    def options(self) -> BuildOptions:
        """The same for a build."""
        return BuildOptions(opt=self.opt, memory=self.memory, isa=self.isa, toolchain=self.compiler)

    def __str__(self) -> str:
        isa = f" --isa {self.isa}" if self.isa else ""
        return f"--toolchain {self.compiler} --opt {self.opt} --memory {self.memory}{isa}"


@dataclass(frozen=True)
class Finding:
    """A network that is wrong on a core: ``what`` happened there."""

    core: str
    network: Network
    choice: Choice
    what: str


@dataclass
class Tally:
    """What came of networks: of each core and kind how many were right, why others were refused, which are wrong, of
    which the compiler itself caught a fault and dropped the faster code; seconds that each part of the work took."""

    right: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    wrong: list[Finding] = field(default_factory=list)
    caught: list[Finding] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Takes in another's numbers."""
        self.right += other.right
        self.refused += other.refused
        self.wrong += other.wrong
        self.caught += other.caught
        self.seconds += other.seconds


def choices(core: str, compiler: str, seed: int, fixed: Mapping[str, str]) -> Choice:
    """How the network of a seed is built for a core: drawn, where it is not in ``fixed``."""
    rng = random.Random(f"{core}/{seed}")
    opt, memory = rng.choice(("time", "time", "size")), rng.choice(("time", "time", "min"))
    isa = rng.choice((None, None, None, rng.choice(CORES[core].subsets)))
    isa = {"all": None}.get(fixed["isa"], fixed["isa"]) if "isa" in fixed else isa
    return Choice(compiler, cast(Opt, fixed.get("opt", opt)), fixed.get("memory", memory), isa)


def compare(networks: Sequence[Network], cores: Mapping[str, str], fixed: Mapping[str, str]) -> Tally:
    """Runs networks on ``cores`` (core -> compiler), each with options of its own."""
    tally, start = Tally(), time.monotonic()
    ready = subjects(networks)
    tally.seconds["references"] += time.monotonic() - start
    for core, compiler in cores.items():
        picked = [choices(core, compiler, s.network.seed, fixed) for s in ready]
        tally.add(check(ready, core, picked))
    return tally


def check(ready: Sequence[Subject], core: str, picked: Sequence[Choice]) -> Tally:
    """Runs networks on a core, with the choice of each."""
    tally, built = Tally(), list[tuple[Subject, Choice, Compiled]]()

    def wrong(subject: Subject, choice: Choice, what: str) -> None:
        tally.wrong.append(Finding(core, subject.network, choice, what))

    start = time.monotonic()
    for number, (subject, choice) in enumerate(zip(ready, picked, strict=True)):
        if subject.found:
            wrong(subject, choice, subject.found)
        if subject.refused:
            tally.refused[core, subject.network.kind, _reason(subject.refused)] += 1
        if subject.module is None:
            continue
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                # the C of each has a prefix of its own
                one = compiled(subject.module, f"m{number}", core, choice.options())
            built.append((subject, choice, one))
            tally.caught += [Finding(core, subject.network, choice, str(w.message)) for w in said]
        except SdkError as err:
            if _OURS in err.message:
                wrong(subject, choice, err.message)
                continue
            tally.refused[core, subject.network.kind, _reason(err.message)] += 1
        except Exception as err:
            wrong(subject, choice, f"{type(err).__name__}: {err}")
    tally.seconds["compile"] += time.monotonic() - start
    if not built:
        return tally
    with tempfile.TemporaryDirectory() as name:
        _execute(built, core, Path(name), tally, wrong)
    return tally


def _execute(
    built: list[tuple[Subject, Choice, Compiled]], core: str, folder: Path, tally: Tally, wrong: object
) -> None:
    assert callable(wrong)
    start = time.monotonic()
    found = {c.prefix: (s, choice) for s, choice, c in built}
    compiler = built[0][1].compiler
    try:
        left, rejected = link([c for _, _, c in built], core, compiler, BuildCache(folder / "cache"), folder / "image")
    except BuildError as err:
        for subject, choice in found.values():
            wrong(subject, choice, f"the image cannot be made: {err.message}: {err.why}")
        return
    for prefix, text in rejected.items():
        wrong(*found[prefix], f"does not compile: {text[:400]}")
    linked = time.monotonic()
    tally.seconds["C compiler"] += linked - start
    if not left:
        return
    outcomes = execute(folder / "image", core, left, [found[c.prefix][0].runs for c in left])
    tally.seconds["run"] += time.monotonic() - linked
    for one, outcome in zip(left, outcomes, strict=True):
        subject, choice = found[one.prefix]
        if isinstance(outcome, str):
            wrong(subject, choice, outcome)
            continue
        got = [[o[name] for name in one.plan.outputs] for o in outcome]
        lines = subject.differences(got)
        if lines:
            wrong(subject, choice, f"{len(lines)} differ, {lines[0]}")
        else:
            tally.right[core, subject.network.kind] += 1


def _reason(message: str) -> str:
    """A message without what only this network has in it."""
    return re.sub(r"'[^']*'|\b(m\d+|[xtv]\d+\w*)\b|-?\d[\d.,e+-]*", "_", message)[:100]


def fails(finding: Finding, network: Network) -> bool:
    """Whether another network, built the same way, is wrong on that core too, in the same way."""
    (subject,) = subjects([network])
    again = check([subject], finding.core, [replace(finding.choice)]).wrong
    return any(_kind_of(f.what) == _kind_of(finding.what) for f in again)


def _kind_of(what: str) -> str:
    head = what.split(":", 1)[0]
    return "differ" if " differ, " in head else re.sub(r"[\d.]+", "_", head)
