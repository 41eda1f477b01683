"""GGUF files: each format's numbers by its definition, models out of them, and files that are damaged."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_files import floats, gguf, number
from llm_helpers import Interpreted, logits_of, saved

from sdk.compiler.ops.group_formats import FORMATS as GROUPS
from sdk.errors import SdkError, UsageError
from sdk.llm.checkpoint import open_checkpoint
from sdk.llm.fifth_bits import with_bytes_of_bits
from sdk.llm.gguf import open_gguf, read_gguf
from sdk.llm.weights import FORMATS, NO_TYPE, Weight

BLOCKS = sorted(name for name, format in FORMATS.items() if format.count > 1 and format.type != NO_TYPE)


def block_bytes(name: str, blocks: int, seed: int = 0) -> bytes:
    """Random blocks whose scales are numbers."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (blocks, FORMATS[name].bytes), dtype=np.uint8)
    scales = {"Q6_K": (208,), "Q4_0": (0,), "Q5_0": (0,), "Q8_0": (0,)}.get(name, (0, 2))
    for at in scales:
        values = rng.uniform(-0.1, 0.1, blocks).astype("<f2")
        data[:, at : at + 2] = values.view(np.uint8).reshape(-1, 2)
    return data.tobytes()


@pytest.mark.parametrize("name", BLOCKS)
def test_numbers_of_a_format(name: str) -> None:
    count, size = FORMATS[name].count, FORMATS[name].bytes
    data = block_bytes(name, 6)
    file = read_gguf(memoryview(gguf({}, {"w": (name, (3, 2 * count), data)})), "w.gguf")
    found = file.tensors["w"].floats().reshape(6, count)
    want = [[number(name, data[b * size : (b + 1) * size], k) for k in range(count)] for b in range(6)]
    np.testing.assert_array_equal(found, np.array(want, np.float32))


def llama_tensors(model: Any) -> dict[str, np.ndarray]:
    """What the file of a Llama of ``transformers`` has: queries and keys have their turning pairs side by side."""
    c, found = model.config, {}
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
             "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}  # fmt: skip
    for name, tensor in model.state_dict().items():
        values = tensor.numpy()
        for kind, heads in (("q_proj", c.num_attention_heads), ("k_proj", c.num_key_value_heads)):
            if kind in name:
                values = values.reshape(heads, 2, -1, values.shape[-1]).swapaxes(1, 2).reshape(values.shape)
        name = name.replace("model.layers.", "blk.")
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        found[name] = values
    return found


def llama_file(model: Any, packed: Mapping[str, Any] | None = None, **changes: Any) -> bytes:
    """The file of a Llama, some tensors of it as given."""
    c = model.config
    tensors = {name: floats(values) for name, values in llama_tensors(model).items()} | dict(packed or {})
    metadata = {
        "general.architecture": "llama", "llama.context_length": 64, "llama.embedding_length": c.hidden_size,
        "llama.block_count": c.num_hidden_layers, "llama.feed_forward_length": c.intermediate_size,
        "llama.attention.head_count": c.num_attention_heads, "llama.rope.freq_base": 10000.0,
        "llama.attention.head_count_kv": c.num_key_value_heads, "llama.rope.dimension_count": 8,
        "llama.attention.layer_norm_rms_epsilon": 1e-6, "tokenizer.ggml.tokens": ["a", "b"],
        "tokenizer.ggml.eos_token_id": 2, "general.alignment": 32, "llama.use_it": True,
    }  # fmt: skip
    return gguf({k: v for k, v in (metadata | changes).items() if v is not None}, tensors)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return saved(
        tmp_path_factory.mktemp("hf"), "Llama", vocab_size=50, hidden_size=32, intermediate_size=40,
        num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip


def test_a_model(llama: Any, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(llama_file(llama))
    ids = np.random.default_rng(0).integers(0, 50, 20)
    found = Interpreted(open_checkpoint(tmp_path / "m.gguf"), 64, 16).run("verify", ids[:8])
    np.testing.assert_allclose(found, logits_of(llama, ids)[:8], atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["Q5_0", "Q5_1"])
def test_fifth_bits_change_places(llama: Any, tmp_path: Path, name: str) -> None:
    """Numbers and bytes stay as many and the same, and products take the bits as they are then."""
    kind = FORMATS[name]
    many = Weight.of("w", kind, (3, 32 << 16), np.frombuffer(block_bytes(name, 3 << 16), np.uint8))  # in several parts
    turned = with_bytes_of_bits(many)
    assert (turned.format.name, turned.data.nbytes) == (f"{name}T", many.data.nbytes)
    np.testing.assert_array_equal(turned.floats(), many.floats())
    np.testing.assert_array_equal(GROUPS[f"{name}T"].decode(turned.data[:, : 99 * kind.bytes]), many.floats()[:, :3168])
    matrices = {k: v for k, v in llama_tensors(llama).items() if v.ndim == 2 and v.shape[1] % 32 == 0}
    packed = {k: (name, v.shape, block_bytes(name, v.size // 32, len(k))) for k, v in matrices.items()}
    path = tmp_path / "m.gguf"
    path.write_bytes(llama_file(llama, packed))
    found = open_checkpoint(path)
    assert sum(w.format.name == f"{name}T" for w in found.weights.values()) == len(packed) > 5
    real = {n: Weight.from_floats(n, w.floats()) for n, w in found.weights.items()}
    ids = np.random.default_rng(0).integers(0, 50, 8)
    logits = [Interpreted(one, 64, 16).run("verify", ids) for one in (found, replace(found, weights=real))]
    np.testing.assert_allclose(*logits, atol=0.03 * np.abs(logits[1]).max(), rtol=0)  # activations in 8 bits


def test_damaged_files(llama: Any, tmp_path: Path) -> None:
    """Whatever a file holds, it is read or refused with an error of ours, at once."""
    whole, path, rng = llama_file(llama), tmp_path / "m.gguf", random.Random(0)
    head = whole.index(b"token_embd.weight") + 400
    cases = [whole[:n] for n in (0, 1, 4, 8, 23, 24, 100, head, len(whole) // 2, len(whole) - 1)]
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(head)
            data[at] = rng.choice((0, 1, 255, 127, rng.randrange(256)))
        cases.append(bytes(data))
    refused = 0
    for data in cases:
        path.write_bytes(data)
        try:
            open_checkpoint(path)
        except SdkError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"general.architecture": "nonesuch"}, "the architecture 'nonesuch' is not supported"),
        ({"general.architecture": None}, "does not say what architecture it has"),
        ({"llama.block_count": 2}, "are not those of a llama of its configuration"),
        ({"llama.block_count": 5000}, "configuration makes no model"),
        ({"llama.attention.head_count": "4"}, "the checkpoint's num_attention_heads is no whole number"),
        ({"llama.attention.head_count": 0}, "the checkpoint's configuration makes no model"),
        ({"llama.rope.scaling.type": "strange"}, "positions are scaled by 'strange', which is not supported"),
        ({"llama.rope.scaling.type": "linear"}, "the scaling linear of positions is damaged"),
        ({"general.alignment": 0}, "is no whole GGUF file"),
    ],
)
def test_what_is_refused(llama: Any, tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    (tmp_path / "m.gguf").write_bytes(llama_file(llama, **changes))
    with pytest.raises(SdkError, match=why):
        Interpreted(open_checkpoint(tmp_path / "m.gguf"), 64, 16)


def test_formats_that_are_not_read(tmp_path: Path) -> None:
    data = bytearray(gguf({}, {"w": ("F32", (4,), bytes(16))}))
    at = data.index(b"w", 24) + 1 + 4 + 8
    for type, called in ((10, "Q2_K"), (20, "IQ4_NL"), (99, "99")):
        data[at] = type
        with pytest.raises(UsageError, match=f"is of GGUF type {called}, which is not supported") as error:
            read_gguf(memoryview(bytes(data)), "w.gguf")
        assert "Q5_0" in str(error.value.why)
        assert "Q4_Z" not in str(error.value.why)  # which no file has
        assert "llama-quantize" in str(error.value.hint)
    with pytest.raises(UsageError, match="cannot read"):
        open_gguf(tmp_path / "none.gguf")
