"""The codec: round trips, agreement with independent implementations, golden frames, C against Python."""

from __future__ import annotations

import ctypes
import json
import struct
from dataclasses import replace
from pathlib import Path

import cobs.cobs
import crc32c as reference_crc
import device_agents as agents
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sdk.boards import load_board
from sdk.devices.wire import OVERHEAD, Decoder, Frame, cobs_decode, cobs_encode, crc32c, encoded_size
from sdk.toolchains import LinkJob, get_toolchain, target_for

MAX_FRAME = 300
GOLDEN = json.loads((Path(__file__).parent / "golden_frames.json").read_text(encoding="utf-8"))
FRAME, DAMAGED, LONG = 1, 2, 3  # sdk_rt_rx_t

frames = st.builds(
    Frame,
    kind=st.integers(0, 255),
    session=st.integers(0, 65535),
    id=st.integers(0, 65535),
    op=st.integers(0, 65535),
    payload=st.binary(max_size=MAX_FRAME - OVERHEAD)
    | st.integers(0, MAX_FRAME - OVERHEAD).map(lambda n: b"\xff" * n)
    | st.integers(0, MAX_FRAME - OVERHEAD).map(bytes),
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Valid frames, damaged ones, console text and noise, one after the other."""
    out = b""
    for _ in range(draw(st.integers(0, 6))):
        piece = bytearray(draw(frames).encode())
        if draw(st.booleans()):
            for _ in range(draw(st.integers(1, 3))):
                piece[draw(st.integers(0, len(piece) - 1))] = draw(st.integers(0, 255))
        if draw(st.integers(0, 4)) == 0:
            del piece[draw(st.integers(0, len(piece) - 1)) :]
        out += bytes(piece) + draw(st.just(b"") | st.binary(max_size=40) | st.just(b"\x02" * 700))
    return out


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """wire.c as a shared library."""
    target = target_for(load_board("host"))
    toolchain = get_toolchain("gcc")
    sources = [agents.runtime() / "src" / "wire.c", agents.HERE / "decode_shim.c"]
    objects = toolchain.compile_all([replace(job, pic=True) for job in agents.jobs(sources, target)])
    out = tmp_path_factory.mktemp("shim") / "shim.so"
    library = ctypes.CDLL(str(toolchain.link(LinkJob("shared", tuple(objects), target, libs=("c",)), out)))
    library.shim_decode.restype = library.shim_encode.restype = ctypes.c_uint32
    return library


def c_events(shim: ctypes.CDLL, stream: bytes) -> list[tuple[int, bytes]]:
    out = ctypes.create_string_buffer(6 * len(stream) + 16)
    frame = ctypes.create_string_buffer(MAX_FRAME)
    size = shim.shim_decode(stream, len(stream), frame, MAX_FRAME, out)
    raw, at, events = out.raw[:size], 0, []
    while at < size:
        kind, at = raw[at], at + 1
        body = b""
        if kind == FRAME:
            length = int.from_bytes(raw[at : at + 4], "little")
            body, at = raw[at + 4 : at + 4 + length], at + 4 + length
        events.append((kind, body))
    return events


def python_events(stream: bytes) -> list[tuple[int, bytes]]:
    decoder = Decoder(MAX_FRAME)
    events = []
    for at in range(len(stream)):
        damaged, overlong = decoder.damaged, decoder.overlong
        for frame in decoder.feed(stream[at : at + 1]):
            events.append((FRAME, frame))
        events += [(DAMAGED, b"")] * (decoder.damaged - damaged) + [(LONG, b"")] * (
            decoder.overlong - overlong
        )
    return events


@given(st.binary(max_size=2000) | st.integers(0, 1200).map(lambda n: b"x" * n))
@example(b"x" * 254)
@example(b"x" * 254 + b"\0")
@example(b"")
def test_cobs_agrees_with_the_reference_implementation(data: bytes) -> None:
    encoded = cobs_encode(data)
    assert encoded == cobs.cobs.encode(data)
    assert 0 not in encoded
    assert len(encoded) + 2 <= encoded_size(len(data))
    assert cobs_decode(encoded) == (data, True)


@given(st.binary(max_size=300))
def test_crc_agrees_with_the_reference_implementation(data: bytes) -> None:
    assert crc32c(data) == reference_crc.crc32c(data)


@given(st.lists(frames, max_size=4), st.integers(1, 50))
def test_frames_survive_any_split_of_the_stream(sent: list[Frame], step: int) -> None:
    stream = b"".join(frame.encode() for frame in sent)
    decoder = Decoder(MAX_FRAME)
    got = [frame for at in range(0, len(stream), step) for frame in decoder.feed(stream[at : at + step])]
    assert got == sent
    assert decoder.damaged == decoder.overlong == 0


@given(streams(), frames)
def test_after_any_bytes_the_next_frame_is_received(noise: bytes, frame: Frame) -> None:
    decoder = Decoder(MAX_FRAME)
    decoder.feed(noise)
    assert len(decoder._partial) <= encoded_size(MAX_FRAME) + 1
    assert decoder.feed(frame.encode())[-1] == frame


@settings(max_examples=400)
@given(streams())
def test_c_and_python_decode_alike(shim: ctypes.CDLL, stream: bytes) -> None:
    expected = [
        (kind, frame if kind != FRAME else pack_frame(frame)) for kind, frame in python_events(stream)
    ]
    got = [(kind, without_flags(body) if kind == FRAME else body) for kind, body in c_events(shim, stream)]
    assert got == expected


def pack_frame(frame: Frame) -> bytes:
    return struct.pack("<BBHHH", frame.kind, 0, frame.session, frame.id, frame.op) + frame.payload


def without_flags(body: bytes) -> bytes:
    return body[:1] + b"\0" + body[2:]


@given(frames)
def test_c_and_python_encode_alike(shim: ctypes.CDLL, frame: Frame) -> None:
    body = pack_frame(frame)
    buffer = ctypes.create_string_buffer(encoded_size(len(body) + 4))
    size = shim.shim_encode(body, len(body), buffer, len(buffer))
    assert buffer.raw[:size] == frame.encode()
    assert shim.shim_encode(body, len(body), buffer, len(buffer) - 1) == 0


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["what"])
def test_golden_frames(golden: dict[str, str | int]) -> None:
    payload = bytes.fromhex(str(golden["payload"]))
    fields = [int(golden[key]) for key in ("kind", "session", "id", "op")]
    assert Frame(*fields, payload).encode().hex() == golden["wire"]
