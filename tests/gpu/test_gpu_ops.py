"""The ops' samples as OpenCL kernels on PoCL, made as builds make them, against the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdk.compiler.ir.types import dtype
from tests.gpu.kernels import SAMPLES, check_samples

PARTS = 8


def test_some_ops_equal_the_interpreter(pocl, tmp_path: Path) -> None:
    count, wrong, missing = pocl(check_samples, tmp_path, 3, 61)
    assert count > 10
    assert wrong == []
    assert missing == []


def test_products_of_half_floats(pocl, tmp_path: Path) -> None:
    """They lie in memory as integers, which no vector of OpenCL C converts."""
    half = dtype("f16")
    (at, *_) = [k for k, (o, one, _) in enumerate(SAMPLES) if o.name == "matmul" and one.inputs[0].dtype == half]
    assert pocl(check_samples, tmp_path, at, len(SAMPLES)) == (1, [], [])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_op_equals_the_interpreter(pocl, tmp_path: Path, part: int) -> None:
    count, wrong, missing = pocl(check_samples, tmp_path, part, PARTS)
    assert count > 90
    assert wrong == []
    assert missing == []
