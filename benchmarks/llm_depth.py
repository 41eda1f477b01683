"""Prints what a build of a language model takes by its number of layers: processor time, kernels, bytes of C.

    python benchmarks/llm_depth.py [--layers 4,32,64] [--rounds N] [--gpu INTERFACE]

Models are of the family Llama, 64 numbers a layer, with random weights that take no time. Processor time is that
of this process and of the compilers it starts, the least of the rounds; a model of other sizes is built before.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from safetensors.numpy import save_file

import sdk.llm

HIDDEN, INNER, VOCABULARY = 64, 96, 99


def checkpoint(folder: Path, layers: int, hidden: int = HIDDEN) -> Path:
    """A Hugging Face folder with so many layers."""
    rng = np.random.default_rng(layers)
    shapes = {"model.embed_tokens": (VOCABULARY, hidden), "model.norm": (hidden,), "lm_head": (VOCABULARY, hidden)}
    for k in range(layers):
        at = f"model.layers.{k}."
        shapes |= {f"{at}{name}": (hidden,) for name in ("input_layernorm", "post_attention_layernorm")}
        sizes = {"q": (hidden, hidden), "k": (hidden // 2, hidden), "v": (hidden // 2, hidden), "o": (hidden, hidden)}
        shapes |= {f"{at}self_attn.{name}_proj": shape for name, shape in sizes.items()}
        sizes = {"gate": (INNER, hidden), "up": (INNER, hidden), "down": (hidden, INNER)}
        shapes |= {f"{at}mlp.{name}_proj": shape for name, shape in sizes.items()}
    tensors = {f"{name}.weight": rng.normal(size=shape).astype(np.float32) / 8 for name, shape in shapes.items()}
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "vocab_size": VOCABULARY,
        "intermediate_size": INNER, "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": hidden // 4, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
        "hidden_act": "silu", "tie_word_embeddings": False,
    }  # fmt: skip
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def built(folder: Path, layers: int, gpu: str | None, hidden: int = HIDDEN) -> tuple[float, int, int]:
    """Processor seconds of a build, and the functions and bytes of its C."""
    source = checkpoint(folder / "checkpoint", layers, hidden)
    before = sum(os.times()[:4])
    sdk.llm.build_model(source, folder / "out", name="net", gpu=gpu)
    seconds = sum(os.times()[:4]) - before
    text = (folder / "out" / "net.c").read_text(encoding="utf-8")
    return seconds, len(re.findall(r"^static (?:\w+ )*void net_\w+\(", text, re.MULTILINE)), len(text)


def main() -> None:
    """Builds each model in turn, so many rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="4,32,64")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--gpu", choices=("opencl", "vulkan"))
    args = parser.parse_args()
    depths = [int(one) for one in args.layers.split(",")]
    found: dict[int, list[tuple[float, int, int]]] = {depth: [] for depth in depths}
    with tempfile.TemporaryDirectory() as folder:
        built(Path(folder) / "before", 2, args.gpu, hidden=128)
        for turn in range(args.rounds):
            for depth in depths:
                os.environ["XDG_CACHE_HOME"] = str(Path(folder) / f"cache-{depth}-{turn}")  # nothing compiled before
                found[depth].append(built(Path(folder) / f"{depth}-{turn}", depth, args.gpu))
    table = Table("layers", "processor time", "functions", "bytes of C")
    for depth, rows in found.items():
        seconds, functions, size = min(rows)
        table.add_row(str(depth), f"{seconds:.1f} s", str(functions), f"{size:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
