"""``sdk fit``: which boards a model fits, counted once a core, with what is missing where it does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from sdk.boards import Board, load_board
from sdk.cli import run_command
from sdk.cores import timing_for
from sdk.driver import BuildOptions, artifact, fitting
from sdk.driver.agents import link_agent
from sdk.driver.counting import Counts
from sdk.driver.fitting import BoardFit, FitReport, fit
from sdk.driver.sources import compile_sources
from sdk.errors import BuildError, MissingToolError, UsageError
from sdk.report import FREE_STACK
from sdk.toolchains import get_toolchain, target_for

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "examples" / "digits" / "digits_int8.tflite"


def sized(board: Board, name: str, **sizes: int) -> Board:
    """The board with other sizes of its memories."""
    memory = tuple(structs.replace(m, size=sizes.get(m.name, m.size)) for m in board.memory)
    return replace(board, name=name, memory=memory)


def nrf() -> Board:
    return load_board("nrf52840_dk")


Count = Callable[[Path, Board, BuildOptions, Mapping[str, int]], Counts]


def min_ram_of(board: Board) -> int:
    return artifact.build_sources(MODEL, board, BuildOptions(memory="min")).report.ram_bytes


def firmware_of(ram: int, flash: int, stack: int) -> Callable[..., dict[str, fitting.Firmware]]:
    """What stands in for the firmware: the same for all boards."""
    return lambda group, *_: {board.name: fitting.Firmware(ram, flash, stack) for board in group}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """What was counted where (machine, core, objective), without an emulator."""
    calls: list[tuple[str, str, str]] = []

    def count(path: Path, board: Board, options: BuildOptions, at: Mapping[str, int]) -> Counts:
        calls.append((board.name, board.core.cpu, options.memory))
        return Counts(64_000, 6.4e4 if options.memory == "time" else 6.5e4)

    monkeypatch.setattr(fitting, "count", count)
    monkeypatch.setattr(fitting, "_firmware", firmware_of(-FREE_STACK, 0, FREE_STACK))  # nothing
    return calls


def test_each_core_is_emulated_once(counted: list[tuple[str, str, str]]) -> None:
    slow, fast = nrf(), load_board("nucleo_l4r5zi")
    seen: list[str] = []
    report = fit(
        MODEL, BuildOptions(), boards=[slow, fast, load_board("host")], seen=lambda row: seen.append(row.board)
    )
    assert sorted(seen) == ["nrf52840_dk", "nucleo_l4r5zi"]
    assert counted == [("qemu-cortex-m4", "cortex-m4", "time")]  # the largest machine with that core
    first, second = report.boards
    assert (first.board, second.board) == ("nucleo_l4r5zi", "nrf52840_dk")  # the fast one ahead
    assert first.est_ms == pytest.approx(6.4e4 / 120e6 * 1e3)
    assert second.est_ms == pytest.approx(1.0)
    assert {(b.objective, b.instructions, b.emulated_on) for b in report.boards} == {("time", 64_000, "qemu-cortex-m4")}
    timing = timing_for("cortex-m4")
    assert timing is not None
    assert first.error == timing.error
    assert not report.notes


def test_what_is_measured_is_not_compiled_again() -> None:
    """A header states the stack that the first compilation reports, in every entry's place."""
    target = target_for(load_board("nrf52840_dk"))
    code = '#include "m.h"\nint f(void) { return M_ARENA_BYTES; }\n'
    header = "#define M_ARENA_BYTES 8u\n"
    stated = f"{header}#define M_STACK_BYTES 100u /* worst case */\n#define M_RUN_STACK_BYTES 90u\n"
    first, again, other = (
        compile_sources({"m.c": code, "m.h": text}, get_toolchain(), target)[0].key
        for text in (header, stated, header.replace("8u", "16u"))
    )
    assert first == again != other


def test_by_how_much_it_does_not_fit(counted: list[tuple[str, str, str]]) -> None:
    (wide,) = fit(MODEL, BuildOptions(), boards=[nrf()]).boards
    min_ram = min_ram_of(nrf())
    between = (wide.ram_bytes + min_ram) // 2
    boards = [
        nrf(),
        sized(nrf(), "tight", ram=between),
        sized(nrf(), "little_ram", ram=min_ram - 3),
        sized(nrf(), "little_flash", flash=1000),
    ]
    counted.clear()
    report = fit(MODEL, BuildOptions(), boards=boards)
    rows = {b.board: b for b in report.boards}
    assert [b.board for b in report.boards][:2] == ["nrf52840_dk", "tight"]
    assert sorted(objective for _, _, objective in counted) == ["min", "time"]
    assert rows["tight"].objective == "min"
    assert (rows["tight"].ram_bytes, rows["tight"].est_cycles) == (min_ram, 65_000)
    minimum = rows["little_ram"]
    assert (minimum.objective, minimum.short["ram"], minimum.instructions, minimum.est_ms) == (None, 3, None, None)
    none = rows["little_flash"]
    assert (none.objective, none.short) == (None, {"flash": none.flash_bytes - 1000})


def test_a_core_is_emulated_on_the_largest_machine_that_runs_its_code(counted: list[tuple[str, str, str]]) -> None:
    (row,) = fit(MODEL, BuildOptions(), boards=[load_board("microbit")]).boards
    assert counted == [("rpi_pico_w", "cortex-m0", "time")]
    assert row.emulated_on == "rpi_pico_w"


def test_no_emulated_target_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "board_names", lambda: [])
    deaf = replace(nrf(), emulator=None, runtime=structs.replace(nrf().runtime, uart=None))
    report = fit(MODEL, BuildOptions(), boards=[deaf])
    (row,), (note,) = report.boards, report.notes
    assert "no estimates: nrf52840_dk has no emulated target" in note
    assert (row.objective, row.instructions, row.est_ms, row.error) == ("time", None, None, None)


@pytest.mark.parametrize("error", [MissingToolError("no emulator"), BuildError("over by 10 bytes")])
def test_what_cannot_be_counted_is_noted(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def count(*_: Any) -> Counts:
        raise error

    monkeypatch.setattr(fitting, "count", count)
    report = fit(MODEL, BuildOptions(), boards=[nrf()])
    assert report.notes == (f"nrf52840_dk: no estimates: {error}",)
    assert report.boards[0].objective == "time"


def test_boards_that_miss_the_same_are_one_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(*_: Any) -> Counts:
        raise MissingToolError("no emulator")

    monkeypatch.setattr(fitting, "count", count)
    report = fit(MODEL, BuildOptions(), boards=[load_board("microbit"), nrf()])
    assert report.notes == ("microbit, nrf52840_dk: no estimates: no emulator",)


def test_one_core_that_cannot_be_compiled_for_hides_no_other(
    counted: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fitting._sizes

    def sizes(path: Path, place: Board, options: BuildOptions, plan: fitting.Planner) -> Any:
        if place.core.cpu == "cortex-m0":
            raise BuildError("no such thing")
        return whole(path, place, options, plan)

    monkeypatch.setattr(fitting, "_sizes", sizes)
    report = fit(MODEL, BuildOptions(), boards=[load_board("microbit"), nrf()])
    assert [b.board for b in report.boards] == ["nrf52840_dk"]
    assert report.notes == ("microbit: cannot be compiled for: no such thing",)
    with pytest.raises(BuildError, match="no such thing"):
        fit(MODEL, BuildOptions(), boards=[load_board("microbit")])


def test_too_large_for_the_emulated_target_too(
    counted: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "board_names", lambda: [])
    (row,) = fit(MODEL, BuildOptions(), boards=[sized(nrf(), "tiny", flash=1024, ram=256)]).boards
    assert row.objective is None
    assert row.short.keys() == {"ram", "arena", "flash"}
    assert not counted


def test_memories_are_the_boards_own() -> None:
    for options in (BuildOptions(regions=(("ram", 100),)), BuildOptions(arena_limit=100)):
        with pytest.raises(UsageError, match="boards' own"):
            fit(MODEL, options)


@pytest.mark.emulator
def test_counts_are_those_of_bench(need_tool: Callable[[str], str]) -> None:
    need_tool("qemu-system-arm")
    (row,) = fit(MODEL, BuildOptions(), boards=[nrf()]).boards
    assert row.instructions is not None
    assert row.est_cycles is not None
    assert 20_000 < row.instructions < row.est_cycles < 2 * row.instructions


def test_the_firmware_and_its_stack_count(counted: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    (alone,) = fit(MODEL, BuildOptions(), boards=[nrf()]).boards
    room = {"ram": 1000, "flash": 2000, "stack": 1512}
    monkeypatch.setattr(fitting, "_firmware", firmware_of(**room))
    beside = 1000 + 1512  # the model's own stack is below that
    whole = alone.ram_bytes + beside
    boards = [
        sized(nrf(), "exact", ram=whole), sized(nrf(), "one_less", ram=whole - 1),
        sized(nrf(), "roomy", ram=whole * 10 // 9 + 9), sized(nrf(), "none", ram=min_ram_of(nrf()) + beside - 7),
        sized(nrf(), "no_flash", flash=alone.flash_bytes + 1999),
    ]  # fmt: skip
    rows = {b.board: b for b in fit(MODEL, BuildOptions(), boards=boards).boards}
    assert {name: (row.objective, row.tight) for name, row in rows.items()} == {
        "exact": ("time", True), "one_less": ("min", True), "roomy": ("time", False), "none": (None, False),
        "no_flash": ("min" if alone.flash_bytes > rows["no_flash"].flash_bytes else None, rows["no_flash"].tight),
    }  # fmt: skip
    assert (rows["exact"].firmware_ram_bytes, rows["exact"].ram_part) == (beside, 1.0)
    assert rows["none"].short == {"ram": 7}


@pytest.mark.emulator
def test_what_fits_can_be_linked(need_tool: Callable[[str], str]) -> None:
    """The least RAM that is said to do is enough for an image that runs, and what is said to be too little is."""
    need_tool("qemu-system-arm")
    (row,) = fit(MODEL, BuildOptions(), boards=[load_board("microbit")]).boards
    assert row.objective == "time"
    built = artifact.build_sources(MODEL, load_board("microbit"), BuildOptions()).sources
    for spare, works in ((0, True), (-900, False)):  # what the linker leaves out of the runtime is little
        board = sized(load_board("microbit"), "microbit", ram=row.ram_bytes + row.firmware_ram_bytes + spare)
        board = replace(board, emulator=None)
        if works:
            link_agent(built, board, BuildOptions())
        else:
            with pytest.raises(BuildError, match="does not fit"):
                link_agent(built, board, BuildOptions())


ROWS = (
    BoardFit("a", "A", "cortex-m4", 64_000_000, False, "time", 100, 2048, 10, 10_000, {}, 10, 64, "a", (-0.2, 0.4)),
    BoardFit("b", "B", "cortex-m3", None, False, "min", 90, 95, 10, 10_000),
    BoardFit("c", "C", "cortex-m3", 1, True, None, 90, 80, 10, 9, {"ram": 10, "arena": 5, "flash": 1}),
    BoardFit("d", "D", "cortex-m3", 1, True, None, 90, 200, 10, 90, {"arena": 1_005}),
)


def test_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Any] = []

    def stub(
        path: Path, options: BuildOptions, at: Mapping[str, int], boards: list[Board], seen: Callable[[BoardFit], None]
    ) -> FitReport:
        asked.append((options.dims, at, [b.name for b in boards], options.opt))
        seen(ROWS[0])
        return FitReport("m.tflite", {"n": (1, 4)}, ROWS, ("one note",))

    monkeypatch.setattr("sdk.driver.fitting.fit", stub)
    monkeypatch.setattr("sdk.cli.progress.is_shown", lambda _: True)
    assert run_command(["fit", str(MODEL), "--dim", "n=1:4", "--at", "n=2", "--opt", "size"]) == 0
    text, told = capsys.readouterr()
    assert "a: fits: yes, 100 bytes of RAM, 10 of flash, est. 0.001 ms\n" in told
    dims, at, boards, opt = asked[0]
    assert (dims, at, opt) == ({"n": (1, 4)}, {"n": 2}, "size")
    assert "nucleo_l4r5zi" in boards
    assert not any(load_board(name).emulated_only for name in boards)
    assert "m.tflite: fits 2 of 4 boards" in text
    assert re.search(r"^a +cortex-m4 +64 +yes +100 +5% +10 +<1% +10 +0.001 *$", text, re.MULTILINE)
    assert re.search(r"^b +cortex-m3 +- +min ", text, re.MULTILINE)
    assert "c: 10 bytes of RAM too few, 1 bytes of flash too few" in text
    assert "d: its first memory is 1,005 bytes too small" in text
    assert "least RAM of a board that it fits: b" in text
    assert "-20%..+40% (cortex-m4)" in text
    assert text.endswith("one note\n")
    assert run_command(["fit", str(MODEL), "--all", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert any(load_board(name).emulated_only for name in asked[1][2])
    assert [b["fits"] for b in data["boards"]] == [True, True, False, False]
    assert data["boards"][0]["est_ms"] == 0.001
    assert data["notes"] == ["one note"]


def test_json_is_as_documented() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    (part,) = re.findall(r"^## fit\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    fields = set(re.findall(r"^\| `(\w+)`", part, re.MULTILINE))
    data = FitReport("m", {}, ROWS).to_json()
    assert fields == data.keys() | data["boards"][0].keys()
