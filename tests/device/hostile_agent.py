"""An agent that means ill, by a seed: answers of every shape but the right one, bytes without end, silence, dribble."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable

from in_process import Clock

from sdk.devices.messages import _ITEM_BYTES, DTYPES, pack
from sdk.devices.wire import Code, Decoder, Frame, Kind, Op

BYTES_PER_S = 2_000.0
EDGES = (0, 1, 2, 7, 8, 16, 64, 255, 256, 512, 65535, 65536, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)


class HostileAgent:
    """A Transport with such an agent behind it. ``spite`` is how often an answer is not what a good agent says."""

    address = "hostile"
    emulated = False
    bytes_per_s = BYTES_PER_S
    ns_per_instruction = None

    def __init__(self, seed: int, clock: Clock) -> None:
        self.clock = clock
        self._random = random.Random(seed)
        self._spite = self._random.choice((0.02, 0.1, 0.5))
        maximum = 3 if self._random.random() < 0.9 else 65535
        self._bounds = {"models": maximum, "tensors": maximum}
        self._decoder = Decoder(1 << 20)
        self._out = bytearray()
        self._flood: Callable[[], bytes] | None = None
        self._dribble = self._random.random() < 0.1
        self._last = Frame(Kind.REQ, 0, 0, 0)
        self._done = 0

    def read(self, timeout_s: float) -> bytes:
        if not self._out and self._flood is not None:
            self._out += self._flood()
        count = 1 if self._dribble else self._random.choice((1, 100, 65536))
        data = bytes(self._out[:count])
        del self._out[:count]
        self.clock.now += len(data) / BYTES_PER_S if data else timeout_s
        if data and self._dribble:
            self.clock.now += 0.01
        return data

    def write(self, data: bytes, timeout_s: float) -> None:
        self.clock.now += len(data) / BYTES_PER_S
        for frame in self._decoder.feed(data):
            self._last = frame
            self._out += self._answer(frame)

    def close(self) -> None:
        pass

    def _number(self, bits: int) -> int:
        one = self._random
        return (one.choice(EDGES) if one.random() < 0.8 else one.getrandbits(32)) & ((1 << bits) - 1)

    def _text(self, evil: bool = False) -> bytes:
        raw = self._random.randbytes(self._random.choice((65, 255) if evil else (0, 1, 8, 64)))
        return bytes([len(raw)]) + raw

    def _answer(self, frame: Frame) -> bytes:
        if self._random.random() >= self._spite:
            kind = {Kind.HELLO: Kind.HELLO_ACK, Kind.BYE: Kind.BYE}.get(Kind(frame.kind), Kind.RSP)
            session = 7 if frame.kind == Kind.HELLO else frame.session
            return Frame(kind, session, frame.id, frame.op, self._payload(frame)).encode()
        match self._random.randrange(9):
            case 0:
                return b""
            case 1:
                self._flood = lambda: self._random.randbytes(200)
                return b""
            case 2:
                self._flood = self._progress
                return b""
            case 3:
                self._flood = lambda: Frame(Kind.RSP, 7, self._last.id ^ 1, 1, bytes(50)).encode()
                return b""
            case 4:
                self._flood = lambda: Frame(Kind.EVT, 7, self._last.id, 2).encode()
                return b""
            case 5:
                code, detail = self._random.choice((*Code, 0, 99)), self._number(31)
                return Frame(Kind.ERR, frame.session, frame.id, frame.op, pack("Hi", code, detail)).encode()
            case 6:
                return Frame(self._number(8), frame.session, frame.id, frame.op, self._random.randbytes(40)).encode()
            case 7:
                return Frame(Kind.RSP, frame.session, frame.id, frame.op, b"\xff" * 3000).encode()
            case _:
                payload = bytearray(self._payload(frame))
                for _ in range(self._random.randrange(1, 4)):
                    if payload:
                        payload[self._random.randrange(len(payload))] = self._random.randrange(256)
                cut = self._random.randrange(len(payload) + 1) if self._random.random() < 0.3 else len(payload)
                kind = Kind.HELLO_ACK if frame.kind == Kind.HELLO else Kind.RSP
                return Frame(kind, frame.session, frame.id, frame.op, bytes(payload[:cut])).encode()

    def _progress(self) -> bytes:
        self._done += 1
        total = self._number(32)
        return Frame(Kind.EVT, 7, self._last.id, 1, pack("HII", 0, self._done & 0xFFFFFFFF, total)).encode()

    def _payload(self, frame: Frame) -> bytes:
        """What a good agent could say; with numbers from the edges where spite has it so."""
        evil = self._random.random() < self._spite
        if frame.kind == Kind.HELLO:
            nonce = int.from_bytes(frame.payload[8:12], "little")
            room = self._number(32) if evil else 512
            models = self._random.randrange(self._bounds["models"] + 1)
            flags = self._random.randrange(4)
            head = pack("BBIHBBIIIHHi5I", 1, 1, nonce, 7, 1, 0, room, room, 1000, models, flags, 0, *[0] * 5)
            return head + self._text(evil)
        fields = frame.payload
        match frame.op:
            case Op.PING:
                return fields
            case Op.INFO:
                return pack("H5I", 0, *[self._number(32) for _ in range(5)], data=self._text(evil) + self._text())
            case Op.MODEL_INFO:
                counts = [self._random.randrange(self._bounds["tensors"] + 1) for _ in range(3)]
                sizes = [self._number(32) for _ in range(3)]
                return pack("HHHIIIHH", *counts, *sizes, self._number(16), 1, data=self._text() + self._text())
            case Op.TENSOR_INFO:
                ndim, dtype = self._random.randrange(9 + evil), self._random.randrange(1, 13 + evil)
                shape = [self._random.choice((*EDGES, -1) if evil else (1, 2, 7)) & 0xFFFFFFFF for _ in range(8)]
                scale = self._random.choice((0.0, 0.5, -1.0, float("nan"), float("inf"))) if evil else 0.5
                nbytes = self._number(32) if evil else math.prod(shape[:ndim]) * _ITEM_BYTES[DTYPES[dtype]]
                return pack("BBIfi8I", dtype, ndim, nbytes, scale, 0, *shape, data=self._text(evil))
            case Op.DIM_INFO:
                lo, hi = (self._number(31), self._number(31)) if evil else (1, 500)
                return pack("Hii", 0, lo, hi, data=self._text())
            case Op.TENSOR_WRITE:
                return pack("HI", 0, (int.from_bytes(fields[8:12], "little") + len(fields) - 12) & 0xFFFFFFFF)
            case Op.TENSOR_READ:
                return b"\x01" * min(int.from_bytes(fields[12:16], "little"), 3000)
            case Op.RUN:
                count = int.from_bytes(fields[4:8], "little")
                ticks = [self._random.getrandbits(64) for _ in range(min(count, 1000))]
                return pack("HIQ", 0, count, self._random.getrandbits(64), data=struct.pack(f"<{len(ticks)}Q", *ticks))
            case Op.SELFTEST:
                return pack("Hi", 0, -5)
            case Op.PROFILE:
                total = self._number(16) if evil else 10
                first = int.from_bytes(fields[2:4], "little")
                left = self._random.randrange(8) if evil else min(max(10 - first, 0), 4)
                return pack("H", total, data=struct.pack("<QI", 1, 1) * left)
            case _:
                return b""
