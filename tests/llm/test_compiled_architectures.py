"""Each architecture as compiled C, on this machine and as AArch64 under QEMU: what ``transformers`` computes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_helpers import Interpreted, logits_of, saved
from test_architectures import MODELS, SMALL

import sdk.llm
from sdk.boards import load_board
from sdk.llm.build import build_model
from sdk.llm.checkpoint import Checkpoint, open_checkpoint
from sdk.llm.quantise import quantised
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

PARTS = [5, 3, *[1] * 9, 5, 4, *[1] * 12]  # windows of 7 in rings of 11 wrap several times
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "m_llm.h"
static _Alignas(M_ARENA_ALIGN) uint8_t arena[M_ARENA_BYTES];
static _Alignas(M_STATE_ALIGN) uint8_t state[M_STATE_BYTES];
static float logits[M_LLM_VOCABULARY];
int main(int argc, char **argv) /* counts of parts, then ids, of which they are made */
{
    static m_llm_t model;
    const void *weights;
    size_t bytes;
    int32_t ids[64];
    int at = 0, parts = atoi(argv[1]), first = 2 + parts;
    int status = m_weights_map(M_WEIGHTS_FILE, &weights, &bytes);
    status = status ? status : m_llm_init(&model, arena, sizeof arena, state, sizeof state, weights, bytes);
    for (int p = 0; p < parts && status == 0; ++p) {
        int n = atoi(argv[2 + p]);
        for (int k = 0; k < n && first + at + k < argc; ++k) ids[k] = atoi(argv[first + at + k]);
        status = m_llm_feed(&model, ids, n, logits);
        at += n;
        fwrite(logits, sizeof logits, 1, stdout);
    }
    return status != 0;
}
"""
BOARDS = ("host", "aarch64-linux")


def compiled(
    checkpoint: Path, out: Path, board: str, ids: np.ndarray, context: int = 48, **options: Any
) -> np.ndarray:
    """Logits after each part, [parts, vocabulary], of the C for a board."""
    made = build_model(checkpoint, out, context=context, chunk=5, name="m", board=board, threads=1, **options)
    if board == "host":
        with sdk.llm.load(out) as session:
            ends = np.cumsum(PARTS)
            return np.stack([session.feed(ids[end - part : end]) for part, end in zip(PARTS, ends, strict=True)])
    (out / "main.c").write_text(MAIN)
    place, tool = load_board(board), get_toolchain("zig")
    target = target_for(place)
    flags = ("-std=c11", "-D_GNU_SOURCE")
    objects = [
        tool.compile(CompileJob(SourceText.read(file), target, include_dirs=(out,), opt="1", flags=flags))
        for file in sorted(out.glob("*.c"))
    ]
    app = tool.link(LinkJob("executable", tuple(objects), target, libs=("m",)), out / "app")
    app.chmod(0o755)
    words = [str(word) for word in (len(PARTS), *PARTS, *ids)]
    assert place.emulator is not None
    command = [*(word.replace("{elf}", str(app)) for word in place.emulator.argv), *words]
    found = subprocess.run(command, cwd=out, capture_output=True, check=True).stdout
    return np.frombuffer(found, "<f4").reshape(len(PARTS), made.info["vocabulary_size"])


@pytest.mark.slow
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("linear", "yarn", "gptneox-serial")])
def test_as_compiled(name: str, board: str, tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    need_tool("gcc" if board == "host" else "qemu-aarch64")
    kind, sizes = MODELS[name]
    model = saved(tmp_path / "hf", kind, **sizes)
    ids = np.random.default_rng(1).integers(0, 99, sum(PARTS))
    want = logits_of(model, ids)[np.cumsum(PARTS) - 1]
    np.testing.assert_allclose(compiled(tmp_path / "hf", tmp_path / "out", board, ids), want, atol=1e-4, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("format", ["Q8_0", "Q4_0"])
def test_in_groups(format: str, board: str, tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    """The same numbers as the interpreter's, but for the order of sums."""
    need_tool("gcc" if board == "host" else "qemu-aarch64")
    saved(tmp_path / "hf", "Qwen3", **SMALL | {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16})
    ids = np.random.default_rng(1).integers(0, 99, sum(PARTS))
    plain = open_checkpoint(tmp_path / "hf")
    packed = Checkpoint(plain.path, plain.config, quantised(plain.weights, format), plain.digest)
    want = np.stack(list(Interpreted(packed, 48, 5).by_parts(ids, PARTS).values()))
    found = compiled(tmp_path / "hf", tmp_path / "out", board, ids, quantize=format)
    np.testing.assert_allclose(found, want, atol=2e-3 * np.abs(want).max(), rtol=0)
