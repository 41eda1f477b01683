"""``sdk new`` around a language model: the C that apps call says what the host says, and what is in the folder."""

from __future__ import annotations

import ctypes
import json
import mmap
import platform
import re
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sdk.llm
from sdk.cli import run_command
from sdk.errors import UsageError
from sdk.llm.conversation import Conversation
from sdk.llm.golden import ChatCase, chat_cases, packed_cases
from sdk.llm.projects import ChatChoices, new_chat
from sdk.llm.text.sampler import Sampler, Sampling
from sdk.text import GENERATED
from sdk.toolchains import get_toolchain, zig

ROOT = Path(__file__).resolve().parents[2]
BOARD, ABI = {"x86_64": ("android-x86_64", "x86_64"), "aarch64": ("android-arm64", "arm64-v8a")}[platform.machine()]
MACHINE = {"x86_64": "-march=x86-64-v2", "arm64-v8a": "-march=armv8-a"}[ABI]
SYSTEM, USER, ASSISTANT = 1, 2, 3
MORE, END, TAKING = 0, 1, 2
GREEDY = (0.0, 0.0, 0.0, 1.0, 0.0)
PIECE = 4096


@pytest.fixture(scope="module")
def build(chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model for Android on this machine's processors."""
    folder, source = tmp_path_factory.mktemp("android") / "tiny", chat_model.parent / "hf"
    with pytest.MonkeyPatch.context() as patch:  # zig would build a C library first, for this test alone
        patch.setattr("sdk.llm.build.toolchain_for", lambda target, _: get_toolchain(target.gcc_command))
        sdk.llm.build_model(source, folder, context=192, chunk=16, name="tiny", board=BOARD, threads=2)
    return folder


@pytest.fixture(scope="module")
def project(build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("project") / "app"
    assert run_command(["new", "android", str(build), "--set", "package=org.acme.tiny", "-o", str(out)]) == 0
    assert not list(build.glob("*_chat*"))  # the build stays as it was
    return out


class Talk:
    """A conversation through the C that Kotlin and Swift call."""

    def __init__(self, library: ctypes.CDLL, weights: np.ndarray, threads: int = 1) -> None:
        self.library, self.handle = library, ctypes.c_void_p()
        at = ctypes.c_void_p(weights.ctypes.data)
        size, to = ctypes.c_size_t(weights.nbytes), ctypes.byref(self.handle)
        self.status = int(library.tiny_talk_open(at, size, threads, to))

    def call(self, name: str, *given: object) -> int:
        return int(self.library[f"tiny_talk_{name}"](self.handle, *given))

    def close(self) -> None:
        self.call("close")

    def say(self, role: int, text: str) -> int:
        data = text.encode()
        return self.call("say", role, data, ctypes.c_size_t(len(data)))

    def sampling(self, how: tuple[float, ...], seed: int = 0) -> int:
        return self.call("sampling", (ctypes.c_float * 5)(*how), ctypes.c_uint64(seed))

    def step(self, name: str = "next") -> tuple[int, str]:
        out, n = ctypes.create_string_buffer(PIECE), ctypes.c_size_t()
        status = self.call(name, out, ctypes.c_size_t(PIECE), ctypes.byref(n))
        return status, out.raw[: n.value].decode()

    def pieces(self, max_tokens: int) -> Iterator[str]:
        while max_tokens > 0:
            status, text = self.step()
            assert status >= 0, status
            if status == END:
                break
            max_tokens -= status == MORE
            yield text
        yield self.step("stop")[1]

    def answer(self, max_tokens: int) -> str:
        return "".join(self.pieces(max_tokens))


@pytest.fixture(scope="module")
def opened(project: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[ctypes.CDLL, np.ndarray]:
    """The C of the project as a library of this machine, and its weights, mapped."""
    cpp = project / "model" / "src" / "main" / "cpp"
    listed = (cpp / "CMakeLists.txt").read_text()
    named = re.findall(r"^ +((?:chat|[\w-]+)/\S+\.[cS])$", listed, re.MULTILINE)
    assert sorted(named) == sorted(str(p.relative_to(cpp)) for p in cpp.rglob("*/*.[cS]"))
    out = tmp_path_factory.mktemp("library") / "tiny.so"
    table = f'-DTINY_TABLE_BIN="{cpp / "chat" / "tiny_table.bin"}"'
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-psabi"]
    places = [f"-I{cpp / name}" for name in ("include", "chat", ABI)]
    gcc = shutil.which("gcc")
    assert gcc is not None, "gcc is not installed"
    line = [gcc, "-O1", "-shared", "-fPIC", MACHINE, *strict, table, *places, *(cpp / name for name in named)]
    subprocess.run([*line, "-lm", "-lpthread", "-o", out], check=True)
    library = ctypes.CDLL(str(out))
    library.tiny_talk_weights_hash.restype = ctypes.c_char_p
    (asset,) = (project / "model" / "src" / "main" / "assets").iterdir()
    assert asset.name == f"tiny-{library.tiny_talk_weights_hash().decode()[:16]}.weights"
    with asset.open("rb") as stream:
        return library, np.frombuffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def told(folder: Path, turns: list[str], sampling: Sampling, max_tokens: int = 24, system: str = "") -> list[str]:
    """What the host answers, turn by turn."""
    talk, messages = Conversation.of(folder, 1), [{"role": "system", "content": system}] if system else []
    found: list[str] = []
    with talk.model:
        for text in turns:
            messages.append({"role": "user", "content": text})
            ids = talk.speaker.encode_chat(messages)
            found.append("".join(p.text for p in talk.answer(ids, Sampler(sampling, 7), max_tokens=max_tokens)))
            messages.append({"role": "assistant", "content": found[-1]})
    return found


@pytest.fixture(scope="module")
def package(build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a Swift package: its C is that of Intel's Macs, which is compiled like that of Android."""
    folder = tmp_path_factory.mktemp("swift")
    shutil.copytree(build, folder / "tiny")
    info = json.loads((build / "model.json").read_text())
    board = {"android-x86_64": "macos-x86_64", "android-arm64": "ios-arm64"}[BOARD]
    (folder / "tiny" / "model.json").write_text(json.dumps({**info, "board": board}))
    assert run_command(["new", "ios", str(folder / "tiny"), "-o", str(folder / "p")]) == 0
    return folder / "p"


def same(got: str, want: str) -> bool:
    """Whether an app says what the host says, which does not show a part of a character at the end."""
    return got == want or (got.startswith(want) and got.endswith("\ufffd"))


def test_an_app_says_what_the_host_says(chat_model: Path, opened, tmp_path: Path) -> None:
    library, weights = opened
    one = Talk(library, weights, threads=2)
    assert one.status == 0
    assert library.tiny_talk_weights_check(ctypes.c_void_p(weights.ctypes.data), ctypes.c_size_t(weights.nbytes)) == 0
    plain, drawn = Sampling(temperature=0.0), Sampling(temperature=0.9, top_k=40, top_p=0.95, repetition=1.1)
    for text in ("Hello there", "\u00e9t\u00e9 <|end|> \u2603", "word " * 12):
        assert one.call("begin") == one.sampling(GREEDY) == one.say(USER, text) == 0
        parts = list(one.pieces(24))
        assert same("".join(parts), told(chat_model, [text], plain)[0])
        assert len([part for part in parts if part]) > 3  # as they come
    assert one.call("begin") == one.say(SYSTEM, "Be brief.") == one.say(USER, "And you?") == 0
    assert one.sampling((0.9, 0.95, 0.0, 1.1, 40.0), 7) == 0
    assert same(one.answer(24), told(chat_model, ["And you?"], drawn, system="Be brief.")[0])
    # a prompt is taken in parts, between which there is time to stop; what was said stays
    assert one.call("begin") == one.sampling(GREEDY) == one.say(USER, "word " * 20) == 0
    steps = []
    while (status := one.step()[0]) == TAKING:
        steps.append(one.call("length"))
        if len(steps) == 1:
            one.step("stop")
    assert status == MORE
    assert len(steps) >= 2
    # one that was saved goes on in another with the same words
    path = str(tmp_path / "talk").encode()
    one.step("stop")
    assert one.call("save", path) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["talk"]
    assert one.say(USER, "more") == 0
    want = one.answer(12)
    other = Talk(library, weights)
    assert other.call("restore", path) == other.sampling(GREEDY) == other.say(USER, "more") == 0
    assert other.answer(12) == want
    for talk in (one, other):
        talk.close()


def test_what_an_app_is_refused(opened, tmp_path: Path) -> None:
    library, weights = opened
    one = Talk(library, weights)
    assert one.step()[0] == -203  # nothing was said
    assert one.say(USER, "  ") == -202
    assert one.say(0, "x") == one.say(4, "x") == -205
    assert one.say(USER, "x" * 5000) == -201
    for how in ((-1.0, 0, 0, 1, 0), (float("nan"), 0, 0, 1, 0), (0, 2, 0, 1, 0), (0, 0, 0, 0, 0), (0, 0, 0, 1, -1)):
        assert one.sampling(how) == -1
    assert one.sampling(GREEDY) == 0
    # a context that is full: an error, and a new chat mends it
    assert one.say(USER, "word " * 300) == 0
    assert one.step()[0] == -100
    assert one.call("begin") == one.say(USER, "word " * 60) == 0
    statuses = []
    while not statuses or statuses[-1] >= 0:
        statuses.append(one.step()[0])
        if statuses[-1] == END:
            assert one.say(USER, "go on") == 0
    assert statuses[-1] == -100
    assert one.call("begin") == one.say(USER, "Hello") == 0
    assert one.answer(4)
    missing, cut, other = (str(tmp_path / name).encode() for name in ("none", "cut", "other"))
    assert one.call("restore", missing) == one.call("save", str(tmp_path / "no" / "file").encode()) == -301
    assert one.call("save", other) == 0
    data = Path(other.decode()).read_bytes()
    for broken in (data[:60], data[:-9], data[:200] + b"!" + data[201:]):
        Path(cut.decode()).write_bytes(broken)
        assert one.call("restore", cut) in (-301, -206, -100)
        assert one.say(USER, "Hello") == 0
        assert one.answer(2) is not None
    one.close()
    room = np.zeros(weights.nbytes + 64, np.uint8)
    at = room[-room.ctypes.data % 64 :][: weights.nbytes]
    at[:] = weights
    at[100_000] ^= 1
    assert library.tiny_talk_weights_check(ctypes.c_void_p(at.ctypes.data), ctypes.c_size_t(at.nbytes)) == -6
    at[0] ^= 1
    assert Talk(library, at).status == Talk(library, weights[:64]).status == -6


def test_conversations_side_by_side(chat_model: Path, opened) -> None:
    """Eight threads with conversations of their own; then many that are opened and closed: no memory stays."""
    library, weights = opened
    said = [f"Number {k} says hello" for k in range(8)]
    got: dict[int, str] = {}

    def work(k: int) -> None:
        one = Talk(library, weights, threads=1 + k % 2)
        assert one.sampling(GREEDY) == one.say(USER, said[k]) == 0
        got[k] = one.answer(12)
        one.close()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    want = [told(chat_model, [text], Sampling(temperature=0.0), max_tokens=12)[0] for text in said]
    assert all(same(got[k], want[k]) for k in range(8))
    before = 0
    for k in range(1200):
        one = Talk(library, weights, threads=1 + k % 2)
        if k % 50 == 0:
            assert one.say(USER, "Hi") == 0
            assert one.answer(2) is not None
        one.close()
        if k == 200:
            before = resident()
    assert resident() - before < 2 << 10


def resident() -> int:
    """KiB of this process."""
    found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def test_the_library_does_not_tell_where_it_was_made(chat_model: Path) -> None:
    """Builds in other folders, with other caches, are the same."""
    assert b".debug_" not in (chat_model / "libtiny.so").read_bytes()


def test_golden_answers(chat_model: Path) -> None:
    """They are what the host says, as far as it is sure of it."""
    cases = chat_cases(chat_model)
    assert cases
    for case in cases:
        assert case.tokens > 0
        assert told(chat_model, [case.said], Sampling(temperature=0.0), max_tokens=case.tokens) == [case.text]
    data = packed_cases([ChatCase("\u2603", 2, "ab")])
    assert data.data == struct.pack("<iii3si2s", 1, 2, 3, "\u2603".encode(), 2, b"ab")


def test_files_of_an_app(project: Path, build: Path) -> None:
    """What files name is there, and what is the user's stays."""
    paths = [p for p in project.rglob("*") if p.is_file() and p.suffix not in (".bin", ".weights")]
    texts = {p.relative_to(project).as_posix(): p.read_text() for p in paths}
    kotlin = "\n".join(text for name, text in texts.items() if name.endswith(".kt"))
    jni = texts["model/src/main/cpp/jni.c"]
    assert set(re.findall(r'\{"(\w+)", "\(', jni)) == set(re.findall(r"external fun (\w+)\(", kotlin))
    strings = set(re.findall(r'<string name="(\w+)"', texts["app/src/main/res/values/strings.xml"]))
    assert strings == {*re.findall(r"R\.string\.(\w+)", kotlin)} | {"app_name"}
    assert 'abiFilters += listOf("' + ABI + '")' in texts["model/build.gradle.kts"]
    assert 'noCompress += "weights"' in texts["app/build.gradle.kts"]
    codes = {int(code) for code in re.findall(r"_E_\w+ = (-\d+)", texts["model/src/main/cpp/include/tiny_talk.h"])}
    assert codes < {int(code) for code in re.findall(r"^ +(-\d+) -> ", kotlin, re.MULTILINE)}
    assert "licence" in texts["README.md"]
    own = [project / name for name, text in texts.items() if GENERATED not in text and name != "manifest.json"]
    assert {path.name for path in own} >= {"README.md", "MainActivity.kt", "Talk.kt", "strings.xml", "build.yml"}
    for path in own:
        path.write_text(path.read_text() + "\nmine\n")
    line = ["new", "android", str(build), "--set", "package=org.acme.tiny", "-o", str(project)]
    assert run_command(line) == 0
    assert all(path.read_text().endswith("\nmine\n") for path in own)
    assert run_command([*line, "--force"]) == 0
    again = {name: (project / name).read_text() for name in texts if name != "manifest.json"}
    assert again == {name: text for name, text in texts.items() if name != "manifest.json"}


def test_files_of_a_package(package: Path, project: Path, tmp_path: Path, need_tool) -> None:
    """Its C is that which was tried above, for Apple's systems too; Swift calls what the header has."""
    folder = package / "Sources" / "CTinyKit"
    android = project / "model" / "src" / "main" / "cpp"
    for name in ("tiny_talk.c", "tiny_chat.c", "tiny_chat_saved.c", "tiny_llm.c", "tok_encode.c", "tiny_table.bin"):
        assert (folder / name).read_bytes() == (android / "chat" / name).read_bytes(), name
    cc = [zig._zig()[0], "cc", "-target", "aarch64-ios.15.0", "-O1", "-Wall", "-Werror", "-fno-sanitize=all"]
    headers = ["-idirafter", ROOT / "tests" / "projects" / "bionic"]  # there is no SDK of Apple's here
    table = f'-DTINY_TABLE_BIN="{folder / "tiny_table.bin"}"'
    places = [f"-I{folder}", f"-I{folder / 'include'}", *headers]
    for name in ("tiny_table.S", "tok_encode.c"):
        line = [*cc, table, *places, "-c", folder / name, "-o", tmp_path / f"{name}.o"]
        subprocess.run(line, check=True, env=zig.ZigToolchain().environment())
        assert (tmp_path / f"{name}.o").read_bytes()[:4] == struct.pack("<I", 0xFEEDFACF)
    include = folder / "include"
    use = "@import CTinyKit;\nint f(tiny_talk *t) { return tiny_talk_begin(t); }\n"
    line = [need_tool("clang"), "-x", "objective-c", "-fmodules", "-fsyntax-only", "-Werror", f"-I{include}", "-"]
    subprocess.run(line, input=use, text=True, check=True)
    called = "".join(path.read_text() for path in (package / "Sources" / "TinyKit").glob("*.swift"))
    header = (include / "tiny_talk.h").read_text()
    assert set(re.findall(r"tiny_talk_\w+", called)) <= set(re.findall(r"tiny_talk_\w+", header))
    excluded = re.search(r"exclude: \[(.*)\]", (package / "Package.swift").read_text())
    assert excluded is not None
    others = {path.name for path in folder.iterdir() if path.suffix not in (".c", ".h", ".S")} - {"include"}
    assert set(re.findall(r'"([\w.]+)"', excluded[1])) == others
    assert len(list((package / "Sources" / "TinyKit" / "Weights").iterdir())) == 1
    assert "licence" in (package / "README.md").read_text()
    subprocess.run(["sh", "-n", package / "make_xcframework.sh"], check=True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("firmware BUILD", "have no place for language models"),
        ("android BUILD --context 64", "--context has no part here"),
        ("android BUILD --dim a=1:2", "--dim has no part in a project of a language model"),
        ("android BUILD --bindings dart", "--bindings has no part"),
        ("android BUILD --set pakage=a.b", "no setting is called 'pakage'"),
        ("android HOST", "is a build for host"),
        ("android digits.tflite --quantize q4_0", "--quantize is for language models"),
    ],
)
def test_what_no_chat_is_made_of(
    chat_model: Path, build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    places = {"BUILD": str(build), "HOST": str(chat_model)}
    line = [places.get(word, word) for word in words.split()]
    if "digits.tflite" in line:
        shutil.copy(ROOT / "examples" / "digits" / "digits_int8.tflite", tmp_path / "digits.tflite")
        line[line.index("digits.tflite")] = str(tmp_path / "digits.tflite")
    assert run_command(["new", *line, "-o", str(tmp_path / "p")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


def test_a_template_that_is_not_compiled(build: Path, tmp_path: Path) -> None:
    shutil.copytree(build, tmp_path / "b")
    told = json.loads((build / "model.json").read_text())
    (tmp_path / "b" / "model.json").write_text(json.dumps({**told, "chat_template": None}))
    with pytest.raises(UsageError, match="tiny cannot chat in an app"):
        new_chat("android", tmp_path / "b", tmp_path / "p", ChatChoices())
