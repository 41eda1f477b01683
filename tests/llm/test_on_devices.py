"""A language model on another machine: an agent in this process gets the program and the weights."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sdk.agent import Server
from sdk.agent.server import Limits
from sdk.cli import run_command
from sdk.errors import LinkError, UsageError
from sdk.llm import device
from sdk.llm.conversation import Conversation
from sdk.llm.device import DeviceModel
from sdk.llm.measure import perplexity
from sdk.llm.text.sampler import Sampler, Sampling


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("CROSSLEVEL_KEYS", str(tmp_path / "keys"))
    server = Server("127.0.0.1", 0, tmp_path / "store", None, Limits(memory=400 << 20, disk=4 << 20))
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield server
    server.close()
    thread.join(20)


def test_a_model_elsewhere_is_the_model_here(
    chat_model: Path, agent: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    uri = f"tcp://127.0.0.1:{agent.address[1]}"
    here, there = Conversation.of(chat_model, 1), Conversation.of(chat_model, 1, uri)
    own, other = here.model, there.model
    assert (other.context, other.vocabulary_size, other.threads) == (own.context, own.vocabulary_size, 1)
    assert other.sizes == own.sizes
    ids = here.speaker.encode_chat([{"role": "user", "content": "Hello"}])
    for seed, lookup in ((1, 0), (2, 4)):  # the second goes back, and verifies
        want, found = (
            list(one.answer(ids, Sampler(Sampling(temperature=1), seed), max_tokens=20, lookup=lookup))
            for one in (here, there)
        )
        assert found == want
        assert own.length == other.length
    np.testing.assert_array_equal(own.verify(ids[:3]), other.verify(ids[:3]))
    assert own.truncate(5)
    assert other.truncate(5)
    np.testing.assert_array_equal(own.feed(ids[:9]), other.feed(ids[:9]))
    assert 0 < other.timed_feed(ids[:2]) < 60
    assert (other.peak_bytes() or 0) > other.sizes["weights"] // 2
    with pytest.raises(UsageError, match="out of context"):
        other.feed([1] * 190)
    with pytest.raises(UsageError, match="is not in the vocabulary"):
        other.feed([99999])
    with pytest.raises(UsageError, match="9 tokens to verify"):
        other.verify([1] * 9)
    for refused in (other.save, other.another):
        with pytest.raises(UsageError, match=r"cannot be kept|there is one conversation at"):
            refused()
    names = sorted((tmp_path / "store" / "programs").iterdir())
    assert len(names) == 2  # the program and the weights
    other.close()
    with pytest.raises(UsageError, match="the conversation was closed"):
        other.feed([1])
    text = tmp_path / "text.txt"
    text.write_text("All men are mortal, and some of them know it.")
    want = perplexity(chat_model, text.read_text(), window=16)
    found = perplexity(chat_model, text.read_text(), window=16, device=uri)
    assert found["perplexity"] == pytest.approx(want["perplexity"], rel=1e-9)
    command = ["--device", uri, "--threads", "1"]
    assert run_command(["llm", "bench", str(chat_model), "--prompts", "20", "--tokens", "3", *command]) == 0
    assert "1 threads, loaded in" in capsys.readouterr().out
    assert run_command(["llm", "chat", str(chat_model), "--prompt", "Hello", "--tokens", "4", *command]) == 0
    assert sorted((tmp_path / "store" / "programs").iterdir()) == names  # nothing was sent twice
    lost = DeviceModel(chat_model, uri, 1)
    lost.feed([1])
    with monkeypatch.context() as patch:
        patch.setattr(device, "_ANSWER_S", -1.0)
        patch.setattr(lost._transport, "write", lambda *_: None)
        with pytest.raises(LinkError, match="has not answered"):
            lost.feed([1])
    agent.close()
    with pytest.raises(LinkError):
        lost.feed([1])
    lost.close()


def test_what_is_not_sent(chat_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for uri in ("local:", "serial:/dev/ttyACM0", "qemu://", "nonsense"):
        assert run_command(["llm", "chat", str(chat_model), "--prompt", "a", "--device", uri]) == 2
        assert f"language models are not sent to {uri}" in capsys.readouterr().err
    words = ["--prompt", "a", "--device", "tcp://127.0.0.1:1", "--session", str(tmp_path / "s")]
    assert run_command(["llm", "chat", str(chat_model), *words]) == 2
    assert "a conversation on another machine cannot be kept" in capsys.readouterr().err
    old = tmp_path / "old"
    old.mkdir()
    (old / "model.json").write_text('{"schema": 2, "name": "tiny"}')
    with pytest.raises(UsageError, match="has no program for other machines"):
        DeviceModel(old, "tcp://127.0.0.1")
    (old / "model.json").write_text(
        '{"schema": 2, "name": "tiny", "board": "host", "weights": "tiny_weights.bin", "max_threads": 1}'
    )
    with pytest.raises(UsageError, match="holds no whole build"):
        DeviceModel(old, "tcp://127.0.0.1")
    with pytest.raises(UsageError, match="0 threads"):
        DeviceModel(old, "tcp://127.0.0.1", 0)
