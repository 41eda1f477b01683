"""Gradle's scripts of ``sdk new android`` as the Kotlin they are: compiled against stubs of Gradle's DSL and Android's
(kotlin/gradle), which are typed as their documentation says, and run; what they set is looked at. The version catalogue
is read as TOML, and each alias of a script is one of it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
from jvm import run_java
from screens import STUBS, Compose, compose

from sdk.cli import run_command
from sdk.projects import weights

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
# a script of a project, and what it is one of
SCRIPTS = (
    ("settings.gradle.kts", "Settings"),
    ("build.gradle.kts", "Project"),
    ("app/build.gradle.kts", "Application"),
    ("model/build.gradle.kts", "AndroidLibrary"),
    ("weights/build.gradle.kts", "Pack"),
)
SPOILT = [
    ("compileSdk = 36", 'compileSdk = "36"', "assignment type mismatch"),
    ("libs.androidx.activity.compose", "libs.androidx.activity.composes", "unresolved reference 'composes'"),
    ("minSdk = 26", "minSdk = 26\n        ndk { }", "unresolved reference 'ndk'"),
    ("isMinifyEnabled = true", "isMinifyEnable = true", "unresolved reference 'isMinifyEnable'"),
    ("versionCode = 1", "namespace = null", "cannot be called in this context with an implicit receiver"),
]


def catalogue_of(project: Path) -> str:
    """The class of ``libs``, as Gradle makes it of the catalogue: an alias's parts are members of each other."""
    found = tomllib.loads((project / "gradle" / "libs.versions.toml").read_text())
    assert set(found) == {"versions", "libraries", "plugins"}
    tree: dict[str, object] = {}
    used = set()
    for alias, one in [*found["libraries"].items(), *((f"plugins-{k}", v) for k, v in found["plugins"].items())]:
        version = found["versions"][one["version"]["ref"]] if "version" in one else ""
        used |= {one["version"]["ref"]} if "version" in one else set()
        module = one.get("module", "")
        leaf = f'Library("{":".join(filter(None, (module, version)))}")'
        leaf = leaf if module else f'ProviderOfPlugin("{one["id"]}", "{version}")'
        at = tree
        *path, last = alias.split("-")
        for part in path:
            at = at.setdefault(part, {})
        at[last] = leaf
    assert used == set(found["versions"])
    return f"package gradle\n\nclass Catalogue {{\n{''.join(members(tree))}}}\n"


def members(tree: dict) -> Iterable[str]:
    for name, one in tree.items():
        if isinstance(one, str):
            yield f"val {name} = {one}\n"
        else:
            yield f"class Of{name} {{\n{''.join(members(one))}}}\nval {name} = Of{name}()\n"


def wrapped(project: Path, name: str, kind: str, number: int) -> str:
    """A script as a function that has Gradle's object as its receiver."""
    text = (project / name).read_text()
    return f"package scripts\n\nimport gradle.*\n\nfun {kind}.script{number}() {{\n{text}}}\n"


def run_scripts(tools: Compose, project: Path, folder: Path) -> list[str]:
    """What the scripts of a project set."""
    scripts = [(name, kind) for name, kind in SCRIPTS if (project / name).exists()]
    assert {name for name, _ in scripts} == {p.relative_to(project).as_posix() for p in project.rglob("*.gradle.kts")}
    folder.mkdir()
    (folder / "Catalogue.kt").write_text(catalogue_of(project))
    calls = []
    for k, (name, kind) in enumerate(scripts):
        (folder / f"Script{k}.kt").write_text(wrapped(project, name, kind, k))
        where = "" if kind == "Settings" else f'java.io.File("{(project / name).parent}")'
        calls.append(f'    gradle.say("-- {name}")\n    gradle.{kind}({where}).script{k}()\n')
    main = f"package scripts\n\nfun main() {{\n{''.join(calls)}    gradle.said.forEach(::println)\n}}\n"
    (folder / "Main.kt").write_text(main)
    assert compiled(tools, project, [*folder.glob("*.kt"), *(STUBS / "gradle").glob("*.kt")], folder / "classes") == ""
    line = ["-cp", f"{folder / 'classes'}:{tools.path}", "scripts.MainKt"]
    return run_java(tools.java, line).splitlines()


def compiled(tools: Compose, project: Path, sources: list[Path], out: Path, beside: str = "") -> str:
    """As Gradle compiles scripts: ``a = b`` sets a property that it marks."""
    plugin = tools.compiler / "assignment-compiler-plugin.jar"
    more = [f"-Xplugin={plugin}", "-P", "plugin:org.jetbrains.kotlin.assignment:annotation=gradle.Assignable"]
    return tools.compile(project, sources, out, beside, more)


@pytest.mark.slow
def test_scripts_mean_what_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a plain project, and of one with a pack of weights; scripts with mistakes are errors."""
    tools = compose()
    line = ["new", "android", str(DIGITS), "--name", "digits", "--set", "package=org.acme.digits"]
    assert run_command([*line, "-o", str(tmp_path / "plain")]) == 0
    monkeypatch.setattr(weights, "LARGE", 1000)
    assert run_command([*line, "-o", str(tmp_path / "pack")]) == 0
    said = run_scripts(tools, tmp_path / "plain", tmp_path / "one")
    settings, root, app, model = ("\n".join(said).split("-- ")[k].splitlines()[1:] for k in range(1, 5))
    assert settings == [
        "google", "mavenCentral", "gradlePluginPortal", "repositoriesMode = FAIL_ON_PROJECT_REPOS", "google",
        "mavenCentral", "rootProject digits", "include :app, :model",
    ]  # fmt: skip
    assert [one.rpartition(" ")[2] for one in root if one.endswith("false")] == ["false"] * 3
    assert {one for one in app if one.startswith("plugin ")} <= {one for one in root if one.startswith("plugin ")}
    assert {"namespace = org.acme.digits", "compileSdk = 36", "minSdk = 26", "targetSdk = 36", "compose = true"} <= {
        *app
    }
    assert {"applicationId = org.acme.digits", "isMinifyEnabled = true", "implementation project :model"} <= {*app}
    abis = [f"abiFilters += {abi}" for abi in ("arm64-v8a", "x86_64", "armeabi-v7a")]
    assert [one for one in model if one.startswith("abiFilters")] == abis
    assert {"namespace = org.acme.digits.model", "compileSdk = 36", "minSdk = 26", "prefab digits_c"} <= {*model}
    path = tmp_path / "plain" / "model" / "src" / "main" / "cpp" / "CMakeLists.txt"
    assert {f"path = {path}", "headers = src/main/cpp/include", "arguments += -DANDROID_STL=none"} <= {*model}
    packed = "\n".join(run_scripts(tools, tmp_path / "pack", tmp_path / "two"))
    assert "include :app, :model, :weights" in packed
    assert packed.count("noCompress += weights") == 2
    assert "assetPacks += :weights" in packed
    assert packed.endswith("packName = weights\ndeliveryType = install-time")
    text = wrapped(tmp_path / "plain", "app/build.gradle.kts", "Application", 9)
    spoilt = []
    for k, (good, bad, _) in enumerate(SPOILT):
        assert good in text
        spoilt.append(tmp_path / f"Spoilt{k}.kt")
        spoilt[-1].write_text(text.replace(good, bad, 1).replace("script9", f"spoilt{k}"))
    told = compiled(tools, tmp_path / "plain", spoilt, tmp_path / "nothing", str(tmp_path / "one" / "classes"))
    for k, (*_, mistake) in enumerate(SPOILT):
        assert any(f"/Spoilt{k}.kt:" in one and mistake in one for one in told.splitlines()), (k, told)
