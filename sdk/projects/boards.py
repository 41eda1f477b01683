"""``sdk new board``: a board's file from what PlatformIO or probe-rs knows of the board or its chip."""

from __future__ import annotations

import errno
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sdk.boards.files import read_merged, search_path
from sdk.boards.read import board_from_table
from sdk.boards.table import parse_size, suggest
from sdk.errors import MissingToolError, UsageError
from sdk.files import read_regular, replacing
from sdk.installs import pip_command
from sdk.resources import data_dir
from sdk.text import printable

__all__ = ["BoardReport", "new_board"]

MAX_BYTES: Final = 16 << 20  # of a file to import; those of probe-rs hold programs for flash
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
_ADDRESSES: Final = 1 << 32
_PORTS: Final = {"arm": "cortex_m", "rv3": "riscv"}


@dataclass(frozen=True)
class Region:
    """A memory: where it is, None where that is not known."""

    name: str
    base: int | None
    size: int
    kind: str


@dataclass(frozen=True)
class Facts:
    """What a file tells of a board: the chip, its core by PlatformIO's name of it or by probe-rs's type, memories, what
    flashes it, and what it says of itself on USB."""

    title: str
    vendor: str
    chip: str
    source: str
    cpu: str | None = None
    core_type: str | None = None
    clock_hz: int | None = None
    memory: tuple[Region, ...] = ()
    flash: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    usb: tuple[tuple[int, int], ...] = ()  # vendor and product


@dataclass(frozen=True)
class BoardReport:
    """The file that was written: which of ours it extends (None: no file has its chip), and what is left to fill in;
    ``valid`` says whether it can be loaded as it is."""

    name: str
    out: Path
    source: str
    extends: str | None
    fill_in: tuple[str, ...]
    valid: bool

    def to_json(self) -> dict[str, Any]:
        """The object of ``--json``."""
        return {
            "name": self.name, "out": str(self.out), "source": self.source, "extends": self.extends,
            "fill_in": list(self.fill_in), "valid": self.valid,
        }  # fmt: skip


def new_board(name: str, source: Path, chip: str | None, out: Path, *, force: bool = False) -> BoardReport:
    """Writes the file of board ``name`` from a PlatformIO JSON or a probe-rs YAML, of whose chips ``chip`` is taken.

    Raises:
        UsageError: the file is neither, has no such chip, or ``out`` is there already.
        MissingToolError: no reader of YAML is installed.
    """
    if not _NAME.fullmatch(name):
        near = re.sub(r"[^a-z0-9_-]+", "_", name.lower()).strip("_-") or "board"
        raise UsageError(f"not a name for a board: {name!r}", hint=f"small letters, digits, _ and -: {near}")
    if out.exists() and not force:
        raise UsageError(f"{out} is there already", hint="name another file with -o FILE, or overwrite it with --force")
    try:
        data = read_regular(source, MAX_BYTES)
    except OSError as error:
        why = "it is too large" if error.errno == errno.EFBIG else error.strerror
        raise UsageError(f"cannot read {source}", why=why, hint="check the path after --from") from None
    facts = _platformio(source, data, chip) if source.suffix == ".json" else _probe_rs(source, data, chip)
    known = _known_chip(facts.chip)
    text, fill_in = _file(facts, known)
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as file:
        file.write(text.encode())
    valid = True
    try:
        merged, origin = read_merged(out)
        board_from_table(name, merged, origin, str(out))
    except UsageError as error:
        valid = False
        fill_in.insert(0, f"{error.message}{': ' + error.why if error.why else ''}")
    return BoardReport(name, out, facts.source, known, tuple(fill_in), valid)


def _platformio(source: Path, data: bytes, chip: str | None) -> Facts:
    """What a board's JSON of PlatformIO tells."""
    try:
        told = json.loads(data.decode())
        build, upload, debug = told["build"], told["upload"], told.get("debug", {})
        mcu, cpu = str(chip or build["mcu"]), build.get("cpu")
        sizes = [("flash", upload["maximum_size"]), ("ram", upload["maximum_ram_size"])]
        memory = tuple(Region(kind, None, _size(size), kind) for kind, size in sizes)
        clock = re.fullmatch(r"(\d{1,12})L?", str(build.get("f_cpu", "")))
        flash: dict[str, dict[str, object]] = {}
        if "jlink_device" in debug:
            flash["jlink"] = {"device": str(debug["jlink_device"])}
        if "openocd_board" in debug:
            flash["openocd"] = {"config": [f"board/{debug['openocd_board']}.cfg"]}
        elif "openocd_target" in debug:
            flash["openocd"] = {"config": ["interface/cmsis-dap.cfg", f"target/{debug['openocd_target']}.cfg"]}
        url = f", {told['url']}" if "url" in told else ""
        return Facts(
            str(told["name"]), str(told.get("vendor", "")).lower(), mcu, f"PlatformIO {source.name}{url}",
            cpu=None if cpu is None else str(cpu), clock_hz=int(clock[1]) if clock else None, memory=memory,
            flash=flash, usb=tuple((int(vid, 16), int(pid, 16)) for vid, pid in build.get("hwids", ())),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{source} is not a board of PlatformIO", why=why, hint=_KINDS) from None


_KINDS: Final = "give a .json of a platform's folder boards, or a .yaml of probe-rs/targets"


def _size(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < _ADDRESSES:
        raise ValueError(f"{value!r} is no size of a memory")
    return value


def _probe_rs(source: Path, data: bytes, chip: str | None) -> Facts:
    """What a family of chips of probe-rs tells of one."""
    told = _yaml(source, data)
    try:
        variants = {str(one["name"]): one for one in told["variants"]}
        if chip is None and len(variants) > 1:
            shown = ", ".join(list(variants)[:8])
            raise UsageError(f"{source} has {len(variants)} chips", hint=f"name one with --chip: {shown} ...")
        if chip is not None and chip not in variants:
            near = suggest(chip, variants) or f"it has {', '.join(list(variants)[:8])} ..."
            raise UsageError(f"{source} has no chip {chip!r}", where="--chip", hint=near)
        name = chip or next(iter(variants))
        one = variants[name]
        core = one["cores"][0]
        memory = _regions(one["memory_map"], str(core["name"]))
        return Facts(
            name, "", name, f"probe-rs {source.name}", core_type=str(core["type"]), memory=memory,
            flash={"probe-rs": {"chip": name}},
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{source} is not a family of chips of probe-rs", why=why, hint=_KINDS) from None


def _regions(given: Iterable[Any], core: str) -> tuple[Region, ...]:
    """The memories that a core has: flash, and what reads and writes. Aliases of what was there before are left out.
    Versions of probe-rs write ``!Ram`` before a memory, or ``Ram:`` around it."""
    out: list[Region] = []
    for tag, body in (next(iter(one.items())) if isinstance(one, dict) else one for one in given):
        if tag not in ("Nvm", "Ram") or (body.get("cores") and core not in body["cores"]) or body.get("is_alias"):
            continue
        start, end = body["range"]["start"], body["range"]["end"]
        size = _size(end - start)
        kind = "flash" if tag == "Nvm" else "ram"
        boots = (body.get("access") or {}).get("boot") or body.get("is_boot_memory")
        boots = boots or kind == "ram" or not any(r.kind == "flash" for r in out)
        if boots and 0 <= start < _ADDRESSES:
            out.append(Region("", start, size, kind))
    out.sort(key=lambda region: (region.kind, -region.size))  # the largest RAM takes stack and data
    names = [f"{r.kind}{k + 1 if (k := sum(o.kind == r.kind for o in out[:n])) else ''}" for n, r in enumerate(out)]
    return tuple(replace(region, name=name) for region, name in zip(out, names, strict=True))


def _yaml(source: Path, data: bytes) -> Any:
    """The contents of a YAML file; what has a tag is a pair of that and its value.

    Raises:
        MissingToolError: nothing that reads YAML is installed.
        UsageError: it is none, or one thing in it stands for another, which could make it endless.
    """
    if find_spec("yaml") is None:
        raise MissingToolError(
            "the package pyyaml is not installed", why="it reads files of probe-rs", hint=pip_command("pyyaml")
        )
    yaml = import_module("yaml")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        def compose_node(self, parent: object, index: object) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("it has aliases")
            return super().compose_node(parent, index)

    def tagged(loader: Any, tag: str, node: Any) -> tuple[str, Any]:
        if isinstance(node, yaml.MappingNode):
            return tag, loader.construct_mapping(node, deep=True)
        build = loader.construct_sequence if isinstance(node, yaml.SequenceNode) else loader.construct_scalar
        return tag, build(node)

    Loader.add_multi_constructor("!", tagged)
    try:
        return yaml.load(data.decode(), Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
        raise UsageError(f"{source} is not a YAML file", why=why, hint=_KINDS) from None


def _known_chip(chip: str) -> str | None:
    """The file of ours that has a chip: the one with the longest name that the chip's begins with (x: any sign)."""
    stems = [path.stem for folder in search_path() for path in (folder / "soc").glob("*.toml")]
    fits = [stem for stem in stems if re.match(stem.replace("x", "."), chip.lower())]
    return f"soc/{max(fits, key=len)}" if fits else None


def _file(facts: Facts, known: str | None) -> tuple[str, list[str]]:
    """The text of a board's file, and what people have to fill in."""
    lines = [f"# {printable(facts.title)}, imported from {printable(facts.source)}.", "schema = 1"]
    lines += [f"extends = {_toml(known)}"] if known else []
    lines += ["", "[board]", f"title = {_toml(facts.title)}", f"vendor = {_toml(facts.vendor)}", "tier = 3", ""]
    fill_in: list[str] = []
    if known is None:
        fill_in += _unknown(facts, lines)
    else:
        fill_in += _compared(facts, known, lines)
    for name, settings in facts.flash.items():
        lines += [f"[flash.{name}]", *(f"{key} = {_toml(value)}" for key, value in settings.items()), ""]
    for vendor, product in facts.usb:
        lines += ["[[usb]]", f"vid = {vendor:#06x}", f"pid = {product:#06x}", ""]
    lines += ["[provenance]", f"sources{'_append' if known else ''} = {_toml([facts.source])}", ""]
    return "\n".join(lines), fill_in


def _unknown(facts: Facts, lines: list[str]) -> list[str]:
    """The tables of a chip that no file of ours has."""
    table = tomllib.loads((data_dir("templates") / "board" / "cores.toml").read_text(encoding="utf-8"))
    typed = table["by-type"].get(facts.core_type or "", {})
    cpu = facts.cpu or typed.get("cpu", "")
    core = table["by-cpu"].get(cpu)
    fill_in = [note for note in (typed.get("note"), core and core["note"]) if note]
    if core is None:
        lines += ["# [[core]] and [compilers]: FILL IN, as in boards/soc of the tool", ""]
        fill_in.append(f"[[core]] and [compilers]: nothing is known of core {cpu or facts.core_type or '?'}")
    else:
        lines += ["[[core]]", 'name = "main"', *(f"{key} = {_toml(value)}" for key, value in core["core"].items())]
        lines += [f"clock_hz = {facts.clock_hz}"] if facts.clock_hz else []
        lines += ["", "[compilers]", *(f"zig.{key} = {_toml(value)}" for key, value in core["zig"].items())]
        lines += ['gcc.command = "arm-none-eabi-gcc"', f"gcc.flags = {_toml(core['flags'])}", ""]
    for region in facts.memory:
        base = f"base = {region.base:#010x}" if region.base is not None else "# base = 0x FILL IN: its address"
        lines += ["[[memory]]", f"name = {_toml(region.name)}", base, f"size = {region.size}"]
        attrs = ("r", "x") if region.kind == "flash" else ("r", "w")
        lines += [f"kind = {_toml(region.kind)}", f"attrs = {_toml(attrs)}", ""]
        if region.base is None:
            fill_in.append(f"[[memory]] {region.name}: base, its address (the chip's reference manual, memory map)")
    if sum(region.kind == "ram" for region in facts.memory) > 1:
        fill_in.append("[[memory]]: leave out RAM that is another address of the same")
    arch = core["core"]["arch"] if core else "arm"
    lines += ["[runtime]", f"port = {_toml(_PORTS[arch[:3]])}", 'stack = "4K"', ""]
    fill_in.append(
        "[runtime] uart, timer and setup: with them firmware of the tool starts on the board (sdk help adding)"
    )
    return fill_in


def _compared(facts: Facts, known: str, lines: list[str]) -> list[str]:
    """What of a known chip is otherwise on this board: memories that are smaller."""
    path = next(f / f"{known}.toml" for f in search_path() if (f / f"{known}.toml").is_file())
    merged, _ = read_merged(path)
    fill_in, tables, changed = [], [], False
    have = {"flash": 0, "ram": 0}
    for region in merged["memory"]:
        have[region["kind"]] += parse_size(region["size"], known)
    told = {kind: sum(r.size for r in facts.memory if r.kind == kind) for kind in have}
    for region in merged["memory"]:
        kind, size = region["kind"], parse_size(region["size"], known)
        short = have[kind] - told[kind] if told[kind] else 0
        if 0 < short < size and sum(m["kind"] == kind for m in merged["memory"]) == 1:
            size, changed = size - short, True
            fill_in.append(
                f"[[memory]] {region['name']}: {size:,} bytes of {size + short:,} as the file says; where a loader "
                "keeps the beginning, move base"
            )
        elif short:
            fill_in.append(f"[[memory]]: the file says {told[kind]:,} bytes of {kind}, {known} has {have[kind]:,}")
        tables += ["[[memory]]", *(f"{k} = {_toml(size if k == 'size' else v)}" for k, v in region.items()), ""]
    lines += tables if changed else []
    return list(dict.fromkeys(fill_in))


def _toml(value: object) -> str:
    """A value as TOML has it: texts without what a terminal would act on."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(printable(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_toml, value))}]"
    raise UsageError(f"{value!r} has no place in a board's file")
