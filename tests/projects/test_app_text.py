"""The text of ``sdk new android`` and ``sdk new ios`` by what formats its languages: ktlint with the project's own
.editorconfig for all Kotlin, Gradle's scripts among it; prettier for XML, TOML, YAML and Markdown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jvm import java_line, java_of
from sessions import STREAM, two_entries
from test_web_text import ENTRIES, LONG, PRETTIER

from sdk.cli import run_command
from sdk.projects import weights

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
MODULES = Path(sys.prefix) / "node_modules"
KTLINT = MODULES / "@naturalcycles" / "ktlint" / "resources" / "ktlint"
PLUGINS = ("@prettier/plugin-xml/src/plugin.js", "prettier-plugin-toml/lib/index.js")
# XML as Android Studio has it, but for the blank before the end of its declaration
XML = ["--tab-width", "4", "--bracket-same-line", "--print-width", "120"]


def ktlint(folder: Path) -> str:
    """What it says of all Kotlin below a folder; an empty text when all is well."""
    assert KTLINT.exists(), "ktlint is not installed: make soak does it"
    line = ["--sun-misc-unsafe-memory-access=allow", "-XX:TieredStopAtLevel=1", "-jar", KTLINT, "--relative"]
    words = java_line(java_of(), [*line, "--log-level=error", "**/*.kt", "**/*.kts"])
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600)
    assert (done.returncode == 0) == (done.stdout == ""), done.stderr
    return done.stdout


def prettier(folder: Path, pattern: str, *more: str) -> str:
    """What it would change of the files of a pattern; an empty text when all is well."""
    assert PRETTIER.exists(), "prettier is not installed: make soak does it"
    plugins = [
        f"--plugin={MODULES / name}"
        for name in ("@prettier/plugin-xml/src/plugin.js", "prettier-plugin-toml/lib/index.js")
    ]
    line = [PRETTIER, "--no-config", *plugins, *more, "--list-different", "--with-node-modules", pattern]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) == (done.stdout == ""), done.stderr
    return done.stdout


@pytest.mark.slow
def test_formatters_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of projects of each shape, with short names and long ones; and they find what is wrong."""
    for name, text in (("sum", STREAM), ("long", ENTRIES)):
        (tmp_path / f"{name}.ir").write_text(text)
    apps = {
        "m": [str(DIGITS), "--bindings", "rn", "--bindings", "dart"],
        LONG: [str(DIGITS), "--gpu", "vulkan"],
        "state": [str(tmp_path / "sum.ir"), "--gpu", "opencl"],
        "words": two_entries(tmp_path),
        f"{LONG}_too": [str(tmp_path / "long.ir"), "--gpu", "opencl"],
        "both": [str(DIGITS), "--weights", "file", "--gpu", "opencl"],
        "pack": [str(DIGITS), "--weights", "file"],
    }
    whole = tmp_path / "all"
    for name, line in apps.items():
        monkeypatch.setattr(weights, "LARGE", 1000 if name == "pack" else weights.LARGE)
        assert run_command(["new", "android", *line, "--name", name, "-o", str(whole / name)]) == 0
        monkeypatch.undo()
    for name in ("m", LONG):
        assert run_command(["new", "ios", str(DIGITS), "--name", name, "-o", str(whole / f"ios_{name}")]) == 0
    assert ktlint(whole) == ""
    assert prettier(whole, "**/*.xml", *XML) == ""
    assert prettier(whole, "**/*.{toml,yml,md}") == ""
    assert prettier(whole, "**/.swift-format", "--parser", "json", "--tab-width", "4") == ""
    model = whole / "m" / "model" / "src" / "main" / "kotlin" / "Model.kt"
    model.write_text(model.read_text().replace("import java.nio.ByteBuffer\n", "", 1) + "val  a = 1;\n")
    (whole / "m" / "settings.gradle.kts").write_text('include(":app",":model")\n')
    (whole / "m" / "gradle" / "libs.versions.toml").write_text('[versions]\n  agp="9.0.0"\n')
    (whole / "m" / "app" / "src" / "main" / "AndroidManifest.xml").write_text("<manifest  />\n")
    found = ktlint(whole)
    assert "m/model/src/main/kotlin/Model.kt" in found
    assert "m/settings.gradle.kts" in found
    assert "libs.versions.toml" in prettier(whole, "**/*.{toml,yml,md}")
    assert "AndroidManifest.xml" in prettier(whole, "**/*.xml", *XML)
