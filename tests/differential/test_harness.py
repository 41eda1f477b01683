"""The harness itself: it sees what is planted, blames the right model, and runs the others all the same."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from generate import generate

from differential import image
from differential.apart import apart
from differential.command import main
from differential.compare import Choice, check, choices, fails
from differential.cores import CORES, board_of
from differential.engines import differences
from differential.image import Compiled
from differential.machines import execute
from differential.subjects import Subject, subjects
from sdk.codegen_c.functions.instructions import x86
from sdk.driver.targets import capabilities
from sdk.toolchains import BuildCache

pytestmark = pytest.mark.filterwarnings("ignore::sdk.errors.MiscompileWarning")  # those are for test_differential.py
MACHINES = ("m4", "rv32", "m55", "avx2")
CRASH = "*(volatile int *)0x5A5A5A58 = 1;"
HANG = "for (volatile int k = 0; k == 0;) { }"


@pytest.fixture(scope="module")
def ready() -> list[Subject]:
    return subjects([generate(seed, "int8") for seed in (3, 4, 5)])


def planted(one: Compiled, statement: str) -> Compiled:
    """The model with a statement at the begin of its run."""
    code, count = re.subn(rf"(int {one.prefix}_run\([^)]*\)\n{{\n)", rf"\1    {statement}\n", one.code)
    assert count == 1
    return replace(one, code=code)


def outcomes(ready: list[Subject], core: str, statement: str, tmp_path: Path) -> list[bool | str]:
    """Of three models, the second with ``statement``: whether it is right, or what went wrong."""
    built = [image.compiled(s.module, f"m{k}", core, Choice("zig").options()) for k, s in enumerate(ready)]
    built[1] = planted(built[1], statement)
    left, rejected = image.link(built, core, "zig", BuildCache(tmp_path), tmp_path / "image")
    found = iter(execute(tmp_path / "image", core, left, [ready[int(c.prefix[1:])].runs for c in left], 5.0))
    out: list[bool | str] = []
    for one, subject in zip(built, ready, strict=True):
        result = rejected[one.prefix] if one.prefix in rejected else next(found)
        if isinstance(result, str):
            out.append(result)
        else:
            out.append(not differences(subject.want, [[o[n] for n in one.plan.outputs] for o in result]))
    return out


@pytest.mark.some(6)
@pytest.mark.emulator
@pytest.mark.parametrize("core", MACHINES)
@pytest.mark.parametrize(("statement", "said"), [(CRASH, "fault|SIG"), ("return 7;", "status 7"), ("no c;", "error")])
def test_only_the_broken_model_is_blamed(
    ready: list[Subject], core: str, statement: str, said: str, tmp_path: Path
) -> None:
    first, second, third = outcomes(ready, core, statement, tmp_path)
    assert (first, third) == (True, True)
    assert isinstance(second, str)
    assert re.search(said, second), second


@pytest.mark.emulator
def test_a_model_that_does_not_end_is_stopped(ready: list[Subject], tmp_path: Path) -> None:
    first, second, third = outcomes(ready, "m4", HANG, tmp_path)
    assert (first, third) == (True, True)
    assert str(second).startswith("no end within 5 s")


@pytest.mark.emulator
def test_a_wrong_value_is_a_finding_and_comes_back(ready: list[Subject]) -> None:
    other = [[a.copy() for a in run] for run in ready[1].want]
    other[-1][0].reshape(-1)[-1] ^= 1
    tally = check([ready[0], replace(ready[1], want=other)], "m4", [Choice("zig")] * 2)
    (finding,) = tally.wrong
    assert finding.network == ready[1].network
    assert "1 differ" in finding.what
    assert sum(tally.right.values()) == 1
    assert not fails(finding, ready[1].network)  # as it is, it is right


def test_choices_are_those_of_the_seed_and_within_what_the_core_has() -> None:
    for core in CORES:
        found = [choices(core, "zig", seed, {}) for seed in range(60)]
        assert found == [choices(core, "zig", seed, {}) for seed in range(60)]
        assert {c.isa for c in found} == {None, *CORES[core].subsets}
        assert {(c.opt, c.memory) for c in found} == {(o, m) for o in ("time", "size") for m in ("time", "min")}
        for one in found:
            capabilities(board_of(core), one.options())
    assert choices("m4", "zig", 1, {"isa": "all", "opt": "size"}).isa is None


def test_every_instruction_of_avx512_is_there_in_c_too() -> None:
    text = Path(x86.__file__).read_text(encoding="utf-8")
    named = set(re.findall(r"__builtin_ia32_\w*(?:512|vpdpbusd)\w*", text))
    assert named
    assert named <= set(re.findall(r"__builtin_ia32_\w+", (image.HERE / "avx512_in_c.h").read_text(encoding="utf-8")))


def test_differences_of_reals_and_integers() -> None:
    a = [[np.array([1.0, np.nan, np.inf, -3.0], np.float32)]]
    assert differences(a, [[a[0][0] + np.float32(1e-5)]]) == []
    assert "instead of -3.0" in differences(a, [[np.array([1.0, np.nan, np.inf, -3.1], np.float32)]])[0]
    assert differences(a, [[np.array([1.0, 1.0, np.inf, -3.0], np.float32)]])
    assert differences(a, [[np.array([1.0, np.nan, -np.inf, -3.0], np.float32)]])
    b = [[np.array([1, 127], np.int8)]]
    near = [[np.array([1, 124], np.int8)]]
    assert (len(differences(b, near)), differences(b, near, True)) == (1, [])
    assert differences(b, [[np.array([1, -128], np.int8)]], True)
    assert differences(b, [[np.array([1, 127], np.uint8)]])


def test_work_apart_keeps_what_came_before_its_death() -> None:
    def crashing() -> Iterator[int]:
        yield 1
        os.abort()

    def failing() -> Iterator[int]:
        yield 2
        raise ValueError("no")

    def hanging() -> Iterator[int]:
        yield 3
        time.sleep(60)

    assert [(found, str(died)) for found, died in (apart(crashing, 9), apart(failing, 9), apart(hanging, 0.5))] == [
        ([1], "SIGABRT"), ([2], "ValueError: no"), ([3], "no end within 0.5 s"),
    ]  # fmt: skip
    assert apart(lambda: iter(range(3)), 9) == ([0, 1, 2], None)


@pytest.mark.emulator
def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--core", "m3", "--kind", "int8", "--count", "3", "--seed", "11", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^m3 +int8 +3 +0 +0$", out, re.MULTILINE), out
    assert "a minute" in out
