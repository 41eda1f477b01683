"""The sweep of layers that nobody tuned for: sizes as the operators have them, neighbours, and what is counted."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sdk.boards import load_board
from sdk.driver.measuring import count
from sdk.driver.options import BuildOptions
from sdk.driver.program import save_program

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))


def test_sizes_are_those_of_the_operators() -> None:
    from layers import _net, layers

    swept = list(dict.fromkeys(layers()))
    assert len(swept) > 500
    some = swept[::23]
    (graph,) = _net(some).graphs.values()
    for layer, result in zip(some, graph.results, strict=True):
        made = 1
        for extent in result.type.shape:
            made *= extent
        assert made == layer.made, layer


def test_a_cliff_is_the_ratio_to_the_best_layer_beside() -> None:
    from layers import Layer, cliffs

    one = Layer("family", "conv", 5, 8)
    found = {one: 4.0, replace(one, width=6): 2.0, replace(one, width=8): 1.0, replace(one, channels=9): 3.0}
    assert list(cliffs(found).values()) == [2.0, 2.0, 0.5, 0.75]
    assert cliffs({one: 4.0}) == {one: 1.0}


def test_all_of_a_layer_is_compared_to_the_next_larger_one() -> None:
    from layers import Layer, wholes

    one = Layer("family", "conv", 5, 8)  # of 25 pixels, with padding as many results
    found = {one: 4.0, replace(one, width=6): 2.0, replace(one, width=8): 3.0}
    executed = [value * layer.macs for layer, value in found.items()]
    assert list(wholes(found).values()) == [executed[0] / executed[1], executed[1] / executed[2], 0.0]


@pytest.mark.emulator
def test_a_layer_among_others_counts_as_it_does_alone(need_tool, tmp_path: Path) -> None:
    need_tool("qemu-system-arm")
    from layers import Layer, _net, measured

    some = [Layer("f", "conv", 6, 5, 4), Layer("f", "depthwise", 7, 4), Layer("f", "max", 6, 4, kernel=(2, 2))]
    board = load_board("qemu-cortex-m4")
    for layer, value in measured(board, some).items():
        path = tmp_path / "layer.ir"
        save_program(_net([layer]), path)
        alone = count(path, board, BuildOptions()).instructions
        assert abs(value * layer.macs - alone) < 100 + alone // 50, layer
