"""All Kotlin of ``sdk new android`` around a language model, and its screen as Compose shows it: something is typed and
sent, and the answer is there."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest
from jvm import link_jni, run_java
from screens import ANDROID, STUBS, check_sources, compose, sources_of

from sdk.cli import run_command

ABI, MACHINE = {"x86_64": ("x86_64", ["-march=x86-64-v2"]), "aarch64": ("arm64-v8a", [])}[platform.machine()]
SAID = ["heading tiny", "field Your message", "button disabled Send", "button disabled Stop", "button New chat"]


@pytest.mark.slow
def test_a_chat_is_shown(chat_model: Path, tmp_path: Path, need_tool) -> None:
    tools, project, pictures = compose(), tmp_path / "app", tmp_path / "pictures"
    line = ["new", "android", str(chat_model.parent / "hf"), "--name", "tiny", "--context", "192"]
    assert run_command([*line, "--set", "package=org.acme.tiny", "-o", str(project)]) == 0
    link_jni(project, tools.java, ABI, MACHINE, need_tool("cmake"), need_tool("gcc"))
    stubs = [*ANDROID, *(STUBS / "screens").glob("*.kt")]
    classes, own = tmp_path / "classes", tmp_path / "screens"
    assert tools.compile(project, [*sources_of(project, "org.acme.tiny"), *stubs], classes) == ""
    assert tools.compile(project, [check_sources(project, "org.acme.tiny")], own, str(classes)) == ""
    pictures.mkdir()
    given = {"java.awt.headless": "true", "java.library.path": project / "lib"}
    given["strings"] = project / "app" / "src" / "main" / "res" / "values" / "strings.xml"
    given |= {"assets": project / "model" / "src" / "main" / "assets", "files": tmp_path}
    line = [*(f"-D{key}={value}" for key, value in given.items()), "-cp", f"{own}:{classes}:{tools.path}"]
    line += ["org.acme.tiny.checks.ScreensKt", pictures, "Send", "Model: .+", "What is it?"]
    *nodes, a, b, c, d = run_java(tools.java, list(map(str, line))).splitlines()
    assert nodes == SAID
    assert len({one.partition(" ")[2] for one in (a, b, c, d)}) >= 1
    assert all(re.match(r"\d+-(light|dark) Model: .", one) for one in (a, b, c, d))
    assert len(list(pictures.iterdir())) == 8
