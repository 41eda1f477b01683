"""What the payloads of wire v1 say: records of devices, models, runs and crashes, and their packed forms."""

from __future__ import annotations

import math
import statistics
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sdk.devices.wire import MAGIC, VERSION
from sdk.errors import LinkError

Counter = Literal["time", "instructions", "cycles"]
COUNTERS: dict[int, Counter] = {1: "time", 2: "cycles"}
DTYPES = {
    1: "int8", 2: "uint8", 3: "int16", 4: "uint16", 5: "int32", 6: "uint32",
    7: "int64", 8: "float16", 9: "float32", 10: "float64", 11: "bool", 12: "uint64",
}  # fmt: skip
_ITEM_BYTES = {
    "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4,
    "int64": 8, "float16": 2, "float32": 4, "float64": 8, "bool": 1, "uint64": 8,
}  # fmt: skip
STATUS_NAMES = {-1: "E_ARG", -2: "E_DIM", -3: "E_ARENA", -4: "E_STATE", -5: "E_SELFTEST"}
# of programs for a GPU: what went wrong on it, in words
GPU_STATUSES = {
    -7: "no such GPU", -8: "the GPU's driver compiles no kernel", -9: "the GPU's memory is out", -10: "the GPU is lost",
    -11: "the model is more than the GPU allows", -12: "the GPU's driver failed",
}  # fmt: skip
MAX_NDIM = 8
# What a device may say of itself: what is more is refused before anything is made room for.
MAX_MODELS = 256
MAX_TENSORS = 1024  # inputs and outputs of one model
MAX_DIMS = 16
MAX_TEXT = 64  # bytes
MAX_TENSOR_BYTES = (1 << 31) - 1  # as of the frontends
_CAN_CANCEL, _CAN_CHANGE_BAUD = 1, 4
WATCHDOG = 0x10000  # the cause of a crash that is no exception (docs/wire.md)
EXTERNAL = 0x10001  # the same
_OTHER_VERSION = "rebuild and flash the firmware with this version of the tool"


@dataclass(frozen=True)
class CrashRecord:
    """Where a device crashed: exception number, program counter, link register, fault status and address."""

    cause: int
    pc: int
    lr: int
    cfsr: int
    addr: int

    def __str__(self) -> str:
        if self.cause == WATCHDOG:
            where = f"; it was at pc=0x{self.pc:08x} lr=0x{self.lr:08x}" if self.pc else ""
            return f"its watchdog restarted it: something hung, or a single operation took longer{where}"
        if self.cause == EXTERNAL:
            return "its external flash does not hold the weights of its image: flash both, with sdk flash"
        return (
            f"exception {self.cause} at pc=0x{self.pc:08x} lr=0x{self.lr:08x} "
            f"cfsr=0x{self.cfsr:08x} address=0x{self.addr:08x}"
        )


@dataclass(frozen=True)
class HelloAck:
    """A device's answer to HELLO. ``rx_max`` and ``tx_max`` are its largest frames in bytes."""

    version: int
    nonce: int
    session: int
    counter: Counter
    rx_max: int
    tx_max: int
    timer_hz: int
    model_count: int
    last_error: int
    crash: CrashRecord | None
    build_id: str
    can_cancel: bool
    can_change_baud: bool


@dataclass(frozen=True)
class DeviceStats:
    """Counts since boot; ``stack_used`` is the deepest use in bytes. Stack sizes are 0 if not measured."""

    stack_bytes: int
    stack_used: int
    frames: int
    damaged: int
    overlong: int


@dataclass(frozen=True)
class DeviceInfo:
    """What is at the other end; ``counter`` is the unit of RunStats, ``last_crash`` of an earlier boot."""

    name: str
    build_id: str
    counter: Counter
    timer_hz: int
    emulated: bool
    rx_max: int
    tx_max: int
    last_crash: CrashRecord | None = None


@dataclass(frozen=True)
class TensorInfo:
    """One input or output; ``shape`` and ``nbytes`` at the dims' upper bounds, ``scale`` 0 if unquantised."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    nbytes: int


@dataclass(frozen=True)
class DimInfo:
    """One dimension bound at run time; inclusive bounds."""

    name: str
    lo: int
    hi: int


@dataclass(frozen=True)
class ModelInfo:
    """One model on a device. Tensor numbers on the wire count inputs first, then outputs."""

    name: str
    hash: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    dims: tuple[DimInfo, ...]
    arena_bytes: int
    state_bytes: int
    context_bytes: int
    has_selftest: bool

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """Inputs, then outputs: the order of tensor numbers."""
        return self.inputs + self.outputs


@dataclass(frozen=True)
class RunStats:
    """Samples of single runs in nanoseconds, instructions or cycles; the cost of measuring is taken off."""

    samples: tuple[float, ...]
    counter: Counter

    @property
    def minimum(self) -> float:
        """The least sample."""
        return min(self.samples)

    @property
    def median(self) -> float:
        """The median sample."""
        return statistics.median(self.samples)

    @property
    def p90(self) -> float:
        """The least sample that at least 90 % of the samples do not exceed."""
        ordered = sorted(self.samples)
        return ordered[-(-9 * len(ordered) // 10) - 1]


@dataclass(frozen=True)
class OpTicks:
    """One operation of a profiled model in one run: what it took, in ticks or nanoseconds, and how often it ran."""

    ticks: float
    calls: int


def fixed_part(payload: bytes, layout: str, what: str) -> tuple[tuple[Any, ...], bytes]:
    """Split a payload that begins with its fixed part's u16 size into the fields after it and the data.

    ``layout`` is a struct format without byte order. Raises LinkError when the lengths do not agree.
    """
    fields = struct.Struct("<H" + layout)
    size = int.from_bytes(payload[:2], "little")
    if size < fields.size or size > len(payload):
        raise LinkError(
            f"the device sent a malformed {what}",
            why=f"{len(payload)} bytes that claim a fixed part of {size}; {fields.size} are needed",
            hint=_OTHER_VERSION,
        )
    return fields.unpack_from(payload)[1:], payload[size:]


def at_most(count: int, limit: int, what: str) -> int:
    """Return ``count``, which a device claims to have of ``what``; raise LinkError when it is above ``limit``."""
    if count > limit:
        raise LinkError(
            f"the device claims to have {count} {what}",
            why=f"{limit} is the most that can be",
            hint=_OTHER_VERSION,
        )
    return count


def take_text(data: bytes, what: str) -> tuple[str, bytes]:
    """Split off a text that is its u8 length and its bytes; raise LinkError when it is longer than texts are or than
    the payload. It may have any characters: whoever prints it escapes them."""
    if not data or len(data) < 1 + data[0]:
        raise LinkError(f"the device sent a malformed {what}", why="a text is longer than its frame")
    at_most(data[0], MAX_TEXT, f"bytes of text in a {what}")
    return data[1 : 1 + data[0]].decode("ascii", "replace"), data[1 + data[0] :]


def pack(layout: str, *fields: int, data: bytes = b"") -> bytes:
    """Return a payload: its fixed part's u16 size, the fields, then ``data``."""
    size = struct.calcsize("<H" + layout)
    return struct.pack("<H" + layout, size, *fields) + data


def pack_hello(nonce: int, max_frame: int) -> bytes:
    """Return the payload of HELLO."""
    return pack("BBIII", VERSION, VERSION, MAGIC, nonce, max_frame)


def parse_crash(fields: Sequence[int]) -> CrashRecord:
    """Return the record from its five words."""
    cause, pc, lr, cfsr, addr = fields
    return CrashRecord(cause, pc, lr, cfsr, addr)


def parse_hello_ack(payload: bytes) -> HelloAck:
    """Return the parsed payload of HELLO_ACK; raise LinkError when it is malformed."""
    fields, rest = fixed_part(payload, "BBIHBBIIIHHi5I", "greeting")
    version, _, nonce, session, counter, crashed, rx_max, tx_max, timer_hz, models, offers, last_error = fields[
        :12
    ]
    if counter not in COUNTERS or timer_hz == 0 or version != VERSION:
        raise LinkError(
            "the device sent a greeting with impossible values",
            why=f"version {version}, counter kind {counter}, {timer_hz} ticks per second",
        )
    return HelloAck(
        version=version,
        nonce=nonce,
        session=session,
        counter=COUNTERS[counter],
        rx_max=rx_max,
        tx_max=tx_max,
        timer_hz=timer_hz,
        model_count=at_most(models, MAX_MODELS, "models"),
        last_error=last_error,
        crash=parse_crash(fields[12:]) if crashed else None,
        build_id=take_text(rest, "greeting")[0],
        can_cancel=bool(offers & _CAN_CANCEL),
        can_change_baud=bool(offers & _CAN_CHANGE_BAUD),
    )


def parse_info(payload: bytes) -> tuple[DeviceStats, str]:
    """Return the counts and the device's name from an answer to INFO."""
    fields, rest = fixed_part(payload, "H5I", "device description")
    return DeviceStats(*fields[1:]), take_text(rest, "device description")[0]


def parse_tensor(payload: bytes) -> TensorInfo:
    """Return one tensor's description from an answer to TENSOR_INFO."""
    fields, rest = fixed_part(payload, f"BBIfi{MAX_NDIM}i", "tensor description")
    dtype, ndim, nbytes, scale, zero_point, *shape = fields
    if dtype not in DTYPES or ndim > MAX_NDIM:
        raise LinkError(
            "the device described a tensor that this version does not know",
            why=f"element type {dtype}, {ndim} axes",
            hint=_OTHER_VERSION,
        )
    name = take_text(rest, "tensor description")[0]
    item = _ITEM_BYTES[DTYPES[dtype]]
    extents = tuple(shape[:ndim])
    # the most that it takes may be less than the product of the most that each axis has, where axes depend on a dim
    maximum = min(math.prod(extents) * item, MAX_TENSOR_BYTES)
    if min(extents, default=0) < 0 or nbytes > maximum or nbytes % item or not 0 <= scale < math.inf:
        raise LinkError(
            "the device described a tensor that cannot be",
            why=f"{nbytes} bytes of {DTYPES[dtype]}{list(extents)}, scale {scale:g}",
            hint=_OTHER_VERSION,
        )
    return TensorInfo(name, DTYPES[dtype], extents, scale, zero_point, nbytes)


def parse_dim(payload: bytes) -> DimInfo:
    """Return one dimension's description from an answer to DIM_INFO."""
    (_, lo, hi), rest = fixed_part(payload, "Hii", "dimension description")
    if not 0 <= lo <= hi:
        raise LinkError("the device described a dimension that cannot be", why=f"{lo} to {hi}", hint=_OTHER_VERSION)
    return DimInfo(take_text(rest, "dimension description")[0], lo, hi)


def parse_profile(payload: bytes) -> tuple[int, list[OpTicks]]:
    """Return the number of operations and those in an answer to PROFILE."""
    (total,), rest = fixed_part(payload, "H", "profile")
    if len(rest) % 12:
        raise LinkError("the device sent a malformed profile", why=f"{len(rest)} bytes of records of 12")
    return total, [OpTicks(*struct.unpack_from("<QI", rest, at)) for at in range(0, len(rest), 12)]
