"""``sdk new``: projects that build and boot, files that stay the user's, what other build systems want of theirs."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.errors import BuildError
from sdk.flash.image import read_image
from sdk.projects.interface import entries_of
from sdk.projects.kinds import kind_names, load_kind
from sdk.text import GENERATED

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
FLOATS = DIGITS.with_name("digits.onnx")
BOARD = "nucleo_l4r5zi"
SET = {"esp-idf": ("--set", "target=esp32c3")}
# Placeholders of README lines that no machine without a board, a network or another system's tools can run.
ELSEWHERE = re.compile(r"sdk .*serial:|make flash|.*--target flash|(pio|arduino-cli|west|idf\.py) ")


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, with this tree's command on the PATH."""
    program = tmp_path / "bin" / "sdk"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m sdk "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{shutil.os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(kind: str, out: Path, *more: str, model: Path = DIGITS, board: str = BOARD) -> None:
    line = ["new", kind, str(model), "--board", board, "-o", str(out), *SET.get(kind, ()), *more]
    assert run_command(line) == 0


def run(line: str, folder: Path) -> str:
    done = subprocess.run(["sh", "-ec", line], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


@pytest.mark.emulator
@pytest.mark.parametrize("kind", ["firmware", "cmake"])
def test_readme_line_by_line(sdk: Path, kind: str, need_tool) -> None:
    """Each line that a reader without a board can run: the image builds, boots, and its results are exact."""
    need_tool("arm-none-eabi-gcc")
    make(kind, sdk / "p", "--name", "digits")
    readme = (sdk / "p" / "README.md").read_text()
    lines = [line for block in re.findall(r"```\n(.*?)```", readme, re.DOTALL) for line in block.splitlines()]
    said = {line: run(line, sdk / "p") for line in lines if not ELSEWHERE.match(line)}
    assert len(said) >= 3
    check = next(text for line, text in said.items() if "check" in line)
    assert re.search(r"exact_cases +20\b", check)
    assert re.search(r"passed +yes", check)
    image = sdk / "p" / "build" / "digits.elf"
    assert console(image, need_tool).startswith(b"digits: the largest of digit is element ")
    before = read_image(image).build_id
    source = sdk / "p" / "src" / "app.c"
    source.write_text(source.read_text().replace("the largest", "the greatest"))
    run("make" if kind == "firmware" else "cmake --build build", sdk / "p")
    assert read_image(image).build_id != before
    assert b"the greatest of digit" in console(image, need_tool)


def console(image: Path, need_tool) -> bytes:
    """What the firmware writes before a tool greets it, on its own board."""
    from sdk.devices.base import OpenRequest
    from sdk.devices.transports.unicorn import open_unicorn
    from sdk.driver.machines import emulator_of

    spec = emulator_of(load_board(BOARD), image)
    link = open_unicorn(OpenRequest("unicorn://", "", image, spec, 60.0))
    try:
        text = b""
        while not text.endswith(b"\n"):
            got = link.read(60.0)
            assert got
            text += got
        return text
    finally:
        link.close()


@pytest.mark.emulator
def test_sizes_that_stay_open(sdk: Path, need_tool) -> None:
    """A float model whose batch is chosen at run time, in a project for another board."""
    need_tool("arm-none-eabi-gcc")
    make("firmware", sdk / "p", "--name", "net", "--dim", "batch=1:2", model=FLOATS, board="nrf52840_dk")
    said = run("make -j2 && make check", sdk / "p")
    assert re.search(r"passed +yes", said)


def test_lines_name_files_as_they_are_from_there(sdk: Path) -> None:
    """Entries, and files beside the model, in the lines of README and Makefile."""
    for name in ("a.tflite", "b c.tflite"):
        shutil.copy(DIGITS, sdk / name)
    (sdk / "k.c").write_text("int k;\n")
    line = ["new", "firmware", "one=a.tflite", "two=b c.tflite", "--name", "m", "--board", BOARD, "--extern", "k.c"]
    assert run_command([*line, "-o", "x/p"]) == 0
    readme = (sdk / "x" / "p" / "README.md").read_text()
    again = next(text for text in readme.splitlines() if text.startswith("sdk new"))
    assert again.startswith("sdk new firmware one=../../a.tflite two='../../b c.tflite' --name m --extern ../../k.c ")
    assert "--entry one" in (sdk / "x" / "p" / "Makefile").read_text()
    header = (sdk / "x" / "p" / "crosslevel" / "model" / "m_app.h").read_text()
    assert "m_one_inputs" in header
    assert "int m_two_app_run(m_two_outputs *out);" in header


def test_the_users_files_stay(sdk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = sdk / "p"
    make("firmware", out, "--name", "digits")
    first = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    source, generated = out / "src" / "app.c", out / "crosslevel" / "model" / "digits_app.c"
    source.write_text("/* mine */\n")
    (out / "src" / "more.c").write_text("int more;\n")
    (out / "Makefile").unlink()
    edited = generated.read_text().replace("status", "state")
    generated.write_text(edited)
    capsys.readouterr()
    make("firmware", out, "--name", "digits", "--json")
    said = json.loads(capsys.readouterr().out)
    assert (said["written"], "src/app.c" in said["kept"]) == (["Makefile"], True)
    again = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    mine = {"src/app.c": b"/* mine */\n", "src/more.c": b"int more;\n"}
    mine["replaced/crosslevel/model/digits_app.c"] = edited.encode()
    assert said["replaced"] == ["replaced/crosslevel/model/digits_app.c"]
    assert again == {**first, **mine}
    make("firmware", out, "--name", "digits", "--force")
    assert source.read_bytes() == first["src/app.c"]
    assert (out / "src" / "more.c").exists()
    # under another name: what was generated under the old one goes, what is the user's stays
    make("firmware", out, "--name", "other")
    names = {path.name for path in out.rglob("*.[ch]") if "replaced" not in path.parts}
    assert {"other.c", "app.c", "more.c"} <= names
    assert not {name for name in names if name.startswith("digits")}


def test_files_of_others_are_not_overwritten(sdk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = sdk / "p"
    place = out / "crosslevel" / "model" / "digits.h"
    place.parent.mkdir(parents=True)
    place.write_text("int mine;\n")
    line = ["new", "firmware", str(DIGITS), "--name", "digits", "--board", BOARD, "-o", str(out)]
    assert run_command(line) == 2
    assert "digits.h is not a file that sdk build made" in capsys.readouterr().err
    assert [path for path in out.rglob("*") if path.is_file()] == [place]
    assert run_command([*line, "--force"]) == 0
    (sdk / "file").write_text("")
    assert run_command([*line[:-1], str(sdk / "file")]) == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("firmwares model.tflite --board nucleo_l4r5zi", "did you mean firmware?"),
        ("zzz model.tflite --board nucleo_l4r5zi", "unknown kind of project 'zzz'"),
        ("firmware model.tflite --board host", "the runtime has no start-up for host"),
        ("zephyr model.tflite --board qemu-cortex-m4", "--set board=VALUE"),
        ("esp-idf model.tflite --board nucleo_l4r5zi", "does not say what ESP-IDF calls it"),
        ("zephyr model.tflite --board nucleo_l4r5zi --watchdog 500", "--watchdog has no part in a project for Zephyr"),
        ("firmware model.tflite --board qemu-riscv32 --watchdog 500", "the runtime has no watchdog on qemu-riscv32"),
        ("firmware none.tflite --board nucleo_l4r5zi", "no such file"),
    ],
)
def test_what_cannot_be_made(sdk: Path, words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(DIGITS, "model.tflite")
    assert run_command(["new", *words.split(), "-o", "p"]) == 2
    assert says in capsys.readouterr().err
    assert not Path("p").exists()


STUBS = {
    "zephyr/kernel.h": "#include <stdint.h>\nint32_t k_msleep(int32_t);\n",
    "zephyr/sys/printk.h": "void printk(const char *, ...);\n",
    "freertos/FreeRTOS.h": "#define pdMS_TO_TICKS(ms) (ms)\n",
    "freertos/task.h": "void vTaskDelay(unsigned);\n",
    "bare/stdio.h": "int printf(const char *, ...);\n",
    "bare/string.h": "#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\n"
    "void *memset(void *, int, size_t);\nvoid *memmove(void *, const void *, size_t);\n",
    "Arduino.h": "#include <stdint.h>\nstruct Port { void begin(long); void print(const char *);"
    " void println(unsigned long); };\nextern Port Serial;\nvoid setup();\nvoid loop();\n",
}
M4 = ["-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]
TIDY = ["-ffunction-sections", "-fdata-sections", "-fno-common"]
FLAGS = {  # as these systems compile C for such a board
    "zephyr": ["arm-none-eabi-gcc", *M4, "-std=c17", "-ffreestanding", "-fno-strict-overflow", "-fno-pie", "-Wall",
               "-Wextra", "-Wformat", "-Werror", "-Wno-unused-parameter", "-O2", "-fno-unroll-loops"],
    "esp-idf": ["riscv64-unknown-elf-gcc", "-march=rv32imc_zicsr_zifencei", "-mabi=ilp32", "-std=gnu17", "-Wall",
                "-Wextra", "-ffreestanding", "-Werror", "-Wno-unused-parameter", "-Wno-sign-compare", "-Og",
                "-fstrict-volatile-bitfields", "-O2"],
    "arduino": ["arm-none-eabi-gcc", *M4, "-std=gnu11", "-Os", "-Wall", "-Wextra", "-Werror"],
    "platformio": ["arm-none-eabi-gcc", *M4, "-std=gnu17", "-Os", "-Wall", "-Wextra", "-Werror", "-O2",
                   "-fno-unroll-loops"],
}  # fmt: skip
CALLS = {"memcpy", "memset", "memmove", "printk", "k_msleep", "printf", "vTaskDelay"}


@pytest.mark.parametrize("kind", sorted(FLAGS))
def test_the_c_of_other_systems(sdk: Path, kind: str, need_tool) -> None:
    """All C of a project compiles as its system compiles it, together lacks nothing but what the system has, and the
    system's own files are as it wants them."""
    board = "esp32c3_devkitm" if kind == "esp-idf" else BOARD
    out = sdk / kind
    assert run_command(["new", kind, str(DIGITS), "--name", "digits", "--board", board, "-o", str(out)]) == 0
    for name, text in STUBS.items():
        (sdk / "stubs" / name).parent.mkdir(parents=True, exist_ok=True)
        (sdk / "stubs" / name).write_text(text)
    gcc, *flags = FLAGS[kind]
    prefix = need_tool(gcc).removesuffix("gcc")
    bare = [f"-I{sdk / 'stubs' / 'bare'}"] if kind == "esp-idf" else []
    include = [f"-I{sdk / 'stubs'}", *bare, *(f"-I{path.parent}" for path in out.rglob("*_app.h"))]
    objects = []
    for path in sorted(path for path in out.rglob("*") if path.suffix in (".c", ".cpp", ".ino")):
        objects.append(f"{path}.o")
        own = flags if path.suffix == ".c" else [*(f for f in flags if not f.startswith("-std")), "-std=gnu++17"]
        language = ["-x", "c"] if path.suffix == ".c" else ["-x", "c++", "-fno-exceptions", "-fno-rtti"]
        done = subprocess.run(
            [f"{prefix}gcc", *own, *TIDY, *include, *language, "-c", path, "-o", objects[-1]],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    kept = [f for f in flags if f.startswith(("-m", "-march"))]
    subprocess.run([f"{prefix}gcc", *kept, "-nostdlib", "-r", *objects, "-o", sdk / "all.o"], check=True)
    lacks = subprocess.run([f"{prefix}nm", "-u", sdk / "all.o"], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in lacks.splitlines()}
    assert {n for n in names if "Port" not in n and n != "Serial" and not n.startswith(("__", "sdk_"))} <= CALLS, names
    SYSTEMS[kind](out)


def zephyr(out: Path) -> None:
    module = yaml.safe_load((out / "crosslevel" / "zephyr" / "module.yml").read_text())
    assert module == {"name": "crosslevel_digits", "build": {"cmake": ".", "kconfig": "Kconfig"}}
    symbol = re.search(r"^config (\w+)\n\tbool ", (out / "crosslevel" / "Kconfig").read_text(), re.MULTILINE)
    assert symbol is not None
    assert f"CONFIG_{symbol[1]}=y" in (out / "prj.conf").read_text()
    listed = re.findall(r"^    (model/\S+)$", (out / "crosslevel" / "CMakeLists.txt").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(f"model/{path.name}" for path in (out / "crosslevel" / "model").glob("*.c"))
    assert "west build --board nucleo_l4r5zi ." in (out / "README.md").read_text()


def esp_idf(out: Path) -> None:
    folder = out / "components" / "digits"
    component = yaml.safe_load((folder / "idf_component.yml").read_text())
    assert re.fullmatch(r"\d+\.\d+\.\d+", component["version"])
    assert component["dependencies"] == {"idf": ">=5.0"}
    assert set(component) <= {"version", "description", "dependencies"}
    text = (folder / "CMakeLists.txt").read_text()
    assert sorted(re.findall(r'"(\w+\.c)"', text)) == sorted(path.name for path in folder.glob("*.c"))
    assert "REQUIRES digits" in (out / "main" / "CMakeLists.txt").read_text()


def arduino(out: Path) -> None:
    lines = (out / "library.properties").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    wanted = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert wanted <= set(found)
    assert found["category"] in {"Data Processing", "Other"}
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_. -]{0,62}", found["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["version"])
    assert (out / "src" / found["includes"]).is_file()
    assert [path.name for path in out.rglob("*.ino")] == ["digits.ino"]  # its folder has its name


def platformio(out: Path) -> None:
    parser = configparser.ConfigParser()
    parser.read(out / "platformio.ini")
    section = parser[f"env:{parser['platformio']['default_envs']}"]
    assert (section["platform"], section["board"], section["framework"]) == ("ststm32", "nucleo_l4r5zi", "arduino")
    library = json.loads((out / "lib" / "digits" / "library.json").read_text())
    assert (library["name"], library["build"]["unflags"]) == ("digits", ["-Os"])


SYSTEMS: dict[str, Any] = {"zephyr": zephyr, "esp-idf": esp_idf, "arduino": arduino, "platformio": platformio}


def test_every_kind_is_whole(sdk: Path) -> None:
    """Each kind has what a project needs, and says of each file whose it is."""
    assert set(kind_names()) == {*SYSTEMS, "firmware", "cmake", "web", "android", "ios"}
    for kind in sorted({*kind_names()} - {"web", "android", "ios"}):  # which have binary files: tests of their own
        board = "esp32c3_devkitm" if kind == "esp-idf" else BOARD
        assert run_command(["new", kind, str(DIGITS), "--name", "digits", "--board", board, "-o", kind]) == 0
        out, yours = Path(kind), load_kind(kind).yours
        names = [path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()]
        assert {"README.md", ".github/workflows/build.yml", "manifest.json"} <= set(names)
        listed = set(json.loads((out / "manifest.json").read_text())["contents"])
        for name in names:
            marked = GENERATED in (out / name).read_text()
            own = name not in listed and name != "manifest.json"
            assert marked != own, f"{kind}: {name}"
            assert not own or any(fnmatch(name, pattern) for pattern in yours), f"{kind}: {name}"
        assert "sdk new" in (out / "README.md").read_text()
        flow = yaml.safe_load((out / ".github/workflows/build.yml").read_text())
        assert flow["jobs"]["build"]["steps"]


def test_an_image_that_is_not_there(sdk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["verify", str(DIGITS), "--board", BOARD, "--device", "image:none.elf"]
    assert run_command(line) == 3
    assert "there is no image none.elf" in capsys.readouterr().err


def test_a_record_that_is_none() -> None:
    with pytest.raises(BuildError, match="the model's agent has no record"):
        entries_of("")
    counts = "    .input_count = 1,\n    .output_count = 1,\n    .tensors = x_tensors,\n"
    glue = f"const sdk_rt_model_t m_rt_model = {{\n{counts}}};"
    with pytest.raises(BuildError, match="the record of m tells other inputs and outputs than it has"):
        entries_of(glue)
