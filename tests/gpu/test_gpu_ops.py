"""The ops' samples as OpenCL kernels on PoCL, made as builds make them, against the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.kernels import check_samples

PARTS = 8


def test_some_ops_equal_the_interpreter(pocl, tmp_path: Path) -> None:
    count, wrong, missing = pocl(check_samples, tmp_path, 3, 61)
    assert count > 10
    assert wrong == []
    assert missing == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_op_equals_the_interpreter(pocl, tmp_path: Path, part: int) -> None:
    count, wrong, missing = pocl(check_samples, tmp_path, part, PARTS)
    assert count > 90
    assert wrong == []
    assert missing == []
