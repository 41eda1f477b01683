"""Attention of decoders of com.microsoft, against onnxruntime: one row after a cache, sparse blocks of keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from harness import Array, agree, one_node, run

from sdk.errors import BuildError
from sdk.frontends.onnx.importer import import_onnx

RNG = np.random.default_rng(21)
HEADS, WIDTH, MAX = 2, 4, 9
DECODER = ["q", "k", "v", "mask", "bias", "pk", "pv", "past", "", "", "b"]
SPARSE = ["q", "k", "v", "pk", "pv", "begins", "columns", "total", "lengths", "cos", "sin"]


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def wanted(
    op: str, inputs: dict[str, Array], order: list[str], outputs: tuple[str, ...], shared: bool = False, **given: Any
) -> list[Array]:
    """What onnxruntime computes; all inputs are given at run time, and caches go out in their own buffers."""
    model = one_node(op, inputs, outputs=outputs, order=order, domain="com.microsoft", **given)
    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array.copy()) for name, array in inputs.items()}
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name in outputs:
        if shared and name in ("ok", "ov"):
            binding.bind_ortvalue_output(name, values["p" + name[1]])
        else:
            binding.bind_output(name)
    session.run_with_iobinding(binding)
    return [np.array(value.numpy()) for value in binding.get_outputs()]


def ordered(inputs: dict[str, Array], order: list[str]) -> list[str]:
    found = [name if name in inputs else "" for name in order]
    while not found[-1]:
        found.pop()
    return found


# --- one row ------------------------------------------------------------------------------------------------------


def decoder(batch: int, past: int, *more: str, cross: bool = False) -> dict[str, Array]:
    """Inputs of a step; buffers have room for more rows than are known."""
    size = HEADS * WIDTH
    found = {"q": reals(batch, 1, size)}
    total = past if cross else past + 1
    if cross:
        found |= {"k": reals(batch, HEADS, past, WIDTH), "v": reals(batch, HEADS, past, WIDTH)}
    else:
        found |= {"k": reals(batch, 1, size), "v": reals(batch, 1, size)}
        found |= {"pk": reals(batch, HEADS, MAX, WIDTH), "pv": reals(batch, HEADS, MAX, WIDTH)}
        found["past"] = np.array([past], np.int32)
    mask = (RNG.random((batch, total)) > 0.4).astype(np.int32)
    mask[:, -1] = 1
    extra = {"mask": mask, "bias": reals(1, HEADS, 1, total), "b": reals(3 * size)}
    return found | {name: extra[name] for name in more}


@pytest.mark.parametrize(
    "inputs",
    [
        decoder(2, 5), decoder(1, 0), decoder(1, MAX - 1), decoder(2, 5, "mask"), decoder(1, 4, "bias", "b"),
        decoder(2, 6, cross=True), decoder(2, 6, "mask", cross=True),
        decoder(2, 6, "b", cross=True),
    ],
)  # fmt: skip
def test_one_row(inputs: dict[str, Array]) -> None:
    names = ("y", "ok", "ov") if "pk" in inputs else ("y",)
    given = {"num_heads": HEADS, "past_present_share_buffer": int("pk" in inputs), "mask_filter_value": -5000.0}
    order = ordered(inputs, DECODER)
    want = wanted("DecoderMaskedMultiHeadAttention", inputs, order, names, **given)
    model = one_node(
        "DecoderMaskedMultiHeadAttention", inputs, outputs=names, order=order, domain="com.microsoft", **given
    )
    _, got = run(model, inputs)
    for name, expected in zip(names, want, strict=True):
        agree(got[name], expected, 1e-5)


def test_rows_that_grow_are_those_of_multi_head_attention() -> None:
    inputs = decoder(2, 5, "mask", "b")
    inputs |= {name: inputs[name][:, :, :5] for name in ("pk", "pv")}
    del inputs["past"]
    names = ("y", "ok", "ov")
    plain = ["q", "k", "v", "b", "mask", "", "pk", "pv"]
    want = wanted("MultiHeadAttention", inputs, plain, names, num_heads=HEADS)
    order = ordered(inputs, DECODER)
    model = one_node(
        "DecoderMaskedMultiHeadAttention", inputs, outputs=names, order=order, domain="com.microsoft", num_heads=HEADS
    )
    _, got = run(model, inputs)
    for name, expected in zip(names, want, strict=True):
        agree(got[name], expected, 1e-5)


def test_queries_keys_and_values_in_one() -> None:
    inputs = decoder(2, 3, "b")
    packed = {"q": np.concatenate([inputs[name] for name in ("q", "k", "v")], 2)}
    packed |= {name: array for name, array in inputs.items() if name not in ("q", "k", "v")}
    found = []
    for given in (inputs, packed):
        model = one_node(
            "DecoderMaskedMultiHeadAttention", given, order=ordered(given, DECODER), domain="com.microsoft",
            num_heads=HEADS, past_present_share_buffer=1,
        )  # fmt: skip
        found.append(run(model, given)[1]["y"])
    np.testing.assert_array_equal(*found)


def test_beams_are_refused() -> None:
    inputs = decoder(2, 5) | {"beams": np.array([2], np.int32), "from": np.zeros((2, 2, 9), np.int32)}
    order = ["q", "k", "v", "", "", "pk", "pv", "past", "beams", "from"]
    model = one_node(
        "DecoderMaskedMultiHeadAttention", inputs, order=order, domain="com.microsoft", num_heads=HEADS,
        past_present_share_buffer=1,
    )  # fmt: skip
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_onnx(model, "m")
    assert "beams are not supported" in str(error.value)


# --- blocks -------------------------------------------------------------------------------------------------------

BLOCK = 16
BLOCKS = np.array(
    [
        [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]],
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]],
    ]
)


def tables(blocks: Array) -> tuple[Array, Array]:
    """The columns of each row, one layout after the other, ends filled with -1."""
    begins = np.concatenate([np.zeros((len(blocks), 1), int), blocks.sum(2).cumsum(1)], 1)
    columns = np.full((len(blocks), begins[:, -1].max()), -1)
    for layout, one in enumerate(blocks):
        columns[layout, : begins[layout, -1]] = np.nonzero(one)[1]
    return begins.astype(np.int32), columns.astype(np.int32)


def sparse(rows: int, lengths: list[int], rotary: int) -> dict[str, Array]:
    """Inputs of 4 heads for 2 of keys, with room for all blocks."""
    batch, size = len(lengths), 8 * (1 + rotary)
    begins, columns = tables(BLOCKS)
    maximum = BLOCK * BLOCKS.shape[1]
    found = {
        "q": reals(batch, rows, 4 * size), "k": reals(batch, rows, 2 * size), "v": reals(batch, rows, 2 * size),
        "pk": reals(batch, 2, maximum, size), "pv": reals(batch, 2, maximum, size),
        "begins": begins, "columns": columns,
        "total": np.array([max(lengths)], np.int32), "lengths": np.array(lengths, np.int32),
    }  # fmt: skip
    return found | ({"cos": reals(maximum, size // 2), "sin": reals(maximum, size // 2)} if rotary else {})


def blocks_seen(inputs: dict[str, Array], **given: Any) -> tuple[list[Array], list[Array]]:
    """What our interpreter computes, and onnxruntime."""
    names = ("y", "ok", "ov")
    given = {"num_heads": 4, "kv_num_heads": 2, "sparse_block_size": BLOCK, "do_rotary": int("cos" in inputs), **given}
    order = ordered(inputs, SPARSE)
    want = wanted("SparseAttention", inputs, order, names, shared=True, **given)
    known = ["begins", "columns", "total"]
    model = one_node(
        "SparseAttention", inputs, outputs=names, order=order, constants=known, domain="com.microsoft", **given
    )
    _, got = run(model, inputs)
    return [got[name] for name in names], want


@pytest.mark.parametrize(("rows", "length"), [(40, 40), (1, 50), (1, 64), (7, 7)])
@pytest.mark.parametrize("rotary", [0, 1])
def test_blocks_of_keys(rows: int, length: int, rotary: int) -> None:
    got, want = blocks_seen(sparse(rows, [length] * 2, rotary), scale=0.3)
    agree(got[0], want[0], 1e-5)
    for g, w in zip(got[1:], want[1:], strict=True):
        agree(g[:, :, :length], w[:, :, :length], 1e-5)


@pytest.mark.parametrize(("rows", "lengths"), [(40, [40, 33]), (1, [64, 20])])
def test_sequences_of_several_lengths_are_those_alone(rows: int, lengths: list[int]) -> None:
    """onnxruntime 1.31 reads memory that nothing wrote where a sequence is shorter than the longest."""
    inputs = sparse(rows, lengths, 1)
    got, _ = blocks_seen(inputs)
    for b, length in enumerate(lengths):
        new = min(rows, length)
        alone = {name: array[b : b + 1] for name, array in inputs.items() if name not in ("begins", "columns", "total")}
        alone |= {name: alone[name][:, :new] for name in ("q", "k", "v")}
        alone |= {name: inputs[name] for name in ("begins", "columns", "cos", "sin")}
        _, want = blocks_seen(alone | {"total": np.array([length], np.int32)})
        agree(got[0][b, :new], want[0][0], 1e-5)
        agree(got[1][b, :, :length], want[1][0, :, :length], 1e-5)


@pytest.mark.parametrize(("place", "why"), [("begins", "rows outside"), ("columns", "columns outside")])
def test_tables_that_are_damaged(place: str, why: str) -> None:
    inputs = sparse(1, [5], 0)
    inputs[place][0, 1] = 99
    model = one_node(
        "SparseAttention", inputs, constants=["begins", "columns", "total"], domain="com.microsoft", num_heads=4,
        kv_num_heads=2, sparse_block_size=BLOCK,
    )  # fmt: skip
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_onnx(model, "m")
    assert why in str(error.value)
