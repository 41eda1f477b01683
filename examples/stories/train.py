"""Trains a language model of 0.7 million weights on stories in simple English, in some minutes on a processor, and
writes it as a Hugging Face folder with its tokenizer, which ``sdk llm build`` takes.

    python examples/stories/train.py FOLDER [--steps 600]

It needs torch, transformers and tokenizers.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

import torch
import transformers
from stories import story
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY, LENGTH, BATCH = 512, 128, 8
END = "<|end|>"


def tokenizer(seed: int) -> Tokenizer:
    """Byte-level pairs of a few thousand stories, with a token that stands before and after each."""
    rng = random.Random(seed)
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=alphabet)
    made.train_from_iterator((story(rng) for _ in range(2000)), trainer)
    return made


def model(seed: int) -> transformers.LlamaForCausalLM:
    """Llama with random weights; all widths are multiples of the 32 that a group of quantised weights has."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=256, tie_word_embeddings=True, rms_norm_eps=1e-5,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def train(net: transformers.LlamaForCausalLM, tokens: Tokenizer, steps: int, seed: int) -> float:
    """Trains on stories one after the other; the loss of the last tenth, in nats a token."""
    rng = random.Random(seed + 1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.1, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    held: list[int] = []
    losses = []
    for step in range(steps):
        while len(held) < BATCH * LENGTH:
            held += [0, *tokens.encode(story(rng)).ids]
        ids = torch.tensor(held[: BATCH * LENGTH]).reshape(BATCH, LENGTH)
        del held[: BATCH * LENGTH]
        loss = net(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss))
        if step % 100 == 99:
            print(f"step {step + 1}: {sum(losses[-50:]) / 50:.3f}", flush=True)
    last = losses[-max(steps // 10, 1) :]
    return sum(last) / len(last)


def write(folder: Path, steps: int, seed: int = 0) -> float:
    """Trains a model and writes it; its loss at the end."""
    tokens, net = tokenizer(seed), model(seed)
    loss = train(net, tokens, steps, seed)
    net.save_pretrained(folder)
    tokens.save(str(folder / "tokenizer.json"))
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": END, "eos_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")
    return loss


def main() -> int:
    """Trains as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    torch.set_num_threads(1)  # so small a network only waits for others
    begin = time.monotonic()
    loss = write(args.folder, args.steps)
    print(f"{args.folder}: {loss:.3f} nats a token, {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
