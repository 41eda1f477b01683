"""llama.cpp's side of ``llm_engine.py``, for a Python that has ``llama-cpp-python`` and ``gguf``: checkpoints with
random weights, and a model run by llama.cpp.

    python benchmarks/llm_peer.py write SHAPE FORMAT PATH
    python benchmarks/llm_peer.py convert FOLDER FORMAT PATH    (a Llama of Hugging Face in f32, without its tokenizer)
    python benchmarks/llm_peer.py serve PATH THREADS CONTEXT [CACHE]    (orders of llm_worker.py on stdin)
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import gguf
import gguf.quants
import numpy as np
from llm_worker import memory, serve

# architecture, layers, hidden, inner, heads, kv heads, numbers of a head, vocabulary, base of rotary positions
SHAPES = {
    "one-layer": ("llama", 1, 576, 1536, 9, 3, 64, 4096, 1e5),
    "smollm2-135m": ("llama", 30, 576, 1536, 9, 3, 64, 49152, 1e5),
    "qwen3-0.6b": ("qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 1e6),
    "llama-3.2-1b": ("llama", 16, 2048, 8192, 32, 8, 64, 128256, 5e5),
}


def write(shape: str, format: str, path: str) -> None:
    """Writes a checkpoint whose embeddings are the output's too. Numbers are random bits; scales of random signs make
    each matrix keep the size of what it multiplies, and logits some units wide."""
    arch, layers, hidden, inner, heads, kv, size, vocabulary, _ = SHAPES[shape]
    file = begun(path, *SHAPES[shape])
    rng = np.random.default_rng(0)
    kind = gguf.GGMLQuantizationType[format]

    def norm(name: str, width: int) -> None:
        file.add_tensor(name, (1 + rng.standard_normal(width) / 10).astype(np.float32))

    def matrix(name: str, rows: int, columns: int) -> None:
        file.add_tensor(name, blocks(rng, kind, rows, columns), raw_dtype=kind)

    matrix("token_embd.weight", vocabulary, hidden)
    norm("output_norm.weight", hidden)
    for k in range(layers):
        norm(f"blk.{k}.attn_norm.weight", hidden)
        matrix(f"blk.{k}.attn_q.weight", heads * size, hidden)
        matrix(f"blk.{k}.attn_k.weight", kv * size, hidden)
        matrix(f"blk.{k}.attn_v.weight", kv * size, hidden)
        if arch == "qwen3":
            norm(f"blk.{k}.attn_q_norm.weight", size)
            norm(f"blk.{k}.attn_k_norm.weight", size)
        matrix(f"blk.{k}.attn_output.weight", hidden, heads * size)
        norm(f"blk.{k}.ffn_norm.weight", hidden)
        matrix(f"blk.{k}.ffn_gate.weight", inner, hidden)
        matrix(f"blk.{k}.ffn_up.weight", inner, hidden)
        matrix(f"blk.{k}.ffn_down.weight", hidden, inner)
    ended(file)


def begun(
    path: str, arch: str, layers: int, hidden: int, inner: int, heads: int, kv: int, size: int, vocabulary: int,
    theta: float, context: int = 8192,
) -> gguf.GGUFWriter:  # fmt: skip
    """A file with the sizes of a model."""
    file = gguf.GGUFWriter(path, arch)
    file.add_block_count(layers)
    file.add_context_length(context)
    file.add_embedding_length(hidden)
    file.add_feed_forward_length(inner)
    file.add_head_count(heads)
    file.add_head_count_kv(kv)
    file.add_key_length(size)
    file.add_value_length(size)
    file.add_rope_dimension_count(size)
    file.add_rope_freq_base(theta)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(vocabulary)
    file.add_tokenizer_model("no_vocab")
    return file


def ended(file: gguf.GGUFWriter) -> None:
    """Writes a file to its end."""
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


HALVES = ("attn_q", "attn_k")  # whose pairs of numbers lie in two halves there, and side by side here
NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def convert(folder: str, format: str, path: str) -> None:
    """Writes a checkpoint of a Llama whose embeddings are the output's too, matrices rounded to nearest."""
    config = json.loads(Path(folder, "config.json").read_text())
    heads, kv, size = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    file = begun(
        path, "llama", config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"], heads, kv,
        size, config["vocab_size"], float(theta), config["max_position_embeddings"],
    )  # fmt: skip
    kind = gguf.GGMLQuantizationType[format]
    data = Path(folder, "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    for name, about in json.loads(data[8:begin]).items():
        if name == "__metadata__":
            continue
        values = np.frombuffer(data[begin:][slice(*about["data_offsets"])], "<f4").reshape(about["shape"])
        _, _, inner = name.removesuffix(".weight").partition("model.layers.")
        layer, _, part = inner.partition(".")
        new = f"blk.{layer}.{NAMES[part]}" if part else {"embed": "token_embd", "norm.": "output_norm"}[name[6:11]]
        if part and NAMES[part] in HALVES:
            split = values.reshape(heads if NAMES[part] == "attn_q" else kv, 2, size // 2, -1)
            values = split.swapaxes(1, 2).reshape(values.shape)
        if values.ndim == 1:
            file.add_tensor(f"{new}.weight", values.copy())
        else:
            file.add_tensor(f"{new}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    ended(file)


def blocks(rng: np.random.Generator, kind: Any, rows: int, columns: int) -> np.ndarray:
    """A matrix of random numbers, u8 [rows, bytes]."""
    size, nbytes = gguf.GGML_QUANT_SIZES[kind]
    found = np.frombuffer(rng.bytes(rows * columns // size * nbytes), np.uint8).reshape(-1, nbytes).copy()
    spread = {"Q4_0": 4.6, "Q8_0": 74.0}[kind.name]  # of the numbers in a block
    scales = rng.choice([-1.0, 1.0], len(found)) * rng.uniform(0.5, 1.5, len(found)) / (spread * columns**0.5)
    found[:, :2] = scales.astype("<f2").view(np.uint8).reshape(-1, 2)
    return found.reshape(rows, -1)


class Theirs:
    """A model and one conversation of llama.cpp."""

    def __init__(self, path: str, threads: int, context: int, cache: str = "") -> None:
        """``cache``: "f32" for caches of f32 without flash attention."""
        import llama_cpp

        self.lib = llama_cpp
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, None)
        llama_cpp.llama_backend_init()
        self.base = memory("VmRSS")
        begin = time.perf_counter()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        given = llama_cpp.llama_context_default_params()
        given.n_ctx, given.n_batch, given.n_ubatch = context, 512, 512
        given.n_threads = given.n_threads_batch = threads
        if cache == "f32":
            given.type_k = given.type_v = llama_cpp.GGML_TYPE_F32
            given.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = llama_cpp.llama_init_from_model(self.model, given)
        self.load_ms = (time.perf_counter() - begin) * 1e3
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def reset(self) -> None:
        """Forgets all tokens."""
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)

    def truncate(self, length: int) -> None:
        """Goes back to the first ``length`` tokens."""
        self.lib.llama_memory_seq_rm(self.lib.llama_get_memory(self.context), 0, length, -1)

    def feed(self, ids: np.ndarray) -> np.ndarray:
        """Takes tokens; the logits after the last."""
        tokens = np.ascontiguousarray(ids, np.int32)
        pointer = tokens.ctypes.data_as(self.lib.llama_batch_get_one.argtypes[0])
        if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(pointer, len(tokens))):
            raise RuntimeError("llama_decode failed")
        return np.ctypeslib.as_array(self.lib.llama_get_logits_ith(self.context, -1), (self.vocabulary,))


def main() -> int:
    """Does what the command line says."""
    if sys.argv[1] in ("write", "convert"):
        {"write": write, "convert": convert}[sys.argv[1]](*sys.argv[2:])
    else:
        serve(Theirs(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
