"""Screens of Android apps by Compose itself, on a JVM of this machine: the Kotlin compiler that a project's Gradle
files name, with its plugin for Compose, and Compose's own classes, those for desktops. What only Android has is stubs
of the tests': kotlin/screens, Context.kt and the like."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jvm import java_line, java_of

STUBS = Path(__file__).parent / "projects" / "kotlin"
ANDROID = [STUBS / f"{name}.kt" for name in ("SystemClock", "Context", "AssetManager")]
# what the compiler itself runs with
_PARTS = ("kotlin-compiler", "kotlin-stdlib", "kotlin-reflect", "kotlin-script-runtime", "annotations-13.0",
          "kotlinx-coroutines-core-jvm")  # fmt: skip


@dataclass(frozen=True)
class Compose:
    """Java's program, the folder of the compiler's jars, its version, and the jar with Compose."""

    java: Path
    compiler: Path
    version: str
    classes: Path

    @property
    def path(self) -> str:
        """The class path of Kotlin's library and Compose."""
        return f"{self.compiler / 'kotlin-stdlib.jar'}:{self.classes}"

    def compile(
        self, project: Path, sources: Sequence[Path], out: Path, beside: str = "", more: Sequence[str] = ()
    ) -> str:
        """What the compiler says of sources for a project, whose version of Kotlin it is; a warning is an error. The
        classes of ``beside`` are there too, ``more`` are options; an empty text when all is well."""
        catalogue = tomllib.loads((project / "gradle" / "libs.versions.toml").read_text())["versions"]
        assert self.version == catalogue["kotlin"]
        jars = ":".join(str(self.compiler / f"{part}.jar") for part in _PARTS)
        line = ["--sun-misc-unsafe-memory-access=allow", "-XX:TieredStopAtLevel=1", "-cp", jars]
        line += ["org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-Werror", "-no-stdlib", "-no-reflect"]
        line += ["-jvm-target", "17", "-jdk-home", self.java.parents[1]]
        line += [f"-Xplugin={self.compiler / 'compose-compiler-plugin.jar'}", *more, "-d", out]
        line += ["-cp", ":".join(filter(None, (self.path, beside)))]
        done = subprocess.run(java_line(self.java, [*line, *sources]), capture_output=True, text=True, timeout=900)
        assert (done.returncode == 0) == (done.stderr == ""), done.stderr[-4000:]
        return done.stderr


def compose() -> Compose:
    """What is installed."""
    package = Path(sys.prefix) / "node_modules" / "kotlin-compiler"
    jar = Path(sys.prefix) / "jars" / "compose.jar"
    assert package.is_dir(), "the Kotlin compiler is not there; `make soak` installs it"
    assert jar.is_file(), "Compose is not there; `make soak` fetches it"
    return Compose(java_of(), package / "lib", json.loads((package / "package.json").read_text())["version"], jar)


def sources_of(project: Path, package: str) -> list[Path]:
    """All Kotlin of a project, and its class R, which Gradle makes of its resources: texts are numbered in order."""
    strings = ET.parse(project / "app" / "src" / "main" / "res" / "values" / "strings.xml").getroot()
    rows = "".join(f"        const val {one.attrib['name']} = {k}\n" for k, one in enumerate(strings))
    (project / "R.kt").write_text(f"package {package}\n\nobject R {{\n    object string {{\n{rows}    }}\n}}\n")
    return sorted(project.rglob("*.kt"))


def check_sources(project: Path, package: str) -> Path:
    """What shows the screen of a project, beside it."""
    out = project.with_name(f"{project.name}-checks") / "Screens.kt"  # whose name the class has
    out.parent.mkdir()
    out.write_text((STUBS / "Screens.kt").read_text().replace("PACKAGE", package))
    return out
