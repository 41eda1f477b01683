"""The app of ``sdk new android`` whole: its screens, tests and all other Kotlin by the compiler of its Gradle files
with Compose's plugin, against Compose's own classes, and the screen as Compose shows it."""

from __future__ import annotations

import platform
import re
import struct
import zlib
from functools import partial
from pathlib import Path

import pytest
from jvm import link_jni, run_java
from screens import ANDROID, STUBS, check_sources, compose, sources_of
from sessions import ABIS, FLAGS, STREAM, two_entries

from sdk.cli import run_command

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
SAID = [
    "heading digits", "heading Inputs", "image: i8[1, 8, 8, 1]", "heading Outputs", "digit: i8[1, 10]",
    "button Run once", "button Benchmark", "live Nothing has run yet.",
]  # fmt: skip
SIZES = {"390": (780, 1688), "1280": (2560, 1600)}
# What a screen is spoilt by, and what the compiler says then; the last is a warning.
SPOILT = [
    ("verticalArrangement = ", "verticalArangement = ", "no parameter with name 'verticalArangement' found"),
    ("import androidx.compose.ui.unit.dp\n", "", "unresolved reference 'dp'"),
    ("@Composable\nfun Heading", "fun Heading", "@Composable invocations can only happen from the context of"),
    ("R.string.run)", "R.string.runs)", "unresolved reference 'runs'"),
    ("heading()", "headings()", "unresolved reference 'headings'"),
    ("fun Screen() {\n", "fun Screen() {\n    val unused = 1\n", "variable is unused"),
]  # fmt: skip


@pytest.mark.slow
def test_all_kotlin_of_apps_and_their_screens(tmp_path: Path, need_tool) -> None:
    """Of a plain app, one with a GPU, weights in files and both, a state, and two entries whose names are words of
    Kotlin; screens that are spoilt are errors."""
    tools = compose()
    (tmp_path / "sum.ir").write_text(STREAM)
    apps = {
        "digits": [str(DIGITS)],
        "gpu": [str(DIGITS), "--gpu", "vulkan"],
        "files": [str(DIGITS), "--weights", "file", "--bindings", "rn"],
        "both": [str(DIGITS), "--weights", "file", "--gpu", "opencl"],
        "state": [str(tmp_path / "sum.ir"), "--gpu", "opencl"],
        "words": two_entries(tmp_path),
    }
    for name, line in apps.items():
        own = ["--name", name, "--set", f"package=org.acme.{name}", "-o", str(tmp_path / name)]
        assert run_command(["new", "android", *line, *own]) == 0
    sources = [path for name in apps for path in sources_of(tmp_path / name, f"org.acme.{name}")]
    assert sum(path.name in ("MainActivity.kt", "GoldenTest.kt") for path in sources) == 2 * len(apps)
    stubs = [*ANDROID, *(STUBS / "screens").glob("*.kt"), *(STUBS / "react").glob("*.kt")]
    classes, own = tmp_path / "classes", tmp_path / "screens"
    assert tools.compile(tmp_path / "digits", [*sources, *stubs], classes) == ""
    check = check_sources(tmp_path / "digits", "org.acme.digits")
    assert tools.compile(tmp_path / "digits", [check], own, str(classes)) == ""
    text = (tmp_path / "digits" / "app" / "src" / "main" / "kotlin" / "MainActivity.kt").read_text()
    spoilt = []
    for k, (good, bad, _) in enumerate(SPOILT):
        assert good in text
        spoilt.append(tmp_path / f"spoilt{k}.kt")
        code = text.replace(good, bad, 1).replace("package org.acme.digits\n", f"package spoilt{k}\n", 1)
        head = "import org.acme.digits.Demo\nimport org.acme.digits.R\nimport "
        spoilt[-1].write_text(code.replace("import ", head, 1))
    tell = partial(tools.compile, tmp_path / "digits", out=tmp_path / "nothing", beside=str(classes))
    said = tell(sources=spoilt[:-1]) + tell(sources=spoilt[-1:], more=["-Wextra"])  # errors hide warnings
    for path, (*_, told) in zip(spoilt, SPOILT, strict=True):
        assert re.search(rf"/{path.name}:\d+:\d+: (error|warning): .*{re.escape(told)}", said), (path, said)
    project, abi = tmp_path / "digits", ABIS[platform.machine()]
    link_jni(project, tools.java, abi, FLAGS[abi], need_tool("cmake"), need_tool("gcc"))
    given = {"java.awt.headless": "true", "java.library.path": project / "lib"}
    given["strings"] = project / "app" / "src" / "main" / "res" / "values" / "strings.xml"
    line = [*(f"-D{key}={value}" for key, value in given.items()), "-cp", f"{own}:{classes}:{tools.path}"]
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    line += ["org.acme.digits.checks.ScreensKt", pictures, "Run once", "digit: element .*"]
    *nodes, a, b, c, d = run_java(tools.java, line).splitlines()
    assert nodes == SAID
    said = {one.partition(" ")[0]: one.partition(" ")[2] for one in (a, b, c, d)}
    assert set(said) == {f"{width}-{theme}" for width in SIZES for theme in ("light", "dark")}
    assert len(set(said.values())) == 1
    check_pictures(pictures)


def check_pictures(folder: Path) -> None:
    """Of each size one in light and one in dark, before and after."""
    for width, size in SIZES.items():
        bright = [brightness(folder / f"{width}-{theme}-first.png", size) for theme in ("light", "dark")]
        assert bright[0] > 200
        assert bright[1] < 60
        for theme in ("light", "dark"):
            before, after = (folder / f"{width}-{theme}-{at}.png" for at in ("first", "last"))
            assert before.read_bytes() != after.read_bytes()


def brightness(picture: Path, size: tuple[int, int]) -> float:
    """The mean of the colours of a picture's first pixel, which is background."""
    data = picture.read_bytes()
    assert struct.unpack_from(">2I", data, 16) == size
    at, packed = 8, b""
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        packed += data[at + 8 : at + 8 + length] if data[at + 4 : at + 8] == b"IDAT" else b""
        at += 12 + length
    return sum(zlib.decompress(packed)[1:4]) / 3
