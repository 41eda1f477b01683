"""What convolutions in groups ask of their weights, transposed ones too."""

from __future__ import annotations

from typing import Any

import pytest

from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.ops import infer
from sdk.errors import BuildError


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_groups_divide_the_filters(axes: int, transposed: bool) -> None:
    name = f"conv_transpose{axes}d" if transposed else f"conv{axes}d"
    given: dict[str, Any] = {"stride": (1,) * axes, "dilation": (1,) * axes, "pad": (0,) * 2 * axes, "groups": 2}
    given |= {"more": (0,) * axes} if transposed else {}

    def result(filters: int) -> TensorType:
        shapes = ((1, *(5,) * axes, 4), (filters, *(3,) * axes, 2), (filters,))
        (found,) = infer(name, [TensorType(F32, shape) for shape in shapes], tuple(given.items()))
        return found

    assert result(6).shape[-1] == 6
    with pytest.raises(BuildError, match=f"5 output channels of {name} in 2 groups"):
        result(5)
