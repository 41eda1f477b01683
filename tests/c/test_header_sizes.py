"""Sizes in the header: macros that the preprocessor can compute with, for the model and for each entry."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from c_model import Net
from test_entries_as_c import two_entries

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions, EntryStack
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import I32
from sdk.driver import build
from sdk.driver.options import BuildOptions


def one_entry() -> Module:
    net = Net()
    x = net.input("x", I32, 3, 5)
    return net.planned(net.op("y", "add", x, net.const("w", I32, np.arange(5))))


def header(module: Module, **stacks: EntryStack) -> str:
    emitted = get_backend("c99").emit(module, "net", isa=frozenset(), options=EmitOptions())
    return str(emitted.stating(stacks)["net.h"])


def macros(text: str) -> dict[str, int]:
    """The macros that are numbers."""
    return {name: int(value) for name, value in re.findall(r"^#define (\w+) (\d+)u?\b", text, re.MULTILINE)}


def test_each_entry_states_its_own_sizes() -> None:
    module = two_entries()
    text = header(module, absorb=EntryStack(96), answer=EntryStack(640, ("expf", "memcpy")))
    found = macros(text)
    arenas = {name: plan.region("arena").bytes for name, plan in module.plans.items()}
    assert found["NET_ABSORB_ARENA_BYTES"] == arenas["absorb"] != arenas["answer"] == found["NET_ANSWER_ARENA_BYTES"]
    assert found["NET_ARENA_BYTES"] == max(arenas.values())
    assert (found["NET_ABSORB_STACK_BYTES"], found["NET_ANSWER_STACK_BYTES"]) == (96, 640)
    assert found["NET_STACK_BYTES"] == 640
    assert "of this entry, without what expf, memcpy need */" in text


def test_one_entry_has_no_sizes_twice() -> None:
    text = header(one_entry(), main=EntryStack(64, ("expf",)))
    assert re.findall(r"#define (\w*(?:STACK|ARENA)_BYTES)", text) == ["NET_ARENA_BYTES", "NET_STACK_BYTES"]
    assert "compiler used, without what expf need */" in text


def test_no_stack_is_stated_that_was_not_measured() -> None:
    assert "STACK_BYTES" not in header(one_entry())
    assert "STACK_BYTES" not in header(two_entries())
    found = macros(header(two_entries(), absorb=EntryStack(8)))
    assert "NET_STACK_BYTES" not in found
    assert found["NET_ABSORB_STACK_BYTES"] == 8


@pytest.mark.parametrize("limit", [0, 1])
def test_sizes_can_be_asked_before_anything_is_compiled(limit: int, tmp_path: Path, root: Path) -> None:
    model = root / "examples" / "digits" / "digits_int8.tflite"
    build(model, load_board("nucleo_l4r5zi"), BuildOptions(name="digits"), emit="c", out=tmp_path)
    sizes = macros((tmp_path / "digits.h").read_text(encoding="utf-8"))
    total = sizes["DIGITS_ARENA_BYTES"] + sizes["DIGITS_STATE_BYTES"] + sizes["DIGITS_STACK_BYTES"]
    source = f"""#include "digits.h"
#if DIGITS_ARENA_BYTES + DIGITS_STATE_BYTES + DIGITS_STACK_BYTES > {total - limit}
#error too large
#endif
#if DIGITS_WEIGHTS_BYTES % 2 > 1 || DIGITS_ARENA_ALIGN < 1
#error odd
#endif
int nothing;
"""
    (tmp_path / "check.c").write_text(source)
    command = [sys.executable, "-m", "ziglang", "cc", "-c", "check.c", "-o", "check.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (limit == 0), done.stderr
    assert ("too large" in done.stderr) is (limit == 1)
