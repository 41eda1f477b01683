"""What every transport and port must do, with hand-written models: this machine, also by `sdk agent`, a board
at a serial port, seven emulated boards, a WebAssembly engine."""

from __future__ import annotations

import random
import struct
import time

import pytest
from device_agents import Agent

from sdk.devices import Session
from sdk.devices.link import Link, RemoteError
from sdk.devices.messages import fixed_part, pack
from sdk.devices.wire import Code, Frame, Kind, Op
from sdk.errors import DeviceFault, LinkError, UsageError

pytestmark = pytest.mark.some(9)  # of the agents
SCALE, BIG = 0, 1
UNDEFINED, OVERFLOW, LONG_LOOP = 13, 14, 15  # dims for which "big" misbehaves
LOOPS = 3_000_000


def link_of(session: Session) -> Link:
    return session._link


def exchange(session: Session, raw: bytes, kind: int, seconds: float = 5.0) -> Frame:
    """Send raw bytes; return the next frame of ``kind``."""
    link = link_of(session)
    link.transport.write(raw, seconds)
    until = time.monotonic() + seconds
    while (frame := link._next_frame(until)) is not None:
        if frame.kind == kind:
            return frame
    pytest.fail(f"no frame of kind {kind} within {seconds} s")


def request(session: Session, id_: int, op: int, payload: bytes = b"") -> bytes:
    return Frame(Kind.REQ, link_of(session)._session, id_, op, payload).encode()


def test_says_what_it_is_and_has(session: Session) -> None:
    assert session.info.build_id == "c0ffee00c0ffee00c0ffee00c0ffee00"
    assert session.info.emulated == (session.info.counter == "instructions")
    assert session.info.last_crash is None
    scale, big = session.models()
    assert (scale.name, scale.hash, scale.arena_bytes, scale.state_bytes) == ("scale", "00ff00ff", 128, 4)
    x = scale.inputs[0]
    assert (x.name, x.dtype, x.shape, x.scale, x.zero_point, x.nbytes) == ("x", "int8", (4, 16), 0.5, -3, 64)
    assert [(dim.name, dim.lo, dim.hi) for dim in big.dims] == [("n", 1, 500)]
    assert (big.outputs[0].dtype, big.outputs[0].nbytes) == ("int32", 2000)


def test_runs_keep_state_until_it_is_reset(session: Session) -> None:
    data = bytes(range(64))
    for calls in (0, 1, 2, 0):
        if calls == 0:
            session.reset(SCALE)
        session.write(SCALE, 0, data)
        session.run(SCALE)
        assert session.read(SCALE, 1) == bytes((2 * x + calls) & 0xFF for x in data)


def test_tensors_larger_than_a_frame_arrive_whole(session: Session) -> None:
    rng = random.Random(1)
    for n in (500, 499, 1):
        data = rng.randbytes(4 * n)
        session.write(BIG, 0, data)
        session.run(BIG, dims=[n])
        assert session.read(BIG, 1, 4 * n) == data
    assert session.ping(b"\0" * 100) == b"\0" * 100


def test_more_samples_than_fit_one_frame(session: Session) -> None:
    stats = session.run(BIG, dims=[500], repeat=100, warmup=3)
    assert len(stats.samples) == 100
    assert 0 <= stats.minimum <= stats.median <= stats.p90
    assert sum(stats.samples) > 0  # a clock may be coarser than one run


def test_instructions_are_counted_under_emulation(session: Session) -> None:
    if not session.info.emulated:
        assert session.info.counter == "time"
        return
    first, second = (session.run(BIG, dims=[LONG_LOOP]).samples[0] for _ in range(2))
    assert abs(first - second) <= 3
    assert abs(first % LOOPS - 100) < 150  # a whole number of instructions per loop, and little else
    stats = session.stats()
    assert 0 < stats.stack_used < stats.stack_bytes


def test_bad_arguments_never_reach_the_device(session: Session) -> None:
    for call in (
        lambda: session.write(SCALE, 0, bytes(65)),
        lambda: session.write(SCALE, 1, bytes(64)),
        lambda: session.read(SCALE, 2),
        lambda: session.read(SCALE, 1, 65),
        lambda: session.run(BIG),
        lambda: session.run(BIG, dims=[501]),
        lambda: session.run(SCALE, repeat=0),
        lambda: session.run(2),
        lambda: session.selftest(BIG),
    ):
        with pytest.raises(UsageError):
            call()
    assert session.selftest(SCALE) == 0


HUGE = 0xFFFFFFFF
REFUSED = [
    ("unknown op", 99, b"", Code.OP),
    ("no payload", Op.RUN, b"", Code.PAYLOAD),
    ("short payload", Op.TENSOR_READ, pack("HHHI", 0, 0, 0, 0), Code.PAYLOAD),
    ("size beyond the frame", Op.TENSOR_WRITE, struct.pack("<HHHHI", 500, 0, 0, 0, 0), Code.PAYLOAD),
    ("size too small", Op.TENSOR_WRITE, struct.pack("<HHHHI", 2, 0, 0, 0, 0), Code.PAYLOAD),
    ("model", Op.MODEL_INFO, pack("H", 2), Code.RANGE),
    ("tensor", Op.TENSOR_INFO, pack("HH", 0, 2), Code.RANGE),
    ("dim", Op.DIM_INFO, pack("HH", 0, 0), Code.RANGE),
    ("write to an output", Op.TENSOR_WRITE, pack("HHHI", 0, 1, 0, 0, data=b"x"), Code.RANGE),
    ("write past the end", Op.TENSOR_WRITE, pack("HHHI", 0, 0, 0, 63, data=b"xx"), Code.RANGE),
    ("write far away", Op.TENSOR_WRITE, pack("HHHI", 0, 0, 0, HUGE, data=b"xx"), Code.RANGE),
    ("read past the end", Op.TENSOR_READ, pack("HHHII", 0, 1, 0, 60, 5), Code.RANGE),
    ("read that wraps", Op.TENSOR_READ, pack("HHHII", 0, 1, 0, 8, HUGE - 4), Code.RANGE),
    ("too many samples", Op.RUN, pack("HIIHH", 0, 1 << 20, 0, 0, 0), Code.RANGE),
    ("no dims", Op.RUN, pack("HIIHH", 1, 1, 0, 0, 0), Code.RANGE),
    ("dims that are not there", Op.RUN, pack("HIIHH", 1, 1, 0, 1, 0), Code.PAYLOAD),
    ("very many dims", Op.RUN, pack("HIIHH", 1, 1, 0, 65535, 0), Code.PAYLOAD),
    ("dim out of bounds", Op.RUN, pack("HIIHH", 1, 1, 0, 1, 0, data=struct.pack("<i", 501)), Code.STATUS),
    ("no golden cases", Op.SELFTEST, pack("H", 1), Code.NONE),
]


def test_malformed_requests_are_refused_and_harm_nothing(session: Session) -> None:
    for what, op, payload, code in REFUSED:
        link = link_of(session)
        link._id += 1
        frame = exchange(session, request(session, link._id, op, payload), Kind.ERR)
        assert int.from_bytes(frame.payload[2:4], "little") == code, what
    assert session.ping(b"still here") == b"still here"


WRONG_RATES = [(pack("HI", 0, 0), Code.RANGE), (pack("HI", 0, HUGE), Code.RANGE), (b"\x08", Code.PAYLOAD)]


def test_a_rate_is_agreed_on_or_refused(session: Session) -> None:
    """Agreed on here where emulated lines have none; tests/device/test_rates.py has lines that do."""
    link, can = link_of(session), session._ack.can_change_baud
    for payload, code in WRONG_RATES:
        with pytest.raises(RemoteError) as caught:
            link.request(Op.BAUD, payload)
        assert caught.value.code == (code if can else Code.OP)
        assert session.ping(b"as before") == b"as before"
    if not (can and link.transport.address.startswith("qemu:")):
        return
    for baud in (230_400, 115_200):
        (_, got), _ = fixed_part(link.request(Op.BAUD, pack("HI", 0, baud)), "HI", "answer to a rate")
        assert abs(got / baud - 1) < 0.016
        assert session.ping(b"at another rate") == b"at another rate"


def test_a_status_of_the_model_is_named(session: Session) -> None:
    with pytest.raises(RemoteError) as caught:
        link_of(session).request(Op.RUN, pack("HIIHH", 1, 1, 0, 1, 0, data=struct.pack("<i", 0)))
    assert (caught.value.code, caught.value.detail) == (Code.STATUS, -2)
    with pytest.raises(DeviceFault, match="E_DIM"):
        session._ask(Op.RUN, pack("HIIHH", 1, 1, 0, 1, 0, data=struct.pack("<i", 0)))


def test_a_repeated_id_is_answered_but_not_executed_again(session: Session) -> None:
    session.reset(SCALE)
    session.write(SCALE, 0, bytes(64))
    run = request(session, 700, Op.RUN, pack("HIIHH", SCALE, 1, 0, 0, 0))
    first = exchange(session, run, Kind.RSP)
    assert exchange(session, run, Kind.RSP) == first
    assert session.read(SCALE, 1) == bytes(64)  # output of call 0: the second one did not run
    session.write(SCALE, 0, bytes(64))
    session.run(SCALE)
    assert session.read(SCALE, 1) == b"\x01" * 64


def test_frames_of_another_session_are_refused(session: Session) -> None:
    stale = Frame(Kind.REQ, link_of(session)._session ^ 1, 5, Op.PING).encode()
    frame = exchange(session, stale, Kind.ERR)
    assert int.from_bytes(frame.payload[2:4], "little") == Code.SESSION
    assert session.ping(b"ours") == b"ours"


def test_a_new_session_ends_the_old_one(agent: Agent) -> None:
    with agent.open() as session:
        old = link_of(session)._session
        link_of(session).greet()
        assert link_of(session)._session != old
        assert session.ping(b"x") == b"x"
        link_of(session)._session = old
        with pytest.raises(LinkError, match="closed the session"):
            session.ping()
        assert session.ping(b"y") == b"y"  # the client has greeted again


def test_other_versions_are_told_which_one_is_spoken(session: Session) -> None:
    hello = struct.pack("<HBBIII", 16, 2, 9, 0x574B4453, 1, 65536)
    frame = exchange(session, Frame(Kind.HELLO, 0, 0, 0, hello).encode(), Kind.ERR)
    assert struct.unpack("<HHi", frame.payload) == (8, Code.VERSION, 0x0101)


def test_damage_is_counted_and_overcome(session: Session) -> None:
    link, before = link_of(session), session.stats()
    valid = request(session, 900, Op.PING, b"abcdef")
    link.transport.write(b"console text\r\n\0", 5)
    link.transport.write(valid[:6] + b"\x07" + valid[7:], 5)
    link.transport.write(valid[:-3] + b"\0", 5)
    link.transport.write(b"\x01" * (session.info.rx_max + 100) + b"\0", 5)
    after = session.stats()
    assert after.damaged - before.damaged == 3
    assert after.overlong - before.overlong == 1


def test_a_crash_is_reported_and_the_device_comes_back(agent: Agent) -> None:
    with agent.open() as session:
        session.models()
        with pytest.raises(DeviceFault) as caught:
            session.run(BIG, dims=[UNDEFINED])
        if not agent.restarts:
            return
        assert "crashed during RUN" in caught.value.message
        pc = int(caught.value.why.split("pc=0x")[1][:8], 16)
        assert pc != 0
        crash = link_of(session).greet().crash
        assert crash is not None
        assert crash.pc == pc
        assert session.ping(b"alive") == b"alive"
        assert link_of(session).greet().crash is None


def test_a_stack_overflow_is_a_fault_not_corruption(agent: Agent) -> None:
    with agent.open() as session:
        session.models()
        with pytest.raises(DeviceFault):
            session.run(BIG, dims=[OVERFLOW])


def test_a_device_can_be_restarted(agent: Agent) -> None:
    with agent.open() as session:
        assert link_of(session).request(Op.RESET) == b""
        if agent.restarts:
            link_of(session).greet()
            assert session.stats().frames <= 3
        else:
            with pytest.raises(LinkError, match="ended before it answered"):
                session.ping()


@pytest.mark.some(4)
def test_an_endless_run_ends_at_the_deadline(agent: Agent) -> None:
    with agent.open() as session:
        session.models()
        link_of(session).timeout_s = 0.5
        began = time.monotonic()
        with pytest.raises(LinkError, match="no answer to RUN"):
            session.run(BIG, dims=[16])
        assert time.monotonic() - began < 2.5
