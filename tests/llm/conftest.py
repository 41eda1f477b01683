from __future__ import annotations

import json
from pathlib import Path

import pytest
from llm_helpers import saved
from tokenizer_kinds import GPT2, byte_level

import sdk.llm

TEMPLATE = (
    "{% for m in messages %}{{ '<s>' + m['role'] + '\\n' + m['content'] + '<|end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\\n' }}{% endif %}"
)


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build of a small random Llama with a tokenizer and a chat template."""
    folder = tmp_path_factory.mktemp("chat")
    tokenizer = byte_level(GPT2)
    begin, end = (tokenizer.token_to_id(name) for name in ("<s>", "<|end|>"))
    saved(
        folder / "hf", "Llama", vocab_size=tokenizer.get_vocab_size() + 3, hidden_size=16, intermediate_size=24,
        num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=192,
        bos_token_id=begin, eos_token_id=end,
    )  # fmt: skip
    tokenizer.save(str(folder / "hf" / "tokenizer.json"))
    config = {"chat_template": TEMPLATE, "bos_token": "<s>", "eos_token": "<|end|>"}
    (folder / "hf" / "tokenizer_config.json").write_text(json.dumps(config))
    sdk.llm.build_model(folder / "hf", folder / "out", context=192, chunk=16, name="tiny")
    return folder / "out"
