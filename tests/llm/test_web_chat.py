"""A page that talks, in a browser: what it says is what the host says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from browsers import LONG, said
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait
from web_chats import served

import sdk.llm
from sdk.cli import run_command
from sdk.errors import UsageError
from sdk.llm.conversation import Conversation
from sdk.llm.text.sampler import Sampler, Sampling
from sdk.llm.web import write_page

PRETTIER = Path(sys.prefix) / "node_modules" / ".bin" / "prettier"  # `make soak` installs it
_ASK = """
const [said, temperature, most] = arguments;
document.getElementById('temperature').value = temperature;
document.getElementById('most').value = most;
document.getElementById('text').value = said;
document.getElementById('send').click();
"""


def _status(browser: webdriver.Chrome, words: str) -> str:
    def found(_: object) -> bool:
        return words in _text(browser, "#status") or bool(_text(browser, "#log .error"))

    WebDriverWait(browser, LONG).until(found, words)
    assert _text(browser, "#log .error") == ""
    return _text(browser, "#status")


def _text(browser: webdriver.Chrome, which: str) -> str:
    script = "return [...document.querySelectorAll(arguments[0])].at(-1)?.textContent ?? ''"
    return str(browser.execute_script(script, which))


def test_a_page_talks_as_the_host(chat_model: Path, tmp_path: Path, browser: webdriver.Chrome) -> None:
    folder, site = tmp_path / "wasm", tmp_path / "site"
    sdk.llm.build_model(
        chat_model.parent / "hf", folder, context=192, chunk=16, name="tiny", board="wasm32", threads=1
    )
    assert run_command(["llm", "web", str(folder), "-o", str(site)]) == 0
    assert run_command(["llm", "web", str(folder), "-o", str(site)]) == 0  # again
    told = (folder / "model.json").read_text()
    (folder / "model.json").write_text(json.dumps({**json.loads(told), "chat_template": None}))
    with pytest.raises(UsageError, match="tiny cannot chat in a page"):
        write_page(folder, site)
    (folder / "model.json").write_text(told)
    talk = Conversation.of(chat_model, 1)

    def answered(words: str) -> None:
        ids = talk.speaker.encode_chat([{"role": "user", "content": words}])
        want = "".join(piece.text for piece in talk.answer(ids, Sampler(Sampling(), 0), most=20))
        browser.execute_script(_ASK, words, 0, 20)
        _status(browser, "tokens in")
        assert _text(browser, "#log .model") == want

    def begun() -> None:
        browser.execute_script("document.getElementById('new').click()")
        WebDriverWait(browser, LONG).until(lambda _: _text(browser, "#status") == "Ready")

    with served(site) as (address, asked):
        browser.get(address)
        _status(browser, "Ready")
        answered("Hello there")
        first = _text(browser, "#log .model")
        browser.execute_script("document.getElementById('status').textContent = ''")
        browser.execute_script(_ASK, "and more", 0.8, 5)  # the same chat goes on
        _status(browser, "tokens in")
        assert _text(browser, "#log .model") != first
        browser.execute_script(_ASK, "word " * 300, 0, 20)  # too much is an error that a new chat mends
        WebDriverWait(browser, LONG).until(lambda _: "too long" in _text(browser, "#log .error"))
        begun()
        answered("\u00e9t\u00e9 <|end|> \u2603")
        weights = sum(name.endswith("weights.bin") for name in asked)
        browser.get(address)  # from the browser's cache
        _status(browser, "Ready")
        assert sum(name.endswith("weights.bin") for name in asked) == weights == 1
        wide = browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
        assert wide
        assert said(browser) == []
    path = site / "tiny_weights.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with served(site) as (address, _):  # another origin: its cache is empty
        browser.get(address)
        WebDriverWait(browser, LONG).until(lambda _: "is not the file" in _text(browser, "#log .error"))
        assert _text(browser, "#status") == "Failed"


def test_what_is_no_page(chat_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no build for a browser"):
        write_page(chat_model, tmp_path / "site")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["m", "a_rather_long_name_of_a_model_that_somebody_chose_for_a_reason_unknown"])
def test_prettier_changes_nothing(name: str, chat_model: Path, tmp_path: Path) -> None:
    """With a chat template that has a system message, and one that has none."""
    assert PRETTIER.exists(), "prettier is not installed: make soak does it"
    folder, checkpoint = tmp_path / "wasm", chat_model.parent / "hf"
    sdk.llm.build_model(checkpoint, folder, context=64, chunk=16, name=name, board="wasm32", threads=1)
    told = json.loads((folder / "model.json").read_text())
    each = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    closing = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    for site, template in (("has", "{# system #}" + each + closing), ("has_none", each + closing)):
        (folder / "model.json").write_text(json.dumps({**told, "chat_template": template}))
        write_page(folder, tmp_path / site)
        texts = [str(p) for p in (tmp_path / site).iterdir() if p.suffix in (".html", ".js", ".css", ".json")]
        assert len(texts) == 5
        done = subprocess.run([PRETTIER, "--check", *texts], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    pages = [(tmp_path / site / "index.html").read_text() for site in ("has", "has_none")]
    assert ["no system message" in page for page in pages] == [False, True]
