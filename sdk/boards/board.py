"""What a board is: frozen records of cores, memory, compilers, emulator and peripherals, as its file has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import Annotated, Literal, get_args

from msgspec import Meta, structs
from msgspec import field as key

from sdk.boards.base import Size, Table
from sdk.boards.chip import Block, Clock, Factor, Setup, Step, clock_hz
from sdk.boards.external import External

Capability = Literal[
    # Arm's M profile
    "thumb", "thumb2", "dsp", "mve", "mve-fp", "fpu-sp", "fpu-dp", "fpu-half", "dual-issue",
    # any: unaligned loads and stores of words, division in hardware
    "unaligned", "div",
    # RISC-V: multiplication
    "rvm",
    # AArch64
    "neon", "dotprod", "fp16", "i8mm", "bf16", "sve", "sve2",
    # x86-64
    "sse2", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c", "avxvnni",
    "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16", "avx512fp16",
    # WebAssembly
    "simd128", "relaxed-simd",
]  # fmt: skip
CAPABILITIES: frozenset[str] = frozenset(get_args(Capability))
_PLACEHOLDERS = ("elf", "serial", "shift", "runtime")


class Cache(Table, frozen=True):
    """Cache sizes of one core in bytes; 0 where there is none. ``line`` is the line size in bytes."""

    i: Size = key(default_factory=Size)
    d: Size = key(default_factory=Size)
    line: int = 0


class Core(Table, frozen=True):
    """One processor core: what it can execute, never what it is called."""

    name: str
    cpu: str  # the compiler's name for it, "native" for the machine we run on
    arch: str = ""  # armv6-m, armv7-m, armv7e-m, armv8-m.main, armv8.1-m.main, rv32, x86_64, aarch64, wasm
    capabilities: frozenset[Capability] = frozenset()
    pointer_bits: int = 32
    fpu: str | None = None
    float_abi: Literal["soft", "softfp", "hard"] = "soft"
    clock_hz: Annotated[int, Meta(ge=1)] | None = None
    cache: Cache | None = None


class Memory(Table, frozen=True):
    """One memory region: ``size`` bytes at ``base``; ``kind`` is flash or ram, ``attrs`` r, w, x, dma ... Where the
    core only fetches instructions at ``base``, ``data_base`` is where it loads the same bytes from."""

    name: str
    base: int
    size: Size
    kind: Literal["flash", "ram"]
    attrs: frozenset[str] = frozenset()
    data_base: int | None = None

    @property
    def end(self) -> int:
        """First address after the region."""
        return self.base + self.size

    def overlaps(self, other: Memory) -> bool:
        """Say whether the two regions share an address, wherever they are seen."""
        return any(
            one < two + other.size and two < one + self.size for one in self.bases for two in other.bases
        )

    @property
    def bases(self) -> tuple[int, ...]:
        """All addresses at which it begins."""
        return (self.base,) if self.data_base is None else (self.base, self.data_base)


class Zig(Table, frozen=True):
    """How zig is told about a board; ``cpu`` "native" stands for its capabilities. Libraries are for the system
    ``library``, where that is another than the one that ``target`` names, which programs of ours are for."""

    cpu: str
    target: str = ""
    library: str = ""


class Gcc(Table, frozen=True):
    """The gcc that builds for a board."""

    command: str
    flags: tuple[str, ...] = ()


class Compilers(Table, frozen=True):
    """How each compiler is told about this board; ``gcc`` is None where none builds for it."""

    zig: Zig
    gcc: Gcc | None = None
    opt: Literal["1", "2", "3", "s", "z"] = "2"


class Emulator(Table, frozen=True):
    """The emulated target: a command line with placeholders, and where it keeps the board's regions.

    ``{elf}`` is the image or program, ``{runtime}`` the folder of the device runtime.
    ``memory`` maps a region's name to its base on that machine; the region keeps the board's size.
    ``icount_shift`` N makes each instruction last 2**N ns of guest time; None where instructions are not counted,
    as for a process in user mode. ``timed``: what runs in it takes the time that it takes for users too, as in the
    engine of a browser; times are measured and nothing is counted.
    """

    argv: tuple[str, ...] = ()
    icount_shift: int | None = None
    memory: dict[str, Size] = key(default_factory=dict)
    fidelity: Literal["isa", "soc"] = "isa"  # isa: instruction set only | soc: peripherals too
    timed: bool = False

    def __post_init__(self) -> None:
        for name in (name for part in self.argv for _, name, _, _ in Formatter().parse(part)):
            if name not in (None, *_PLACEHOLDERS):
                raise ValueError(f"argv has an unknown placeholder {{{name}}}\none of {', '.join(_PLACEHOLDERS)}")

    @property
    def program(self) -> str:
        """The emulator's executable name."""
        return self.argv[0]


class Peripheral(Table, frozen=True):
    """A memory-mapped block the runtime drives: driver ``kind``, ``base`` address, input clock in Hz.

    ``over`` is what divides the core's clock to give it, none where it has a clock of its own (a timer never has). A
    UART's divisor counts parts of which ``scale`` are a whole.
    """

    kind: str
    base: int = 0
    hz: int = 0
    scale: int = 1
    over: tuple[Factor, ...] | None = None


class Watchdog(Table, frozen=True):
    """What restarts the board when its firmware hangs: driver ``kind``, ``base`` address, Hz of its clock, the longest
    time in ms for which it can be set. ``setup`` are registers that are set before it starts. The field ``caused``
    (BLOCK.REGISTER.FIELD) is ``caused_value`` after a reset of its, until ``forget`` is set; empty where nothing tells.
    """

    kind: str
    base: int
    hz: Annotated[int, Meta(ge=1)]
    longest: Annotated[int, Meta(ge=1)]
    setup: tuple[Setup, ...] = ()
    caused: str = ""
    caused_value: int = 1
    forget: str = ""


class Runtime(Table, frozen=True):
    """What the on-device runtime needs: its port, the stack in bytes (0 where the system gives one), and the
    peripherals it drives.

    ``uart`` and ``timer`` are those of the real board; ``emulated_uart`` and ``emulated_timer``
    replace them on the emulated target where the two differ. ``setup`` are the registers of the real board that are set
    before its drivers run, in order: clocks, pins, wait states. ``registers`` names the file of ``boards/registers``
    that has them, and ``clock`` is what they make of the core's clock. ``watchdog`` is that of the real board, and
    ``external`` its flash chip that holds weights.
    """

    port: Literal["posix", "cortex_m", "riscv"]
    stack_bytes: Size = key(default_factory=Size, name="stack")
    uart: Peripheral | None = None
    timer: Peripheral | None = None
    emulated_uart: Peripheral | None = None
    emulated_timer: Peripheral | None = None
    registers: str | None = None
    setup: tuple[Setup, ...] = ()
    boot: str | None = None  # what the chip's ROM looks for in flash: boot_KIND.c of the port
    vectors_align: int = 4
    clock: Clock | None = None
    watchdog: Watchdog | None = None
    external: External | None = None


class Usb(Table, frozen=True):
    """What a board, or the debugger on it, says of itself on USB: vendor, product (any where there is none), and a part
    of the product's name. ``loader``: it does so while its boot loader waits for an image."""

    vid: Annotated[int, Meta(ge=0, le=0xFFFF)]
    pid: Annotated[int, Meta(ge=0, le=0xFFFF)] | None = None
    product: str = ""
    loader: bool = False


Setting = int | str | tuple[str, ...]  # of a runner: a number, a text, or several arguments


class Fastest(Table, frozen=True):
    """The fastest core of a phone or a computer, where that is not the one that code is made for: its ``pipelines`` of
    128 bits, each of which begins a multiply-add in every cycle; bytes a second of the chip's memory."""

    cpu: str
    clock_hz: Annotated[int, Meta(ge=1)]
    pipelines: Annotated[int, Meta(ge=1)]
    memory_bytes_s: Annotated[int, Meta(ge=1)]


class Gpu(Table, frozen=True):
    """The GPU of a phone or a computer, and the ``interfaces`` that programs of its system have of it. Its limits are
    asked of the device when a model is put there."""

    name: str
    interfaces: tuple[Literal["opencl", "vulkan", "metal"], ...]


class About(Table, frozen=True):
    """What a board is called and how far it is tested."""

    title: str
    vendor: str = ""
    tier: int = 3  # 1: on hardware, 2: under emulation, 3: by its users
    aliases: tuple[str, ...] = ()
    machine: Literal["real", "emulated", "this"] = "real"  # emulated: it stands for a core, there is none to buy
    silicon: str = ""  # who ran an image of ours on the board itself, and when


class Provenance(Table, frozen=True):
    """Where the facts come from."""

    sources: tuple[str, ...] = ()


class BoardFile(Table, frozen=True):
    """A board's file, merged with those that it extends."""

    schema: Literal[1]
    board: About
    compilers: Compilers
    runtime: Runtime
    core: tuple[Core, ...] = ()
    memory: tuple[Memory, ...] = ()
    emulator: Emulator | None = None
    fastest: Fastest | None = None
    gpu: Gpu | None = None
    usb: tuple[Usb, ...] = ()
    flash: dict[str, dict[str, Setting]] = key(default_factory=dict)
    projects: dict[str, dict[str, Setting]] = key(default_factory=dict)
    provenance: Provenance = Provenance()


@dataclass(frozen=True)
class Board:
    """Everything the compiler, the linker and the devices may ask about a target."""

    name: str
    title: str
    vendor: str
    tier: int  # 1: tested on hardware, 2: tested under emulation, 3: community
    aliases: tuple[str, ...]
    cores: tuple[Core, ...]
    memory: tuple[Memory, ...]
    compilers: Compilers
    runtime: Runtime
    emulator: Emulator | None
    flash: Mapping[str, Mapping[str, Setting]]  # what flashes it, the preferred first, and what each is told
    projects: Mapping[str, Mapping[str, Setting]]  # by kind of project, what it calls the board
    sources: tuple[str, ...]  # where the facts come from
    origin: Mapping[str, str]  # dotted key -> the file that set it
    emulated_only: bool  # it stands for a core, there is none to buy
    usb: tuple[Usb, ...] = ()  # by which it is found
    silicon: str = ""  # who ran an image of ours on the board itself, and when
    blocks: Mapping[str, Block] = field(default_factory=dict)  # registers of its chip, by block
    steps: tuple[Step, ...] = ()  # runtime.setup, with addresses and bits
    watchdog_steps: tuple[Step, ...] = ()  # runtime.watchdog.setup
    external_steps: tuple[Step, ...] = ()  # runtime.external.setup
    fastest: Fastest | None = None
    gpu: Gpu | None = None

    @property
    def core(self) -> Core:
        """The core that runs models."""
        return self.cores[0]

    @property
    def run_hz(self) -> int | None:
        """The main core's clock when an image of ours runs: what start-up makes it, else the highest that there is."""
        clock = self.runtime.clock
        return self.core.clock_hz if clock is None else round(clock_hz(self.blocks, self.steps, clock))

    @property
    def capabilities(self) -> frozenset[str]:
        """What the main core can execute."""
        return self.core.capabilities

    @property
    def pointer_bits(self) -> int:
        """Width of an address on the main core."""
        return self.core.pointer_bits

    @property
    def evidence(self) -> Literal["silicon", "emulator", "model", "core"]:
        """Where images of ours for this board have run: on it; in an emulator that others wrote of it; under Unicorn on
        a model of ours made from the same file; or on another machine that has its core."""
        if self.silicon or (self.hosted and self.emulator is None):
            return "silicon"
        if self.emulator is not None and (self.hosted or self.emulator.fidelity == "soc"):
            return "emulator"
        return "model" if self.runtime.uart is not None and self.runtime.timer is not None else "core"

    @property
    def untested(self) -> bool:
        """Whether nothing but models of ours has shown that what is built for it works there."""
        return self.evidence in ("model", "core")

    @property
    def hosted(self) -> bool:
        """Whether programs run under an operating system, with no fixed memory regions of their own."""
        return not self.memory

    def regions(self, kind: str) -> tuple[Memory, ...]:
        """Return the regions of one kind ("flash" or "ram") in declared order."""
        return tuple(region for region in self.memory if region.kind == kind)

    @property
    def external(self) -> Memory | None:
        """The memory of the flash chip beside the microcontroller, which only weights may lie in."""
        name = self.runtime.external.memory if self.runtime.external else None
        return next((region for region in self.memory if region.name == name), None)

    @property
    def flash_bytes(self) -> int | None:
        """Total flash in bytes but that of ``external``, None on a hosted board."""
        return None if self.hosted else sum(r.size for r in self.regions("flash") if r is not self.external)

    @property
    def ram_bytes(self) -> int | None:
        """Total RAM in bytes, None on a hosted board."""
        return None if self.hosted else sum(region.size for region in self.regions("ram"))

    def as_emulated(self) -> Board:
        """Return the board as its emulated target shows it: regions moved, sizes kept, peripherals replaced.

        A board without an emulator is returned unchanged.
        """
        if self.emulator is None:
            return self
        bases = self.emulator.memory
        moved = tuple(
            structs.replace(region, base=bases[region.name], data_base=None) if region.name in bases else region
            for region in self.memory
        )
        runtime = structs.replace(
            self.runtime,
            uart=self.runtime.emulated_uart or self.runtime.uart,
            timer=self.runtime.emulated_timer or self.runtime.timer,
        )
        if self.emulator.fidelity != "soc":
            runtime = structs.replace(runtime, boot=None, watchdog=None, external=None)
        if runtime.external is None and self.external is not None:
            moved = tuple(region for region in moved if region.name != self.external.name)
        steps = self.steps if self.emulator.fidelity == "soc" else ()
        return replace(self, memory=moved, runtime=runtime, steps=steps)
