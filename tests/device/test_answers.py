"""Answers that cannot be true, and requests that a device could not serve: each named, nothing believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_faults import TIMEOUT_S, Scripted, hello_ack

from sdk.devices import EmulatorSpec, Session, open_device
from sdk.devices.link import Link
from sdk.devices.messages import DimInfo, ModelInfo, TensorInfo, pack, parse_tensor
from sdk.devices.wire import Code, Frame, Kind, Op
from sdk.errors import DeviceFault, LinkError, NoDeviceError, SdkError, UsageError

X, Y = (TensorInfo(name, "int8", (4,), 0.5, 0, 4) for name in "xy")
MODEL = ModelInfo("m", "", (X,), (Y,), (DimInfo("n", 1, 4),), 0, 0, 0, False)
ANSWERS: Mapping[Op, bytes] = {Op.INFO: pack("H5I", *[0] * 6, data=b"\x03dev")}


def session(op: Op | None = None, payload: bytes = b"", *, refuse: Code | None = None, detail: int = 0) -> Session:
    """A session with a device of one model, which answers ``op`` with ``payload``, or refuses it."""

    def answer(frame: Frame) -> bytes:
        if frame.kind == Kind.HELLO:
            return hello_ack(frame)
        if frame.op == op and refuse is not None:
            return Frame(Kind.ERR, frame.session, frame.id, frame.op, pack("Hi", refuse, detail)).encode()
        data = payload if frame.op == op else ANSWERS.get(Op(frame.op), b"")
        return Frame(Kind.RSP, frame.session, frame.id, frame.op, data).encode()

    made = Session(Link(Scripted(answer), TIMEOUT_S))
    made._models = (MODEL,)
    return made


Call = Callable[[Session], object]


@pytest.mark.parametrize(
    ("op", "payload", "call", "says"),
    [
        (Op.TENSOR_WRITE, pack("HI", 0, 3), lambda s: s.write(0, 0, b"abcd"), "acknowledged another write"),
        (Op.TENSOR_READ, b"abc", lambda s: s.read(0, 1), "answered a read with another size"),
        (Op.RUN, pack("HIQ", 0, 2, 0), lambda s: s.run(0, dims=[1]), "answered a run with other samples"),
        (Op.PROFILE, pack("H", 3), lambda s: s.profile(), "the device leaves out operations"),
        (Op.PROFILE, pack("H", 1, data=b"abc"), lambda s: s.profile(), "sent a malformed profile"),
    ],
    ids=["write", "read", "run", "profile", "records"],
)
def test_answers_that_cannot_be_true(op: Op, payload: bytes, call: Call, says: str) -> None:
    with pytest.raises(LinkError, match=says):
        call(session(op, payload))


def test_a_tensor_of_a_type_of_tomorrow() -> None:
    payload = pack("BBIfi8i", 99, 1, 4, 0, 0, *[1] * 8, data=b"\x01x")
    with pytest.raises(LinkError, match="a tensor that this version does not know"):
        parse_tensor(payload)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s: s.write(0, 1, b""), "model m has no input number 1"),
        (lambda s: s.write(0, 0, bytes(5)), "5 bytes are too many for input 'x' of m"),
        (lambda s: s.read(0, 2), "model m has no tensor number 2"),
        (lambda s: s.read(0, 1, 9), "cannot read 9 bytes of 'y' of m"),
        (lambda s: s.run(0, dims=[1], repeat=0), "cannot run 0 times after 0"),
        (lambda s: s.run(0), "0 dims for model m"),
        (lambda s: s.run(0, dims=[9]), "n = 9 is outside the bounds of model m"),
        (lambda s: s.run(3), "there is no model number 3"),
        (lambda s: s.selftest(0), "model m carries no golden cases"),
    ],
)
def test_requests_that_no_device_could_serve(call: Call, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(session())
    assert caught.value.message == says


def test_refusals() -> None:
    with pytest.raises(DeviceFault, match="the model returned") as fault:
        session(Op.RUN, refuse=Code.STATUS, detail=-1).run(0, dims=[1])
    assert fault.value.where == "RUN on scripted"
    code = next(code for code in Code if code not in (Code.STATUS, Code.SESSION, Code.FAULT, Code.VERSION))
    with pytest.raises(LinkError, match="the device refused RUN") as refused:
        session(Op.RUN, refuse=code).run(0, dims=[1])
    assert code.name in (refused.value.why or "")


def test_another_version_of_the_protocol() -> None:
    def answer(frame: Frame) -> bytes:
        return Frame(Kind.ERR, 0, 0, frame.op, pack("Hi", Code.VERSION, 0x0203)).encode()

    with pytest.raises(LinkError, match="speaks another version of the wire protocol") as caught:
        Link(Scripted(answer), TIMEOUT_S).greet()
    assert caught.value.why == "it offers 2 to 3, this tool 1"


def test_greetings_and_restarts() -> None:
    link = Link(Scripted(lambda frame: hello_ack(frame, counter=9)), TIMEOUT_S)
    with pytest.raises(LinkError, match="sent a greeting with impossible values"):
        link.greet()
    made = session(Op.RUN, refuse=Code.SESSION)
    made._link.greet = lambda: SimpleNamespace(crash="hard fault at 0x1000")
    with pytest.raises(DeviceFault, match="scripted crashed and restarted") as caught:
        made.run(0, dims=[1])
    assert caught.value.why == "hard fault at 0x1000"


@pytest.mark.parametrize(
    ("kind", "uri", "emulator", "says"),
    [
        (UsageError, "program://", None, "this board has no emulator"),
        (NoDeviceError, "program://", EmulatorSpec(("true",), None, 0), "there is no agent to run"),
        (NoDeviceError, "qemu://", EmulatorSpec(("true",), 6, 0), "there is no firmware image to boot"),
        (UsageError, "qemu://", None, "this board has no emulator"),
        (UsageError, "bus:1", None, "'bus:1' is not a device address"),
    ],
)
def test_what_is_not_there(
    tmp_path: Path, kind: type[SdkError], uri: str, emulator: EmulatorSpec | None, says: str
) -> None:
    with pytest.raises(kind) as caught:
        open_device(uri, artifact=tmp_path / "none", emulator=emulator, timeout_s=TIMEOUT_S)
    assert caught.value.message == says


@pytest.mark.parametrize(
    ("uri", "shift", "says"),
    [("qemu://", None, "runs programs, not machines"), ("program://", 6, "runs machines, not programs")],
)
def test_programs_are_no_machines(tmp_path: Path, uri: str, shift: int | None, says: str) -> None:
    (tmp_path / "agent").touch()
    emulator = EmulatorSpec(("true",), shift, 0)
    with pytest.raises(UsageError, match=says):
        open_device(uri, artifact=tmp_path / "agent", emulator=emulator, timeout_s=TIMEOUT_S)
