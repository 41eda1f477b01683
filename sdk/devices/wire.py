"""The codec of wire v1: COBS frames with CRC-32C, and a decoder that survives any bytes (docs/wire.md)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
MAGIC = 0x574B4453  # "SDKW"
OVERHEAD = 12  # bytes of a frame that are not payload: header 8, CRC 4
MIN_FRAME = 256  # every peer takes frames of this size
_HEADER = struct.Struct("<BBHHH")
_NOISE_BYTES = 64


class Kind(IntEnum):
    """Frame kinds."""

    HELLO = 1
    HELLO_ACK = 2
    REQ = 3
    RSP = 4
    EVT = 7
    ERR = 8
    BYE = 9
    CANCEL = 10


class Op(IntEnum):
    """Operations that a request can name."""

    PING = 1
    INFO = 2
    MODEL_INFO = 3
    TENSOR_INFO = 4
    DIM_INFO = 5
    TENSOR_WRITE = 6
    TENSOR_READ = 7
    RUN = 8
    RESET_STATE = 9
    SELFTEST = 10
    RESET = 11
    PROFILE = 12
    BAUD = 13


class Code(IntEnum):
    """Codes of ERR frames."""

    VERSION = 1
    SESSION = 2
    OP = 3
    PAYLOAD = 4
    RANGE = 5
    STATUS = 6
    NONE = 7
    FAULT = 8
    CANCELLED = 9


EVT_PROGRESS = 1
EVT_DAMAGED = 2


def _crc_table() -> tuple[int, ...]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_CRC = _crc_table()


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of ``data``."""
    crc, table = 0xFFFFFFFF, _CRC
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def encoded_size(frame_bytes: int) -> int:
    """Return the most bytes that a frame of ``frame_bytes`` takes on the wire, delimiters included."""
    return frame_bytes + frame_bytes // 254 + 3


def cobs_encode(data: bytes) -> bytes:
    """Return ``data`` without zero bytes, in at most len + len/254 + 1 bytes; no delimiter."""
    out = bytearray()
    chunks = data.split(b"\0")
    for index, chunk in enumerate(chunks):
        start = 0
        while len(chunk) - start >= 254:
            out.append(0xFF)
            out += chunk[start : start + 254]
            start += 254
        if start == 0 or start < len(chunk) or index + 1 < len(chunks):
            out.append(len(chunk) - start + 1)
            out += chunk[start:]
    return bytes(out)


def cobs_decode(data: bytes) -> tuple[bytes, bool]:
    """Return what ``data`` (no zero bytes) stands for, and whether its last block was whole."""
    out = bytearray()
    at, code = 0, 0xFF
    while at < len(data):
        if code != 0xFF:
            out.append(0)
        code = data[at]
        out += data[at + 1 : at + code]
        at += code
    return bytes(out), at == len(data)


@dataclass(frozen=True)
class Frame:
    """One frame: ``session`` and ``id`` tie a response to its request; ``op`` is an Op or an event number."""

    kind: int
    session: int
    id: int
    op: int
    payload: bytes = b""

    def encode(self) -> bytes:
        """Return the frame's bytes on the wire, with a delimiter on each side."""
        body = _HEADER.pack(self.kind, 0, self.session, self.id, self.op) + self.payload
        return b"\0" + cobs_encode(body + struct.pack("<I", crc32c(body))) + b"\0"


class Decoder:
    """Turns received bytes into frames, counts the rest; holds at most one frame of ``max_frame`` bytes."""

    def __init__(self, max_frame: int) -> None:
        self.max_frame = max_frame
        self.received = 0  # bytes
        self.frames = 0
        self.damaged = 0
        self.overlong = 0
        self.noise = b""  # the first bytes that were no frame
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take received bytes; return the frames they complete."""
        self.received += len(data)
        frames = []
        *ended, rest = data.split(b"\0")
        for piece in ended:
            self._extend(piece)
            encoded = bytes(self._partial)
            self._partial.clear()
            frame = self._decode(encoded) if encoded else None
            if frame is not None:
                frames.append(frame)
        self._extend(rest)
        return frames

    @property
    def hurt(self) -> int:
        """How many pieces that were no frames have come."""
        return self.damaged + self.overlong

    def unframed(self) -> bytes:
        """Return the first bytes received that belong to no frame, for messages."""
        return (self.noise + bytes(self._partial))[:_NOISE_BYTES]

    def _extend(self, piece: bytes) -> None:
        room = encoded_size(self.max_frame) + 1 - len(self._partial)
        self._partial += piece[:room]

    def _decode(self, encoded: bytes) -> Frame | None:
        body, whole = cobs_decode(encoded)
        if len(body) > self.max_frame:
            self.overlong += 1
        elif not whole or len(body) < OVERHEAD or crc32c(body[:-4]) != int.from_bytes(body[-4:], "little"):
            self.damaged += 1
        else:
            self.frames += 1
            kind, _, session, id_, op = _HEADER.unpack_from(body)
            return Frame(kind, session, id_, op, body[8:-4])
        self.noise = (self.noise + encoded)[:_NOISE_BYTES]
        return None
