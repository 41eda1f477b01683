"""The Kotlin of ``sdk new android`` around a language model, by the Kotlin compiler and on a JVM of this machine."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest
from jvm import kotlin, link_jni, run_java

from sdk.cli import run_command
from sdk.llm.conversation import Conversation
from sdk.llm.text.sampler import Sampler, Sampling

ANDROID = Path(__file__).resolve().parents[2] / "docs" / "android.md"
SOURCES = Path(__file__).resolve().parents[1] / "projects" / "kotlin"
ABI, MACHINE = {"x86_64": ("x86_64", ["-march=x86-64-v2"]), "aarch64": ("arm64-v8a", [])}[platform.machine()]
SAID = ("Hello there", "\u00e9t\u00e9 <|end|> \u2603", "What is it?")
GROWN = 5 << 10  # KiB


@pytest.mark.slow
def test_a_jvm_talks(chat_model: Path, tmp_path: Path, need_tool) -> None:
    """A project of a checkpoint: what it says, its golden cases, sessions, cancellation, errors, threads, no leak."""
    tools, project = kotlin(tmp_path / "coroutines"), tmp_path / "app"
    line = ["new", "android", str(chat_model.parent / "hf"), "--name", "tiny", "--context", "192"]
    assert run_command([*line, "--set", "package=org.acme.tiny", "-o", str(project)]) == 0
    link_jni(project, tools.java, ABI, MACHINE, need_tool("cmake"), need_tool("gcc"))
    pages = [(project / "README.md").read_text(), ANDROID.read_text().partition("## Language models")[2]]
    blocks = [re.findall(r"```kotlin\n(.*?)```", page, re.DOTALL)[0] for page in pages]
    head = "".join(f"import org.acme.tiny.model.{one}\n" for one in ("Chat", "Role", "Weights"))
    head += "import java.io.File\nimport kotlinx.coroutines.Dispatchers\nimport kotlinx.coroutines.withContext\n"
    context = "context: android.content.Context"
    code = "".join(f"suspend fun page{k}({context}) {{\n{own}}}\n" for k, own in enumerate(blocks))
    (project / "Pages.kt").write_text(f"package org.acme.tiny.checks\n{head}{code}")
    (project / "Chats.kt").write_text((SOURCES / "Chats.kt").read_text().replace("PACKAGE", "org.acme.tiny"))
    apps = [p for p in project.rglob("*.kt") if p.name not in ("GoldenTest.kt", "MainActivity.kt")]
    stubs = [SOURCES / f"{name}.kt" for name in ("Context", "AssetManager")]
    classes = tools.compile(project, [*apps, *stubs], tmp_path / "classes")
    talk = Conversation.of(chat_model, 1)
    told = []
    with talk.model:
        for text in SAID:
            ids = talk.speaker.encode_chat([{"role": "user", "content": text}])
            pieces = talk.answer(ids, Sampler(Sampling(temperature=0.0), 0), max_tokens=16)
            told += [text, "".join(piece.text for piece in pieces)]
    header = (project / "model" / "src" / "main" / "cpp" / ABI / "tiny.h").read_text()
    (sha,) = re.findall(r'_WEIGHTS_SHA256 "(\w{16})', header)
    asset = project / "model" / "src" / "main" / "assets" / f"tiny-{sha}.weights"
    (tmp_path / "files").mkdir()
    given = {"apk": asset, "files": tmp_path / "files", "start": 0, "asset": asset.name}
    given |= {"java.library.path": project / "lib"}
    options = ["-Xcheck:jni", "-Xmx64m", *(f"-D{key}={value}" for key, value in given.items()), "-cp", classes]
    golden = project / "model" / "src" / "androidTest" / "assets" / "golden.bin"
    words = [golden, tmp_path / "files", *told]
    *lines, grown = run_java(tools.java, [*options, "org.acme.tiny.checks.ChatsKt", *words]).splitlines()
    cases = int.from_bytes(golden.read_bytes()[:4], "little")
    assert lines == [
        f"golden {cases}", "same true", "pieces true", "first true", "few 1",
        "length true", "cancelled true", "again true", "kept true", "missing -301", "empty -202 role -205",
        "unsaid -203 wrong -1", "full -100", "together true", "talk 2 true true", "begun 0 4", "closed true",
        "closed in an answer true",
    ]  # fmt: skip
    assert int(grown.split()[1]) < GROWN
