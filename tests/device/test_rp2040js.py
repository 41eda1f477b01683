"""The UF2 image of a Raspberry Pi Pico in an emulator that others wrote of the chip: it starts, talks and computes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from device_agents import Agent

from sdk.boards import load_board
from sdk.devices import Session
from sdk.driver.agents import link_agent
from sdk.driver.artifact import build_sources
from sdk.driver.machines import emulator_of
from sdk.driver.options import BuildOptions
from sdk.flash import uf2
from sdk.flash.image import read_image, write_as

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parents[1] / "examples/digits/digits_int8.tflite"
MODULES = Path(sys.prefix) / "node_modules"  # `make soak` installs requirements/package.json there


@pytest.mark.slow
def test_a_pico_starts_from_its_uf2(tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    node = need_tool("node")
    assert (MODULES / "rp2040js").is_dir(), "rp2040js is not installed: make soak does it"
    board, options = load_board("rpi_pico"), BuildOptions()
    image = link_agent(build_sources(DIGITS, board, options).sources, board, options)
    family = board.flash["uf2-drive"]["family"]
    assert isinstance(family, int)
    written, start = write_as(read_image(image), "uf2", tmp_path, "image", family)
    assert (start, len(written.read_bytes()) % uf2.BLOCK) == (board.regions("flash")[0].base, 0)
    words = [f"NODE_PATH={MODULES}", node, str(HERE / "rp2040_machine.cjs"), str(written)]
    program = tmp_path / "pico"
    program.write_text(f"#!/bin/sh\nexec env {shlex.join(words)}\n", encoding="utf-8")
    program.chmod(0o755)
    inputs = np.random.default_rng(1).integers(-128, 128, (3, 64), np.int8)

    def outputs(session: Session) -> list[bytes]:
        found = []
        for one in inputs:
            session.write(0, 0, one.tobytes())
            session.run(0)
            found.append(session.read(0, 1))
        return found

    with Agent("local:", program, None).open(60.0) as session:
        assert session.info.name == "rpi_pico"
        on_theirs = outputs(session)
    with Agent("unicorn://", image, emulator_of(board, image)).open(60.0) as session:
        assert on_theirs == outputs(session)
    assert len(set(on_theirs)) == 3
