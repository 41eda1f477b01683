"""Hugging Face folders that are damaged, cut off or of something else: each is refused, and the error says why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_helpers import Interpreted, saved
from safetensors.numpy import load_file, save_file

import sdk.llm
from sdk.boards import load_board
from sdk.cli import run_command
from sdk.errors import SdkError
from sdk.llm.build import build_model
from sdk.llm.checkpoint import open_checkpoint
from sdk.llm.decoder import Sizes
from sdk.llm.fitting import Room, needs
from sdk.llm.tokens import tokens_of


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hf")
    saved(
        folder, "Llama", vocab_size=20, hidden_size=16, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32,
    )  # fmt: skip
    return folder


def config(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def tensors(change: Callable[[dict[str, np.ndarray]], object]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        path = folder / "model.safetensors"
        found = load_file(path)
        change(found)
        save_file(found, path)

    return changed


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def index(table: object) -> Callable[[Path], object]:
    return lambda folder: (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))


WRONG: list[tuple[Callable[[Path], object], str]] = [
    (lambda f: (f / "config.json").unlink(), r"cannot read .*config\.json"),
    (lambda f: (f / "config.json").write_text("{"), "is no JSON"),
    (lambda f: (f / "config.json").write_text("[" * 100000), "is no JSON"),
    (lambda f: (f / "config.json").write_text("[]"), "is no object of JSON"),
    (lambda f: (f / "model.safetensors").unlink(), r"has no .safetensors file"),
    (cut, "is no file of safetensors"),
    (index("x"), "has no weight_map"),
    (index({"a": "../model.safetensors"}), "names '../model.safetensors'"),
    (index({"a": "model-00002.safetensors"}), "lacks model-00002.safetensors"),
    (config(architectures=["A", "B"]), "names no single architecture"),
    (config(architectures=["NewForCausalLM"]), "'NewForCausalLM' is not supported"),
    (config(quantization_config={"quant_method": "bitsandbytes"}), "is quantised by bitsandbytes, which is not read"),
    (config(hidden_act="relu6"), "the activation 'relu6' is not supported"),
    (config(hidden_size=1 << 40), "configuration makes no model"),
    (config(num_key_value_heads=7), "configuration makes no model"),
    (config(rms_norm_eps="small"), "the checkpoint's rms_norm_eps is no number"),
    (config(rope_parameters=[1]), "the checkpoint's rope_parameters is no object"),
    (config(rope_parameters={"rope_type": "new"}), "positions are scaled by 'new'"),
    (config(rope_parameters={"rope_type": "longrope", "short_factor": [1, 2, 3], "long_factor": [1]}), "is damaged"),
    (tensors(lambda t: t.pop("model.norm.weight")), "output_norm.weight: missing"),
    (tensors(lambda t: t.update({"model.layers.0.extra.weight": t["model.norm.weight"]})), "which llama has not"),
    (tensors(lambda t: t.update({"model.norm.weight": np.ones(3, np.float32)})), r"\[3\] instead of \[16\]"),
    (tensors(lambda t: t.update({"model.norm.weight": np.ones(16, np.int32)})), "has elements of I32"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "why"), WRONG)
def test_what_is_refused(whole: Path, tmp_path: Path, change: Callable[[Path], object], why: str) -> None:
    shutil.copytree(whole, tmp_path / "hf")
    change(tmp_path / "hf")
    with pytest.raises(SdkError, match=why):
        Interpreted(open_checkpoint(tmp_path / "hf"), 32, 4)


def test_shards_and_half_precision(whole: Path, tmp_path: Path) -> None:
    """The same numbers in two files, some of them as f16, and others as bf16."""
    shutil.copytree(whole, tmp_path / "hf")
    path = tmp_path / "hf" / "model.safetensors"
    found = {name: value.astype(np.float16) for name, value in load_file(path).items()}
    path.unlink()
    names = sorted(found)
    parts = {"a.safetensors": names[:4], "b.safetensors": names[4:]}
    for file, held in parts.items():
        save_file({n: found[n] for n in held}, tmp_path / "hf" / file)
    index({n: file for file, held in parts.items() for n in held})(tmp_path / "hf")
    checkpoint = open_checkpoint(tmp_path / "hf")
    assert len(checkpoint.weights) == len(found)
    np.testing.assert_array_equal(checkpoint.weights["output_norm.weight"].floats(), found["model.norm.weight"])


def test_tokens(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "hf")
    templates = [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]
    (tmp_path / "hf" / "tokenizer_config.json").write_text(json.dumps({"chat_template": templates}))
    (tmp_path / "hf" / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 6]}))
    (tmp_path / "out").mkdir()
    found = tokens_of(open_checkpoint(tmp_path / "hf"), tmp_path / "out")
    assert found["special_tokens"] == {"bos": 1, "eos": [5, 6]}
    assert found["chat_template"] == "d"
    assert (tmp_path / "out" / "tokenizer_config.json").is_file()
    (tmp_path / "hf" / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(SdkError, match=r"cannot read .*chat_template\.jinja"):
        tokens_of(open_checkpoint(tmp_path / "hf"), tmp_path / "out")


def test_what_fits(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["llm", "fit", str(whole), "--chunk", "4", "--json"]
    checkpoint = open_checkpoint(whole)

    def total(context: int) -> int:
        return needs(checkpoint.config, checkpoint.weights, Sizes(context, 4)).total

    assert run_command([*command, *(w for room in ("5K", str(total(16)), "1G") for w in ("--memory", room))]) == 0
    told = json.loads(capsys.readouterr().out)
    small, some, all_ = (row["context"] for row in told["rows"])
    assert (small["as it is"], all_["as it is"], told["made_for"]) == (None, 32, 32)
    assert some["as it is"] == 16
    assert total(16) < total(17)
    assert run_command(command[:-1]) == 0
    shown = capsys.readouterr().out
    assert "largest --context, of at most 32" in shown
    assert "phone of 8 GB         4,294,967,296 B          32" in shown
    board = load_board("nucleo_f446re")  # weights in flash, the rest in RAM
    room, held = Room.of(board), needs(checkpoint.config, checkpoint.weights, Sizes(32, 4))
    assert room == Room("nucleo_f446re", 128 << 10, 512 << 10)
    for ram, flash, fits in ((-1, 0, False), (0, -1, False), (0, 0, True)):
        one = Room("x", held.caches + held.arena + ram, held.weights + flash)
        assert one.holds(held) == fits
    assert run_command([*command, "--board", "nucleo_f446re"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["device"], row["memory_bytes"], row["flash_bytes"]) == ("nucleo_f446re", room.ram, room.flash)
    assert run_command([*command, "--board", "galaxy_s24"]) == 2
    assert "the memory of the board galaxy_s24 is not described" in capsys.readouterr().out
    for wrong in ("x", "2T", "-1", "0M", "1.5G"):
        assert run_command([*command, "--memory", wrong]) == 2
        assert "no number of bytes" in capsys.readouterr().out


def test_more_than_can_be_indexed(tmp_path: Path) -> None:
    saved(
        tmp_path / "hf", "Llama", vocab_size=20, hidden_size=16, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, head_dim=512, max_position_embeddings=1 << 20,
    )  # fmt: skip
    with pytest.raises(SdkError, match=r"positions needs .* bytes in one piece") as error:
        build_model(tmp_path / "hf", tmp_path / "out", context=1 << 20, chunk=4096)
    assert "--context" in (error.value.hint or "")


def test_files_of_others_stay(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("mine")
    with pytest.raises(SdkError, match=r"model\.json would be overwritten"):
        build_model(whole, tmp_path)
    with pytest.raises(SdkError, match="is the checkpoint itself"):
        build_model(whole, whole)
    assert (tmp_path / "model.json").read_text() == "mine"


def test_choices(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(SdkError, match="a context of 33 positions"):
        build_model(whole, tmp_path / "out", context=33)
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(SdkError, match=r"model\.json is damaged"):
        sdk.llm.load(tmp_path)
    (tmp_path / "model.json").write_text('{"schema": 2, "name": "m", "library": "../x.so"}')
    with pytest.raises(SdkError, match="has no library for this machine"):
        sdk.llm.load(tmp_path)
    (tmp_path / "model.json").write_text('{"schema": 2, "name": "m", "library": "libm.so"}')
    (tmp_path / "libm.so").write_bytes(b"no library")
    with pytest.raises(SdkError, match="cannot load"):
        sdk.llm.load(tmp_path)
