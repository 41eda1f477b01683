"""The example decoder: compiled C, our interpreter and PyTorch agree at every token, also where the caches wrap."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import sdk
from sdk.boards import load_board
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.driver import build
from sdk.driver.options import BuildOptions
from sdk.driver.program import save_program
from tests.ir.round_trip import check_round_trip

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "llama" / "decoder.py"
STEPS = 64


@pytest.fixture(scope="module")
def decoder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("decoder", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["decoder"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def turned(x: torch.Tensor, theta: float) -> torch.Tensor:
    """Rotary positions of x[heads, tokens, size], as one complex product."""
    _, tokens, size = x.shape
    angles = torch.arange(tokens)[:, None] * theta ** (-torch.arange(0, size, 2) / size)
    pairs = torch.complex(*x.chunk(2, dim=-1)) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((pairs.real, pairs.imag), dim=-1)


def torch_logits(config: Any, weights: dict[str, np.ndarray], tokens: list[int], window: int) -> np.ndarray:
    """Logits after every token, from the whole sequence at once: no cache, attention limited to the last ``window``."""
    w = {name: torch.from_numpy(data) for name, data in weights.items()}
    n = len(tokens)
    rows, columns = torch.arange(n)[:, None], torch.arange(n)
    mask = (columns <= rows) & (columns > rows - window)
    x = w["embed"][torch.tensor(tokens)]
    for k in range(config.layers):
        h = functional.rms_norm(x, (config.width,), w[f"attn_norm{k}"], config.epsilon)
        q, key, value = (
            functional.linear(h, w[f"{name}{k}"]).view(n, -1, config.head).transpose(0, 1) for name in "qkv"
        )
        q, key = turned(q, config.theta), turned(key, config.theta)
        mixed = functional.scaled_dot_product_attention(
            q[None], key[None], value[None], attn_mask=mask, enable_gqa=True
        )[0]
        x = x + functional.linear(mixed.transpose(0, 1).reshape(n, -1), w[f"o{k}"])
        h = functional.rms_norm(x, (config.width,), w[f"mlp_norm{k}"], config.epsilon)
        gated = functional.silu(functional.linear(h, w[f"gate{k}"])) * functional.linear(h, w[f"up{k}"])
        x = x + functional.linear(gated, w[f"down{k}"])
    return functional.linear(functional.rms_norm(x, (config.width,), w["norm"], config.epsilon), w["embed"]).numpy()


def interpreted(module: Any, tokens: list[int], prompt: int, cap: int) -> np.ndarray:
    """Logits from the prompt's last token on, by the numpy interpreter."""
    states = initial_states(module, {"cap": cap})
    ids = np.array(tokens, dtype=np.int64)
    found = [run_graph(module, "prefill", {"ids": ids[:prompt]}, states)]
    found += [run_graph(module, "decode", {"ids": ids[k : k + 1]}, states, {"pos": k}) for k in range(prompt, len(ids))]
    return np.concatenate([f["logits"] for f in found])


class Context(ctypes.Structure):
    """decoder_t."""

    _fields_ = (
        ("model", ctypes.c_void_p), ("arena", ctypes.c_void_p), ("state", ctypes.c_void_p), ("user", ctypes.c_void_p),
        ("cap", ctypes.c_int32), ("arena_bytes", ctypes.c_size_t),
    )  # fmt: skip


class Instance:
    """A decoder in C with the least memory that it asks for, as an application makes it."""

    def __init__(self, library: ctypes.CDLL, cap: int) -> None:
        self.library, self.cap = library, ctypes.c_int32(cap)
        largest = (ctypes.c_int32(32), ctypes.c_int32(4095))
        self.arena, arena_bytes = self.memory(
            max(self.bytes(f"{name}_arena", dim) for name, dim in zip(("prefill", "decode"), largest, strict=True))
        )
        self.state, state_bytes = self.memory(self.bytes("state"))
        self.context = Context()
        size = ctypes.c_size_t
        self.status = library.decoder_init(
            ctypes.byref(self.context), self.arena, size(arena_bytes), self.state, size(state_bytes),
            ctypes.byref(self.cap),
        )  # fmt: skip

    def bytes(self, what: str, *dims: ctypes.c_int32) -> int:
        question = getattr(self.library, f"decoder_{what}_bytes")
        question.restype = ctypes.c_size_t
        return int(question(ctypes.byref(self.cap), *map(ctypes.byref, dims)))

    def memory(self, count: int) -> tuple[ctypes.c_void_p, int]:
        """Memory that begins at a multiple of 64, full of ones."""
        self.kept = [*getattr(self, "kept", []), np.full(count + 64, 255, np.uint8)]
        return ctypes.c_void_p(-(-self.kept[-1].ctypes.data // 64) * 64), count

    def run(self, entry: str, ids: np.ndarray, dim: int) -> np.ndarray:
        logits = np.empty((1, 96), np.float32)
        given = (ctypes.c_void_p * 1)(ids.ctypes.data)
        taken = (ctypes.c_void_p * 1)(logits.ctypes.data)
        function = getattr(self.library, f"decoder_{entry}_run")
        assert function(ctypes.byref(self.context), given, taken, ctypes.byref(ctypes.c_int32(dim))) == 0
        return logits


def compiled(instance: Instance, tokens: list[int], prompt: int) -> np.ndarray:
    """The same by generated C."""
    ids = np.array(tokens, dtype=np.int64)
    found = [instance.run("prefill", ids[:prompt].copy(), prompt)]
    found += [instance.run("decode", ids[k : k + 1].copy(), k) for k in range(prompt, len(ids))]
    return np.concatenate(found)


def assert_near(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape
    worst = np.abs(got - want).max(axis=1)
    assert (worst <= 1e-4 * np.maximum(1, np.abs(want).max(axis=1))).all(), worst


@pytest.fixture(scope="module")
def tokens(decoder: ModuleType) -> list[int]:
    return np.random.default_rng(7).integers(0, decoder.Config().vocab, 24 + STEPS).tolist()


@pytest.fixture(scope="module")
def library(decoder: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("decoder")
    save_program(decoder.build(), folder / "decoder.ir")
    build(folder / "decoder.ir", load_board("host"), BuildOptions(), emit="lib", out=folder / "out")
    return ctypes.CDLL(str(folder / "out" / "libdecoder.so"))


CASES = pytest.mark.parametrize(
    ("prompt", "cap"),
    [
        pytest.param(5, 96, id="never full"),
        pytest.param(24, 40, id="wraps while decoding"),
        pytest.param(8, 8, id="full from the start"),
        pytest.param(24, 11, id="prompt longer than the cache"),
    ],
)


@CASES
def test_interpreter_equals_pytorch(decoder: ModuleType, tokens: list[int], prompt: int, cap: int) -> None:
    config = decoder.Config()
    sequence = tokens[: prompt + STEPS]
    want = torch_logits(config, decoder.random_weights(config), sequence, cap)[prompt - 1 :]
    assert_near(interpreted(decoder.build(config), sequence, prompt, cap), want)


@CASES
def test_c_equals_pytorch(
    decoder: ModuleType, library: ctypes.CDLL, tokens: list[int], prompt: int, cap: int
) -> None:
    config = decoder.Config()
    sequence = tokens[: prompt + STEPS]
    instance = Instance(library, cap)
    assert instance.status == 0
    want = torch_logits(config, decoder.random_weights(config), sequence, cap)[prompt - 1 :]
    assert_near(compiled(instance, sequence, prompt), want)
    # from the start again: nothing of the run before is left
    assert library.decoder_reset(ctypes.byref(instance.context)) == 0
    want = torch_logits(config, decoder.random_weights(config), sequence[:9], cap)[4:]
    assert_near(compiled(instance, sequence[:9], 5), want)


def test_instances_are_independent(decoder: ModuleType, library: ctypes.CDLL, tokens: list[int]) -> None:
    """Two instances with caches of different sizes, step by step in turn."""
    small, large = Instance(library, 8), Instance(library, 128)
    assert small.bytes("state") * 16 == large.bytes("state")
    config, ids = decoder.Config(), np.array(tokens, dtype=np.int64)
    found: dict[int, list[np.ndarray]] = {8: [], 128: []}
    for k in range(20):
        for instance in (small, large):
            found[instance.cap.value].append(
                instance.run("decode", ids[k : k + 1].copy(), k) if k else instance.run("prefill", ids[:1].copy(), 1)
            )
    for cap, logits in found.items():
        want = torch_logits(config, decoder.random_weights(config), tokens[:20], cap)
        assert_near(np.concatenate(logits), want)


@pytest.mark.parametrize("cap", [7, 129, 0, -1])
def test_capacity_out_of_bounds(library: ctypes.CDLL, cap: int) -> None:
    instance = Instance(library, cap)
    assert instance.bytes("state") == 0
    assert instance.status == -16  # DECODER_INIT_E_DIM_CAP
    assert bytes(instance.context) == bytes(Context())


def test_python_model(decoder: ModuleType) -> None:
    """The agent gives each cache its upper bound."""
    with sdk.compile(decoder.build()) as model:
        found = decoder.generate(model, [1, 2, 3], 6)
    config = decoder.Config()
    sequence = [1, 2, 3]
    for _ in range(6):
        sequence.append(int(torch_logits(config, decoder.random_weights(config), sequence, 128)[-1].argmax()))
    assert found == sequence[3:]


def test_text_reads_back(decoder: ModuleType) -> None:
    module = decoder.build()
    check_round_trip(module)
