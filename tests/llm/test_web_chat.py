"""``sdk new web`` around a language model: an npm package that talks, in a browser and in Node, as the host does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from browsers import LONG, LOOKS, look, said
from firefox import firefox
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait
from web_pages import BUILT, FAINT, MOVED, UNNAMED, WIDE, lighthouse, press, served, text, until

import sdk.llm
from sdk.cli import run_command
from sdk.errors import UsageError
from sdk.llm.conversation import Conversation
from sdk.llm.projects import ChatChoices, new_chat
from sdk.llm.text.sampler import Sampler, Sampling
from sdk.text import GENERATED

BIN = Path(sys.prefix) / "node_modules" / ".bin"  # of prettier and tsc, which `make soak` installs
LONG_NAME = "a_rather_long_name_of_a_model_that_somebody_chose_for_a_reason_unknown"
# Asks the page, and waits for nothing.
ASK = """
const [said, temperature, maxTokens] = arguments;
document.getElementById('temperature').value = temperature;
document.getElementById('max-tokens').value = maxTokens;
document.getElementById('text').value = said;
document.getElementById('send').click();
"""
LAST = "return [...document.querySelectorAll(arguments[0])].at(-1)?.textContent ?? ''"
RESOURCES = "return performance.getEntriesByType('resource').map(e => e.name)"
PROGRAM = """import { load, model, ModelError } from 'tiny';
import type { AnswerOptions, Chat, Role } from 'tiny';

const chat: Chat = await load({ onProgress: ({ file, loaded, total }) => void `${file}${loaded / total}` });
const role: Role = 'user';
await chat.say(role, 'x');
const options: AnswerOptions = { temperature: 0, maxTokens: model.context, signal: new AbortController().signal };
for await (const piece of chat.ask('x', options)) {
  const text: string = piece;
  if (text.length > 9) break;
}
if (new Error() instanceof ModelError) chat.dispose();
// @ts-expect-error: no such role
await chat.say('tool', 'x');
// @ts-expect-error: no such option
chat.answer({ heat: 1 });
"""


@pytest.fixture(scope="module")
def package(chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("web") / "p"
    line = ["new", "web", str(chat_model.parent / "hf"), "--name", "tiny", "--context", "192", "-o", str(out)]
    assert run_command(line) == 0
    return out


@pytest.fixture(scope="module")
def build(chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model for WebAssembly, with parts of prompts that are short."""
    folder = tmp_path_factory.mktemp("wasm") / "tiny"
    sdk.llm.build_model(
        chat_model.parent / "hf", folder, context=192, chunk=16, name="tiny", board="wasm32", threads=1
    )
    return folder


def answer_of_host(chat_model: Path, words: str) -> str:
    talk = Conversation.of(chat_model, 1)
    with talk.model:
        ids = talk.speaker.encode_chat([{"role": "user", "content": words}])
        return "".join(piece.text for piece in talk.answer(ids, Sampler(Sampling(), 0), max_tokens=20))


def test_a_page_talks_as_the_host(package: Path, chat_model: Path, browser: webdriver.Chrome, need_tool) -> None:
    need_tool("node")

    def answered(words: str) -> None:
        browser.execute_script(ASK, words, 0, 20)
        until(browser, "status", "tokens a second")
        assert browser.execute_script(LAST, "#log .model") == answer_of_host(chat_model, words)
        assert browser.execute_script("return document.getElementById('error').hidden")

    def begun() -> None:
        browser.execute_script("document.getElementById('new').click()")
        WebDriverWait(browser, LONG).until(lambda _: text(browser, "status") == "Ready")

    with served(package) as address:
        browser.get(address)
        assert "from the network" in until(browser, "status", "Ready")
        until(browser, "offline", "works without a network")
        assert browser.execute_async_script(MOVED) < 0.05
        press(browser, "golden")
        until(browser, "golden-result", "answers are the same")
        answered("Hello there")
        first = browser.execute_script(LAST, "#log .model")
        browser.execute_script(ASK, "and more", 0.8, 5)  # the same chat goes on
        until(browser, "status", "Ready")  # which the click took away, at once
        assert browser.execute_script(LAST, "#log .model") != first
        browser.execute_script(ASK, "word " * 300, 0, 20)  # too much is an error that a new chat mends
        until(browser, "error", "E_CONTEXT: there is no room for so many tokens")
        begun()
        answered("\u00e9t\u00e9 <|end|> \u2603")
        for size, scheme in LOOKS:
            look(browser, size, scheme)
            content, inner = browser.execute_script(WIDE)
            assert (inner, content <= inner) == (size[0], True), f"{content} wide"
            assert browser.execute_script(FAINT) == [], scheme
            assert browser.execute_script(BUILT) == []
        assert browser.execute_script(UNNAMED) == []
        names = browser.execute_script(RESOURCES)
        assert {name.split("/")[2] for name in names if not name.startswith("data:")} == {address.split("/")[2]}
        assert said(browser) == []
    # the server is gone: page, weights and tokenizer are kept
    browser.get(address)
    assert "from this device" in until(browser, "status", "Ready")
    answered("Hello there")
    said(browser)
    path = package / "model" / "tiny.weights.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with served(package) as other:  # another origin: its cache is empty
        browser.get(other)
        until(browser, "status", "not loaded")
        assert "E_INTEGRITY: tiny.weights.bin is not the file" in text(browser, "error")
    path.write_bytes(whole)


def test_the_package_in_node(package: Path, chat_model: Path, need_tool) -> None:
    """Its tests pass as the README says, and so does the program there."""
    need_tool("node")
    done = subprocess.run(["npm", "test"], cwd=package, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert len(json.loads((package / "golden" / "cases.json").read_text())["cases"]) == 3
    (code,) = re.findall(r"```js\n(.*?)```", (package / "README.md").read_text(), re.DOTALL)
    code = code.replace("{ maxTokens: 200 }", "{ maxTokens: 20, temperature: 0 }")
    line = ["node", "--input-type=module", "-e", code]
    done = subprocess.run(line, cwd=package, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    golden = package / "golden" / "cases.json"
    told = golden.read_text()
    golden.write_text(told.replace('"text": "', '"text": "!', 1))
    done = subprocess.run(["npm", "test"], cwd=package, capture_output=True, text=True, timeout=120)
    golden.write_text(told)
    assert (done.returncode, "# fail 0" in done.stdout) == (1, False)


def test_the_users_files_of_a_page_stay(package: Path, chat_model: Path) -> None:
    paths = [p for p in package.rglob("*") if p.is_file() and p.suffix not in (".bin", ".wasm")]
    texts = {p.relative_to(package).as_posix(): p.read_text() for p in paths if p.name != "manifest.json"}
    listed = json.loads((package / "manifest.json").read_text())["contents"]
    own = [package / name for name in texts if name not in listed]
    assert {p.name for p in own} >= {"README.md", "chat.js", "chat.css", "index.html", "sw.js", "package.json"}
    assert all(GENERATED not in path.read_text() for path in own)
    assert all(GENERATED in texts[name] for name in listed if name.endswith((".js", ".ts", ".md")))
    kept = re.findall(r"^  '(.+)',$", texts["sw.js"], re.MULTILINE)
    assert all(name == "./" or (package / name).is_file() for name in kept)
    pages = {f"model/{name}" for name in ("node.js", "node_parts.js", "node_port.js", "node_worker.js")}
    assert {name for name in texts if name.startswith(("model/", "demo/")) and name[-3:] != ".ts"} - pages <= set(kept)
    for path in own:
        path.write_text(path.read_text() + "\n// mine\n")
    line = ["new", "web", str(chat_model.parent / "hf"), "--name", "tiny", "--context", "192", "-o", str(package)]
    assert run_command(line) == 0
    assert all(path.read_text().endswith("\n// mine\n") for path in own)
    assert run_command([*line, "--force"]) == 0
    assert {name: (package / name).read_text() for name in texts} == texts


def test_a_page_of_a_build(build: Path, tmp_path: Path, need_tool) -> None:
    """Without golden answers; a long prompt is heard out in parts, between which it can be ended."""
    need_tool("node")
    assert run_command(["new", "web", str(build), "-o", str(tmp_path / "p")]) == 0
    assert not list(build.glob("*_chat*"))  # the build stays as it was
    assert "golden" not in (tmp_path / "p" / "index.html").read_text()
    source = """const { load } = await import('./model/node.js');
    const chat = await load();
    const stop = new AbortController();
    const lengths = [];
    const timer = setInterval(async () => {
      lengths.push(await chat.length());
      if (lengths.at(-1) > 0) stop.abort();
    }, 0);
    let code = '';
    try {
      for await (const piece of chat.ask('word '.repeat(28), { signal: stop.signal })) lengths.push(piece);
    } catch (error) {
      code = error.name;
    }
    clearInterval(timer);
    console.log(JSON.stringify([code, await chat.length()]));
    chat.dispose();"""
    done = subprocess.run(
        ["node", "--input-type=module", "-e", source], cwd=tmp_path / "p", capture_output=True, text=True, timeout=120
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    code, length = json.loads(done.stdout)
    assert (code, length > 0) == ("AbortError", True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("HOST", "is a build for host"),
        ("HF --threads 2", "answers of a language model in one thread"),
        ("HF --gpu webgpu", "--gpu has no part in a project of a language model"),
        ("HF --set package=a.b", "no setting is called 'package'"),
        ("BUILD --context 64", "--context has no part here"),
    ],
)
def test_what_no_page_is_made_of(
    chat_model: Path, build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    places = {"BUILD": str(build), "HOST": str(chat_model), "HF": str(chat_model.parent / "hf")}
    line = [places.get(word, word) for word in words.split()]
    assert run_command(["new", "web", *line, "-o", str(tmp_path / "p")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


def test_builds_that_do_not_suit_pages(build: Path, tmp_path: Path) -> None:
    info = json.loads((build / "model.json").read_text())
    assert info["max_threads"] == 1
    many = tmp_path / "many"
    shutil.copytree(build, many)
    (many / "model.json").write_text(json.dumps({**info, "max_threads": 2}))
    with pytest.raises(UsageError, match="in one thread"):
        new_chat("web", many, tmp_path / "p", ChatChoices())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", LONG_NAME])
def test_prettier_changes_nothing(name: str, chat_model: Path, tmp_path: Path) -> None:
    """With a chat template that has a system message, and one that has none."""
    assert (BIN / "prettier").exists(), "prettier is not installed: make soak does it"
    folder, checkpoint = tmp_path / "wasm", chat_model.parent / "hf"
    sdk.llm.build_model(checkpoint, folder, context=64, chunk=16, name=name, board="wasm32", threads=1)
    told = json.loads((folder / "model.json").read_text())
    each = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    closing = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    for out, template in (("has", "{# system #}" + each + closing), ("has_none", each + closing)):
        (folder / "model.json").write_text(json.dumps({**told, "chat_template": template}))
        new_chat("web", folder, tmp_path / out, ChatChoices())
        for which in (["."], ["--ignore-path", "/dev/null", "model/index.d.ts"]):  # which other packages leave out
            line = [BIN / "prettier", "--check", *which]
            done = subprocess.run(line, cwd=tmp_path / out, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr
    pages = [(tmp_path / out / "index.html").read_text() for out in ("has", "has_none")]
    assert ["What the model is told first" in page for page in pages] == [True, False]


@pytest.mark.slow
def test_lighthouse(package: Path, tmp_path: Path, need_tool) -> None:
    need_tool("node")
    with served(package) as address:
        for screen in ("mobile", "desktop"):
            scores, failed = lighthouse(address, tmp_path, screen)
            assert (min(scores.values()), failed) == (1, []), (scores, failed)


@pytest.mark.slow
def test_firefox(package: Path, chat_model: Path, tmp_path: Path, need_tool) -> None:
    need_tool("node")
    with firefox(tmp_path / "profile") as browser, served(package) as address:
        browser.get(address)
        until(browser, "status", "Ready")
        press(browser, "golden")
        until(browser, "golden-result", "answers are the same")
        browser.execute_script(ASK, "Hello there", 0, 20)
        until(browser, "status", "tokens a second")
        assert browser.execute_script(LAST, "#log .model") == answer_of_host(chat_model, "Hello there")


@pytest.mark.slow
def test_typescript(package: Path, tmp_path: Path) -> None:
    assert (BIN / "tsc").exists(), "typescript is not installed: make soak does it"
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "tiny").symlink_to(package)
    (tmp_path / "program.ts").write_text(PROGRAM)
    (tmp_path / "package.json").write_text('{ "type": "module" }')
    for way in (["--module", "nodenext"], ["--module", "esnext", "--moduleResolution", "bundler"]):
        line = [BIN / "tsc", "--noEmit", "--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--types", ""]
        done = subprocess.run([*line, *way, "program.ts"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (0, "")
