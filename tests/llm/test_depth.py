"""Layers that are alike are compiled once: what a build does and writes does not grow with them, results stay right."""

from __future__ import annotations

import cProfile
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_helpers import Interpreted, logits_of, saved

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.interp.plan import initial_states, run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import walk_plan
from sdk.compiler.sym import evaluate
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.llm.checkpoint import open_checkpoint
from sdk.llm.decoder import Sizes, decoder_module
from sdk.llm.runs import runs_of

TINY = {"vocab_size": 31, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2,
        "num_key_value_heads": 1, "max_position_embeddings": 40}  # fmt: skip
WINDOWS = {"head_dim": 8, "sliding_window": 7, "query_pre_attn_scalar": 24}
PATTERNS: list[tuple[str, dict[str, Any], list[tuple[int, int]]]] = [  # periods and iterations of the runs
    ("Llama", TINY | {"num_hidden_layers": 16}, [(1, 16)]),
    ("Gemma2", TINY | WINDOWS | {"num_hidden_layers": 5}, [(2, 2), (1, 1)]),
    ("Gemma3Text", TINY | WINDOWS | {"num_hidden_layers": 8, "sliding_window_pattern": 3}, [(3, 2), (1, 2)]),
    ("Qwen2", TINY | {"num_hidden_layers": 5, "use_sliding_window": True, "sliding_window": 7, "max_window_layers": 2},
     [(1, 2), (1, 3)]),
    ("SmolLM3", TINY | {"num_hidden_layers": 8, "pad_token_id": 0}, [(4, 2)]),
    ("GPTNeoX", {k: v for k, v in TINY.items() if k != "num_key_value_heads"} | {"num_hidden_layers": 4}, [(1, 4)]),
    ("GPT2", {"vocab_size": 31, "n_positions": 40, "n_embd": 16, "n_layer": 3, "n_head": 2}, [(1, 3)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sizes", "runs"), PATTERNS, ids=[name for name, _, _ in PATTERNS])
def test_layers_that_repeat(name: str, sizes: dict[str, Any], runs: list[tuple[int, int]], tmp_path: Path) -> None:
    model = saved(tmp_path, name, **sizes)
    ids = np.random.default_rng(1).integers(0, 31, 30)
    want = logits_of(model, ids)
    session = Interpreted(open_checkpoint(tmp_path), 32, 8)
    nodes = [n for g in session.module.graphs.values() for n in g.body]
    assert {n.iterations for n in nodes if getattr(n, "iterations", 1) != 1} == {n for _, n in runs if n > 1}
    for position, found in session.by_parts(ids, [5, 8, 1, 1, 8, 1, 6]).items():
        np.testing.assert_allclose(found, want[position], atol=1e-4)


def module_of(folder: Path, layers: int) -> Module:
    saved(folder, "Llama", **TINY | {"num_hidden_layers": layers})
    checkpoint = open_checkpoint(folder)
    return decoder_module("m", checkpoint.config, checkpoint.weights, Sizes(32, 8))


def test_work_does_not_grow_with_layers(tmp_path: Path) -> None:
    """Counted in calls of functions, from the module to the text of the C: 1 % more with eight times the layers are the
    arrays of weights, each packed by itself."""
    passes = default_passes(load_board("host"), BuildOptions(threads=2, io="caller", weights="file"))
    calls, kernels, statements, sizes, arenas = {}, {}, {}, {}, {}
    for layers in (3, 2, 16):  # the first, whose layers have an iteration more, fills what is remembered
        module = module_of(tmp_path / str(layers), layers)
        profile = cProfile.Profile()
        made = profile.runcall(lower_module, module, passes)
        emit = get_backend("c99").emit
        options = EmitOptions(weights_file=True)
        text = profile.runcall(emit, made, "m", isa=frozenset({"avx2", "fma"}), options=options).files["m.c"]
        calls[layers] = sum(entry.callcount for entry in profile.getstats())
        kernels[layers] = len(made.loops)
        statements[layers] = sum(1 for plan in made.plans.values() for _ in walk_plan(plan.body))
        sizes[layers] = len(text)
        top = {p.name: p.placed({v: v.maximum for v in p.dims}) for p in made.plans.values()}
        arenas[layers] = [evaluate(p.region("arena").bytes, top[p.name]) for p in made.plans.values()]
        found = run_plan(made, "decode", {"ids": np.array([3], np.int32)}, initial_states(made, "decode"), {"pos": 0})
        want = Interpreted(open_checkpoint(tmp_path / str(layers)), 32, 8).run("decode", np.array([3]))
        np.testing.assert_allclose(found["logits"], want, atol=1e-5)
    assert kernels[2] == kernels[16]
    assert statements[2] == statements[16]
    assert arenas[2] == arenas[16]
    assert abs(sizes[16] - sizes[2]) < 200  # digits of offsets
    assert calls[16] <= 1.05 * calls[2], calls


def test_runs_cover_layers_with_as_few_as_there_can_be() -> None:
    rng = random.Random(0)
    assert {(r.period, r.iterations) for r in runs_of("lllllg" * 4 + "ll")} == {(6, 4), (1, 2)}
    assert [(r.period, r.iterations) for r in runs_of("abcccccd")] == [(2, 1), (1, 5), (1, 1)]
    for _ in range(300):
        kinds = [rng.choice("abc"[: rng.randint(1, 3)]) for _ in range(rng.randint(1, 9))]
        runs = runs_of(kinds)
        assert [r.first for r in runs] == [sum(r.period * r.iterations for r in runs[:k]) for k in range(len(runs))]
        assert sum(r.period * r.iterations for r in runs) == len(kinds)
        for r in runs:
            for k in range(r.first, r.first + r.period):
                assert len({kinds[one] for one in r.alike(k)}) == 1
        assert sum(r.period for r in runs) == fewest(tuple(kinds))


def fewest(kinds: tuple[str, ...]) -> int:
    """By trying every way to cut them."""
    if not kinds:
        return 0
    found = []
    for end in range(1, len(kinds) + 1):
        for period in (p for p in range(1, end + 1) if end % p == 0 and kinds[:p] * (end // p) == kinds[:end]):
            found.append(period + fewest(kinds[end:]))
    return min(found)
