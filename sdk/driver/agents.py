"""Agents: a model's sources linked with the device runtime into a host program or a firmware image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sdk.boards import Board
from sdk.boards.board import Watchdog
from sdk.boards.chip import WORD, Step, find_field, find_register
from sdk.codegen_c.base import Runtime
from sdk.driver.backends import backend_for, runtime_of
from sdk.driver.external import chip_c, external_of
from sdk.driver.machines import placed
from sdk.driver.options import BuildOptions
from sdk.driver.sources import Sources, compile_sources
from sdk.driver.targets import target_of
from sdk.errors import BuildError, UsageError
from sdk.resources import data_dir
from sdk.steps import step
from sdk.toolchains import Blob, CompileJob, LinkJob, LinkKind, SourceText, Target, toolchain_for
from sdk.toolchains.base import headers_in
from sdk.toolchains.boot import sign_boot
from sdk.toolchains.cache import digest
from sdk.toolchains.includes import included, mentioned
from sdk.toolchains.linker import Region, region_overflows, render_linker_script
from sdk.toolchains.size import Sections, section_sizes

__all__ = ["link_agent", "runtime_board", "runtime_parts", "runtime_sizes"]

_DRIVERS = ("uart_", "timer_", "boot_", "watchdog_", "external_")  # files of a port of which a board chooses
_IMAGE_ID = "SDK_RT_IMAGE_ID"  # the macro with the hash that an agent tells of its image
_ID_DIGITS = 32
SMALL_RAM = 32 * 1024  # up to this the agent talks in shorter frames, at one rate
_SETS_RATE = "sdk_rt_uart_baud("  # in drivers of UARTs that can change their rate


def link_agent(
    sources: Sources, board: Board, options: BuildOptions, profiled_ops: int = 0, device: str | None = None
) -> Path:
    """The agent of ``sources`` for ``board`` as ``device`` shows it (``placed``), from the cache or built as the
    options say; with ``profiled_ops`` it tells of that many operations what they take.

    Raises:
        BuildError: it does not compile, or does not fit the board's memory (by how much, in which region).
        UsageError: the runtime has no driver for the board's peripherals, or runs no code of the backend.
    """
    if device is not None and not device.startswith("local:") and _weights_beside(sources):
        raise UsageError(
            "the file of weights is not sent to other machines",
            where=device,
            hint="build with the weights in the program: leave out --weights file",
        )
    how, target = runtime_of(sources.backend), target_of(board, options)
    if options.gpu == "webgpu":
        raise UsageError(
            "a program of its own has no WebGPU", why="browsers have it",
            hint="sdk new web MODEL --gpu webgpu makes a page that runs the model there",
        )  # fmt: skip
    toolchain = toolchain_for(target, options.toolchain)
    place = placed(board, device)
    runtime, defines, script = runtime_parts(how, place, options)
    hooks: tuple[str, ...] = ()
    if profiled_ops:
        hooks = (f"SDK_RT_PROFILE_OPS={profiled_ops}u", *how.hooks(sources.prefix))
        defines = (*defines, hooks[0])
    elif options.watchdog is not None:
        hooks = (f"SDK_RT_WATCHDOG_MS={options.watchdog}u", *how.feeding(sources.prefix))
    flags = toolchain.compile_flags(CompileJob(SourceText("any.c", ""), target))
    built = (list(defines), script or "", sources.key, list(hooks))
    key = digest("agent", toolchain.version(), repr(target), flags, runtime, *built)

    def make(folder: Path) -> None:
        files = {**sources.model, **sources.agent}
        told = {name: text for name, text in files.items() if isinstance(text, str) and _IMAGE_ID in text}
        others = {name: text for name, text in files.items() if name not in told}
        objects = compile_sources(others, toolchain, target, pic=board.hosted, defines=hooks)
        named = (*hooks, f'{_IMAGE_ID}="{key[:_ID_DIGITS]}"')
        beside = {**told, **{name: text for name, text in files.items() if name.endswith(".h")}}
        objects += compile_sources(beside, toolchain, target, pic=board.hosted, defines=named)
        objects += tuple(toolchain.compile_all(_jobs(runtime, defines, target)))
        kind: LinkKind = "executable" if script is None else "firmware"
        libs = (("pthread", "dl") if options.gpu else ("pthread",)) if script is None else ()
        job = LinkJob(kind, objects, target, script=script, libs=libs)
        for name, data in _weights_beside(sources).items():
            SourceText(name, data).write(folder)  # where the program looks for it
        try:
            toolchain.link(job, folder / "agent")
            sign_boot(folder / "agent", place.runtime.boot)
        except BuildError as err:
            raise _explained(err, board) from None

    with step(f"building the {'program' if board.hosted else 'firmware'} that runs it on {board.name}"):
        return toolchain.cache.entry(key, make) / "agent"


def _weights_beside(sources: Sources) -> dict[str, str | Blob]:
    """The file of weights that the program of a model maps."""
    taken_in = f"{sources.prefix}_weights.S" in sources.model
    return {n: data for n, data in sources.model.items() if isinstance(data, Blob) and not taken_in}


def _jobs(runtime: Mapping[str, str], defines: tuple[str, ...], target: Target) -> list[CompileJob]:
    """The units of the runtime, each with the macros and headers that it can see: boards of one core then share the
    others."""
    headers = {header.name: header for header in headers_in(data_dir("c_runtime") / "include")}
    texts = {name: str(header.text) for name, header in headers.items()}
    jobs = []
    for name, text in runtime.items():
        seen = included(name, text, texts)
        told = mentioned(defines, [text, *(texts[one] for one in seen)])
        used = tuple(headers[one] for one in seen)
        jobs.append(CompileJob(SourceText(name, text), target, headers=used, defines=told))
    return jobs


def runtime_board(board: Board, place: Board) -> Board:
    """The board whose agent tells what one on ``board`` takes: ``place``, which has a port, or ``board`` itself where
    little RAM makes frames shorter."""
    return board if board.ram_bytes is not None and board.ram_bytes <= SMALL_RAM else place


def runtime_sizes(board: Board, place: Board, options: BuildOptions) -> Sections:
    """What the agent's own code takes on ``board``, without a model: compiled for the target of ``place``.

    Raises:
        UsageError: there is no port.
    """
    target, how = target_of(place, options), runtime_of(backend_for(place, options).name)
    runtime, defines, _ = runtime_parts(how, placed(board, None))
    objects = toolchain_for(target, options.toolchain).compile_all(_jobs(runtime, defines, target))
    return section_sizes(o.path for o in objects)


def runtime_parts(
    how: Runtime, place: Board, options: BuildOptions | None = None
) -> tuple[dict[str, str], tuple[str, ...], str | None]:
    """Runtime sources by name, the macros they want, and the linker script (None for a hosted board). ``options`` say
    whether a watchdog runs, and where weights are.

    Raises:
        UsageError: the runtime has no driver for the board's peripherals, or it has no such watchdog, or no external
            flash.
    """
    watchdog, external = (None, False) if options is None else (options.watchdog, options.weights == "external")
    root = data_dir("c_runtime")
    names = [path.relative_to(root).as_posix() for part in how.parts for path in sorted(root.glob(part))]
    macros = [f'SDK_RT_DEVICE_NAME="{place.name}"']
    script = None
    dog = None if watchdog is None else _watchdog(place, watchdog)
    if place.hosted:
        names += ["port/posix/main.c", "port/posix/pool.c"]
        macros.append("SDK_RT_FRAME_MAX=65536u")
    else:
        port = f"port/{place.runtime.port}"
        names += sorted(f"port/bare/{p.name}" for p in (root / "port" / "bare").glob("*.c"))
        names += sorted(f"{port}/{p.name}" for p in (root / port).glob("*.c") if not p.name.startswith(_DRIVERS))
        uart, timer = place.runtime.uart, place.runtime.timer
        for role, device in (("uart", uart), ("timer", timer)):
            names.append(_driver(place, port, role, device.kind if device else "none"))
            if (place.ram_bytes or 0) > SMALL_RAM and _SETS_RATE in (root / names[-1]).read_text(encoding="utf-8"):
                macros.append("SDK_RT_BAUDS=1")
            assert device is not None  # _driver raises for a missing one
            macros += [
                f"SDK_RT_{role.upper()}_BASE={device.base:#x}u",
                f"SDK_RT_{role.upper()}_HZ={device.hz}u",
                f"SDK_RT_{role.upper()}_SCALE={device.scale}u",
            ]
        if place.core.cache is not None and place.core.cache.d:
            macros.append("SDK_RT_CACHES=1")
        if dog is not None:
            names.append(_driver(place, port, "watchdog", dog.kind))
            macros += [f"SDK_RT_WATCHDOG_{key}u" for key in (f"BASE={dog.base:#x}", f"HZ={dog.hz}", f"MS={watchdog}")]
        if external:
            chip = external_of(place)
            names.append(_driver(place, port, "external", chip.kind))
            macros += ["SDK_RT_EXTERNAL=1", f"SDK_RT_EXTERNAL_BASE={chip.base:#x}u"]
        if place.runtime.boot is not None:
            names.append(f"{port}/boot_{place.runtime.boot}.c")
            macros.append(f"SDK_RT_FLASH_BYTES={place.regions('flash')[0].size}u")
        macros.append(f"SDK_RT_FRAME_MAX={256 if (place.ram_bytes or 0) <= SMALL_RAM else 512}u")
        regions = [Region(m.name, m.kind, m.base, m.size, m.data_base) for m in place.memory]
        script = render_linker_script(regions, place.runtime.stack_bytes, place.runtime.vectors_align)
    sources = {name.rsplit("/", 1)[1]: (root / name).read_text(encoding="utf-8") for name in names}
    if place.steps:
        sources["setup.c"] = _setup(place, "board", "the drivers run", place.steps)
    if dog is not None:
        sources["watchdog_setup.c"] = _setup(place, "watchdog", "the watchdog starts", place.watchdog_steps)
        sources["watchdog_setup.c"] += _was_it(place)
    if external and not place.hosted:
        sources["external_setup.c"] = _setup(place, "external", "the flash chip is mapped", place.external_steps)
        sources["external_setup.c"] += chip_c(place)
    return sources, tuple(macros), script


def _watchdog(place: Board, ms: int) -> Watchdog:
    """The board's watchdog. Raises UsageError where it has none, or none for so long."""
    dog = place.runtime.watchdog
    if dog is None:
        raise UsageError(
            f"the runtime has no watchdog on {place.name}",
            why="programs of an operating system are ended by it" if place.hosted else "its file names none there",
            hint="leave out --watchdog; sdk boards show NAME prints runtime.watchdog of those that have one",
        )
    if ms > dog.longest:
        raise UsageError(
            f"the watchdog of {place.name} cannot wait {ms:,} ms", hint=f"--watchdog {dog.longest} is the longest"
        )
    return dog


def _was_it(place: Board) -> str:
    """The C that says whether the watchdog caused the last reset, and has the chip forget it."""
    dog = place.runtime.watchdog
    lines = ["", "bool sdk_rt_watchdog_was_it(void)", "{"]
    if dog is None or not dog.caused:
        return "\n".join([*lines, "    return false;", "}", ""])
    at, low, mask = find_field(place.blocks, dog.caused)
    lines.append(f"    /* {dog.caused} */")
    lines.append(f"    bool was_it = ({_lvalue(place, dog.caused, at)} & {mask:#x}u) == {dog.caused_value << low:#x}u;")
    if dog.forget:
        forget, _, bits = find_field(place.blocks, dog.forget)
        lines.append(f"    {_lvalue(place, dog.forget, forget)} |= {bits:#x}u; /* {dog.forget} */")
    return "\n".join([*lines, "    return was_it;", "}", ""])


def _lvalue(place: Board, field: str, at: int) -> str:
    """A register in C, as wide as it is."""
    return _register(find_register(place.blocks, field.rpartition(".")[0])[1].width, at)


def _register(width: int, at: int) -> str:
    return f"SDK_RT_REG{'' if width == 32 else width}({at:#010x}u)"


def _setup(place: Board, what: str, before: str, steps: Sequence[Step]) -> str:
    """The C that sets registers of the board's file. A bit that never comes is waited for some milliseconds: then a
    board that lacks an oscillator answers too, if at another rate."""
    lines = [f"/* Registers that the file of {place.name} sets before {before}. */"]
    headers = ("bare.h",) if what == "board" else ("bare.h", f"{what}.h")
    lines += [*(f'#include "internal/{name}"' for name in headers), "", f"void sdk_rt_{what}_setup(void)", "{"]
    if any(one.mask for one in steps):
        lines.append("    uint32_t looks;")
    for one in steps:
        register = _register(one.width, one.at)
        kind = f"uint{one.width}_t"
        lines.append(f"    /* {one.register}: {one.source} */")
        if one.clear == WORD:
            lines.append(f"    {register} = {one.set:#x}u;")
        elif one.clear:
            lines.append(f"    {register} = ({kind})(({register} & ~{one.clear:#x}u) | {one.set:#x}u);")
        if one.mask:
            waits = f"({register} & {one.mask:#x}u) != {one.wait:#x}u"
            lines += [f"    for (looks = 0; {waits} && looks < SDK_RT_PATIENCE; ++looks) {{", "    }"]
    return "\n".join([*lines, "}", ""])


def _driver(place: Board, port: str, role: str, kind: str) -> str:
    name = f"{port}/{role}_{kind}.c"
    if not (data_dir("c_runtime") / name).is_file():
        raise UsageError(
            f"the runtime has no {role} driver of kind {kind!r} for {place.name}",
            hint="use --emit c and your own firmware, or write the driver beside those in c_runtime/port",
        )
    return name


def _explained(err: BuildError, board: Board) -> BuildError:
    overflow = region_overflows(f"{err.message}\n{err.why or ''}")
    if not overflow:
        return err
    text = ", ".join(f"{name} by {lacking} bytes" for name, lacking in overflow.items())
    sizes = ", ".join(f"{m.name} {m.size} bytes" for m in board.memory)
    memories = {m.name for m in board.regions("ram")}
    free = sorted(memories - overflow.keys())
    elsewhere = f"--region {free[0]}=BYTES puts the arena elsewhere; " if free and memories & overflow.keys() else ""
    return BuildError(
        f"the model with the device runtime does not fit {board.name}: over {text}",
        where=f"{board.name} has {sizes}",
        hint=f"{elsewhere}sdk memory MODEL --board B shows what takes RAM and what --memory min needs; "
        "sdk boards lists larger",
    )
